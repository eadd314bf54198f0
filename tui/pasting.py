"""Pasted text reaches its widget as it is, escape sequences in it included.

Textual's parser takes an escape sequence in a bracketed paste for keys: its letters are typed
ahead of the rest of the paste, and its control characters run commands (Textual 8.2,
`_xterm_parser.py`). Terminals that hand pastes on unfiltered, tmux among them, get there. Here a
stand-in takes the escape character's place while the parser looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from textual import events
from textual.message import Message

_ESCAPE: Final = "\x1b"
_BEGIN: Final = "\x1b[200~"
_END: Final = "\x1b[201~"
_STAND_IN: Final = "\udc1b"
"""No terminal can send it: bytes are decoded as UTF-8, which has no surrogates."""


class PasteGuard:
    """Replaces the escape characters that stand in pastes; what is fed may be cut anywhere."""

    def __init__(self) -> None:
        self._pasting = False
        self._pending = ""  # what may yet become the next mark; outside a paste it was given already

    def guarded(self, data: str) -> str:
        """`data` for the parser; in a paste, what may be the beginning of its end waits for more."""
        given: list[str] = []
        while data:
            mark = _END if self._pasting else _BEGIN
            num_given = 0 if self._pasting else len(self._pending)
            text, self._pending = self._pending + data, ""
            before, found, data = text.partition(mark)
            if not found:
                self._pending = _beginning(mark, text)
                if self._pasting:
                    before = text[: len(text) - len(self._pending)]
            if self._pasting:
                given.append(before.replace(_ESCAPE, _STAND_IN) + found)
            else:
                given.append((before + found)[num_given:])
            self._pasting ^= bool(found)
        return "".join(given)


def _beginning(mark: str, text: str) -> str:
    """The longest end of `text` with which `mark` begins."""
    return next((mark[:size] for size in range(len(mark) - 1, 0, -1) if text.endswith(mark[:size])), "")


def guard_pastes() -> None:
    """Let every terminal of this process go through a PasteGuard; calling it again changes nothing."""
    try:
        from textual._xterm_parser import XTermParser
    except ImportError:  # a Textual that is built otherwise, and has perhaps no need of it
        return
    parse: Callable[[Any, str], Iterable[Message]] = XTermParser.feed
    if getattr(parse, "guards_pastes", False):
        return

    def feed(parser: Any, data: str) -> Iterator[Message]:
        guard = parser.__dict__.setdefault("paste_guard", PasteGuard())
        guarded = guard.guarded(data)
        if data and not guarded:
            return  # to the parser, nothing at all is the end
        for message in parse(parser, guarded):
            if isinstance(message, events.Paste):
                message.text = message.text.replace(_STAND_IN, _ESCAPE)
            yield message

    feed.guards_pastes = True  # type: ignore[attr-defined]
    XTermParser.feed = feed  # type: ignore[assignment,method-assign]
