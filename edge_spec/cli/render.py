"""An answer as it streams: text that knows which part was drafted, and how a terminal shows it."""

from __future__ import annotations

import collections
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click

from edge_spec.terminal import harmless
from edge_spec.text import Detokenizer, Piece, StopFilter
from edge_spec.types import Origin

_UNDERLINE, _PLAIN = "\x1b[4m", "\x1b[24m"


@dataclass(frozen=True, slots=True)
class Span:
    """A run of text whose characters were all completed by accepted tokens, or all were not."""

    text: str
    accepted: bool


class AnswerText:
    """Turns emitted tokens into spans of text that are safe to show.

    The spans' text is what `TextStream` would return; a character belongs to the token that
    completed it.
    """

    def __init__(self, piece: Piece, stop: Sequence[str]) -> None:
        self._detokenizer = Detokenizer(piece)
        self._filter = StopFilter(stop)
        self._owners: collections.deque[Span] = collections.deque()
        self.text = ""

    def push(self, tokens: Iterable[int], origins: Iterable[Origin]) -> list[Span]:
        """One round's tokens."""
        spans: list[Span] = []
        for token, origin in zip(tokens, origins, strict=True):
            spans += self._pass(self._detokenizer.push(token), origin == "accepted")
        return self._joined(spans)

    def flush(self) -> list[Span]:
        """What was held back, at the end."""
        spans = self._pass(self._detokenizer.flush(), False)
        return self._joined([*spans, *self._take(self._filter.flush())])

    def _pass(self, text: str, accepted: bool) -> list[Span]:
        if text:
            self._owners.append(Span(text, accepted))
        return self._take(self._filter.push(text))

    def _take(self, text: str) -> list[Span]:
        """The owners of the next characters, which are `text`."""
        spans = []
        left = len(text)
        while left:
            owner = self._owners.popleft()
            if len(owner.text) > left:
                self._owners.appendleft(Span(owner.text[left:], owner.accepted))
                owner = Span(owner.text[:left], owner.accepted)
            spans.append(owner)
            left -= len(owner.text)
        return spans

    def _joined(self, spans: list[Span]) -> list[Span]:
        joined: list[Span] = []
        for span in spans:
            if joined and joined[-1].accepted == span.accepted:
                span = Span(joined.pop().text + span.text, span.accepted)
            joined.append(span)
        self.text += "".join(span.text for span in joined)
        return joined


class AnswerPrinter:
    """Writes spans to stdout, a flush a call; underlines accepted ones when `styled`."""

    def __init__(self, *, styled: bool, is_terminal: bool) -> None:
        self._styled = styled
        self._is_terminal = is_terminal
        self._last = ""

    @classmethod
    def for_stdout(cls, *, plain: bool) -> AnswerPrinter:
        """Underline on a terminal that can, unless asked not to."""
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        can = is_terminal and os.environ.get("TERM") != "dumb"
        return cls(styled=can and not plain and not os.environ.get("NO_COLOR"), is_terminal=is_terminal)

    def write(self, spans: Sequence[Span]) -> None:
        text = "".join(self._shown(span) for span in spans)
        if text:
            self._last = spans[-1].text[-1:]
            click.echo(text, nl=False, color=True)  # without color, click would drop escape sequences

    def end(self) -> None:
        """End the last line, so that what comes next begins its own."""
        if self._last != "\n":
            click.echo()

    def _shown(self, span: Span) -> str:
        text = harmless(span.text) if self._is_terminal else span.text
        return f"{_UNDERLINE}{text}{_PLAIN}" if self._styled and span.accepted else text
