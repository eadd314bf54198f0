"""A conversation without a screen: turns, requests, what is kept when something fails, what is saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from edge_spec import (
    ChatRequest,
    Decoding,
    EngineCrashedError,
    Event,
    Finished,
    History,
    Notice,
    PairSpec,
    Sampling,
    TraceReader,
    UsageError,
    Verified,
)
from tests.tui.fake_host import SPEC, End, FakeHost, Part, Reading, Script, pair_info, plain, say, token_id
from tui.chat.session import ChatSession
from tui.chat.settings import ChatSettings
from tui.chat.transcript import Transcript
from tui.conversations.database import ConversationError
from tui.conversations.export import export_markdown
from tui.conversations.record import Record
from tui.conversations.store import ConversationStore


class View:
    """Remembers what a session said."""

    def __init__(self) -> None:
        self.transcripts: list[Transcript] = []
        self.changes: list[tuple[int, int]] = []
        self.taken_back: list[str] = []
        self.notices: list[Notice] = []

    def show_transcript(self, transcript: Transcript) -> None:
        self.transcripts.append(transcript)

    def show_change(self, block: int, span: int) -> None:
        self.changes.append((block, span))

    def take_back(self, text: str) -> None:
        self.taken_back.append(text)

    def tell(self, notice: Notice) -> None:
        self.notices.append(notice)


class Chat:
    """A session with a scripted engine behind it, driven by hand."""

    def __init__(self, store: ConversationStore | None, script: Script, system: str = "") -> None:
        self.view = View()
        self.script = script
        settings = ChatSettings(Sampling(), Decoding(), system)
        self.session = ChatSession(settings, Record(store, self.view.tell), self.view)
        self.load()

    def load(self, spec: PairSpec = SPEC) -> None:
        if self.session.spec != spec:
            self.host = FakeHost(spec, self.script)
        self.session.loading(spec)
        self.session.loaded(pair_info(spec), self.host.piece)

    def events(self, request: ChatRequest, *parts: Part) -> Iterator[Event]:
        self.script.answer(list(parts))
        return self.host.generate(request)

    def ask(self, text: str, *parts: Part) -> ChatRequest:
        """A whole turn."""
        request = self.session.ask(text)
        for event in self.events(request, *parts):
            self.session.see([event])
        return request

    @property
    def texts(self) -> list[tuple[str, str]]:
        return [(turn.role, turn.block.text) for turn in self.session.turns]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ConversationStore]:
    store = ConversationStore(tmp_path / "conversations.sqlite3")
    yield store
    store.close()


@pytest.fixture
def chat(store: ConversationStore, script: Script) -> Chat:
    return Chat(store, script)


def saved(chat: Chat) -> list[tuple[str, str, str | None]]:
    record = chat.session.record
    assert record.store is not None and record.conversation is not None
    return [(m.role, m.text, m.reason) for m in record.store.load(record.conversation).messages]


def test_an_answer_becomes_the_last_turn_without_its_rejected_tokens(chat: Chat) -> None:
    request = chat.ask("Hi", *say("One", " two", " three"))
    assert request.messages == ({"role": "user", "content": "Hi"},)
    assert request.history is None
    assert chat.texts == [("user", "Hi"), ("assistant", "One two three")]
    assert " no" in [span.text for span in chat.session.transcript.blocks[1].spans]
    assert chat.session.state.name == "ready"


def test_states_follow_the_answer(chat: Chat) -> None:
    request = chat.session.ask("Hi")
    assert chat.session.state.name == "reading"
    seen = []
    for event in chat.events(request, Reading(10, 20), *plain("a", "b")):
        chat.session.see([event])
        seen.append((chat.session.state.name, chat.session.state.part))
    assert seen == [
        ("reading", (0, 20)), ("reading", (10, 20)),
        ("streaming", None), ("streaming", None), ("ready", None),
    ]  # fmt: skip


def test_the_next_request_has_the_conversation_and_the_ids_of_its_beginning(chat: Chat) -> None:
    chat.ask("Hi", *plain("a", "b"))
    request = chat.session.ask("More")
    assert [m["content"] for m in request.messages] == ["Hi", "ab", "More"]
    prompt = tuple(token_id(f"<{i}>") for i in range(20))
    assert request.history == History(2, (*prompt, token_id("a"), token_id("b")))


def test_a_system_prompt_is_the_first_message_and_counts_in_the_history(
    store: ConversationStore, script: Script
) -> None:
    chat = Chat(store, script, system="Be brief.")
    chat.ask("Hi", *plain("a"))
    request = chat.session.ask("More")
    assert request.messages[0] == {"role": "system", "content": "Be brief."}
    assert request.history is not None and request.history.num_messages == 3
    assert chat.session.transcript.blocks[0].role == "system"


def test_another_system_prompt_is_read_with_the_whole_conversation(chat: Chat) -> None:
    chat.ask("Hi", *plain("a"))
    chat.session.set_system("Be kind.")
    assert chat.session.transcript.blocks[0].text == "Be kind."
    assert chat.session.context_used is None
    request = chat.session.ask("More")
    assert request.history is None and request.messages[0]["content"] == "Be kind."


def test_another_target_reads_the_whole_conversation(chat: Chat) -> None:
    chat.ask("Hi", *plain("a"))
    chat.load(PairSpec("other.gguf", None, {}))
    assert chat.session.ask("More").history is None


def test_another_draft_keeps_what_the_target_knows(chat: Chat) -> None:
    chat.ask("Hi", *plain("a"))
    chat.load(PairSpec(SPEC.target, None, {}))
    assert chat.session.ask("More").history is not None


def test_the_context_counts_while_an_answer_comes_and_after_it(chat: Chat) -> None:
    assert chat.session.context_used == 0
    request = chat.session.ask("Hi")
    counts = []
    for event in chat.events(request, *plain("a", "b")):
        chat.session.see([event])
        counts.append(chat.session.context_used)
    assert counts == [20, 21, 22, 22]
    assert chat.session.gauges().context_size == 4096


def test_nothing_can_be_asked_while_an_answer_is_given_or_nothing_is_loaded(chat: Chat) -> None:
    chat.session.ask("Hi")
    session = chat.session
    for refused in (lambda: session.ask("x"), session.regenerate, session.edit, session.begin):
        with pytest.raises(UsageError, match="An answer is being given"):
            refused()
    other = ChatSession(ChatSettings(Sampling(), Decoding()), Record(None, chat.view.tell), chat.view)
    with pytest.raises(UsageError, match="No model is loaded"):
        other.ask("Hi")


# -- stopping, and failing


def test_a_stopped_answer_keeps_its_text_and_ids(chat: Chat) -> None:
    request = chat.session.ask("Hi")
    for event in chat.events(request, *plain("a", "b"), End("cancelled")):
        chat.session.see([event])
        chat.session.stop()
    assert chat.session.state.name == "stopped"
    assert chat.texts[-1] == ("assistant", "ab")
    assert saved(chat)[-1] == ("assistant", "ab", "cancelled")
    history = chat.session.ask("More").history
    assert history is not None and history.ids[-2:] == (token_id("a"), token_id("b"))


def test_a_question_stopped_before_its_first_token_goes_back_into_the_prompt(chat: Chat) -> None:
    chat.ask("Hi", *plain("a"))
    request = chat.session.ask("Wrong")
    for event in chat.events(request, Reading(5, 20), End("cancelled")):
        chat.session.see([event])
    assert chat.view.taken_back == ["Wrong"]
    assert chat.texts == [("user", "Hi"), ("assistant", "a")]
    assert [block.text for block in chat.session.transcript.blocks] == ["Hi", "a"]
    assert [text for _, text, _ in saved(chat)] == ["Hi", "a"]
    assert chat.session.state.name == "ready"


def test_an_error_before_the_first_token_gives_the_question_back(chat: Chat) -> None:
    chat.session.ask("Too long")
    chat.session.failed("It does not fit.", loading=False, full=True)
    assert chat.view.taken_back == ["Too long"] and chat.texts == []
    assert [(b.role, b.text) for b in chat.session.transcript.blocks] == [("error", "It does not fit.")]
    assert chat.session.state.name == "full"


def test_an_error_in_an_answer_keeps_what_there_is(chat: Chat) -> None:
    request = chat.session.ask("Hi")
    events = list(chat.events(request, *plain("a", "b")))
    chat.session.see(events[:-1])
    chat.session.failed("It broke.", loading=False)
    assert chat.texts[-1] == ("assistant", "ab") and chat.view.taken_back == []
    assert chat.session.transcript.blocks[-1].role == "error"
    assert saved(chat)[-1] == ("assistant", "ab", "error")


def test_a_crash_keeps_the_conversation_and_the_next_prompt_is_answered(chat: Chat) -> None:
    request = chat.session.ask("Hi")
    chat.session.see(list(chat.events(request, *say("One", " two", " three")))[:3])
    chat.session.crashed(EngineCrashedError("The engine died.", "SIGKILL"), loading=False)
    assert chat.session.state.name == "crashed" and "SIGKILL" in chat.session.state.detail
    assert chat.texts == [("user", "Hi"), ("assistant", "One")]
    assert all(span.kind != "drafted" for span in chat.session.transcript.blocks[1].spans)
    assert saved(chat)[-1] == ("assistant", "One", "crashed")
    chat.load()
    assert chat.session.state.name == "restarted"
    chat.ask("Go on", *plain("Yes"))
    assert chat.texts[-1] == ("assistant", "Yes")


def test_what_comes_after_the_end_of_an_answer_changes_nothing(chat: Chat) -> None:
    request = chat.session.ask("Hi")
    events = list(chat.events(request, *plain("a")))
    chat.session.see(events)
    chat.session.see(events)
    assert chat.texts[-1] == ("assistant", "a")


def test_an_answer_that_was_cut_off_had_its_own_most_tokens(chat: Chat) -> None:
    chat.session.settings.set("max-tokens", "7")
    events = list(chat.events(chat.session.ask("Hi"), *plain("a"), End("length")))
    chat.session.settings.set("max-tokens", "99")
    chat.session.see(events)
    assert (chat.session.state.name, chat.session.state.detail) == ("length", "7")
    number, store = chat.session.record.conversation, chat.session.record.store
    assert number is not None and store is not None
    assert store.load(number).messages[-1].settings["max-tokens"] == 7


@pytest.mark.parametrize(
    ("reason", "state"), [("eog", "ready"), ("stop", "ready"), ("length", "length"), ("context", "full")]
)
def test_each_ending_has_its_state(chat: Chat, reason: str, state: str) -> None:
    chat.ask("Hi", *plain("a"), End(reason))  # type: ignore[arg-type]
    assert chat.session.state.name == state


# -- again, edit, new


def test_an_answer_stays_until_the_one_in_its_place_has_a_token(chat: Chat) -> None:
    chat.ask("Hi", *plain("a"))
    events = chat.events(chat.session.regenerate(), Reading(5, 20), *plain("b"))
    for event in events:
        if isinstance(event, Verified):
            assert [text for _, text, _ in saved(chat)] == ["Hi", "a"]
            break
        chat.session.see([event])
    chat.session.see([event, *events])
    assert [text for _, text, _ in saved(chat)] == ["Hi", "b"]


@pytest.mark.parametrize("end", ["stopped", "too long", "crashed"])
def test_an_answer_comes_back_when_the_one_in_its_place_has_no_token(chat: Chat, end: str) -> None:
    chat.ask("Hi", *plain("a"))
    chat.session.note("Beside it.")
    fold = chat.session.fold
    request = chat.session.regenerate()
    assert [block.text for block in chat.session.transcript.blocks] == ["Hi", ""]
    events = list(chat.events(request, Reading(5, 20), End("cancelled")))
    match end:
        case "stopped":
            chat.session.see(events)
        case "too long":
            chat.session.see(events[:1])
            chat.session.failed("It does not fit.", loading=False, full=True)
        case "crashed":
            chat.session.see(events[:2])
            chat.session.crashed(EngineCrashedError("It died.", "SIGKILL"), loading=False)
    assert chat.texts == [("user", "Hi"), ("assistant", "a")] and chat.session.fold is fold
    assert [block.text for block in chat.session.transcript.blocks][:3] == ["Hi", "a", "Beside it."]
    assert chat.view.taken_back == [] and not chat.session.state.busy
    assert chat.view.notices[-1].text == "There was no new answer; the one before is back."
    assert saved(chat) == [("user", "Hi", ""), ("assistant", "a", "eog")]
    chat.load()
    history = chat.session.ask("More").history
    assert history is not None and history.ids[-1] == token_id("a")


def test_regenerating_replaces_the_last_answer(chat: Chat) -> None:
    chat.ask("Hi", *plain("a"))
    request = chat.session.regenerate()
    assert [m["content"] for m in request.messages] == ["Hi"]
    for event in chat.events(request, *plain("b")):
        chat.session.see([event])
    assert chat.texts == [("user", "Hi"), ("assistant", "b")]
    assert [text for _, text, _ in saved(chat)] == ["Hi", "b"]


def test_an_edited_message_takes_the_place_of_the_last_once_it_is_answered(chat: Chat) -> None:
    chat.ask("Hi", *plain("a"))
    chat.ask("Wrong", *plain("b"))
    assert chat.session.edit() == "Wrong" and chat.session.is_editing
    assert (
        [text for _, text in chat.texts] == [text for _, text, _ in saved(chat)] == ["Hi", "a", "Wrong", "b"]
    )
    request = chat.session.ask("Right")
    assert request.history is not None and request.history.num_messages == 2
    assert [message["content"] for message in request.messages] == ["Hi", "a", "Right"]
    events = chat.events(request, Reading(5, 20), *plain("c"))
    for event in events:
        if isinstance(event, Verified):
            assert [text for _, text, _ in saved(chat)] == ["Hi", "a", "Wrong", "b", "Right"]
            break
        chat.session.see([event])
    chat.session.see([event, *events])
    assert (
        [text for _, text in chat.texts] == [text for _, text, _ in saved(chat)] == ["Hi", "a", "Right", "c"]
    )
    assert [block.text for block in chat.session.transcript.blocks] == ["Hi", "a", "Right", "c"]
    assert not chat.session.is_editing


@pytest.mark.parametrize("end", ["stopped", "too long", "crashed"])
def test_an_edited_message_without_an_answer_leaves_the_old_ones_there(chat: Chat, end: str) -> None:
    chat.ask("Hi", *plain("a"))
    chat.session.note("Beside it.")
    fold = chat.session.fold
    chat.session.edit()
    events = list(chat.events(chat.session.ask("Ho"), Reading(5, 20), End("cancelled")))
    match end:
        case "stopped":
            chat.session.see(events)
        case "too long":
            chat.session.failed("It does not fit.", loading=False, full=True)
        case "crashed":
            chat.session.crashed(EngineCrashedError("It died.", "SIGKILL"), loading=False)
    assert chat.texts == [("user", "Hi"), ("assistant", "a")] and chat.session.fold is fold
    assert [block.text for block in chat.session.transcript.blocks][:3] == ["Hi", "a", "Beside it."]
    assert saved(chat) == [("user", "Hi", ""), ("assistant", "a", "eog")]
    assert chat.view.taken_back == ["Ho"] and chat.session.is_editing
    chat.load()
    chat.ask("He", *plain("b"))
    assert [text for _, text in chat.texts] == [text for _, text, _ in saved(chat)] == ["He", "b"]


def test_a_message_is_edited_before_and_after_another_answer_to_it(chat: Chat) -> None:
    chat.ask("Hi", *plain("a"))
    chat.session.edit()
    for event in chat.events(chat.session.regenerate(), *plain("b")):
        chat.session.see([event])
    chat.ask("Ho", *plain("c"))
    assert [text for _, text in chat.texts] == [text for _, text, _ in saved(chat)] == ["Ho", "c"]


@pytest.mark.parametrize("what", ["left", "new", "opened"])
def test_editing_that_is_given_up_takes_nothing_away(chat: Chat, what: str) -> None:
    chat.ask("Hi", *plain("a"))
    number = chat.session.record.conversation
    assert number is not None
    chat.session.edit()
    match what:
        case "left":
            chat.session.leave_edit()
        case "new":
            chat.session.begin()
        case "opened":
            chat.session.open(number)
    assert not chat.session.is_editing
    chat.ask("Ho", *plain("b"))
    assert [text for _, text in chat.texts][-2:] == ["Ho", "b"]
    store = chat.session.record.store
    assert store is not None and [m.text for m in store.load(number).messages][:2] == ["Hi", "a"]


def test_what_is_taken_out_are_this_windows_messages_and_no_others(chat: Chat, script: Script) -> None:
    chat.ask("Hi", *plain("a"))
    number, store = chat.session.record.conversation, chat.session.record.store
    assert number is not None
    other = Chat(store, script)
    other.session.open(number)
    other.ask("There", *plain("b"))
    for event in chat.events(chat.session.regenerate(), *plain("c")):
        chat.session.see([event])
    assert [text for _, text, _ in saved(chat)] == ["Hi", "There", "b", "c"]
    other.session.edit()
    other.ask("Where", *plain("d"))
    assert [text for _, text, _ in saved(chat)] == ["Hi", "c", "Where", "d"]
    later = Chat(store, script)
    later.session.open(number)
    assert later.texts == [*chat.texts, ("user", "Where"), ("assistant", "d")]


def test_there_must_be_something_to_regenerate_or_edit(chat: Chat) -> None:
    with pytest.raises(UsageError, match="no answer yet"):
        chat.session.regenerate()
    with pytest.raises(UsageError, match="no message yet"):
        chat.session.edit()


def test_a_new_chat_is_another_conversation_with_the_same_settings(chat: Chat) -> None:
    chat.ask("Hi", *plain("a"))
    first = chat.session.record.conversation
    chat.session.settings.set("temp", "0.2")
    chat.session.begin()
    assert chat.texts == [] and chat.session.transcript.blocks == []
    assert chat.session.context_used == 0
    assert chat.ask("Ho", *plain("b")).sampling.temperature == 0.2
    assert chat.session.record.conversation not in (None, first)


def test_a_new_system_prompt_of_the_settings_is_for_new_conversations(chat: Chat) -> None:
    chat.session.system_of_new("Be kind.")  # this one has not begun
    assert chat.session.transcript.blocks[0].text == "Be kind."
    assert chat.ask("Hi", *plain("a")).messages[0]["content"] == "Be kind."
    chat.session.system_of_new("Be brief.")
    assert chat.session.transcript.blocks[0].text == "Be kind."
    assert chat.ask("More", *plain("b")).messages[0]["content"] == "Be kind."
    chat.session.begin()
    assert chat.session.transcript.blocks[0].text == "Be brief."
    assert chat.ask("Ho", *plain("c")).messages[0]["content"] == "Be brief."


@pytest.mark.parametrize("changed", [False, True])
def test_a_new_chat_has_not_the_system_prompt_of_the_conversation_opened_before(
    store: ConversationStore, script: Script, changed: bool
) -> None:
    before = Chat(store, script, system="Rhyme.")
    before.ask("Hi", *plain("a"))
    first = before.session.record.conversation
    before.session.begin()
    before.ask("Ho", *plain("b"))
    second = before.session.record.conversation
    assert first is not None and second is not None
    chat = Chat(store, script, system="Be brief.")
    chat.session.open(first)
    if changed:
        chat.session.system_of_new("Be kind.")
    chat.session.open(second)
    assert chat.session.settings.system == "Rhyme."
    chat.session.begin()
    assert chat.session.settings.system == ("Be kind." if changed else "Be brief.")


# -- the store


def test_a_conversation_is_resumed_with_ids_settings_and_system_prompt(
    store: ConversationStore, script: Script
) -> None:
    before = Chat(store, script, system="Be brief.")
    before.session.settings.set("temp", "0.3")
    before.session.settings.set("draft-max", "5")
    before.ask("Hi", *say("One", " two", " three"))
    number = before.session.record.conversation
    assert number is not None
    after = Chat(store, script)
    after.session.open(number)
    assert after.texts == before.texts
    assert after.session.settings.system == "Be brief."
    assert after.session.context_used == before.session.context_used
    request = after.session.ask("More")
    assert request.sampling.temperature == 0.3 and request.decoding.draft_max == 5
    expected = before.session.turns[-1].ids
    assert request.history == History(3, expected)
    assert after.session.record.title == "Hi"


def test_a_conversation_of_another_target_is_resumed_without_its_ids(
    store: ConversationStore, script: Script
) -> None:
    before = Chat(store, script)
    before.ask("Hi", *plain("a"))
    number = before.session.record.conversation
    assert number is not None
    after = Chat(store, script)
    after.load(PairSpec("other.gguf", None, {}))
    assert after.session.open(number) == SPEC
    assert after.session.ask("More").history is None


@pytest.fixture
def unanswered(store: ConversationStore, script: Script) -> Chat:
    """A conversation that was opened, and whose last message was being read when the program ended."""
    before = Chat(store, script)
    before.ask("Hi", *plain("a"))
    request = before.session.ask("Unanswered")
    before.session.see(list(before.events(request, Reading(5, 20)))[:2])
    number = before.session.record.conversation
    assert number is not None
    after = Chat(store, script)
    after.session.open(number)
    return after


def test_opening_a_conversation_whose_last_message_has_no_answer_takes_nothing_away(
    unanswered: Chat,
) -> None:
    assert unanswered.view.taken_back == []
    assert [text for _, text in unanswered.texts] == ["Hi", "a", "Unanswered"]
    assert [text for _, text, _ in saved(unanswered)] == ["Hi", "a", "Unanswered"]


def test_a_message_without_an_answer_is_answered_again_and_stays_if_that_fails(unanswered: Chat) -> None:
    chat = unanswered
    for event in chat.events(chat.session.regenerate(), Reading(5, 20), End("cancelled")):
        chat.session.see([event])
    assert [text for _, text in chat.texts] == ["Hi", "a", "Unanswered"] and chat.view.taken_back == []
    request = chat.session.regenerate()
    assert [m["content"] for m in request.messages] == ["Hi", "a", "Unanswered"]
    for event in chat.events(request, *plain("b")):
        chat.session.see([event])
    assert [text for _, text, _ in saved(chat)] == ["Hi", "a", "Unanswered", "b"]


def test_a_message_without_an_answer_and_the_next_are_one_for_the_model(unanswered: Chat) -> None:
    """Many chat templates refuse two messages of one side in a row."""
    chat = unanswered
    request = chat.ask("More", *plain("b"))
    assert [(m["role"], m["content"]) for m in request.messages] == [
        ("user", "Hi"), ("assistant", "a"), ("user", "Unanswered\n\nMore"),
    ]  # fmt: skip
    assert [text for _, text, _ in saved(chat)] == ["Hi", "a", "Unanswered", "More", "b"]
    history = chat.session.ask("Again").history
    assert history is not None and (history.num_messages, history.ids[-1]) == (4, token_id("b"))


def test_an_answer_without_a_token_of_an_earlier_version_is_not_shown(
    store: ConversationStore, script: Script
) -> None:
    before = Chat(store, script)
    before.ask("Hi", *plain("a"))
    number = before.session.record.conversation
    assert number is not None
    store.add_message(number, "assistant", "")
    store.add_message(number, "user", "More")
    after = Chat(store, script)
    after.session.open(number)
    assert [text for _, text in after.texts] == ["Hi", "a", "More"]


def test_an_answer_that_ended_without_a_word_stays_when_resumed(
    store: ConversationStore, script: Script
) -> None:
    before = Chat(store, script)
    before.ask("Hi", *plain(""))
    number = before.session.record.conversation
    assert number is not None
    after = Chat(store, script)
    after.session.open(number)
    assert after.texts == [("user", "Hi"), ("assistant", "")] and after.view.taken_back == []


def test_an_answer_is_in_the_store_while_it_streams(chat: Chat) -> None:
    request = chat.session.ask("Hi")
    events = list(chat.events(request, *say("One", " two", " three")))
    chat.session.see(events[:2])
    number = chat.session.record.conversation
    assert number is not None and chat.session.record.store is not None
    (_, answer) = chat.session.record.store.load(number).messages
    assert (answer.reason, answer.text) == (None, "One")
    chat.session.see(events[2:])
    assert saved(chat)[-1] == ("assistant", "One two three", "eog")


def test_stats_and_settings_of_each_answer_are_kept(chat: Chat) -> None:
    chat.session.settings.set("temp", "0")
    chat.ask("Hi", *say("One", " two", " three"))
    number = chat.session.record.conversation
    assert number is not None and chat.session.record.store is not None
    answer = chat.session.record.store.load(number).messages[-1]
    assert (answer.stats["drafted"], answer.stats["accepted"]) == (2, 1)
    assert answer.stats["acceptance_rate"] == 0.5
    assert answer.settings["temp"] == 0.0 and answer.models == SPEC


def test_without_a_store_one_chats_all_the_same(script: Script) -> None:
    chat = Chat(None, script)
    chat.ask("Hi", *plain("a"))
    assert chat.texts == [("user", "Hi"), ("assistant", "a")]
    with pytest.raises(UsageError):
        chat.session.open(1)
    with pytest.raises(UsageError):
        chat.session.record.rename("x")


def test_a_store_that_fails_is_told_once_and_the_chat_goes_on(chat: Chat, store: ConversationStore) -> None:
    chat.ask("Hi", *plain("a"))
    store.close()
    chat.ask("More", *plain("b"))
    assert chat.texts[-1] == ("assistant", "b")
    assert [notice.level for notice in chat.view.notices] == ["warning"]
    assert chat.view.notices[0].text.endswith("The chat goes on without being saved.")


class Disk:
    """The store's file, whose writes can be made to fail."""

    def __init__(self, store: ConversationStore) -> None:
        self._writer = store._database._writer

    def fail(self, fails: bool = True) -> None:
        self._writer.execute(f"PRAGMA query_only = {'ON' if fails else 'OFF'}")


