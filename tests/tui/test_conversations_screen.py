"""The list of conversations: search, open, rename, delete, with the keyboard alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from edge_spec import PairSpec
from tests.tui.alone import Alone, alone, until
from tui.conversations.saved import Summary
from tui.conversations.store import ConversationStore
from tui.screens import conversations as module
from tui.screens.confirm import ConfirmScreen
from tui.screens.conversations import ConversationsScreen, _look, _when_text
from tui.screens.edit import EditScreen

SPEC = PairSpec("/models/big.gguf", "/models/small.gguf", {})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ConversationStore]:
    opened = ConversationStore(tmp_path / "conversations.sqlite3")
    yield opened
    opened.close()


def add(store: ConversationStore, text: str, answer: str = "An answer.") -> int:
    conversation = store.create("", SPEC, {})
    store.add_message(conversation, "user", text)
    message = store.add_message(conversation, "assistant", "")
    store.append(message, answer, [1])
    store.finish(message, reason="eog", stats={}, prompt_ids=())
    return conversation


def titles(app: Alone) -> list[str]:
    screen = app.screen_stack[-1] if isinstance(app.screen, ConversationsScreen) else app.screen_stack[1]
    assert isinstance(screen, ConversationsScreen)
    return [summary.title for summary in screen._summaries.values()]


async def listed(app: Alone, pilot: Pilot[None], *expected: str) -> None:
    await until(pilot, lambda: titles(app) == list(expected))
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_the_newest_is_first_with_title_date_count_and_models(
    store: ConversationStore, size: tuple[int, int]
) -> None:
    add(store, "Old one")
    add(store, "New [bold]one[/bold] \x1b[31m")
    async with alone(ConversationsScreen(store), size) as (app, pilot):
        await listed(app, pilot, "New [bold]one[/bold] [31m", "Old one")
        lines = app.text("#conversations-list").splitlines()
        now = datetime.now().astimezone()
        assert lines[0].split("  ")[0].strip() == "New [bold]one[/bold] [31m"
        assert lines[0].endswith((f"{now:%H:%M}", f"{now - timedelta(minutes=1):%H:%M}"))
        assert lines[1].strip() == "2 messages   big ← small"
        assert "Enter open" in app.text("#conversations-keys")


async def test_enter_opens_the_highlighted_one_and_escape_none(store: ConversationStore) -> None:
    first, second = add(store, "one"), add(store, "two")
    for keys, result in ((["down", "enter"], first), (["enter"], second), (["escape"], None)):
        async with alone(ConversationsScreen(store)) as (app, pilot):
            await listed(app, pilot, "two", "one")
            await pilot.press(*keys)
            await until(pilot, lambda app=app: app.results)  # type: ignore[misc]
            assert app.results == [result]


async def test_typing_searches_titles_and_messages_and_shows_what_was_found(store: ConversationStore) -> None:
    add(store, "About zebras")
    wanted = add(store, "Animals", "Many things.\nA zebra has **stripes**.")
    add(store, "Else")
    async with alone(ConversationsScreen(store)) as (app, pilot):
        await listed(app, pilot, "Else", "Animals", "About zebras")
        await pilot.press(*"zebra")
        await listed(app, pilot, "Animals", "About zebras")
        assert "Many things. A zebra has **stripes**." in app.text("#conversations-list")
        await pilot.press("space", *"str")
        await listed(app, pilot, "Animals")
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [wanted]


async def test_a_search_without_result_and_an_empty_store_say_so(store: ConversationStore) -> None:
    async with alone(ConversationsScreen(store)) as (app, pilot):
        await until(pilot, lambda: "No conversations yet." in app.text("#conversations-words"))
        assert not app.screen.query_one(OptionList).display
        await pilot.press("enter", "f2", "delete", "down")
        assert isinstance(app.screen, ConversationsScreen)
        add(store, "one")
        await pilot.press("x")
        await until(
            pilot, lambda: "No conversation has all of these words" in app.text("#conversations-words")
        )
        await pilot.press("backspace")
        await listed(app, pilot, "one")
        assert app.screen.query_one(OptionList).display
        assert not app.screen.query_one("#conversations-words").display


@pytest.mark.parametrize("keys", [["f2"], ["tab", "r"]])
async def test_renaming_changes_the_title_and_an_empty_one_brings_the_first_back(
    store: ConversationStore, keys: list[str]
) -> None:
    add(store, "one")
    add(store, "two")
    async with alone(ConversationsScreen(store)) as (app, pilot):
        await listed(app, pilot, "two", "one")
        await pilot.press("down", *keys)
        assert isinstance(app.screen, EditScreen)
        app.screen.query_one(Input).value = "Better"
        await pilot.press("enter")
        await listed(app, pilot, "two", "Better")
        assert app.screen.query_one(OptionList).highlighted == 1
        await pilot.press(*keys[-1:], "escape")
        await pilot.press(*keys[-1:])
        app.screen.query_one(Input).value = ""
        await pilot.press("enter")
        await listed(app, pilot, "two", "one")


async def test_deleting_asks_first(store: ConversationStore) -> None:
    add(store, "one")
    add(store, "two")
    async with alone(ConversationsScreen(store)) as (app, pilot):
        await listed(app, pilot, "two", "one")
        await pilot.press("delete")
        assert isinstance(app.screen, ConfirmScreen)
        await pilot.press("enter")  # the other answer has the focus
        await listed(app, pilot, "two", "one")
        await pilot.press("delete", "y")
        await listed(app, pilot, "one")
        assert [summary.title for summary in store.list()] == ["one"]


async def test_delete_is_the_search_fields_while_it_has_something_to_delete(store: ConversationStore) -> None:
    add(store, "xa")
    async with alone(ConversationsScreen(store)) as (app, pilot):
        await listed(app, pilot, "xa")
        await pilot.press("x", "a", "left", "delete")
        assert isinstance(app.screen, ConversationsScreen)
        assert app.screen.query_one(Input).value == "x"
        await pilot.press("delete")
        assert isinstance(app.screen, ConfirmScreen)


async def test_the_open_conversation_is_marked_and_not_deleted(store: ConversationStore) -> None:
    current = add(store, "one")
    async with alone(ConversationsScreen(store, current)) as (app, pilot):
        await listed(app, pilot, "one")
        assert "● open" in app.text("#conversations-list")
        await pilot.press("delete")
        assert isinstance(app.screen, ConversationsScreen)
        assert "delete it there" in app.text("#conversations-words")


async def test_more_follow_when_the_end_comes_near(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE", 30)
    for number in range(70):
        store.add_message(store.create("", SPEC, {}), "user", f"c{number}")
    async with alone(ConversationsScreen(store)) as (app, pilot):
        await until(pilot, lambda: len(titles(app)) == 30)
        await pilot.press(*["pagedown"] * 3)
        await until(pilot, lambda: len(titles(app)) == 60)
        assert app.screen.query_one(OptionList).highlighted not in (0, None)
        await pilot.press(*["pagedown"] * 8)
        await until(pilot, lambda: titles(app) == [f"c{number}" for number in reversed(range(70))])


async def test_a_resize_moves_the_dates_to_the_edge(store: ConversationStore) -> None:
    add(store, "one")
    async with alone(ConversationsScreen(store), (80, 24)) as (app, pilot):
        await listed(app, pilot, "one")
        await pilot.resize_terminal(100, 30)
        await until(pilot, lambda: len(app.text("#conversations-list").splitlines()[0]) > 85)


async def test_a_file_that_cannot_be_used_is_said_and_the_screen_stays(store: ConversationStore) -> None:
    add(store, "one")
    async with alone(ConversationsScreen(store)) as (app, pilot):
        await listed(app, pilot, "one")
        store._database._writer.execute("PRAGMA query_only = ON")
        await pilot.press("delete", "y")
        await until(pilot, lambda: "the file cannot be written" in app.text("#conversations-words"))
        assert isinstance(app.screen, ConversationsScreen)
        store.close()
        await pilot.press("o")
        await until(pilot, lambda: "closed database" in app.text("#conversations-words"))


async def test_what_another_window_deleted_opens_as_an_error_of_the_chat_not_of_the_list(
    store: ConversationStore, tmp_path: Path
) -> None:
    add(store, "one")
    async with alone(ConversationsScreen(store)) as (app, pilot):
        await listed(app, pilot, "one")
        with sqlite3.connect(tmp_path / "conversations.sqlite3") as db:
            db.execute("DELETE FROM conversations")
        db.close()
        await pilot.press("f2")
        await pilot.press("x", "enter")
        await until(pilot, lambda: "No conversations yet." in app.text("#conversations-words"))


NOW = datetime.fromisoformat("2026-03-01T12:00:00+01:00")


@pytest.mark.parametrize(
    ("when", "words"),
    [
        ("2026-03-01T08:05:00+00:00", "09:05"),
        ("2026-02-28T23:30:00+00:00", "00:30"),
        ("2026-02-28T22:30:00+00:00", "28 Feb 23:30"),
        ("2025-12-24T10:00:00+00:00", "24 Dec 2025"),
    ],
)
def test_a_date_is_as_short_as_it_can_be(when: str, words: str) -> None:
    assert _when_text(datetime.fromisoformat(when), NOW) == words


def test_a_long_title_of_wide_characters_leaves_room_for_the_date() -> None:
    summary = Summary(1, "读写锁" * 20, NOW, NOW, 1, SPEC)
    first, second = _look(summary, 40, NOW, open=False).plain.split("\n")
    assert first.endswith("…  12:00") or first.endswith("… 12:00") or first.endswith("…   12:00")
    assert len(first) < 40 and second == "1 message   big ← small"


# -- the editor of one text


async def test_a_line_is_saved_with_enter_and_kept_with_escape() -> None:
    async with alone(EditScreen("Title", "old")) as (app, pilot):
        await pilot.press("end", "!", "enter")
        assert app.results == ["old!"]
    async with alone(EditScreen("Title", "old")) as (app, pilot):
        await pilot.press("x", "escape")
        assert app.results == [None]


@pytest.mark.parametrize(("text", "multiline"), [("Be brief.", True), ("Be\nbrief.", False)])
async def test_several_lines_are_saved_with_control_s(text: str, multiline: bool) -> None:
    async with alone(EditScreen("System", text, multiline)) as (app, pilot):
        assert "Ctrl+S save" in app.text("#edit-keys")
        await pilot.press("enter", "x", "ctrl+s")
        assert app.results == [f"{text}\nx"]
    async with alone(EditScreen("System", text, multiline)) as (app, pilot):
        await pilot.press("escape")
        assert app.results == [None]
