"""All commands of the table on one chat screen, by their names."""

from __future__ import annotations

from tui.actions.answer import AnswerActions
from tui.actions.conversations import ConversationActions
from tui.actions.models import ModelActions
from tui.actions.program import ProgramActions
from tui.actions.prompt import PromptActions
from tui.actions.speculation import SpeculationActions
from tui.actions.view import ViewActions
from tui.commands import Command


class Actions(
    PromptActions,
    AnswerActions,
    ConversationActions,
    ModelActions,
    SpeculationActions,
    ViewActions,
    ProgramActions,
):
    """Does what the user asks for."""

    def run(self, command: Command, argument: str = "") -> bool:
        """Do it, and say whether that could be done. What is wrong with it, the user is told.

        While another screen lies over the chat nothing is done: a key that was pressed right after the
        one that opened it is still the chat's, and would open a second screen or stop the answer.
        """
        if not self._screen.is_active:
            return False
        if command.setting:
            return self._set(command, argument)
        method = getattr(self, command.name.replace("-", "_"))
        return self._try(lambda: method(argument))

    def allows(self, name: str) -> bool:
        """Whether a command's key is the command's now; otherwise it is the focused widget's own."""
        screen = self._screen
        prompt, offered = screen.prompt, screen.slash_list
        match name:
            case "send" | "newline":
                return prompt.has_focus
            case "recall":
                return prompt.has_focus and (offered.is_open or prompt.on_first_row)
            case "recall-next":
                is_at_end = prompt.is_recalling and prompt.on_last_row
                return prompt.has_focus and (offered.is_open or is_at_end)
            case "complete":
                return prompt.has_focus and offered.is_open
            case "leave":
                return not prompt.text
            case "stop":
                session = screen.session
                is_open = offered.is_open or screen.is_inspecting
                return is_open or session.state.busy or screen.is_waiting or session.is_editing
        return True
