"""Where a prompt comes from: the argument, a file, standard input, or two of them."""

from __future__ import annotations

import os
import select
import stat
import sys
from typing import Final

from edge_spec.cli.output import say
from edge_spec.errors import UsageError
from edge_spec.paths import user_path

_PATIENCE: Final = 0.5
"""Seconds for whoever writes into the pipe to begin; a pipe of ssh or cron may stay silent for ever."""


def read_prompt(
    argument: str | None, file: str | None, *, option: str | None = None, quiet: bool = False
) -> str:
    """The prompt; UsageError says in one sentence why there is none.

    What is piped beside an argument or a file follows it after a blank line. One line end at the
    end of a file or of standard input is dropped, as llama.cpp does.
    """
    places = {"as an argument": argument, "with -p": option, "with -f": file}
    given = {place: text for place, text in places.items() if text is not None}
    if len(given) > 1:
        raise UsageError(f"The prompt was given twice: {', and '.join(given)}.")
    source = next(iter(given.values()), None)
    if source == "-" or source is None:
        text = _from_stdin(_stdin(source == "-"))
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
    if source is None or source == "-" or file == "/dev/stdin":  # which was read, and might be again
        return text
    piped = _from_stdin(_piped(quiet))
    return f"{text}\n\n{piped}" if piped.strip() else text


def _stdin(asked: bool) -> bytes:
    if sys.stdin is None or sys.stdin.closed or (sys.stdin.isatty() and not asked):
        raise UsageError("There is no prompt: give it as an argument, with -f FILE, or on standard input.")
    return sys.stdin.buffer.read()


def _piped(quiet: bool) -> bytes:
    """What a file or a pipe brings on standard input; nothing where nobody writes into it."""
    if sys.stdin is None or sys.stdin.closed:
        return b""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except OSError:  # closed, or no file at all
        return b""
    if stat.S_ISREG(mode):
        return sys.stdin.buffer.read()
    if os.name == "nt" or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return b""  # Windows cannot look whether a pipe has anything
    if not select.select([descriptor], [], [], _PATIENCE)[0]:
        if not quiet:
            say("info: Nothing came on standard input yet, so only the prompt that was given is answered.")
        return b""
    return sys.stdin.buffer.read()


def _from_stdin(data: bytes) -> str:
    return _without_line_end(_decoded(data, "standard input"))


def _decoded(data: bytes, what: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"There is a byte in {what} that is not UTF-8, at {error.start}.") from error


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r")
