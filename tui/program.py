"""What every program here has in common: its palette, and how it ends when it must."""

from __future__ import annotations

import logging
from typing import Any, Final

from textual.app import App

from tui.guard import report
from tui.paging import guard_paging
from tui.pasting import guard_pastes
from tui.style_caches import guard_style_caches

_log: Final = logging.getLogger(__name__)


class Program(App[None], inherit_bindings=False):
    """A full-screen program. `bug` is the error that ended it, if one did."""

    ENABLE_COMMAND_PALETTE = False  # no key of Textual's: the table has one

    def __init__(self) -> None:
        super().__init__()
        guard_pastes()
        guard_paging()
        guard_style_caches()
        self.bug: Exception | None = None

    def action_command_palette(self) -> None:
        """Look for a command."""
        self._search()

    async def run_action(self, *args: Any, **options: Any) -> bool:
        """Do what a key or a command stands for; a bug in it is told and ends nothing."""
        try:
            return await super().run_action(*args, **options)
        except Exception as error:
            report(self, error)
            return True

    def search_themes(self) -> None:
        """Look for a theme."""
        from textual.theme import ThemeProvider

        self._search(providers=[ThemeProvider], placeholder="Search for themes…")

    def _search(self, **options: Any) -> None:
        from tui.screens.palette import Palette

        if not isinstance(self.screen, Palette):
            self.push_screen(Palette(**options))

    def _handle_exception(self, error: Exception) -> None:
        """A bug that nothing caught: end, with the traceback in the log.

        Textual would print it over the terminal; who started the program finds it in `bug`.
        """
        _log.error("the program ends", exc_info=error)
        self.bug = self.bug or error
        self._return_code = 1
        if self._exception is None:  # what Textual's tests look at
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()
