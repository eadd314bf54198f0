"""The store keeps what was said through crashes, other windows and broken files, and finds it again."""

from __future__ import annotations

import contextlib
import os
import random
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_spec import EdgeSpecError, PairSpec
from tui.conversations import search, word_index
from tui.conversations.database import BUSY_S, ConversationError
from tui.conversations.saved import SavedMessage, Summary, pack_ids, title_of, unpack_ids
from tui.conversations.store import ConversationStore, default_path

ROOT = Path(__file__).resolve().parents[2]
SPEC = PairSpec("target.gguf", "draft.gguf", {"context_size": 2048})
OTHER = PairSpec("other.gguf", None, {})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "conversations.sqlite3"


@pytest.fixture
def store(path: Path) -> Iterator[ConversationStore]:
    opened = ConversationStore(path)
    yield opened
    opened.close()


@pytest.fixture
def second(store: ConversationStore, path: Path) -> Iterator[ConversationStore]:
    """The same file in another window."""
    opened = ConversationStore(path)
    yield opened
    opened.close()


def begin(store: ConversationStore, text: str = "Hello", system: str = "") -> int:
    conversation = store.create(system, SPEC, {"temp": 0.5})
    store.add_message(conversation, "user", text)
    return conversation


def answer(
    store: ConversationStore,
    conversation: int,
    text: str,
    ids: Sequence[int] = (),
    prompt_ids: Sequence[int] = (),
) -> int:
    message = store.add_message(conversation, "assistant", "")
    store.append(message, text, ids)
    store.finish(message, reason="eog", stats={"rounds": 2}, prompt_ids=prompt_ids)
    return message


def keep(store: ConversationStore, conversation: int, num_messages: int) -> None:
    """Remove all but the first messages."""
    store.remove(conversation, [m.id for m in store.load(conversation).messages[num_messages:]])


def messages(store: ConversationStore, conversation: int) -> list[tuple[str, str]]:
    return [(m.role, m.text) for m in store.load(conversation).messages]


def patience(store: ConversationStore) -> float:
    """So many seconds the next write waits for another program's."""
    milliseconds: int = store._database._writer.execute("PRAGMA busy_timeout").fetchone()[0]
    return milliseconds / 1000


def titles(found: Sequence[Summary]) -> list[str]:
    return [summary.title for summary in found]


# -- what is kept


def test_a_conversation_comes_back_as_it_was(path: Path) -> None:
    store = ConversationStore(path)
    conversation = begin(store, "Schreib ein Gedicht ☂\n\tüber 🐈\x00", system="Be brief.")
    message = store.add_message(conversation, "assistant", "")
    store.append(message, "Ein ", [3, 150_000])
    store.append(message, "Kater\n", [7])
    store.append(message, "", [151_645])
    store.finish(message, reason="eog", stats={"rounds": 3, "rate": 0.5}, prompt_ids=[1, 2, 2**20])
    store.close()

    loaded = ConversationStore(path)
    found = loaded.load(conversation)
    loaded.close()
    user, model = found.messages
    assert (found.title, found.system, found.models) == ("Schreib ein Gedicht ☂", "Be brief.", SPEC)
    assert found.settings == {"temp": 0.5}
    assert (user.role, user.text, user.models, user.reason) == (
        "user", "Schreib ein Gedicht ☂\n\tüber 🐈\x00", None, "",
    )  # fmt: skip
    assert model == SavedMessage(
        id=message,
        role="assistant",
        text="Ein Kater\n",
        token_ids=(3, 150_000, 7, 151_645),
        prompt_ids=(1, 2, 2**20),
        created=model.created,
        models=SPEC,
        settings={"temp": 0.5},
        stats={"rounds": 3, "rate": 0.5},
        reason="eog",
    )
    assert found.created <= user.created <= model.created <= found.updated


