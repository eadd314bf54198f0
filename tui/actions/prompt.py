"""Commands on the prompt and on the list of slash commands above it."""

from __future__ import annotations

from tui.actions.group import ActionGroup
from tui.commands import DESTRUCTIVE, Command, completions


class PromptActions(ActionGroup):
    """Sending, recalling, and completing what is typed."""

    def send(self, _argument: str) -> None:
        offered = self._screen.slash_list.marked
        if offered is not None:
            self._take(offered, send=True)
        else:
            self._screen.submit()

    def newline(self, _argument: str) -> None:
        self._screen.prompt.new_line()

    def recall(self, _argument: str) -> None:
        self._move(-1)

    def recall_next(self, _argument: str) -> None:
        self._move(1)

    def complete(self, _argument: str) -> None:
        offered = self._screen.slash_list.marked
        if offered is not None:
            self._take(offered, send=False)

    def _take(self, command: Command, *, send: bool) -> None:
        """Complete what is marked in the list; `send` it if nothing can stand behind it."""
        prompt = self._screen.prompt
        word = self._screen.slash_list.word
        complete = prompt.text == f"/{word}"
        doubtful = command.name in DESTRUCTIVE and not complete and len(completions(prompt.text)) > 1
        if (
            send
            and not doubtful
            and (complete or not command.argument)
            and not (complete and command.needs_argument)
        ):
            prompt.put(f"/{word}")
            self._screen.slash_list.offer("")
            self._screen.submit()
        else:
            prompt.put(f"/{word} ")

    def _move(self, step: int) -> None:
        offered = self._screen.slash_list
        if offered.is_open:
            offered.move(step)
        else:
            self._screen.prompt.recall(step)
