"""An exported conversation reads as it was, whatever anybody wrote."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from edge_spec import PairSpec
from tui.conversations.export import export_markdown
from tui.conversations.saved import Conversation, Role, SavedMessage
from tui.conversations.store import ConversationStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def conversation(
    *said: tuple[Role, str], system: str = "", reason: str = "eog", title: str = "Talk"
) -> Conversation:
    messages = tuple(
        SavedMessage(n, role, text, (), (), NOW, None, {}, {}, reason if role == "assistant" else "")
        for n, (role, text) in enumerate(said)
    )
    models = PairSpec("/home/somebody/target.gguf", "/home/somebody/draft.gguf", {})
    settings = {"temp": 0.2, "top-k": 40, "seed": None, "draft-max": 3, "speculating": True}
    return Conversation(1, title, NOW, NOW, system, models, settings, messages)


def shown(text: str) -> str:
    """What an export has of a user's message."""
    return export_markdown(conversation(("user", text))).partition("## You\n\n")[2]


def test_an_export_has_title_models_settings_and_messages_and_no_folders() -> None:
    assert export_markdown(
        conversation(
            ("user", "Merge two lists."),
            ("assistant", "Use **merge**:\n\n```python\nmerge(a, b)\n```"),
            system="Be brief.",
        )
    ) == (
        "# Talk\n\n"
        "target.gguf drafted for by draft.gguf, temp 0.2, top-k 40, draft-max 3\n\n"
        "## System prompt\n\nBe brief.\n\n"
        "## You\n\nMerge two lists.\n\n"
        "## Model\n\nUse **merge**:\n\n```python\nmerge(a, b)\n```\n"
    )


@pytest.mark.parametrize(
    "text", ["Plain words, here: 3.5 (well-known)!", "One.\n\nTwo?", "שלום עולם", "好 🎉"]
)
def test_a_plain_message_stands_as_it_is(text: str) -> None:
    assert shown(text) == f"{text}\n"


@pytest.mark.parametrize(
    "text",
    [
        "# no heading", "- no list", "  + no list", "1. no list", "12) no list", "> no quote", "*no* stress",
        "a_b", "[no](link)", "<b>no tag</b>", "&amp;", "`no code`", "    no code", "\tno code", "title\n===",
        "a | b", "~~no~~", "$x$", "line\nline", "back\\slash",
    ],
)  # fmt: skip
def test_a_message_that_markdown_would_change_is_fenced(text: str) -> None:
    assert shown(text) == f"```text\n{text}\n```\n"


def test_a_fence_is_longer_than_any_in_the_message() -> None:
    text = "```python\nx\n```\nand ````` more"
    assert shown(text) == f"``````text\n{text}\n``````\n"


def test_an_answer_is_not_changed_and_an_open_code_block_is_closed() -> None:
    def answer(text: str) -> str:
        exported = export_markdown(conversation(("assistant", text), ("user", "Go on")))
        return exported.partition("## Model\n\n")[2].partition("\n\n## You")[0]

    whole = "# A\n* b\n\n~~~\n```\n~~~\n\n`` `x` ``\n\n```js\n```"
    assert answer(whole) == whole
    assert answer("Look:\n````md\n```\ncut") == "Look:\n````md\n```\ncut\n````"
    assert answer("~~~\ncut") == "~~~\ncut\n~~~"
    assert answer("``` is `no` fence") == "``` is `no` fence"


def test_control_characters_are_left_out_except_line_ends_and_tabs() -> None:
    exported = export_markdown(
        conversation(("user", "a\x1b[31mb\r\nc"), ("assistant", "x\x07\ty\x9bz\n"), title="T\x1b[0m")
    )
    assert "a[31mb\nc" in exported and "x\tyz\n" in exported and exported.startswith("# T\\[0m\n")
    assert not any((ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 for c in exported)


@pytest.mark.parametrize(
    ("reason", "words"),
    [("eog", ""), ("stop", ""), ("interrupted", "\n\n*(interrupted)*"), ("cancelled", "\n\n*(stopped)*")],
)
def test_an_answer_that_did_not_end_by_itself_says_so(reason: str, words: str) -> None:
    assert export_markdown(conversation(("assistant", "x"), reason=reason)).endswith(
        f"## Model\n\nx{words}\n"
    )


def test_a_stored_conversation_is_exported(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path / "c.sqlite3")
    made = store.create("", PairSpec("t", None, {}), {"temp": 0})
    store.add_message(made, "user", "Hi")
    assert export_markdown(store.load(made)) == "# Hi\n\nt, temp 0\n\n## You\n\nHi\n"
    store.close()