def test_an_answer_keeps_the_models_and_settings_that_it_had(store: ConversationStore) -> None:
    conversation = begin(store)
    answer(store, conversation, "one")
    store.set_models(conversation, OTHER)
    store.set_settings(conversation, {"temp": 0.0, "stop": ["a"]})
    store.set_system(conversation, "Rhyme.")
    answer(store, conversation, "two")
    found = store.load(conversation)
    assert [(m.models, m.settings) for m in found.messages[1:]] == [
        (SPEC, {"temp": 0.5}),
        (OTHER, {"temp": 0.0, "stop": ["a"]}),
    ]
    assert (found.models, found.settings["temp"], found.system) == (OTHER, 0.0, "Rhyme.")


def test_prompt_ids_come_back_whatever_the_turns_share(store: ConversationStore) -> None:
    conversation = begin(store)
    prompts = [(1, 2, 3), (1, 2, 3, 9, 9, 4), (1, 2, 7), (), (1, 2, 3, 9, 9, 4, 8, 5)]
    for prompt in prompts:
        answer(store, conversation, "x", [9, 9], prompt)
    loaded = store.load(conversation)
    assert [m.prompt_ids for m in loaded.messages[1:]] == prompts


def test_a_turn_costs_only_what_is_new_in_its_prompt(store: ConversationStore, path: Path) -> None:
    conversation = begin(store)
    prompt: tuple[int, ...] = ()
    for turn in range(20):
        prompt = (*prompt, *range(1000, 1100))
        answer(store, conversation, "x", [turn], prompt)
        prompt = (*prompt, turn)
    with sqlite3.connect(path) as db:
        sizes = [size for (size,) in db.execute("SELECT length(prompt_ids) FROM messages WHERE base > 0")]
    db.close()
    assert sizes == [200] * 19


@given(st.lists(st.integers(0, 2**40)), st.lists(st.integers(0, 300)))
def test_packed_ids_are_those_of_the_parts_one_after_the_other(first: list[int], rest: list[int]) -> None:
    assert unpack_ids(pack_ids(first) + pack_ids(rest)) == (*first, *rest)


def test_half_a_surrogate_pair_can_be_saved(store: ConversationStore) -> None:
    assert messages(store, begin(store, "a\ud83db")) == [("user", "a?b")]


# -- titles


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Merge two lists", "Merge two lists"),
        ("\n \n  What is\t a   monad?\nTell me.", "What is a monad?"),
        ("\x1b[31mred\x07", "[31mred"),
        ("w" * 100, "w" * 79 + "…"),
        ("   ", "Untitled"),
    ],
)
def test_a_title_is_the_first_line_of_the_first_message(text: str, title: str) -> None:
    assert title_of(text) == title


def test_the_title_follows_the_first_message_until_it_is_given(store: ConversationStore) -> None:
    conversation = begin(store, "First")
    answer(store, conversation, "x")
    store.add_message(conversation, "user", "Second")
    assert titles(store.list()) == ["First"]
    keep(store, conversation, 0)
    store.add_message(conversation, "user", "Edited")
    assert titles(store.list()) == ["Edited"]
    store.rename(conversation, " My\n own ")
    keep(store, conversation, 0)
    store.add_message(conversation, "user", "Edited again")
    assert titles(store.list()) == ["My own"]
    store.rename(conversation, "")
    assert titles(store.list()) == ["Edited again"]


# -- the list


def test_the_list_has_the_last_used_first_and_nothing_without_messages(store: ConversationStore) -> None:
    conversations = [begin(store, name) for name in ("a", "b", "c")]
    store.create("", SPEC, {})
    answer(store, conversations[0], "newest")
    found = store.list()
    assert [(s.title, s.num_messages, s.models) for s in found] == [
        ("a", 2, SPEC),
        ("c", 1, SPEC),
        ("b", 1, SPEC),
    ]
    assert titles(store.list(limit=1, offset=1)) == ["c"]


