"""Commands on the program: help, palette, settings, and leaving it."""

from __future__ import annotations

from edge_spec import UsageError
from tui.actions.group import ActionGroup


class ProgramActions(ActionGroup):
    """What is no part of any conversation."""

    def help(self, _argument: str) -> None:
        from tui.screens.help import HelpScreen, groups_of_chat

        groups = groups_of_chat(self._screen.key)
        self._screen.app.push_screen(HelpScreen(groups, self._screen.tokens.marks, slash=True))

    def palette(self, _argument: str) -> None:
        self._screen.app.action_command_palette()

    def settings(self, _argument: str) -> None:
        from tui.screens.settings import SettingsScreen

        def saved(changed: bool | None) -> None:
            if changed:
                self._screen.settings_saved()

        self._show(SettingsScreen(self._screen.resolve), saved)

    def leave(self, _argument: str) -> None:
        if self._screen.prompt.text:
            raise UsageError(f"The prompt is not empty; {self._screen.key('quit')} quits all the same.")
        self._screen.app.exit()

    def quit(self, _argument: str) -> None:
        self._screen.app.exit()
