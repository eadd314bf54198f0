"""Where the end of a text has occurred before in it: longest match first, then the newest.

Like the match finders of LZ77 compressors (zlib's deflate.c): for a few lengths, a hash table has
the newest place where tokens of that length ended, and chains lead from each place to the one
before it. Appending and removing a token take constant time, so a text that was edited is as
cheap as one that grew.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LENGTHS = (12, 4, 2)
"""Lengths that are looked up, longest first; between them, matches are compared token by token."""

MAX_CANDIDATES = 16
"""Places that are compared at one length, newest first."""

MAX_MATCH = 64
"""Longer matches count as this long."""

_FEW = 32
"""Up to so many tokens are appended or removed one by one, more at once with numpy."""

# Hashes have 30 bits, one digit of Python's integers, and their upper bits are used. The factor is
# 2^30 / golden ratio, which spreads small ids over all bits (Knuth, TAOCP 3, 6.4).
_HASH_BITS = 30
_MASK = (1 << _HASH_BITS) - 1
_FACTOR = 0x278DDE6D
_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Match:
    """The `length` tokens before index `end` equal the last ones of the text; `end` < its length.

    `contested` says that another place that was compared goes on otherwise.
    """

    end: int
    length: int
    contested: bool = False


class _Level:
    """Places of one length: `head[hash]` is the newest, `before[place]` the one before that place."""

    __slots__ = ("before", "hash", "head", "length", "shift", "top")

    def __init__(self, length: int) -> None:
        self.length = length
        self.hash = 0
        self.top = pow(_FACTOR, length + 1, 1 << _HASH_BITS)
        self.rebuild(array("i"))

    def pop(self, tokens: array[int]) -> None:
        """Forget the last place; `tokens` still has its last token."""
        place = len(tokens) - 1
        before = self.before.pop()
        if place + 1 >= self.length:
            self.head[self.hash >> self.shift] = before
        self.hash = self._hash_of(tokens, place)

    def rebuild(self, tokens: array[int]) -> None:
        """Note every place anew, in a table of twice as many entries as there are tokens."""
        count, first = len(tokens), self.length - 1
        bits = min(_HASH_BITS, max(10, (2 * count).bit_length()))
        self.shift = _HASH_BITS - bits
        self.before = array("i", [_NOWHERE]) * count
        self.head = array("i", [_NOWHERE]) * (1 << bits)
        self.hash = self._hash_of(tokens, count)
        if count <= first:
            return
        ids = np.frombuffer(tokens, np.int32).astype(np.int64) + 1
        hashes = np.zeros(count - first, np.int64)
        for start in range(self.length):
            hashes = (hashes + ids[start : start + count - first]) * _FACTOR & _MASK
        slots = hashes >> self.shift
        order = np.argsort(slots, kind="stable")
        slots, places = slots[order], (order + first).astype(np.int32)
        newest = np.append(slots[1:] != slots[:-1], True)
        np.frombuffer(self.before, np.int32)[places[1:][~newest[:-1]]] = places[:-1][~newest[:-1]]
        np.frombuffer(self.head, np.int32)[slots[newest]] = places[newest]

    def _hash_of(self, tokens: array[int], count: int) -> int:
        """The hash of the last tokens among the first `count`."""
        value = 0
        for token in tokens[max(0, count - self.length) : count]:
            value = (value + token + 1) * _FACTOR & _MASK
        return value


class SuffixIndex:
    """A text's tokens, and where its end has occurred before.

    A million tokens take about 60 MB; a token takes 3 microseconds.
    """

    def __init__(self) -> None:
        self._tokens = array("i")
        self._levels = [_Level(length) for length in LENGTHS]

    def __len__(self) -> int:
        return len(self._tokens)

    def sync(self, tokens: Sequence[int]) -> None:
        """Hold exactly `tokens`: what differs from before is removed, what is new appended."""
        held = self._tokens
        common = min(len(held), len(tokens))
        if held[:common] != array("i", tokens[:common]):
            common = next(i for i, (a, b) in enumerate(zip(held, tokens, strict=False)) if a != b)
        self.truncate(common)
        self.extend(tokens[common:])

    def truncate(self, length: int) -> None:
        """Keep the first `length` tokens."""
        many = len(self._tokens) - length > _FEW
        while len(self._tokens) > length and not many:
            for level in self._levels:
                level.pop(self._tokens)
            self._tokens.pop()
        if many:
            del self._tokens[length:]
            self._rebuild()

    def extend(self, tokens: Sequence[int]) -> None:
        """Append tokens."""
        held = self._tokens
        if len(tokens) > _FEW or len(held) + len(tokens) > len(self._levels[0].head):
            held.extend(tokens)
            self._rebuild()
            return
        for token in tokens:
            place = len(held)
            held.append(token)
            for level in self._levels:
                length = level.length
                if place >= length:  # the token that leaves the window
                    gone = (held[place - length] + 1) * level.top
                    level.hash = ((level.hash + token + 1) * _FACTOR - gone) & _MASK
                else:
                    level.hash = (level.hash + token + 1) * _FACTOR & _MASK
                    if place + 1 < length:
                        level.before.append(_NOWHERE)
                        continue
                slot = level.hash >> level.shift
                level.before.append(level.head[slot])
                level.head[slot] = place

    def match(self) -> Match | None:
        """The longest earlier occurrence of the text's end, the newest of equals.

        None when not even the last two tokens occurred before. Of a length that occurs very
        often, only the newest places are compared.
        """
        end = len(self._tokens)
        for level in self._levels:
            if end <= level.length:
                continue
            found: list[tuple[int, int]] = []
            place = level.before[end - 1]
            for _ in range(MAX_CANDIDATES):
                if place == _NOWHERE:
                    break
                length = self._common_suffix(place)
                if length >= level.length:
                    found.append((length, place + 1))
                place = level.before[place]
            if found:
                length, best = max(found, key=operator.itemgetter(0))  # of equals the first, the newest
                tokens = self._tokens
                return Match(best, length, any(tokens[at] != tokens[best] for _, at in found))
        return None

    def continuation(self, match: Match, count: int) -> list[int]:
        """The `count` tokens that followed the match, or would if the text went on like that."""
        period = len(self._tokens) - match.end
        found = self._tokens[match.end : match.end + count].tolist()
        return [found[i % period] for i in range(count)]

    def _common_suffix(self, place: int) -> int:
        """How many tokens up to and with `place` equal the last ones of the text."""
        tokens = self._tokens
        last = len(tokens) - 1
        most = min(MAX_MATCH, place + 1)
        for length in range(most):
            if tokens[place - length] != tokens[last - length]:
                return length
        return most

    def _rebuild(self) -> None:
        for level in self._levels:
            level.rebuild(self._tokens)
