"""Sentences and names as lines no longer than the terminal is wide."""

from __future__ import annotations

import shutil
import textwrap

from edge_spec.cli.output import show
from edge_spec.terminal import harmless

_LEAST, _MOST = 40, 100


def width() -> int:
    """Columns to write in: the terminal's, within reason; 80 where there is none."""
    return max(_LEAST, min(_MOST, shutil.get_terminal_size((80, 24)).columns))


def show_wrapped(text: str, *, first: str = "", rest: str = "") -> None:
    """Print `text` in lines that begin with `first`, then with `rest`; long words stay whole."""
    lines = textwrap.wrap(
        " ".join(harmless(text).split()),
        width(),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines or [first.rstrip()]:
        show(line)
