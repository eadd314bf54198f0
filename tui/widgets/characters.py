"""Characters as a terminal shows them: how many cells, what belongs together, what must not be sent.

Widths are rich's, for that is what Textual measures with.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from rich.cells import cell_len, get_character_cell_size

ZWJ: Final = "\u200d"
_EMOJI_SELECTOR: Final = "\ufe0f"
BLACK_FLAG: Final = "\U0001f3f4"
REGIONAL: Final = frozenset(map(chr, range(0x1F1E6, 0x1F200)))
DIRECTION_AND_JOINING: Final = frozenset("\u061c\u200c\u200e\u200f")
"""What ordinary text of some scripts needs; alone it shows nothing."""

size_of: Final = get_character_cell_size
"""How many cells a code point takes on its own."""

CLOSERS: Final = frozenset(
    ",.;:!?)]}%\u2026\u2019\u201d\u3001\u3002\u3009\u300b\u300d\u300f\u3011\u3015\u30fb\u30fc"
    "\uff01\uff05\uff09\uff0c\uff0e\uff1a\uff1b\uff1f\uff3d\uff5d"
)
"""What must not begin a line after a wide character."""

# C0 and C1 controls, and invisible characters that reorder text or could hide in it.
_HOSTILE: Final = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u180e\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
)
_TAGS: Final = "\U000e0000-\U000e007f"
TOKENS: Final = re.compile(
    rf"(?P<word>[^ \n\r\t{_HOSTILE}{_TAGS}]+)|(?P<space> +)|(?P<line>\r\n|\n)|(?P<tab>\t)"
    rf"|(?P<symbol>[\r{_HOSTILE}])|(?P<tags>[{_TAGS}]+)"
)


@lru_cache(maxsize=256)
def symbol(character: str) -> str:
    """What stands for a character that would steer a terminal or hide."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u2039{code:02X}\u203a"


def cluster_end(text: str, start: int) -> int:
    """Where the character that begins at `start` ends: its marks, joined emoji, a pair of flags."""
    base, end = text[start], start + 1
    if base in REGIONAL and end < len(text) and text[end] in REGIONAL:
        end += 1
    while end < len(text) and size_of(text[end]) == 0:
        end += 1
        if text[end - 1] == ZWJ:
            # rich lets a joiner swallow whatever follows, a terminal only another emoji.
            if not (end < len(text) and _is_emoji(base) and _is_emoji(text[end])):
                break
            end += 1
    return end


def cluster_size(text: str) -> int:
    """How many cells a character of several code points takes as it is drawn."""
    return cell_len(drawn_text(text))


def drawn_text(text: str) -> str:
    """A character as it is drawn: without a request to be an emoji that makes it wider.

    Terminals disagree on how many cells it takes then, so the rest of the line would be off.
    """
    if _EMOJI_SELECTOR not in text or ZWJ in text:
        return text
    plain = text.replace(_EMOJI_SELECTOR, "")
    return text if cell_len(plain) == cell_len(text) else plain


def _is_emoji(character: str) -> bool:
    return character >= "\U0001f000" or "\u2190" <= character <= "\u2bff"


def is_selector(character: str) -> bool:
    """Whether it chooses between looks of the character before it, and shows nothing itself."""
    return "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