@pytest.mark.parametrize("first", range(6))
@pytest.mark.parametrize("num_failing", [1, 3, 20])
def test_what_could_not_be_written_is_written_later_and_in_its_order(
    chat: Chat, store: ConversationStore, first: int, num_failing: int
) -> None:
    """Wherever the failures begin, and however long they last."""
    disk, steps = Disk(store), 0

    def step() -> None:
        nonlocal steps
        disk.fail(first <= steps < first + num_failing)
        steps += 1

    for question, answer in (("Hi", "ab"), ("More", "cd"), ("Again", "ef")):
        step()
        request = chat.session.ask(question)
        for event in chat.events(request, *plain(*answer)):
            step()
            chat.session.see([event])
    disk.fail(False)
    chat.session.record.drain()
    assert saved(chat) == [
        ("user", "Hi", ""), ("assistant", "ab", "eog"), ("user", "More", ""), ("assistant", "cd", "eog"),
        ("user", "Again", ""), ("assistant", "ef", "eog"),
    ]  # fmt: skip
    assert chat.session.record.title == "Hi"
    assert len(chat.view.notices) <= 1
    number = chat.session.record.conversation
    assert number is not None
    assert [m.prompt_ids != () for m in store.load(number).messages] == [False, True] * 3


def test_what_was_taken_out_before_it_could_be_written_is_not_in_the_file(
    chat: Chat, store: ConversationStore
) -> None:
    Disk(store).fail()
    chat.ask("Wrong", *plain("a"))
    assert chat.session.edit() == "Wrong"
    chat.ask("Right", *plain("b"))
    for event in chat.events(chat.session.regenerate(), *plain("c")):
        chat.session.see([event])
    Disk(store).fail(False)
    chat.session.record.drain()
    assert [text for _, text, _ in saved(chat)] == ["Right", "c"]
    assert chat.session.record.title == "Right"


