"""Edit one text: a title, a file's name, a system prompt."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static, TextArea

from edge_spec import harmless
from tui.screens.closing import ClosingModal
from tui.widgets.text_fields import SafeInput, SafeTextArea


class EditScreen(ClosingModal[str | None]):
    """The text as the user leaves it, or None to keep it as it was.

    A text that has several lines gets several, whatever `multiline` says. `verb` is what is done with it.
    """

    CSS_PATH = "edit.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", show=False),
        Binding("ctrl+s", "save", "Save", show=False),
    ]

    def __init__(self, title: str, text: str, multiline: bool = False, verb: str = "save") -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._verb = verb
        self._multiline = multiline or "\n" in text

    def compose(self) -> ComposeResult:
        with Vertical(id="edit-box", classes="-lines" if self._multiline else ""):
            yield Static(harmless(self._title), id="edit-title", markup=False)
            if self._multiline:
                yield SafeTextArea(self._text, id="edit-text")
                yield Static(
                    f"Ctrl+S {self._verb}   Enter new line   Esc cancel", id="edit-keys", markup=False
                )
            else:
                yield SafeInput(self._text, id="edit-text")
                yield Static(f"Enter {self._verb}   Esc cancel", id="edit-keys", markup=False)

    def on_mount(self) -> None:
        if self._multiline:
            area = self.query_one(TextArea)
            area.move_cursor(area.document.end)

    @on(Input.Submitted)
    def action_save(self) -> None:
        """Take the text as it is."""
        field = self.query_one("#edit-text")
        self.dismiss(field.text if isinstance(field, TextArea) else self.query_one(Input).value)
