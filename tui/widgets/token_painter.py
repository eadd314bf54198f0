"""Draws lines of tokens as strips."""

from __future__ import annotations

from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.strip import Strip
from textual.widget import Widget

from tui.chat.transcript import UNEMITTED, Block, Kind, Role
from tui.widgets.characters import ZWJ
from tui.widgets.token_lines import Form, Line

_CLASS_OF_KIND: Final[dict[Kind, str]] = {
    "accepted": "accepted",
    "residual": "own",
    "bonus": "own",
    "plain": "plain",
    "rejected": "rejected",
    "discarded": "discarded",
    "drafted": "drafted",
}
_CLASS_OF_ROLE: Final[dict[Role, str]] = {
    "you": "you",
    "prompt": "you",
    "model": "plain",
    "system": "system",
    "note": "note",
    "error": "error",
}
_NO_LINES: Final = Style(underline=False, strike=False)

Part = tuple[str, Style]


class TokenPainter:
    """Draws lines in the component styles of the view they are for, each only once."""

    def __init__(self, view: Widget) -> None:
        self._view = view
        self._styles: dict[tuple[Kind, Role, Form], Style] = {}
        self._ground: Style | None = None
        self._strips: LRUCache[Line, Strip] = LRUCache(1024)

    def forget(self, *, styles: bool = False) -> None:
        """Draw anew from now on, and in other styles if they have changed."""
        self._strips.clear()
        if styles:
            self._styles.clear()
            self._ground = None

    @property
    def ground(self) -> Style:
        """The view's own style; Textual works it out anew each time, from all that the view stands in."""
        if self._ground is None:
            self._ground = self._view.rich_style
        return self._ground

    def paint(
        self, line: Line, block: Block, y: int, *, cursor: int | None, selected: tuple[int, int] | None
    ) -> Strip:
        """The strip of line number `y`.

        The token of span `cursor` is lit, and the shown characters `selected` are; an end of -1
        is that of the line.
        """
        if cursor is not None and line.cell_of(cursor) is None:
            cursor = None
        if cursor is not None or selected is not None:
            return self._draw(line, block, y, cursor, selected)
        strip = self._strips.get(line)
        if strip is None or strip.cell_length != self._view.size.width:
            strip = self._strips[line] = self._draw(line, block, y, None, None)
        return strip

    def _draw(
        self, line: Line, block: Block, y: int, cursor: int | None, selected: tuple[int, int] | None
    ) -> Strip:
        view = self._view
        parts: list[Part] = []
        for piece in line.pieces:
            if piece.text:
                # Spans may have gone that nobody told of yet.
                is_there = 0 <= piece.span < len(block.spans)
                kind = block.spans[piece.span].kind if is_there else "text"
                parts.append((piece.text, self._style(kind, block.role, piece.form)))
        parts = _without_lines_ahead(parts)
        parts.append((" ", self.ground))  # where the cursor stands at the line's end
        if cursor is not None:
            style = view.get_component_rich_style("token-view--cursor", partial=True)
            parts = _restyled(parts, *line.whole(*_cursor_range(line, cursor)), style)
        if selected is not None:
            start, end = selected
            style = view.screen.get_component_rich_style("screen--selection")
            parts = _restyled(parts, *line.whole(start, len(line.text) if end == -1 else end), style)
        strip = Strip([Segment(text, style) for text, style in _joined(parts)], line.cells + 1)
        return strip.crop_extend(0, view.size.width, self.ground).apply_offsets(0, y)

    def _style(self, kind: Kind, role: Role, form: Form) -> Style:
        key = (kind, role, form)
        if key not in self._styles:
            self._styles[key] = self._make_style(kind, role, form)
        return self._styles[key]

    def _make_style(self, kind: Kind, role: Role, form: Form) -> Style:
        component = self._view.get_component_rich_style
        if form == "chrome":
            name = _CLASS_OF_ROLE[role] if role in ("note", "error") else "role"
            return component(f"token-view--{name}")
        name = _CLASS_OF_ROLE[role] if kind == "text" else _CLASS_OF_KIND[kind]
        style = component(f"token-view--{name}")
        if form == "lead" and kind not in UNEMITTED:
            return style + _NO_LINES  # else code would stand on stilts
        if form == "mark":
            return style + _NO_LINES + component("token-view--mark", partial=True)
        if form == "symbol" and kind not in UNEMITTED:
            return style + component("token-view--symbol", partial=True)
        return style


def _cursor_range(line: Line, span: int) -> tuple[int, int]:
    """The characters of a line that show the cursor on a span: its own, else the one behind it."""
    position, first, last = 0, None, None
    for piece in line.pieces:
        if piece.span == span:
            first = position if first is None else first
            last = position + len(piece.text)
        position += len(piece.text)
    if first is None or last is None:
        return 0, 0
    return first, max(last, first + 1)


def _without_lines_ahead(parts: list[Part]) -> list[Part]:
    """A run that begins with white space is underlined or struck from its first word on."""
    tidy = list(parts)
    for index in range(1, len(parts) - 1):
        (_, before), (text, style), (_, behind) = parts[index - 1 : index + 2]
        if text.isspace() and before != style == behind:
            tidy[index] = text, style + _NO_LINES
    return tidy


def _restyled(parts: list[Part], start: int, end: int, style: Style) -> list[Part]:
    """The parts with `style` over the characters [start, end)."""
    restyled: list[Part] = []
    position = 0
    for text, old in parts:
        before, after = max(start - position, 0), max(end - position, 0)
        restyled += [
            (text[:before], old),
            (text[before:after], old + style),
            (text[max(before, after) :], old),
        ]
        position += len(text)
    return [part for part in restyled if part[0]]


def _joined(parts: list[Part]) -> list[Part]:
    """Neighbours of one style as one, except where rich would measure them otherwise together."""
    joined: list[Part] = []
    for text, style in parts:
        if joined and joined[-1][1] == style and not joined[-1][0].endswith(ZWJ):
            text = joined.pop()[0] + text
        joined.append((text, style))
    return joined