def test_what_is_not_written_of_a_conversation_that_was_left_still_goes_there(
    chat: Chat, store: ConversationStore
) -> None:
    Disk(store).fail()
    chat.ask("One", *plain("a"))
    chat.session.begin()
    chat.ask("Two", *plain("b"))
    Disk(store).fail(False)
    chat.ask("Three", *plain("c"))
    assert [text for _, text, _ in saved(chat)] == ["Two", "b", "Three", "c"]
    assert [(s.title, s.num_messages) for s in store.list()] == [("Two", 4), ("One", 2)]
    assert chat.session.record.title == "Two"


def test_what_another_window_deleted_holds_nothing_up(chat: Chat, store: ConversationStore) -> None:
    request = chat.session.ask("Gone")
    events = list(chat.events(request, *plain("a", "b")))
    chat.session.see(events[:2])
    store.delete(store.list()[0].id)
    chat.session.see(events[2:])
    chat.session.begin()
    chat.ask("Hi", *plain("c"))
    assert [text for _, text, _ in saved(chat)] == ["Hi", "c"]
    (notice,) = chat.view.notices
    assert notice.text.startswith("This answer was removed meanwhile in another window")


@pytest.mark.parametrize("when", ["before", "in an answer", "edited", "again"])
def test_a_conversation_that_another_window_deleted_is_saved_anew_as_it_goes_on(
    chat: Chat, store: ConversationStore, when: str
) -> None:
    chat.ask("Gone", *plain("a"))
    if when == "in an answer":
        events = list(chat.events(chat.session.ask("More"), *plain("x", "y")))
        chat.session.see(events[:2])
        store.delete(store.list()[0].id)
        chat.session.see(events[2:])
    else:
        store.delete(store.list()[0].id)
    match when:
        case "edited":
            chat.session.edit()
        case "again":
            for event in chat.events(chat.session.regenerate(), *plain("b")):
                chat.session.see([event])
            assert [text for _, text, _ in saved(chat)] == ["Gone", "b"]
    for question in ("Hi", "Ho"):
        chat.ask(question, *plain("b", "c"))
    assert [(role, text) for role, text, _ in saved(chat)] == chat.texts
    assert [reason for role, _, reason in saved(chat) if role == "assistant"] == ["eog"] * (
        len(chat.texts) // 2
    )
    assert len(store.list()) == 1 and chat.session.record.title == chat.texts[0][1]
    number, *notices = chat.session.record.conversation, *chat.view.notices
    words = "This conversation was deleted in another window; as it goes on, it is saved as a new one."
    assert notices[-1] == Notice("warning", words) and len(notices) == 1 + (when == "in an answer")
    later = Chat(store, chat.script)
    assert number is not None
    later.session.open(number)
    assert later.session.ask("On").history == chat.session.ask("On").history


