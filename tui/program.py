"""What every program here has in common: colours by name, and how it ends when it must."""

from __future__ import annotations

import difflib
import logging
from typing import Any, Final

from textual.app import App
from textual.binding import Binding, BindingsMap

from tui.commands import BY_NAME
from tui.guard import report
from tui.keys import Keys
from tui.paging import guard_paging
from tui.pasting import guard_pastes
from tui.style_caches import guard_style_caches

_log: Final = logging.getLogger(__name__)

DEFAULT_THEME: Final = "textual-dark"
_ANYWHERE: Final = {"quit": "quit", "interrupt": "help_quit", "palette": "command_palette"}
"""The commands that no screen is needed for, and Textual's actions that do them."""


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


def use_keys(app: App[Any], keys: Keys) -> None:
    """Take these keys for what every screen has; the ones to quit come before any screen's own."""
    app._bindings = BindingsMap(
        Binding(
            ",".join(keys.by_command[name]),
            action,
            BY_NAME[name].summary,
            show=False,
            priority=name == "quit",
        )
        for name, action in _ANYWHERE.items()
        if keys.by_command[name]
    )


def use_theme(app: App[Any], name: str | None) -> None:
    """Take the theme of a setting; one that does not exist is told, and the default taken."""
    if name is not None and name not in app.available_themes:
        near = difflib.get_close_matches(name, app.available_themes, 1)
        hint = f'; did you mean "{near[0]}"?' if near else "."
        app.notify(f'There is no theme "{name}"{hint}', severity="warning", markup=False)
        name = None
    app.theme = name or DEFAULT_THEME
