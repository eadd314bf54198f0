"""A transcript's lines, and where its tokens stand in them, without drawing anything.

Wrapping is greedy, so it can go on from any line whose beginning is known: when an answer grows,
only its last lines are wrapped again.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Final, NamedTuple

from rich.cells import cell_len

from tui.chat.transcript import Block, Role, Transcript
from tui.widgets.token_lines import Line, Look, Piece, Start
from tui.widgets.token_wrapper import INDENT, Wrapper

_HEADED: Final[frozenset[Role]] = frozenset({"you", "prompt", "model", "system"})
_PREFIXES: Final[dict[Role, str]] = {"note": "\u00b7 ", "error": "! "}

Place = tuple[int, int]
"""A block and a span in it."""


class Cell(NamedTuple):
    """A cell of a line; for copying, a character of one."""

    x: int
    y: int


class LineStart(NamedTuple):
    """Where a line's text begins; a span of -1 is before all of the block's."""

    block: int
    span: int
    offset: int


class BlockLayout:
    """The lines of one block: a blank line before all but the first, a header, the text.

    Notes and errors have no header but a sign before their text.
    """

    def __init__(self, block: Block, look: Look, *, is_first: bool) -> None:
        self._block = block
        self._look = look
        self.lines: list[Line] = [] if is_first else [Line()]
        if block.role in _HEADED:
            header = Piece(block.role, -1, "chrome", block.role + "\n", cell_len(block.role))
            self.lines.append(Line([header]))
        self.num_head = len(self.lines)
        self._wrap_from(self.num_head, Start(0, 0))

    def changed(self, span: int) -> int:
        """The block's spans from `span` on are new; return the first line that may differ.

        A line depends on at most the two after it, because a word moves on as soon as it is
        longer than the room that is left.
        """
        index = max(self.line_of(span) - 2, self.num_head)
        while index > self.num_head and self.lines[index].start is None:
            index -= 1
        start = self.lines[index].start if index < len(self.lines) else None
        self._wrap_from(index, start or Start(0, 0))
        return index

    def line_of(self, span: int, offset: int = 0) -> int:
        """The last line that is known to begin at or before a place."""
        index = len(self.lines) - 1
        while index > self.num_head:
            start = self.lines[index].start
            if start is not None and (start.span, start.offset) <= (span, offset):
                break
            index -= 1
        return index

    def find(self, span: int) -> int | None:
        """The first line that has a piece of a span; None when the span is not shown."""
        for index in range(max(self.line_of(span), 0), len(self.lines)):
            line = self.lines[index]
            if line.cell_of(span) is not None:
                return index
            if line.start is not None and line.start.span > span:
                break
        return None

    def _wrap_from(self, index: int, start: Start) -> None:
        prefix = " " * INDENT
        if index == self.num_head:
            prefix = _PREFIXES.get(self._block.role, prefix)
        del self.lines[index:]
        if self._block.spans or self._block.role not in _HEADED:
            self.lines += Wrapper(self._block.spans, self._look).wrap(start, prefix)


class TranscriptLayout:
    """The lines of a whole transcript, counted from 0."""

    def __init__(self, transcript: Transcript, look: Look) -> None:
        self._transcript = transcript
        self._look = look
        self._layouts: list[BlockLayout] = []
        self._tops = [0]  # the number of each block's first line, and of the one after all
        self._add_missing()

    @property
    def _blocks(self) -> list[Block]:
        return self._transcript.blocks

    @property
    def num_lines(self) -> int:
        return self._tops[-1]

    def changed(self, block: int, span: int) -> int:
        """The spans from `span` of `block` on are new, and so are all blocks behind it.

        Returns the first line that may differ.
        """
        del self._layouts[len(self._blocks) :], self._layouts[block + 1 :]
        del self._tops[len(self._layouts) + 1 :]
        first = self.num_lines
        if block < len(self._layouts):
            first = self._tops[block] + self._layouts[block].changed(span)
            self._tops[block + 1] = self._tops[block] + len(self._layouts[block].lines)
        self._add_missing()
        return first

    # -- lines

    def block_of(self, y: int) -> int | None:
        """The block that a line belongs to; None beyond the last."""
        block = bisect.bisect_right(self._tops, y) - 1
        return block if 0 <= block < len(self._layouts) else None

    def line(self, y: int) -> Line | None:
        block = self.block_of(y)
        return None if block is None else self._layouts[block].lines[y - self._tops[block]]

    def start_of(self, y: int) -> LineStart | None:
        """What a line begins with, or as near before that as it is known; None beyond the last."""
        block = self.block_of(y)
        if block is None:
            return None
        for line in reversed(self._layouts[block].lines[: y - self._tops[block] + 1]):
            if line.start is not None:
                return LineStart(block, line.start.span, line.start.offset)
        return LineStart(block, -1, 0)

    def line_at(self, start: LineStart) -> int:
        """The line that holds what a line of another layout of the same transcript began with."""
        layout = self._layouts[start.block]
        index = layout.line_of(start.span, start.offset) if start.span >= 0 else 0
        return self._tops[start.block] + index

    def text_of(self, block: int) -> tuple[Cell, Cell]:
        """The characters at which a block's text begins and ends."""
        layout = self._layouts[block]
        last = Cell(len(layout.lines[-1].text), self._tops[block + 1] - 1)
        return Cell(0, self._tops[block] + layout.num_head), last

    def copied(self, start: Cell, end: Cell | None) -> str:
        """What was emitted of the shown characters [start, end), blocks with a line between; None: all."""
        texts: dict[int, str] = {}
        last = self.num_lines - 1 if end is None else min(end.y, self.num_lines - 1)
        for y in range(start.y, last + 1):
            block, line = self.block_of(y), self.line(y)
            if block is not None and line is not None:
                until = end.x if end is not None and y == end.y else None
                text = line.copied(start.x if y == start.y else 0, until)
                texts[block] = texts.get(block, "") + text
        return "\n\n".join(text.rstrip("\n") for text in texts.values() if text)

    # -- tokens

    def tokens_from(self, place: Place, step: int) -> Iterator[Place]:
        """The tokens that are shown, one way (1 or -1) from a place on, which is left out."""
        block, span = place
        while -1 <= block <= len(self._blocks):
            spans = self._blocks[block].spans if 0 <= block < len(self._blocks) else []
            span = min(span, len(spans)) + step  # what stood at `place` may be cut off
            while 0 <= span < len(spans):
                if self.is_token((block, span)):
                    yield block, span
                span += step
            block += step
            is_block = 0 <= block < len(self._blocks)
            span = len(self._blocks[block].spans) if is_block and step < 0 else -1

    def first_token(self) -> Place | None:
        return next(self.tokens_from((-1, 0), 1), None)

    def last_token(self) -> Place | None:
        return next(self.tokens_from((len(self._blocks), 0), -1), None)

    def is_token(self, place: Place) -> bool:
        """Whether a token that is shown stands there."""
        block, index = place
        if block >= len(self._blocks) or index >= len(self._blocks[block].spans):
            return False
        span = self._blocks[block].spans[index]
        return span.info is not None and self._look.shows(span)

    def cell_of(self, place: Place) -> Cell | None:
        """Where a span begins, if it is shown."""
        block, span = place
        index = self._layouts[block].find(span) if block < len(self._layouts) else None
        if index is None:
            return None
        return Cell(self._layouts[block].lines[index].cell_of(span) or 0, self._tops[block] + index)

    def token_at(self, cell: Cell) -> Place | None:
        """The token at a cell, or else the one before it in that line, or the line's first."""
        block, line = self.block_of(cell.y), self.line(cell.y)
        if block is None or line is None:
            return None
        found: Place | None = None
        x = 0
        for piece in line.pieces:
            if piece.span >= 0 and (found is None or x <= cell.x) and self.is_token((block, piece.span)):
                found = block, piece.span
            x += piece.cells
        return found

    def _add_missing(self) -> None:
        for index in range(len(self._layouts), len(self._blocks)):
            self._layouts.append(BlockLayout(self._blocks[index], self._look, is_first=index == 0))
            self._tops.append(self._tops[-1] + len(self._layouts[-1].lines))
