"""Commands on speculation and sampling: the settings of the next answer."""

from __future__ import annotations

from typing import Final

from edge_spec import UsageError
from tui.actions.group import ActionGroup
from tui.commands import Command

_NEXT_ANSWER: Final = "It holds from the next answer on."


class SpeculationActions(ActionGroup):
    """Turns speculation on and off, and gives settings their values."""

    def speculation(self, _argument: str) -> None:
        session = self._screen.session
        if session.info is not None and session.lacks_draft:
            raise UsageError(f"There is no draft model; {self._screen.key('draft')} chooses one.")
        session.settings.speculate(not session.settings.speculating)
        self._say(f"Speculation is {'on' if session.settings.speculating else 'off'}.{self._from_when()}")
        self._screen.show_gauges()

    def _set(self, command: Command, argument: str) -> bool:
        settings = self._screen.session.settings
        name = command.setting

        def put(text: str) -> None:
            settings.set(name, text)
            is_off = name == "draft-max" and not settings.speculating
            words = "Speculation is off" if is_off else f"{name} is {settings.shown(name)}"
            self._say(f"{words}.{self._from_when()}")
            self._screen.show_gauges()

        return self._try(lambda: self._ask_unless(argument, command.summary, settings.shown(name), put))

    def _from_when(self) -> str:
        return f" {_NEXT_ANSWER}" if self._screen.session.state.busy else ""
