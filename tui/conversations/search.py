"""Words of a search: how texts and queries are cut into them, what is shown of a hit."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

TOKENIZER: Final = "unicode61 remove_diacritics 2"

_LETTER: Final = r"[^\W_]"  # and digits: what the tokenizer makes words of
_WORD: Final = re.compile(f"{_LETTER}+")
# Chinese and Japanese, which have no spaces between words.
_IDEOGRAPHS: Final = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd]+"
)
_CONTROLS: Final = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)], " ")
_BEFORE: Final = 24
_LENGTH: Final = 120
_PIECE: Final = 256


@dataclass(frozen=True, slots=True)
class Snippet:
    """A line of a text, and the (start, end) of each place in it that was searched for."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()


def indexable(text: str) -> str:
    """`text` as the index takes it: ideographs as pairs, so that any two or more of them are found.

    "读写锁" gives "读写 写锁 锁": as in a query, a word of the index may go on behind what is typed.
    """
    if text.isascii():
        return text
    return _IDEOGRAPHS.sub(lambda run: f" {' '.join(_pairs(run[0]))} {run[0][-1]} ", text)


def query_words(query: str) -> list[str]:
    """The words that must all occur, the last letters of each perhaps missing."""
    return _WORD.findall(_IDEOGRAPHS.sub(r" \g<0> ", unicodedata.normalize("NFC", query)))


def index_words(words: Sequence[str]) -> list[str]:
    """What the index has of `words`, at least as beginnings: of ideographs their pairs."""
    cut = (_pairs(word) or [word] if _IDEOGRAPHS.match(word) else [word] for word in words)
    return [part for parts in cut for part in parts]


def like_patterns(words: Sequence[str]) -> list[str]:
    """LIKE patterns that such a text has all of; a word has none of LIKE's own signs in it."""
    return [f"%{word}%" for word in words]


def snippet(text: str, words: Sequence[str]) -> Snippet:
    """The first place in `text` that has one of the words, as one line."""
    wanted = _wanted(tuple(words))
    first = _first_place(text, wanted, max(map(len, words)))
    start = max(0, first - _BEFORE) if first is not None else 0
    if first is not None and start:  # not in the middle of a word, if there is a space before the place
        start = text.find(" ", start, first) + 1 or start
    line = one_line(text[start : start + 2 * _LENGTH])
    line = ("…" if start else "") + line
    if len(line) > _LENGTH:
        line = line[: _LENGTH - 1] + "…"
    return Snippet(line, tuple(place.span() for place in wanted.finditer(fold(line))))


def _first_place(text: str, wanted: re.Pattern[str], longest: int) -> int | None:
    """Where `wanted`, at most `longest` characters, is first; a long text is folded only up to there."""
    for begin in range(0, len(text), _PIECE):
        before = min(begin, 1)  # what stands before a place decides whether a word begins there
        piece = fold(text[begin - before : begin + _PIECE + longest])
        found = wanted.search(piece, before)
        if found is not None:
            return begin - before + found.start()
    return None


def one_line(text: str) -> str:
    """`text` with every run of spaces, line ends and control characters as one space."""
    return " ".join(text.translate(_CONTROLS).split())


def fold(text: str) -> str:
    """`text` without case and diacritics, character by character, so that places stay what they are."""
    return text.lower() if text.isascii() else text.translate(_FOLDED)


@functools.lru_cache(maxsize=8)
def _wanted(words: tuple[str, ...]) -> re.Pattern[str]:
    """Finds each of the words in a folded text."""
    return re.compile("|".join(map(_pattern, words)))


def _pattern(word: str) -> str:
    """Finds a word in a folded text, at its beginning."""
    before = "" if _IDEOGRAPHS.match(word) else f"(?<!{_LETTER})"
    return before + re.escape(fold(word))


def _pairs(run: str) -> list[str]:
    return [run[index : index + 2] for index in range(len(run) - 1)]


class _Folded(dict[int, str]):
    """Character to folded character, as `str.translate` asks for it; each is worked out once."""

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFD", chr(code))
        lower = parts[0].lower() if all(map(unicodedata.combining, parts[1:])) else chr(code)
        self[code] = lower if len(lower) == 1 else chr(code)
        return self[code]


_FOLDED: Final = _Folded()
