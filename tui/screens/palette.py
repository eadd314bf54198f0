"""Textual's palette, which closes itself and nothing else."""

from __future__ import annotations

from typing import Any

from textual.app import ComposeResult
from textual.command import CommandInput, CommandPalette
from textual.worker import Worker, WorkType

from tui.screens.closing import ClosingScreen
from tui.widgets.text_fields import SafeInput


class _SearchField(CommandInput, SafeInput):
    """The palette's field, the first base giving its look."""


class Palette(CommandPalette, ClosingScreen[None]):
    """Enter pressed twice would otherwise take away the screen below, and the chat with it."""

    def compose(self) -> ComposeResult:
        for widget in super().compose():
            if isinstance(widget, CommandInput):
                yield _SearchField(placeholder=widget.placeholder, select_on_focus=False)
            else:
                yield widget

    def run_worker(self, work: WorkType[Any], *args: Any, **options: Any) -> Worker[Any]:
        """A search that the closing of the palette cuts off fails, and must not end the program."""
        return super().run_worker(work, *args, **{**options, "exit_on_error": False})
