"""Where a prompt comes from: the argument, a file, or standard input."""

from __future__ import annotations

import sys

from edge_spec.errors import UsageError
from edge_spec.paths import user_path


def read_prompt(argument: str | None, file: str | None) -> str:
    """The prompt; UsageError says in one sentence why there is none.

    One line end at the end of a file or of standard input is dropped, as llama.cpp does.
    """
    if argument is not None and file is not None:
        raise UsageError("The prompt was given twice: as an argument, and with -f.")
    source = file if file is not None else argument
    if source == "-" or source is None:
        text = _without_line_end(_decoded(_stdin(source == "-"), "standard input"))
    elif file is not None:
        try:
            data = user_path(file).read_bytes()
        except OSError as error:
            raise UsageError(f"The prompt file {file} cannot be read: {error.strerror}.") from error
        text = _without_line_end(_decoded(data, f"the prompt file {file}"))
    else:
        text = source
        if any("\ud800" <= c <= "\udfff" for c in text):  # how Python passes on bytes that are no UTF-8
            raise UsageError("The prompt is not UTF-8 text.")
    if not text.strip():
        raise UsageError("The prompt is empty.")
    return text


def _stdin(asked: bool) -> bytes:
    if sys.stdin is None or sys.stdin.closed or (sys.stdin.isatty() and not asked):
        raise UsageError("There is no prompt: give it as an argument, with -f FILE, or on standard input.")
    return sys.stdin.buffer.read()


def _decoded(data: bytes, what: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"There is a byte in {what} that is not UTF-8, at {error.start}.") from error


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")