def test_a_deleted_conversation_leaves_nothing(store: ConversationStore, path: Path) -> None:
    gone, kept = begin(store, "secret one"), begin(store, "public one")
    answer(store, gone, "secret answer")
    streaming = store.add_message(gone, "assistant", "")
    store.append(streaming, "secret rest", [1])
    store.delete(gone)
    store.delete(gone)
    assert titles(store.list()) == ["public one"]
    assert titles(store.search("one")) == ["public one"]
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM messages").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM pieces").fetchone() == (0,)
    db.close()
    with pytest.raises(ConversationError, match="was deleted meanwhile"):
        store.load(gone)
    assert messages(store, kept) == [("user", "public one")]


def test_only_the_messages_that_are_named_are_removed(
    store: ConversationStore, second: ConversationStore
) -> None:
    conversation = begin(store, "one")
    gone = answer(store, conversation, "two")
    second.add_message(conversation, "user", "three")
    store.remove(conversation, [gone])
    assert messages(store, conversation) == [("user", "one"), ("user", "three")]
    assert store.search("two") == []
    store.remove(conversation, [gone])
    answer(store, conversation, "four")
    assert [text for _, text in messages(second, conversation)] == ["one", "three", "four"]


def test_what_goes_on_from_an_answer_that_was_removed_is_kept_without_its_ids(
    store: ConversationStore, second: ConversationStore
) -> None:
    conversation = begin(store)
    base = answer(store, conversation, "a", [5], [1, 2])
    answer(second, conversation, "b", [6], [1, 2, 5, 3])
    answer(second, conversation, "c", [7], [8, 9])
    store.remove(conversation, [base])
    answer(second, conversation, "d", [4], [1, 2, 5, 3, 6])
    found = store.load(conversation).messages[1:]
    assert [(m.text, m.prompt_ids) for m in found] == [("b", ()), ("c", (8, 9)), ("d", (1, 2, 5, 3, 6))]


# -- search


def test_a_search_finds_titles_and_messages_of_either_side(store: ConversationStore) -> None:
    asked, answered, named = begin(store, "About zebras"), begin(store, "Animals"), begin(store, "Else")
    answer(store, answered, "Zebras have stripes.")
    store.rename(named, "Zebra crossing")
    store.add_message(asked, "user", "thanks")
    found = store.search("zebra")
    assert [s.id for s in found] == [asked, answered, named]
    assert [s.snippet and s.snippet.text for s in found] == ["About zebras", "Zebras have stripes.", None]


def test_every_word_must_be_in_one_message_and_may_be_only_begun(store: ConversationStore) -> None:
    begin(store, "Sort a linked list in Rust")
    begin(store, "A list of colours")
    assert titles(store.search("list")) == ["A list of colours", "Sort a linked list in Rust"]
    assert titles(store.search("ru lin")) == ["Sort a linked list in Rust"]
    assert titles(store.search("colours rust")) == []
    assert titles(store.search("inked")) == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Über Käse", "uber kase"),
        ("cafe\u0301s in Paris", "cafés"),
        ("ПРИВЕТ мир", "привет"),
        ("读写锁是什么", "写锁"),
        ("读写锁是什么", "锁"),
        ("読み書きロックとは", "ロック"),
        ("用Rust写", "rust写"),
        ("안녕하세요 세계", "안녕"),
        ("C++ or C#?", "c++"),
        ("call merge_sort(a)", "merge_so"),
        ("foo-bar.baz", "foo-bar"),
    ],
)
def test_a_search_knows_no_case_no_accents_and_every_script(
    store: ConversationStore, text: str, query: str
) -> None:
    begin(store, text)
    begin(store, "Something else 锁写")
    assert text in titles(store.search(query))


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "'",
        "a AND",
        "NOT a",
        "NEAR(a b",
        "a*",
        "(",
        "text:a",
        "^a",
        "a\0b",
        "-a",
        "%",
        "_",
        "\\",
        "a OR b",
    ],
)
def test_nothing_that_is_typed_is_syntax(store: ConversationStore, query: str) -> None:
    begin(store, "nothing of the kind")
    assert titles(store.search(query)) == []


def test_a_query_of_spaces_is_the_list_and_one_of_signs_finds_nothing(store: ConversationStore) -> None:
    begin(store, "a")
    assert titles(store.search("  ")) == ["a"]
    assert store.search("?!") == []


