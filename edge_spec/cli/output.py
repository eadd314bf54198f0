"""What commands print: people's text on stderr, data on stdout."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

import click

from edge_spec.terminal import harmless

INTERRUPTED: Final = 130

# Its line ends are JSON's layout: inside a string they would be escaped.
_NUMBERS: Final = re.compile(r"\[\n\s*([-+\d.,e\s]+?)\n\s*\]")


def say(text: str) -> None:
    """Tell a person something, beside the data."""
    click.echo(harmless(text), err=True)


def show(text: str) -> None:
    """Print a line of what was asked for, for a person to read."""
    click.echo(harmless(text))


def complain(text: str) -> None:
    """Tell a person what went wrong, in one sentence."""
    say(f"edge-spec: {text}")


def print_json(value: Any) -> None:
    """The one object that a command with --json prints; a list of numbers stays on its line."""
    from edge_spec.plain import to_plain

    text = json.dumps(to_plain(value), indent=2, ensure_ascii=not _is_utf8(), allow_nan=False)
    click.echo(_NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text))


def _is_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


def table(rows: list[list[str]]) -> None:
    """Print rows on stdout with their columns aligned; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        show("  ".join(cells).rstrip())


def log_folder() -> Path:
    import platformdirs

    return Path(platformdirs.user_log_path("edge-spec"))


def report_bug(error: Exception) -> None:
    """An error that nobody foresaw: one line for the user, the traceback in a file."""
    import traceback

    text = "".join(traceback.format_exception(error))
    what = f"This is a bug in edge-spec: {type(error).__name__}: {error}".rstrip(".")
    path = log_folder() / "error.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        complain(f"{what}; its traceback is in {path}.")
    except OSError:
        complain(f"{what}; EDGE_SPEC_DEBUG=1 shows its traceback.")
    if os.environ.get("EDGE_SPEC_DEBUG"):
        say(text)
