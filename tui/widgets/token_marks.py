"""Characters that tell a span's kind where colour cannot or should not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from tui.chat.transcript import Kind

Marks = Mapping[Kind, tuple[str, str]]
"""What stands before and after a run of spans of one kind and round; with an end it brackets the
run, without one it stands before the run's first visible character."""

NO_MARKS: Final[Marks] = {}

BRACKETS: Final[Marks] = {
    "rejected": ("\u27e8\u2717", "\u27e9"),
    "discarded": ("\u27e8\u00b7", "\u27e9"),
    "drafted": ("\u27e8?", "\u27e9"),
}
"""For terminals without colour: attributes tell the emitted kinds apart, brackets the others."""

GLYPHS: Final[Marks] = {
    **BRACKETS,
    "accepted": ("\u00bb", ""),
    "residual": ("\u21b3", ""),
    "bonus": ("+", ""),
}
"""Every kind but plain has a mark of its own, so none needs colour or attributes."""

ASCII_BRACKETS: Final[Marks] = {"rejected": ("{x", "}"), "discarded": ("{.", "}"), "drafted": ("{?", "}")}

ASCII_GLYPHS: Final[Marks] = {
    **ASCII_BRACKETS,
    "accepted": (">", ""),
    "residual": ("=", ""),
    "bonus": ("+", ""),
}


def marks_in_use(*, glyphs: bool, color: bool, encoding: str) -> Marks:
    """The marks for a terminal of this encoding: all with `glyphs`, brackets where there is no colour."""
    is_ascii = not encoding.lower().startswith("utf") or os.environ.get("TERM") == "linux"
    if glyphs:
        return ASCII_GLYPHS if is_ascii else GLYPHS
    if color:
        return NO_MARKS
    return ASCII_BRACKETS if is_ascii else BRACKETS