def test_the_newest_message_that_has_the_words_is_shown_with_their_places(store: ConversationStore) -> None:
    conversation = begin(store, "The old apple")
    answer(store, conversation, "Something\nelse. " * 20 + "A **red** ápple\x1b pie, apples.")
    (found,) = store.search("apple")
    assert found.snippet is not None
    text = found.snippet.text
    assert text.startswith("…") and text.endswith("A **red** ápple pie, apples.") and len(text) < 60
    assert [text[a:b] for a, b in found.snippet.marks] == ["ápple", "apple"]


def test_a_place_is_found_wherever_it_is_in_a_long_text() -> None:
    for length in range(2 * search._PIECE - 8, 2 * search._PIECE + 8):
        found = search.snippet("ü" * length + " Nädel in it", ["nade"])
        assert found.text.endswith("Nädel in it")
        assert [found.text[a:b] for a, b in found.marks] == ["Näde"]
        inside = search.snippet("u" * length + "nadel" + " x" * 200 + " nadel", ["nade"])
        assert inside.text.endswith("x nadel") and len(inside.marks) == 1


def test_an_answer_is_found_once_it_has_ended(store: ConversationStore) -> None:
    conversation = begin(store)
    message = store.add_message(conversation, "assistant", "")
    store.append(message, "unicorn", [1])
    assert store.search("unicorn") == []
    store.finish(message, reason="length", stats={}, prompt_ids=())
    assert titles(store.search("unicorn")) == ["Hello"]


