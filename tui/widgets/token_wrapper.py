"""Wraps spans into lines, greedily, so that it can go on from any line whose beginning is known."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len

from tui.chat.transcript import UNEMITTED, Kind, Span
from tui.widgets.characters import (
    BLACK_FLAG,
    CLOSERS,
    DIRECTION_AND_JOINING,
    REGIONAL,
    TOKENS,
    cluster_end,
    cluster_size,
    drawn_text,
    is_selector,
    size_of,
    symbol,
)
from tui.widgets.token_lines import Form, Line, Look, Piece, Start

INDENT: Final = 2
"""Cells before a message's text."""

TAB: Final = 4
"""A tab goes on to the next multiple of this many cells."""

_LEAST_WIDTH: Final = 8
"""So many cells a line's text always has: no symbol is wider."""

_NO_TEXT: Final = "\u2205"
"""A guess that stands for no text, such as the end of the answer."""


class _Atom(NamedTuple):
    """A piece of the word that is being gathered; `simple`: each of its characters is one cell."""

    piece: Piece
    offset: int
    simple: bool


class Wrapper:
    """Wraps spans greedily: a word gathers until its end is known, then finds its line."""

    def __init__(self, spans: Sequence[Span], look: Look) -> None:
        self._spans = spans
        self._look = look
        self._width = max(look.width - INDENT, _LEAST_WIDTH)
        self._lines: list[Line] = []
        # The line so far, how many cells it has, and whether that is indentation alone.
        self._pieces: list[Piece] = []
        self._x = 0
        self._fresh = True
        # What `Start` tells of a place.
        self._hang = 0
        self._leading = True
        self._due = False
        # The word so far, and whether a mark was due before it.
        self._word: list[_Atom] = []
        self._word_cells = 0
        self._word_is_wide = False
        self._word_due = False
        # The span being read.
        self._span = 0
        self._emitted = True
        self._mark = ""

    def wrap(self, start: Start, prefix: str) -> list[Line]:
        """The lines from `start` on; the first of them begins with `prefix`."""
        self._hang, self._leading, self._due = start.hang, start.leading, start.due
        self._begin_line(start, prefix)
        if start.due:
            self._mark = self._look.marks[self._spans[start.span].kind][0]
        offset = start.offset
        for index in range(start.span, len(self._spans)):
            if self._look.shows(self._spans[index]):
                self._take(index, offset)
            offset = 0
        self._end_word()
        return self._lines

    # -- spans

    def _take(self, index: int, offset: int) -> None:
        span = self._spans[index]
        self._span, self._emitted = index, span.kind not in UNEMITTED
        if not span.text and self._emitted:
            self._add_invisible("")
            return
        opening, closing = self._look.marks.get(span.kind, ("", ""))
        if opening and offset == 0 and not self._same_run(index, -1):
            if closing:
                self._add(Piece(opening, index, "mark", "", cell_len(opening)), 0)
            else:
                self._mark, self._due = opening, True
        if span.text:
            self._take_text(span, offset)
        elif offset == 0:
            self._add(Piece(_NO_TEXT, index, "symbol", "", 1), 0)
        if opening and not self._same_run(index, 1):
            if self._due:
                self._add_due(len(span.text))
            if closing:
                self._add(Piece(closing, index, "mark", "", cell_len(closing)), len(span.text))

    def _same_run(self, index: int, step: int) -> bool:
        """Whether the next span that is seen, before (-1) or behind (1), has the same kind and round."""
        span = self._spans[index]
        other = self._neighbour(index, step)
        if other is None or other.kind != span.kind:
            return False
        return (other.info and other.info.round) == (span.info and span.info.round)

    def _neighbour(self, index: int, step: int) -> Span | None:
        index += step
        while 0 <= index < len(self._spans):
            span = self._spans[index]
            if self._look.shows(span) and (span.text or span.kind in UNEMITTED):
                return span
            index += step
        return None

    def _take_text(self, span: Span, offset: int) -> None:
        for match in TOKENS.finditer(span.text, offset):
            text, at = match[0], match.start()
            match match.lastgroup:
                case "word":
                    self._take_word(text, at)
                case "tags":
                    self._take_tags(text, at)
                case "space" | "tab":
                    self._take_space(text, at)
                case "line":
                    self._take_line_end(span.kind, at, match.end())
                case _:
                    self._take_symbol(text, at)

    # -- parts of a span's text

    def _take_word(self, text: str, at: int) -> None:
        if text.isascii():
            self._add_narrow(text, at)
            return
        done = self._join(text) if at == 0 else 0
        while done < len(text) and size_of(text[done]) == 0:
            self._add_lone(text[done], at + done)
            done += 1
        narrow = done
        while done < len(text):
            end = cluster_end(text, done)
            cells = cluster_size(text[done:end])
            if end - done > 1 or cells != 1 or text[done] in REGIONAL:
                self._add_narrow(text[narrow:done], at + narrow)
                self._add_cluster(text[done:end], cells, at + done)
                narrow = end
            done = end
        self._add_narrow(text[narrow:], at + narrow)

    def _take_tags(self, text: str, at: int) -> None:
        """Tag characters spell a region after a black flag; anywhere else they only hide."""
        base = self._last_character()
        if base is not None and self._word[base].piece.text.startswith(BLACK_FLAG):
            self._merge(base, text)
            return
        for offset, character in enumerate(text, at):
            self._take_symbol(character, offset)

    def _take_space(self, raw: str, at: int) -> None:
        """White space, shown as far as the line goes; what is beyond is there for copying only."""
        if self._word and self._word[-1].piece.form == "mark" and not self._emitted:
            # A bracket keeps what follows it, of white space the first cell.
            self._add(Piece(" ", self._span, "text", "", 1), at, simple=True)
            raw = raw[1:]
            if not raw:
                return
        self._end_word()
        shown = " " * (TAB - self._x % TAB) if raw == "\t" else raw
        if self._leading:
            self._hang = min(self._hang + len(shown), self._width // 2, self._width - _LEAST_WIDTH)
        fits = shown[: max(self._width - self._x, 0)]
        seen = len(fits) if shown == raw else 1 if fits else 0
        if fits:
            form: Form = "lead" if self._leading else "text"
            self._pieces.append(Piece(fits, self._span, form, self._raw(raw[:seen]), len(fits)))
            self._x += len(fits)
            self._fresh = False
        if seen < len(raw):
            self._add_invisible(raw[seen:])

    def _take_line_end(self, kind: Kind, at: int, end: int) -> None:
        if kind in ("rejected", "discarded"):  # the line did not end, so the guess is told in place
            self._add(Piece("\u21b5", self._span, "symbol", "", 1), at)
            return
        self._end_word()
        self._add_invisible("\n")
        self._hang, self._leading = 0, True
        self._begin_line(Start(self._span, end, due=self._due), " " * INDENT)

    def _take_symbol(self, character: str, at: int) -> None:
        if character == "\r" and self._emitted and at == len(self._spans[self._span].text) - 1:
            behind = self._neighbour(self._span, 1)
            if behind is not None and behind.kind not in UNEMITTED and behind.text.startswith("\n"):
                self._add_invisible("")
                return
        # Copying leaves out what would steer a terminal.
        raw = "" if unicodedata.category(character) == "Cc" else character
        shown = symbol(character)
        self._add(Piece(shown, self._span, "symbol", self._raw(raw), len(shown)), at)

    def _raw(self, text: str) -> str:
        return text if self._emitted else ""

    # -- the word

    def _add(self, piece: Piece, at: int, *, simple: bool = False) -> None:
        if not self._word:
            self._word_due = self._due
        if self._due:
            self._add_due(at)
        self._word.append(_Atom(piece, at, simple))
        self._word_cells += piece.cells
        self._word_is_wide = False
        self._leading = False

    def _add_due(self, at: int) -> None:
        if not self._word:
            self._word_due = True
        self._due = False
        cells = cell_len(self._mark)
        self._word.append(_Atom(Piece(self._mark, self._span, "mark", "", cells), at, False))
        self._word_cells += cells
        self._leading = False

    def _add_invisible(self, raw: str) -> None:
        """Something without cells, so that the cursor and copying find it."""
        piece = Piece("", self._span, "text", self._raw(raw), 0)
        if self._word:
            self._word.append(_Atom(piece, 0, False))
        else:
            self._pieces.append(piece)

    def _add_narrow(self, text: str, at: int) -> None:
        if text:
            if self._word_is_wide and text[0] not in CLOSERS and self._word[-1].piece.form != "mark":
                self._end_word()
            piece = Piece(text, self._span, "text", self._raw(text), len(text))
            self._add(piece, at, simple=True)

    def _add_cluster(self, text: str, cells: int, at: int) -> None:
        """One character of several code points or other than one cell; wide ones may begin a line."""
        if self._word and cells > 1 and text[0] not in CLOSERS and self._word[-1].piece.form != "mark":
            self._end_word()
        self._add(Piece(text, self._span, "text", self._raw(text), cells), at)
        self._word_is_wide = cells > 1

    def _add_lone(self, character: str, at: int) -> None:
        """A character that goes on another one, where there is none."""
        if character in DIRECTION_AND_JOINING:
            self._add_invisible(character)
        elif unicodedata.category(character).startswith("M") and not is_selector(character):
            shown = "\u25cc" + character
            self._add(Piece(shown, self._span, "symbol", self._raw(character), 1), at)
        else:
            self._take_symbol(character, at)

    def _join(self, text: str) -> int:
        """How many characters of `text` go on the word's last one; they are drawn with it.

        Apart they would be measured otherwise than the terminal shows them.
        """
        index = self._last_character()
        if index is None:
            return 0
        piece, _offset, simple = self._word[index]
        base = piece.text[-1] if simple else piece.text
        num = cluster_end(base + text, 0) - len(base)
        if num:
            self._merge(index, text[:num])
        return num

    def _last_character(self) -> int | None:
        """Index of the atom that a following character could join, if there is one."""
        for index in range(len(self._word) - 1, -1, -1):
            piece = self._word[index].piece
            if piece.text:
                emitted = self._spans[piece.span].kind not in UNEMITTED
                return index if piece.form == "text" and emitted is self._emitted else None
        return None

    def _merge(self, index: int, more: str) -> None:
        piece, offset, simple = self._word[index]
        if simple and len(piece.text) > 1:
            head, last = piece.text[:-1], piece.text[-1]
            self._word[index] = _Atom(
                Piece(head, piece.span, "text", self._raw(head), len(head)), offset, True
            )
            index, offset = index + 1, offset + len(head)
            piece = Piece(last, piece.span, "text", self._raw(last), 1)
            self._word.insert(index, _Atom(piece, offset, False))
        text = piece.text + more
        cells = cluster_size(text)
        self._word[index] = _Atom(Piece(text, piece.span, "text", self._raw(text), cells), offset, False)
        self._word_cells += cells - piece.cells
        if piece.span != self._span:
            self._add_invisible("")

    # -- lines

    def _begin_line(self, start: Start | None, prefix: str) -> None:
        hang = 0 if self._leading else self._hang
        self._pieces = [Piece(prefix + " " * hang, -1, "chrome", "", cell_len(prefix) + hang)]
        self._lines.append(Line(self._pieces, start))
        self._x = hang
        self._fresh = True

    def _break_line(self, start: Start | None) -> None:
        self._begin_line(start, " " * INDENT)

    def _end_word(self) -> None:
        """Put the word where it belongs: here, on the next line, or, if too long, over several."""
        word, cells = self._word, self._word_cells
        if not word:
            return
        self._word, self._word_cells, self._word_is_wide = [], 0, False
        if self._x + cells > self._width and not self._fresh:
            first = word[0]
            self._break_line(Start(first.piece.span, first.offset, self._hang, False, self._word_due))
        if self._x + cells <= self._width:
            self._pieces.extend([atom.piece if atom.simple else _drawn(atom.piece) for atom in word])
            self._x += cells
        else:
            self._place_hard(word)
        self._fresh = False

    def _place_hard(self, word: Sequence[_Atom]) -> None:
        after_mark = False
        for piece, offset, simple in word:
            can_resume = piece.cells > 0 and piece.form != "mark" and not after_mark
            while piece.cells > self._width - self._x:
                if simple and (room := self._width - self._x) > 0:
                    head, rest = piece.text[:room], piece.text[room:]
                    self._pieces.append(piece._replace(text=head, raw=piece.raw[:room], cells=room))
                    piece = piece._replace(text=rest, raw=piece.raw[room:], cells=len(rest))
                    offset, can_resume = offset + room, True
                self._break_line(Start(piece.span, offset, self._hang, False) if can_resume else None)
            self._pieces.append(piece if simple else _drawn(piece))
            self._x += piece.cells
            if piece.cells:
                after_mark = piece.form == "mark"


def _drawn(piece: Piece) -> Piece:
    return piece._replace(text=drawn_text(piece.text)) if piece.form == "text" else piece
