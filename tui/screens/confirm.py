"""One question before something that cannot be undone, or costs much."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widgets import Button, Static

from edge_spec import harmless
from tui.screens.closing import ClosingModal


class ConfirmScreen(ClosingModal[bool]):
    """True if the user means it. The other answer has the focus."""

    BINDINGS: ClassVar = [
        Binding("escape,n", "dismiss(False)", "No", show=False),
        Binding("y", "dismiss(True)", "Yes", show=False),
        Binding("left,right", "app.focus_next", "Other answer", show=False),
    ]

    def __init__(self, question: str, verb: str, other: str = "Keep") -> None:
        super().__init__()
        self._other = other
        self._question = question
        self._verb = verb

    def compose(self) -> ComposeResult:
        with Vertical(id="confirm-box"):
            yield Static(harmless(self._question), markup=False)
            with Horizontal(id="confirm-answers"):
                yield Button(self._other, id="keep")
                yield Button(self._verb, variant="error", id="go")

    def on_mount(self) -> None:
        self.query_one("#keep").focus()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "go")
