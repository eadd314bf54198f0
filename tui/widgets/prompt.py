"""Where the user writes. What a key does is first the business of the table of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from textual import events

from tui.widgets.text_fields import SafeTextArea

_MOST_REMEMBERED: Final = 200


class PromptInput(SafeTextArea):
    """A text field that grows with its lines, and remembers what was sent from it."""

    DEFAULT_CSS = """
    PromptInput {
        height: auto;
        max-height: 10;
        border: round $border-blurred;
        background: $background;
        border-title-color: $text-muted;
        border-subtitle-color: $text-muted;
        &:focus { border: round $border; background: $background; }
    }
    """

    def __init__(self, run_key: Callable[[str], bool], *, id: str | None = None) -> None:
        """`run_key` does what the table says of a key, and says whether it has it."""
        super().__init__(id=id, soft_wrap=True, show_line_numbers=False, highlight_cursor_line=False)
        self.cursor_blink = False  # nothing wakes up while nothing happens
        self._run_key = run_key
        self._sent: list[str] = []
        self._index = 0
        self._left: dict[int, str] = {}  # texts as they were left, by their index
        self._recalled: str | None = None

    # -- text

    @property
    def on_first_row(self) -> bool:
        """Whether the cursor is on the first row as wrapped, from where Up recalls."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y == 0

    @property
    def on_last_row(self) -> bool:
        return (
            self.wrapped_document.location_to_offset(self.cursor_location).y
            >= self.wrapped_document.height - 1
        )

    def put(self, text: str) -> None:
        """Replace the text, the cursor behind it."""
        self.text = text
        self.move_cursor(self.document.end)

    def new_line(self) -> None:
        self.insert("\n")

    # -- what was sent

    def remember(self, text: str) -> None:
        """`text` was sent; Up brings it back."""
        if text and (not self._sent or self._sent[-1] != text):
            self._sent = [*self._sent, text][-_MOST_REMEMBERED:]
        self._index, self._left, self._recalled = len(self._sent), {}, None

    def recall(self, step: int) -> None:
        """Go `step` texts on in what was sent; behind the last is what stood in the prompt.

        A text that was changed meanwhile is found again as it was left, until something is sent.
        """
        index = min(max(self._index + step, 0), len(self._sent))
        if index == self._index:
            return
        self._left[self._index] = self.text
        self._index = index
        self._recalled = self._left[index] if index in self._left else self._sent[index]
        self.put(self._recalled)

    @property
    def is_recalling(self) -> bool:
        """Whether the text is one that was sent before, changed or not."""
        return self._index < len(self._sent)

    @property
    def is_as_recalled(self) -> bool:
        """Whether the text is as recalling put it here: nobody is writing it."""
        return self.text == self._recalled

    # -- keys

    async def _on_key(self, event: events.Key) -> None:
        """Do here whatever a key does: in a burst of them, each must find what those before it did.

        Textual would run bindings elsewhere, before or after the characters around them.
        """
        # A text field begins a line with Enter, which is for the table alone to say.
        if self._run_key(event.key) or event.key == "enter" or await self._edit_by(event.key):
            event.stop()
            event.prevent_default()

    async def _edit_by(self, key: str) -> bool:
        """Do what a text field does with a key that is no character."""
        for binding in self._bindings.key_to_bindings.get(key, ()):
            if await self.app.run_action(binding.action, self):
                return True
        return False

    async def _on_paste(self, event: events.Paste) -> None:
        """Terminals send pasted line ends as carriage returns."""
        event.text = event.text.replace("\r\n", "\n").replace("\r", "\n")
