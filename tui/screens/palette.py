"""Textual's palette, which closes itself and nothing else."""

from __future__ import annotations

from typing import Any

from textual.command import CommandPalette
from textual.worker import Worker, WorkType

from tui.screens.closing import ClosingScreen


class Palette(CommandPalette, ClosingScreen[None]):
    """Enter pressed twice would otherwise take away the screen below, and the chat with it."""

    def run_worker(self, work: WorkType[Any], *args: Any, **options: Any) -> Worker[Any]:
        """A search that the closing of the palette cuts off fails, and must not end the program."""
        return super().run_worker(work, *args, **{**options, "exit_on_error": False})
