"""A list that narrows as one types: letters filter, Backspace takes one back, Esc all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from edge_spec import harmless


@dataclass(frozen=True, slots=True)
class Row:
    """One choice: its key, how it looks, and the words that typing is compared with."""

    key: str
    look: Content
    words: str


class FilterList(OptionList):
    """Rows to choose from by arrows, by typing, or with the mouse: a click moves, a second chooses.

    The highlighted row stays the same one whatever happens to the rows around it.
    """

    DEFAULT_CSS = """
    FilterList {
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = set()

    def __init__(self, title: str, *, id: str) -> None:
        super().__init__(id=id)
        self._title = title
        self._rows: tuple[Row, ...] = ()
        self._typed = ""

    def on_mount(self) -> None:
        self.border_title = Content(self._title)

    @property
    def key(self) -> str | None:
        """The highlighted row's key; None when there is no row."""
        option = self.highlighted_option
        return None if option is None else option.id

    def set_rows(self, rows: Sequence[Row], key: str | None = None) -> None:
        """Show these rows, with `key` highlighted if it is given, else the one that is.

        What was typed gives way to a row that is asked for and that it would hide.
        """
        self._rows = tuple(rows)
        if key is not None and any(row.key == key and not self._matches(row) for row in rows):
            self._typed = ""
            self.border_title = Content(self._title)
        self._fill(key if key is not None else self.key)

    def on_key(self, event: events.Key) -> None:
        if event.is_printable and event.character is not None:
            typed = self._typed + event.character
        elif event.key == "backspace" and self._typed:
            typed = self._typed[:-1]
        elif event.key == "escape" and self._typed:
            typed = ""
        else:
            return
        event.stop()
        event.prevent_default()
        self._typed = typed
        self.border_title = Content(f"{self._title}: {harmless(typed)}▏" if typed else self._title)
        self._fill(self.key)

    def on_click(self, event: events.Click) -> None:
        index = event.style.meta.get("option")
        if index is not None and index != self.highlighted:
            event.prevent_default()  # which would choose it at once
            self.highlighted = index

    def _matches(self, row: Row) -> bool:
        return all(word in row.words.casefold() for word in self._typed.casefold().split())

    def _fill(self, key: str | None) -> None:
        rows = [row for row in self._rows if self._matches(row)]
        scroll_y = self.scroll_y
        self.set_options([Option(row.look, id=row.key) for row in rows])
        keys = [row.key for row in rows]
        if self._rows and not rows:
            words = f"Nothing here has “{harmless(self._typed)}”.\nBackspace takes a letter back, Esc all."
            self.add_option(Option(Content(words), disabled=True))
        if keys:
            self.highlighted = keys.index(key) if key in keys else 0
            self.scroll_to(y=scroll_y, animate=False)
            self.scroll_to_highlight()
