"""Lists without room, and actions that fail."""

from __future__ import annotations

import logging
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import OptionList

from tui.program import Program


class Small(Program):
    CSS = "OptionList { width: 4; height: 3; }"
    BINDINGS: ClassVar[list[BindingType]] = [("f7", "fail", "")]

    def compose(self) -> ComposeResult:
        yield OptionList("one", "two", "three")

    def action_fail(self) -> None:
        raise RuntimeError("it failed")


async def test_a_list_without_room_is_not_paged_through() -> None:
    app = Small()
    async with app.run_test(size=(20, 6)) as pilot:
        options = app.query_one(OptionList)
        options.highlighted = 1
        options.styles.width = 2  # all of it border
        await pilot.pause()
        options.focus()
        await pilot.press("pagedown", "pageup")
        assert not options.scrollable_content_region.area
        assert options.highlighted == 1
        options.styles.width = 12
        await pilot.pause()
        await pilot.press("pagedown")
        assert options.highlighted == 2
    assert app.bug is None


async def test_an_action_that_fails_is_told_and_the_program_goes_on(
    no_bugs: list[logging.LogRecord],
) -> None:
    app = Small()
    async with app.run_test() as pilot:
        await pilot.press("f7")
        await pilot.pause()
        assert app.is_running
        assert ["RuntimeError: it failed" in note.message for note in app._notifications] == [True]
    assert [record.exc_info is not None for record in no_bugs] == [True]
    no_bugs.clear()
