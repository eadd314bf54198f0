"""Token ids to text as they arrive: incremental detokenising and stop strings.

A token's bytes may end inside a character, and a stop string may span tokens, so text lags
behind tokens. Everything here depends on the bytes alone, never on where tokens end: however
a text is split, the same characters come out and the same stop string ends it.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

Piece = Callable[[int], bytes]
"""The bytes of one token."""


class Detokenizer:
    """Turns tokens into text, holding back the bytes of an unfinished character.

    The concatenation of everything returned equals
    ``b"".join(pieces).decode("utf-8", errors="replace")``: bytes that are no UTF-8 become
    U+FFFD once it is certain that they are none.
    """

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """The characters that `token` completes, possibly none."""
        return self._decoder.decode(self._piece(token))

    def flush(self) -> str:
        """What is left at the end of the text: U+FFFD for an unfinished character, or ""."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


class StopFilter:
    """Lets text through up to the first stop string.

    First means complete first; of several that are complete at the same character, the
    longest. So the cut does not depend on how the text is split. Text that may yet turn out
    to begin a stop string is held back.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(stop)
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """The text that is now safe to show; "" after a stop string was found."""
        if self.matched is not None:
            return ""
        if not self._stop:
            return text
        window = self._held + text
        found = [(window.find(stop) + len(stop), -len(stop), stop) for stop in self._stop if stop in window]
        if found:
            end, _, self.matched = min(found)
            self._held = ""
            return window[: end - len(self.matched)]
        keep = self._num_undecided(window)
        self._held = window[len(window) - keep :]
        return window[: len(window) - keep]

    def flush(self) -> str:
        """The text still held back, for no stop string can be completed any more."""
        rest, self._held = self._held, ""
        return rest

    def _num_undecided(self, window: str) -> int:
        """Length of the longest end of `window` that begins a stop string."""
        longest = min(len(window), max(len(stop) for stop in self._stop) - 1)
        for length in range(longest, 0, -1):
            tail = window[-length:]
            if any(stop.startswith(tail) for stop in self._stop):
                return length
        return 0


class StopStrings:
    """Watches one slot's emitted tokens for stop strings."""

    def __init__(self, piece: Piece, stop: Sequence[str]) -> None:
        self._active = bool(stop)
        self._detokenizer = Detokenizer(piece)
        self._filter = StopFilter(stop)

    @property
    def matched(self) -> str | None:
        """The stop string that ended the text, or None."""
        return self._filter.matched

    def push(self, tokens: Sequence[int]) -> int | None:
        """After how many of the freshly emitted `tokens` a stop string is complete, or None.

        Call it once a round with tokens that are committed, up to the count returned.
        """
        if not self._active:
            return None
        for count, token in enumerate(tokens, 1):
            self._filter.push(self._detokenizer.push(token))
            if self._filter.matched is not None:
                return count
        return None


class TextStream:
    """Turns one text's emitted tokens into text that is safe to show.

    The concatenation of everything returned is the full text cut before its first stop
    string; neither a stop string nor what may become one is ever shown early.
    """

    def __init__(self, piece: Piece, stop: Sequence[str] = ()) -> None:
        self._detokenizer = Detokenizer(piece)
        self._filter = StopFilter(stop)

    @property
    def matched(self) -> str | None:
        """The stop string that ended the text, or None."""
        return self._filter.matched

    def push(self, token: int) -> str:
        """The text that can be shown now that `token` is emitted, possibly ""."""
        return self._filter.push(self._detokenizer.push(token))

    def flush(self) -> str:
        """The rest, at the end of the text."""
        return self._filter.push(self._detokenizer.flush()) + self._filter.flush()
