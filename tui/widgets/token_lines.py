"""What a line on screen is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tui.chat.transcript import UNEMITTED, Span
from tui.widgets.token_marks import NO_MARKS, Marks

Form = Literal["text", "lead", "symbol", "mark", "chrome"]
"""What a piece is: model or user text, white space before a line's first word, a character that
is shown as something else, a glyph that tells a span's kind, or what belongs to no span."""


class Piece(NamedTuple):
    """A part of a line that one span drew.

    `span` is -1 for chrome. `raw` is what copying gives: the text itself, or, when it is another
    string, all of it or nothing. A piece without cells keeps the place of what cannot be seen.
    """

    text: str
    span: int
    form: Form
    raw: str
    cells: int

    @property
    def is_simple(self) -> bool:
        """Whether each of its characters is one cell."""
        return self.cells == len(self.text)


class Start(NamedTuple):
    """Where a line begins, and what wrapping has to know to go on from there.

    `hang` is the indentation of the paragraph's further lines, `leading` says that only white
    space came so far, `due` that the run's mark has still to come.
    """

    span: int
    offset: int
    hang: int = 0
    leading: bool = True
    due: bool = False


@dataclass(slots=True, eq=False)
class Line:
    """One line on screen; `start` is None where wrapping cannot go on from it."""

    pieces: list[Piece] = field(default_factory=list)
    start: Start | None = None

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def cells(self) -> int:
        return sum(piece.cells for piece in self.pieces)

    def cell_of(self, span: int) -> int | None:
        """The cell at which a span's first piece stands here, if there is one."""
        cell = 0
        for piece in self.pieces:
            if piece.span == span:
                return cell
            cell += piece.cells
        return None

    def copied(self, start: int, end: int | None) -> str:
        """What copying the shown characters [start, end) gives; None: to the line's end."""
        raw: list[str] = []
        position = 0
        for piece in self.pieces:
            after = position + len(piece.text)
            if piece.raw and (end is None or position < end) and (after > start or position >= start):
                if piece.raw == piece.text and piece.is_simple:
                    stop = None if end is None else end - position
                    raw.append(piece.raw[max(0, start - position) : stop])
                else:
                    raw.append(piece.raw)
            position = after
        return "".join(raw)

    def whole(self, start: int, end: int) -> tuple[int, int]:
        """The shown characters [start, end), and all of those code points that are drawn as one."""
        position, first, last = 0, start, end
        for piece in self.pieces:
            after = position + len(piece.text)
            if not piece.is_simple:
                if position < start < after:
                    first = position
                if position < end < after:
                    last = after
            position = after
        return first, last


@dataclass(frozen=True, slots=True)
class Look:
    """What wrapping depends on beside the text."""

    width: int
    show_rejected: bool = True
    marks: Marks = field(default_factory=lambda: NO_MARKS)

    def shows(self, span: Span) -> bool:
        return self.show_rejected or span.kind not in UNEMITTED
