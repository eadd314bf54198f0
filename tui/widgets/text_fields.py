"""Text fields that show what would steer a terminal as symbols; Textual's draw it as it is.

The text itself stays what it was. Textual (8.2) keeps only a few control characters from the terminal,
and the escape character, which a paste, a file's name or a stored title may hold, is not among them.
"""

from __future__ import annotations

from typing import Final

from rich.text import Text
from textual import events
from textual.widgets import Input, TextArea

from edge_spec import harmless

_JOINERS: Final = ("\u200c", "\u200d", "\u200e", "\u200f")
"""Not printable by `str.isprintable`, so Textual drops them as keys; emoji, Persian and Hebrew need them."""


class SafeInput(Input):
    """A field of one line, whatever is in it."""

    async def _on_key(self, event: events.Key) -> None:
        if event.character in _JOINERS:
            event.stop()
            event.prevent_default()
            self.replace(event.character, *sorted(self.selection))

    @property
    def _value(self) -> Text:
        return Text(harmless(self.value).replace("\n", "␊"), end="", no_wrap=True, overflow="ignore")


class SafeTextArea(TextArea):
    """A field of several lines."""

    async def _on_key(self, event: events.Key) -> None:
        if event.character in _JOINERS:
            event.stop()
            event.prevent_default()
            self.replace(event.character, *self.selection)

    def get_line(self, line_index: int) -> Text:
        """The line as it is drawn."""
        return Text(harmless(self.document.get_line(line_index)), end="", no_wrap=True)
