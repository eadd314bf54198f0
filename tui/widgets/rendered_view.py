"""The conversation as rendered Markdown: only what was emitted, code highlighted."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import on
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Markdown, Static

from edge_spec import harmless
from tui.chat.transcript import Block, Transcript

MOST_BLOCKS: Final = 40
"""Rendered Markdown is many widgets; older messages are there as tokens only."""

UPDATE_SECONDS: Final = 0.25
"""Between two renderings of an answer that streams."""


class RenderedView(VerticalScroll):
    """Shows a transcript; sticks to its end until the user scrolls up."""

    FOCUS_ON_CLICK = False  # as in the token view
    DEFAULT_CSS = """
    RenderedView {
        padding: 0 1;
        Markdown { padding: 0 0 0 1; margin: 0; }
        .rendered--role { color: $text-muted; text-style: bold; }
        .rendered--text { padding: 0 0 1 2; height: auto; }
        .rendered--note { color: $text-muted; text-style: italic; padding: 0 0 1 0; height: auto; }
        .rendered--error { color: $text-error; padding: 0 0 1 0; height: auto; }
    }
    """
    BINDINGS: ClassVar = []

    def __init__(self, transcript: Transcript, *, id: str | None = None) -> None:
        super().__init__(id=id, can_focus=False)
        self._transcript = transcript
        self._last: Block | None = None
        self._streaming: Markdown | None = None
        self._shown = ""
        self._due = False

    def on_mount(self) -> None:
        self._show()

    def load(self, transcript: Transcript) -> None:
        """Show this one from its beginning, or the last part of it."""
        self._transcript = transcript
        if self.is_mounted:
            self._show()

    def _show(self) -> None:
        transcript = self._transcript
        self._last = self._streaming = None
        self.remove_children()
        blocks = transcript.blocks[-MOST_BLOCKS:]
        widgets: list[Widget] = []
        if num_left := len(transcript.blocks) - len(blocks):
            widgets.append(_static(f"{num_left} earlier messages are shown as tokens only", "note"))
        for block in blocks:
            widgets += self._widgets_of(block)
        self.mount(*widgets)
        self.call_after_refresh(self.scroll_end, animate=False)

    def changed(self, block: int, span: int) -> None:
        """A block was added, or the last one grew."""
        changed = self._transcript.blocks[block]
        if not self.is_mounted:
            return  # all of it will be shown then
        if changed is not self._last:
            self.mount(*self._widgets_of(changed))
            self.call_after_refresh(self.scroll_end, animate=False)
        elif not self._due:
            self._due = True
            self.set_timer(UPDATE_SECONDS, self._catch_up)

    def _catch_up(self) -> None:
        self._due = False
        if self._last is None or self._streaming is None:
            return
        is_at_end = self.scroll_offset.y >= self.max_scroll_y
        text = harmless(self._last.text)
        if text.startswith(self._shown):
            self._streaming.append(text[len(self._shown) :])
        else:
            self._streaming.update(text)
        self._shown = text
        if is_at_end:
            self.call_after_refresh(self.scroll_end, animate=False)

    def _widgets_of(self, block: Block) -> list[Widget]:
        self._last, self._streaming = block, None
        text = harmless(block.text)
        if block.role in ("note", "error"):
            return [_static(text, block.role)]
        label = _static(block.role, "role")
        if block.role != "model":
            return [label, _static(text, "text")]
        self._streaming, self._shown = Markdown(text, open_links=False), text
        return [label, self._streaming]

    @on(Markdown.LinkClicked)
    def _link_clicked(self, event: Markdown.LinkClicked) -> None:
        """A model's link is never opened by a click; it can be looked at first."""
        event.stop()
        self.app.copy_to_clipboard(event.href)
        self.notify(f"Copied, not opened: {harmless(event.href)}", markup=False)


def _static(text: str, kind: str) -> Static:
    return Static(text, markup=False, classes=f"rendered--{kind}")
