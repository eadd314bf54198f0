"""Control characters made visible, so that no text can steer the terminal."""

from __future__ import annotations

from typing import Final

_SIGNS: Final[dict[int, str]] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
}


def visible(text: str) -> str:
    """`text` with a sign in the place of each control character, line ends and tabs left alone."""
    return text.translate(_SIGNS)