def test_a_conversation_that_is_saved_anew_keeps_a_title_that_was_given(
    chat: Chat, store: ConversationStore
) -> None:
    chat.ask("Gone", *plain("a"))
    chat.session.record.rename("Important")
    store.delete(store.list()[0].id)
    for question in ("Hi", "Ho"):
        chat.ask(question, *plain("b"))
    assert [one.title for one in store.list()] == ["Important"] == [chat.session.record.title]


def test_a_conversation_is_not_saved_anew_by_leaving_it(chat: Chat, store: ConversationStore) -> None:
    chat.ask("Gone", *plain("a"))
    store.delete(store.list()[0].id)
    chat.session.begin()
    chat.ask("Hi", *plain("b"))
    assert [text for _, text, _ in saved(chat)] == ["Hi", "b"] and len(store.list()) == 1


@pytest.mark.parametrize("error", [ConversationError("The file is damaged."), RuntimeError("a bug of ours")])
def test_what_can_never_be_written_stands_in_no_others_way(
    chat: Chat, store: ConversationStore, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise error

    chat.ask("Hi", *plain("a"))
    monkeypatch.setattr(store, "remove", refuse)
    (started, *events) = chat.events(chat.session.regenerate(), *plain("c"))
    if isinstance(error, ConversationError):
        chat.session.see([started, *events])
        assert len(chat.view.notices) == 1
    else:
        with pytest.raises(RuntimeError):
            chat.session.see([started, *events])
        chat.session.see(events[1:])
    chat.session.begin()
    chat.ask("Ho", *plain("b"))
    assert [text for _, text, _ in saved(chat)] == ["Ho", "b"]


def test_a_conversation_that_is_deleted_here_is_not_written_any_more(
    chat: Chat, store: ConversationStore
) -> None:
    chat.ask("Hi", *plain("a"))
    Disk(store).fail()
    chat.ask("More", *plain("b"))
    Disk(store).fail(False)
    chat.session.record.delete()
    chat.session.begin()
    chat.ask("Ho", *plain("c"))
    assert [s.title for s in store.list()] == ["Ho"] and len(chat.view.notices) == 1


def test_the_title_is_that_of_the_message_which_is_the_first_now(chat: Chat) -> None:
    chat.ask("  Wrong\tone\nand more", *plain("a"))
    assert chat.session.record.title == "Wrong one"
    chat.session.edit()
    assert chat.session.record.title == "Wrong one"
    chat.ask("Right", *plain("b"))
    assert chat.session.record.title == "Right"
    chat.session.record.rename(" Mine\n")
    assert chat.session.record.title == "Mine"
    chat.session.edit()
    chat.ask("Better", *plain("c"))
    assert chat.session.record.title == "Mine"


@pytest.mark.parametrize("saving", ["never", "not now", "no longer"])
def test_what_is_not_saved_can_be_exported(script: Script, store: ConversationStore, saving: str) -> None:
    chat = Chat(None if saving == "never" else store, script, system="Be brief.")
    if saving == "not now":
        Disk(store).fail()
    chat.ask("Hi\nyou", *plain("a", "b"), End("cancelled"))
    if saving == "no longer":
        store.close()
    text = export_markdown(chat.session.snapshot())
    assert text.startswith("# Hi\n\ntarget.gguf drafted for by draft.gguf, temp 0.8, ")
    assert text.endswith(
        "## System prompt\n\nBe brief.\n\n## You\n\n```text\nHi\nyou\n```\n\n## Model\n\nab\n\n*(stopped)*\n"
    )


# -- traces, notices, speculation


def test_a_trace_has_the_answers_that_began_while_it_was_on(chat: Chat, tmp_path: Path) -> None:
    chat.ask("Before", *plain("x"))
    path = tmp_path / "answers.trace.jsonl"
    chat.session.tracing.start(path)
    chat.ask("One", *plain("a"))
    chat.ask("Two", *plain("b"))
    chat.session.tracing.end()
    chat.ask("After", *plain("y"))
    with TraceReader(path) as reader:
        events = list(reader)
    assert sum(isinstance(event, Finished) for event in events) == 2
    assert reader.pieces[token_id("a")] == b"a" and token_id("y") not in reader.pieces


def test_a_trace_says_how_its_answers_were_made(chat: Chat, tmp_path: Path) -> None:
    """A replay cuts the text where it was cut then."""
    path = tmp_path / "answers.trace.jsonl"
    chat.session.settings.restore({"stop": ["###"], "temp": 0.5})
    chat.session.settings.speculating = False
    chat.session.tracing.start(path)
    chat.ask("One", *plain("a"))
    chat.session.tracing.end()
    with TraceReader(path) as reader:
        settings = reader.header.settings
    assert (settings["stop"], settings["temp"], settings["draft_max"]) == (["###"], 0.5, 0)


def test_a_trace_that_nothing_was_written_to_leaves_no_file(chat: Chat, tmp_path: Path) -> None:
    path = tmp_path / "answers.trace.jsonl"
    chat.session.tracing.start(path)
    chat.session.tracing.end()
    assert not path.exists()


def test_another_pair_ends_the_trace_and_says_so(chat: Chat, tmp_path: Path) -> None:
    path = tmp_path / "answers.trace.jsonl"
    chat.session.tracing.start(path)
    chat.load(PairSpec("other.gguf", None, {}))
    assert chat.session.tracing.path is None
    words = f"The trace {path} ends here, because other models are loaded."
    assert chat.view.notices == [Notice("warning", words)]


def test_unloading_ends_the_trace_and_says_so(chat: Chat, tmp_path: Path) -> None:
    """The same pair comes back in another process, which knows other tokens."""
    path = tmp_path / "answers.trace.jsonl"
    chat.session.tracing.start(path)
    chat.ask("One", *plain("a"))
    chat.session.unloaded()
    words = f"The trace {path} ends here, because the models were unloaded."
    assert chat.view.notices == [Notice("warning", words)]
    chat.host = FakeHost(SPEC, chat.script)
    chat.session.loading(SPEC)
    chat.session.loaded(pair_info(SPEC), chat.host.piece)
    chat.ask("Two", *plain("b"))
    assert chat.texts[-1] == ("assistant", "b") and chat.session.state.name == "ready"
    with TraceReader(path) as reader:
        assert sum(isinstance(event, Finished) for event in reader) == 1


def test_a_trace_that_fails_loses_no_answer(chat: Chat, tmp_path: Path, no_bugs) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "answers.trace.jsonl"
    chat.session.tracing.start(path)
    request = chat.session.ask("One")

    def broken(_event: Event) -> None:
        raise KeyError(7)

    chat.session.tracing._writer.write = broken  # type: ignore[method-assign, union-attr]
    chat.session.see(list(chat.events(request, *plain("a", "b"))))
    assert chat.texts[-1] == ("assistant", "ab") and chat.session.state.name == "ready"
    assert chat.session.tracing.path is None
    assert [notice.text for notice in chat.view.notices] == [
        f"The trace {path} ends here. This is a bug in edge-spec: KeyError: 7."
    ]
    assert len(no_bugs) == 1
    no_bugs.clear()


def test_notices_of_loading_are_told_once(script: Script, store: ConversationStore) -> None:
    chat = Chat(store, script)
    notice, other = Notice("warning", "Beware."), Notice("info", "Drafting stops.")
    chat.session.loaded(pair_info(SPEC, notice), chat.host.piece)
    chat.ask("Hi", notice, other, *plain("a"))
    assert chat.view.notices == [notice, other]


def test_an_answer_that_could_not_be_drafted_for_says_why(chat: Chat) -> None:
    chat.ask("Hi", *plain("a"))
    assert chat.session.speculation.on
    fold = chat.session.fold
    assert fold is not None
    fold.stats.state, fold.stats.reason = "off", "what drafting costs here was not measured"
    speculation = chat.session.speculation
    assert (speculation.on, speculation.reason) == (False, "what drafting costs here was not measured")


@pytest.mark.parametrize(("state", "word"), [("auto-off", "off"), ("on", "on")])
def test_why_the_planner_drafts_or_not_does_not_say_so_twice(
    chat: Chat, state: Literal["auto-off", "on"], word: str
) -> None:
    chat.ask("Hi", *plain("a"))
    fold = chat.session.fold
    assert fold is not None
    fold.stats.state, fold.stats.reason = state, f"{word}: needs 71% acceptance here, has 44%"
    speculation = chat.session.speculation
    assert (speculation.on, speculation.reason) == (word == "on", "needs 71% acceptance here, has 44%")


def test_speculation_is_off_for_a_reason(chat: Chat) -> None:
    assert chat.session.speculation.on
    chat.session.settings.speculating = False
    assert (chat.session.speculation.on, chat.session.speculation.reason) == (False, "you turned it off")
    assert chat.session.ask("Hi").decoding.draft_max == 0
    chat.load(PairSpec("target.gguf", None, {}))
    chat.session.settings.set("draft-max", "3")
    assert chat.session.speculation.reason == "there is no draft model"


@pytest.mark.parametrize("drafter", ["ngram", "auto"])
def test_n_grams_are_drafted_without_a_draft_model(chat: Chat, drafter: Literal["ngram", "auto"]) -> None:
    chat.load(PairSpec("target.gguf", None, {}))
    chat.session.settings.decoding = Decoding(drafter=drafter)
    assert chat.session.speculation.on
    chat.session.settings.speculating = False
    assert chat.session.speculation.reason == "you turned it off"


def test_alternatives_are_asked_for_while_inspecting_or_always(chat: Chat) -> None:
    assert chat.ask("a", *plain("x")).inspect == 0
    chat.session.inspecting = True
    assert chat.ask("b", *plain("x")).inspect == 5
    chat.session.inspecting, chat.session.num_alternatives = False, 8
    assert chat.ask("c", *plain("x")).inspect == 8