def test_without_fts5_the_texts_themselves_are_searched(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_index = ConversationStore(path)
    first = begin(with_index, "An apple")
    with_index.close()

    with monkeypatch.context() as patch:
        patch.setattr(word_index, "_has_fts5", lambda _db: False)
        without = ConversationStore(path)
        answer(without, first, "A 50% larger pear")
        begin(without, "Pear_tree")
        assert titles(without.search("pear")) == ["Pear_tree", "An apple"]
        assert titles(without.search("LARG 50")) == ["An apple"]
        assert titles(without.search("%")) == []
        without.close()

    again = ConversationStore(path)
    assert titles(again.search("pear")) == ["Pear_tree", "An apple"]
    assert titles(again.search("apple")) == ["An apple"]
    again.close()


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_last_used_conversations_are_found_wherever_they_are(
    path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, indexed: bool
) -> None:
    """Old conversations come back, and what has the words may lie behind many that do not."""
    if not indexed:
        monkeypatch.setattr(word_index, "_has_fts5", lambda _db: False)
    monkeypatch.setattr(word_index, "_WIDE", 3)
    rng = random.Random(seed)
    store = ConversationStore(path)
    texts = {}
    for number in range(60):
        text = " ".join(word for word in ("every", "many", "few") if rng.random() < _SHARES[word])
        texts[begin(store, f"{number} {text}")] = text
    used = {conversation: rng.randrange(40) for conversation in texts}  # some at the same time
    with store._database.write() as db:
        db.executemany("UPDATE conversations SET updated = ? WHERE id = ?", [(u, c) for c, u in used.items()])
    newest = sorted(texts, key=lambda conversation: (-used[conversation], -conversation))
    for query in ("every", "many", "few", "few many", "none"):
        having = [c for c in newest if all(word in texts[c].split() for word in query.split())]
        for limit in (1, 3, 10, 100):
            assert [summary.id for summary in store.search(query, limit)] == having[:limit]
    store.close()


_SHARES = {"every": 1.0, "many": 0.4, "few": 0.1}


def test_of_a_common_word_only_the_last_used_conversations_are_looked_through(
    store: ConversationStore,
) -> None:
    for _ in range(30):
        begin(store, "common")
    with store._database.read() as db:
        store._words.find(db, ["common"], 4)
        found = db.execute("SELECT conversation FROM hits ORDER BY conversation").fetchall()
    assert found == [(number,) for number in range(23, 31)]


def test_a_long_beginning_finds_every_word_that_goes_on_so(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("A function", "functional", "FUNCTION of x", "Fun", "func_a", "fünction 函数"):
        begin(store, text)
    for number in range(100):
        begin(store, f"many{number}")
    answer(store, begin(store, "Gone"), "functionless")
    store.delete(store.list(1)[0].id)
    queries = {"func": 5, "FUNCT": 4, "function": 4, "functional": 1, "functionl": 0, "fun fünc": 5}
    queries |= {"many": 100, "many9": 11, "many99": 1, "function func": 4, "function x": 1, "function 函": 1}
    assert {query: len(store.search(query)) for query in queries} == queries
    found = {query: titles(store.search(query)) for query in queries}
    monkeypatch.setattr(word_index, "_MOST_TERMS", -1)  # FTS5 finds the beginnings
    assert {query: titles(store.search(query)) for query in queries} == found


def test_words_that_begin_so_are_looked_up_whole(store: ConversationStore) -> None:
    begin(store, "A function is functional fun, not funny")
    with store._database.read() as db:
        assert word_index._expression(db, ["fun", "Func"]) == '"fun"* AND ("function" OR "functional")'


@pytest.mark.parametrize(
    ("numbers", "ranges"),
    [
        ([], []),
        ([7], [(7, 7)]),
        ([1, 2, 40, 90], [(1, 90)]),
        ([1, 2, 60, 61, 200], [(1, 2), (60, 61), (200, 200)]),
        ([1, 100, 300, 600, 1000, 1500], [(1, 300), (600, 600), (1000, 1000), (1500, 1500)]),
    ],
)
def test_ranges_leave_the_widest_gaps_out(numbers: list[int], ranges: list[tuple[int, int]]) -> None:
    assert word_index.stretches(numbers) == ranges


def test_list_and_search_read_no_table_from_end_to_end(store: ConversationStore) -> None:
    from tui.conversations.tables import FOUND, LIST

    begin(store)
    with store._database.read() as db:
        store._words.find(db, ["hello"], 10)
        for statement, arguments in ((LIST, (10, 0)), (FOUND, (10,))):
            plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", arguments)]
            assert [step for step in plan if re.match(r"SCAN (m|messages|s|setups)\b", step)] == []
            assert any("messages_by_conversation" in step for step in plan)


# -- crashes

_CHILD = """
import sys
from pathlib import Path
from edge_spec import PairSpec
from tui.conversations.store import ConversationStore

store = ConversationStore(Path(sys.argv[1]))
conversation = store.create("", PairSpec("t", "d", {}), {})
store.add_message(conversation, "user", "Count")
message = store.add_message(conversation, "assistant", "")
print(conversation, flush=True)
number = 0
while True:
    store.append(message, f"{number} ", [number, 100_000 + number])
    print(number, flush=True)
    number += 1
"""


def test_a_killed_program_loses_at_most_the_flush_in_flight(path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout is not None
    with child, child.stdout as lines:
        conversation = int(lines.readline())
        last = 0
        while last < 200:
            last = int(lines.readline())
        child.kill()
        reported = [int(line) for line in lines.read().split()]
    last = max([last, *reported])

    store = ConversationStore(path)
    message = store.load(conversation).messages[1]
    store.close()
    numbers = [int(number) for number in message.text.split()]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) in (last + 1, last + 2)
    assert message.token_ids == tuple(i for n in numbers for i in (n, 100_000 + n))
    assert message.reason == "interrupted"


def test_an_answer_that_was_never_finished_is_interrupted_and_keeps_its_text(path: Path) -> None:
    crashed = ConversationStore(path)
    conversation = begin(crashed)
    message = crashed.add_message(conversation, "assistant", "")
    crashed.append(message, "Half a tr", [1, 2])
    assert crashed.load(conversation).messages[1].reason is None  # it is being given in this window
    assert crashed.load(conversation).messages[1].text == "Half a tr"
    crashed.close()

    store = ConversationStore(path)
    found = store.load(conversation).messages[1]
    assert (found.text, found.token_ids, found.reason) == ("Half a tr", (1, 2), "interrupted")
    assert found.prompt_ids == ()
    assert titles(store.search("half tr")) == ["Hello"]
    store.close()


# -- two windows


def test_an_answer_ends_well_though_another_window_took_it_for_interrupted(
    store: ConversationStore, second: ConversationStore
) -> None:
    conversation = begin(store)
    message = store.add_message(conversation, "assistant", "")
    store.append(message, "One ", [1])
    assert second.load(conversation).messages[1].reason == "interrupted"
    store.append(message, "two ", [2])
    assert second.load(conversation).messages[1].text == "One "
    store.finish(message, reason="eog", stats={}, prompt_ids=[9])
    found = second.load(conversation).messages[1]
    assert (found.text, found.token_ids, found.reason, found.prompt_ids) == ("One two ", (1, 2), "eog", (9,))
    assert titles(second.search("one two")) == ["Hello"]
    keep(second, conversation, 1)
    assert second.search("one") == []


def test_two_windows_lose_nothing(store: ConversationStore, second: ConversationStore) -> None:
    shared = begin(store)

    def work(window: ConversationStore, name: str) -> None:
        try:
            own = begin(window, name)
            for turn in range(15):
                for conversation in (own, shared):
                    message = window.add_message(conversation, "assistant", "")
                    for flush in range(4):
                        window.append(message, f"{name}{flush} ", [turn, flush])
                    window.finish(message, reason="eog", stats={}, prompt_ids=range(turn))
                window.list()
                window.search(name)
        except EdgeSpecError as error:
            failures.append(error)

    failures: list[EdgeSpecError] = []
    threads = [
        threading.Thread(target=work, args=(window, name))
        for window, name in ((store, "left"), (second, "right"), (store, "again"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for name in ("left", "right", "again"):
        (own,) = [s for s in store.list() if s.title == name]
        whole = "".join(f"{name}{flush} " for flush in range(4))
        assert messages(second, own.id)[1:] == [("assistant", whole)] * 15
        assert [text for _, text in messages(second, shared)].count(whole) == 15


def test_several_programs_may_make_the_file_at_once(path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom edge_spec import PairSpec\n"
        "from tui.conversations.store import ConversationStore\nsys.stdin.readline()\n"
        "store = ConversationStore(Path(sys.argv[1]))\n"
        "store.add_message(store.create('', PairSpec('t', None, {}), {}), 'user', 'Hi')\nstore.close()"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        for _ in range(4)
    ]
    assert [child.communicate("\n", timeout=60)[1] for child in children] == [""] * 4
    store = ConversationStore(path)
    assert len(store.list()) == 4
    store.close()


def test_what_another_window_deleted_is_said_to_be_gone(
    store: ConversationStore, second: ConversationStore
) -> None:
    conversation = begin(store)
    message = store.add_message(conversation, "assistant", "")
    second.delete(conversation)
    for write, words in (
        (lambda: store.append(message, "x", [1]), "answer was removed"),
        (lambda: store.finish(message, reason="eog", stats={}, prompt_ids=()), "answer was removed"),
        (lambda: store.add_message(conversation, "user", "x"), "conversation was deleted"),
        (lambda: store.set_settings(conversation, {}), "conversation was deleted"),
    ):
        with pytest.raises(ConversationError, match=f"^This {words} (meanwhile|in another window)"):
            write()
    assert store.list() == []


def test_a_number_is_never_used_again_so_a_cut_answer_cannot_go_on_in_another(
    store: ConversationStore, second: ConversationStore
) -> None:
    conversation = begin(store)
    cut = store.add_message(conversation, "assistant", "")
    keep(second, conversation, 1)
    other = second.add_message(conversation, "assistant", "")
    with pytest.raises(ConversationError):
        store.append(cut, "stray", [1])
    second.append(other, "right", [2])
    second.finish(other, reason="eog", stats={}, prompt_ids=())
    assert messages(second, conversation) == [("user", "Hello"), ("assistant", "right")]


# -- files that cannot be used


def test_a_full_disk_is_one_sentence_and_the_text_has_no_hole_afterwards(store: ConversationStore) -> None:
    conversation = begin(store)
    message = store.add_message(conversation, "assistant", "")
    store.append(message, "Before. ", [1])
    full = store._database._writer.execute("PRAGMA page_count").fetchone()[0]
    store._database._writer.execute(f"PRAGMA max_page_count = {full}")
    lost = "x" * 100_000
    with pytest.raises(ConversationError, match=r"^Conversations cannot be saved in .*: the disk is full\.$"):
        store.append(message, lost, [2])
    store._database._writer.execute("PRAGMA max_page_count = 1000000")
    store.append(message, lost, [2])
    store.append(message, " After.", [3])
    store.finish(message, reason="eog", stats={}, prompt_ids=())
    found = store.load(conversation).messages[1]
    assert (found.text, found.token_ids) == (f"Before. {lost} After.", (1, 2, 3))


def test_a_file_that_cannot_be_written_is_one_sentence(store: ConversationStore) -> None:
    conversation = begin(store)
    store._database._writer.execute("PRAGMA query_only = ON")
    with pytest.raises(ConversationError, match="the file cannot be written"):
        store.add_message(conversation, "user", "x")
    assert messages(store, conversation) == [("user", "Hello")]


def test_another_programs_long_write_is_waited_for_and_then_said(
    store: ConversationStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = begin(store)
    store._database._writer.execute("PRAGMA busy_timeout = 200")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ConversationError, match="another program has been writing to it for 5 seconds"):
        store.add_message(conversation, "user", "x")
    assert titles(store.search("hello")) == ["Hello"]  # reading goes on
    assert patience(store) < 0.1  # the interface waited once, and need not freeze at every write
    other.close()
    store.add_message(conversation, "user", "y")
    assert patience(store) == BUSY_S
    assert messages(store, conversation) == [("user", "Hello"), ("user", "y")]


def test_a_damaged_file_is_one_sentence(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"This was never a database. " * 100)
    with pytest.raises(ConversationError, match=r"is damaged; move it away, and a new one is made\.$"):
        ConversationStore(path)


def test_damage_inside_a_file_is_one_sentence(path: Path) -> None:
    store = ConversationStore(path)
    conversation = begin(store, "long " * 20_000)
    store.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with (
        pytest.raises(ConversationError, match="is damaged"),
        contextlib.closing(ConversationStore(path)) as store,
    ):
        store.load(conversation)


def test_a_newer_file_is_refused_and_left_alone(path: Path) -> None:
    ConversationStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 7")
    db.close()
    with pytest.raises(ConversationError, match=r"newer edge-spec \(format 7, this one knows 1\); update"):
        ConversationStore(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (7,)
    db.close()


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url)")
    db.close()
    with pytest.raises(ConversationError, match="is another program's database"):
        ConversationStore(path)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]
    db.close()


def test_a_place_where_no_file_can_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConversationError, match=r"cannot be saved in .*: (Not a directory|File exists)\.$"):
        ConversationStore(tmp_path / "file" / "conversations.sqlite3")
    with pytest.raises(ConversationError, match="Is a directory"):
        ConversationStore(tmp_path)


def test_a_closed_store_says_so_like_any_other_failure(store: ConversationStore) -> None:
    conversation = begin(store)
    store.close()
    store.close()
    with pytest.raises(ConversationError, match="closed database"):
        store.add_message(conversation, "user", "x")
    with pytest.raises(ConversationError, match="closed database"):
        store.list()


def test_others_cannot_read_the_file(store: ConversationStore, path: Path) -> None:
    begin(store)
    assert {file.name: file.stat().st_mode & 0o077 for file in path.parent.iterdir()} == {
        "conversations.sqlite3": 0, "conversations.sqlite3-shm": 0, "conversations.sqlite3-wal": 0,
    }  # fmt: skip


def test_the_file_is_in_the_platforms_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path().name == "conversations.sqlite3" and tmp_path in default_path().parents
