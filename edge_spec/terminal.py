"""Text from a model or a file, made fit for a terminal."""

from __future__ import annotations

from typing import Final

_SIGNS: Final[dict[int, str]] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
}


def harmless(text: str) -> str:
    """`text` with control characters made visible, so that no model can steer a terminal.

    Line ends and tabs stay.
    """
    return text.translate(_SIGNS)
