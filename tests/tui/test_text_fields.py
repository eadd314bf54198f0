"""No text field of the program lets what is in it steer the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from tests.tui.alone import alone
from tests.tui.conftest import Chatting
from tui.conversations.store import ConversationStore
from tui.screens.conversations import ConversationsScreen
from tui.screens.edit import EditScreen
from tui.screens.get import GetScreen
from tui.screens.palette import Palette
from tui.screens.pick_file import PickFileScreen
from tui.screens.settings import SettingsScreen

HOSTILE = "a\x1b]0;b\x07\x1b[31mc\x9b2J\x7f"
DRAWN = "a␛]0;b␇␛[31mc\ufffd2J␡"


def drawn(widget: Widget) -> str:
    """What reaches the terminal of a widget, its lines joined."""
    lines = widget.render_lines(Region(0, 0, *widget.outer_size))
    return "\n".join("".join(segment.text for segment in line) for line in lines)


async def test_a_field_of_one_line_draws_symbols(tmp_path: Path) -> None:
    store = ConversationStore(tmp_path / "chats.sqlite3")
    screens: list[Screen[object]] = [
        EditScreen("Title", HOSTILE), GetScreen(HOSTILE), PickFileScreen("Which?", str), SettingsScreen(),
        ConversationsScreen(store), Palette(),
    ]  # type: ignore[list-item]  # fmt: skip
    for screen in screens:
        async with alone(screen, (120, 36)) as (app, pilot):
            field = app.screen.query_one(Input)
            field.value = HOSTILE
            field.parent.display = field.display = True  # type: ignore[union-attr]
            await pilot.pause()
            assert DRAWN in drawn(field) and "\x1b" not in drawn(field), screen
            field.value = "one\ntwo"
            await pilot.pause()
            assert "one␊two" in drawn(field), screen
    store.close()


async def test_a_field_of_several_lines_draws_symbols_and_keeps_the_text() -> None:
    async with alone(EditScreen("System prompt", "", multiline=True)) as (app, pilot):
        field = app.screen.query_one(TextArea)
        app.post_message(events.Paste(HOSTILE))
        await pilot.pause()
        assert DRAWN in drawn(field) and field.text == HOSTILE
        await pilot.press("ctrl+s")
        assert app.results == [HOSTILE]


@pytest.mark.parametrize("key", ["alt+r", "ctrl+p"])
async def test_what_is_pasted_into_a_field_is_kept_and_drawn_as_symbols(chatting: Chatting, key: str) -> None:
    async with chatting() as chat:
        await chat.ask()
        await chat.press(key)
        field = chat.app.screen.query_one(Input)
        field.value = ""
        chat.app.post_message(events.Paste(HOSTILE))
        await chat.settle()
        assert field.value == HOSTILE and DRAWN in drawn(field)


async def test_joiners_of_emoji_and_scripts_can_be_typed(chatting: Chatting) -> None:
    typed = "\U0001f469\u200d\U0001f4bb \u0645\u06cc\u200c\u0634"
    async with chatting() as chat:
        prompt = chat.app.screen.query_one("#prompt", TextArea)
        for character in typed:
            prompt.post_message(events.Key(character, character))
        await chat.settle()
        assert prompt.text == typed
        await chat.press("ctrl+p")
        field = chat.app.screen.query_one(Input)
        for character in typed:
            field.post_message(events.Key(character, character))
        await chat.settle()
        assert field.value == typed
