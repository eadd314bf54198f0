"""Screens that close themselves and nothing else.

Textual's `dismiss` takes the screen on top away, whichever that is. A key that was pressed twice, or
a worker that ends while something else lies over its screen, would close the wrong one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen, Screen

Result = TypeVar("Result")
Chosen = TypeVar("Chosen")


class ClosingScreen(Screen[Result]):
    """A screen whose `dismiss` counts once, and waits while another screen lies over it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: list[Result | None] = []

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        if self.is_active:
            return super().dismiss(result)
        if self in self.app.screen_stack:
            self._waiting.append(result)
        return AwaitComplete()

    def open(self, screen: Screen[Chosen], use: Callable[[Chosen | None], None]) -> None:
        """Show a screen over this one, unless one is there already, for a key that was pressed twice."""
        if self.is_active:
            self.app.push_screen(screen, use)

    def on_screen_resume(self) -> None:
        if self._waiting:
            self.dismiss(self._waiting[0])


class ClosingModal(ModalScreen[Result], ClosingScreen[Result]):
    """The same for a modal screen; its first base is the one whose look Textual takes."""
