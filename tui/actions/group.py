"""How an action goes: what is wrong is told, what needs quiet waits, what has to be known is asked.

The other screens are imported when an action first wants one: together they take about as long to
import as the chat itself, which is on the screen before that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from textual.screen import Screen

from edge_spec import EdgeSpecError, Notice
from tui.guard import report
from tui.screens.chat import ChatScreen

Chosen = TypeVar("Chosen")


class ActionGroup:
    """Some of the commands, on one chat screen. Method names are the commands' with underscores.

    What changes the conversation first stops the answer that is being given, and waits for its end.
    """

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._waiting: Callable[[], None] | None = None

    def now_idle(self) -> None:
        """The answer has ended: do what waited for that."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._try(waiting)

    def _try(self, do: Callable[[], None]) -> bool:
        """Do it, and tell the user what is wrong with it; a bug of ours ends nothing."""
        try:
            do()
        except EdgeSpecError as error:
            self._screen.tell(Notice("warning", str(error)))
        except Exception as error:
            report(self._screen.app, error)
        else:
            return True
        return False

    def _say(self, words: str) -> None:
        self._screen.tell(Notice("info", words))

    def _when_idle(self, do: Callable[[], None]) -> None:
        """Do it once no answer is being given; one that is is stopped for it."""
        if self._screen.session.state.busy:
            self._waiting = do
            self._stop_answer()
        else:
            do()

    def _stop_answer(self) -> None:
        self._screen.session.stop()
        self._screen.engine.cancel()
        self._screen.show_state()

    def _show(self, screen: Screen[Chosen], use: Callable[[Chosen | None], None]) -> None:
        """Show a screen and use what was chosen there. What is wrong with that, the user is told."""

        def chosen(choice: Chosen | None) -> None:
            self._try(lambda: use(choice))

        self._screen.app.push_screen(screen, chosen)

    def _ask(
        self, title: str, text: str, use: Callable[[str], None], *, lines: bool = False, verb: str = "save"
    ) -> None:
        """Let the user write a text and use it: one of several `lines` that may be empty, or one line."""
        from tui.screens.edit import EditScreen

        def written(answer: str | None) -> None:
            if answer is not None and (lines or answer.strip()):
                use(answer.strip())

        self._show(EditScreen(title, text, multiline=lines, verb=verb), written)

    def _ask_unless(self, argument: str, title: str, text: str, use: Callable[[str], None]) -> None:
        if argument:
            use(argument)
        else:
            self._ask(title, text, use)
