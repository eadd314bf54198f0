"""Run a helper program beside us: its output goes to a file, and it never outlives the call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

POLL_SECONDS = 0.1


def run_child(
    command: Sequence[str],
    log: Path,
    poll: Callable[[], None],
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run `command` with stdout and stderr in `log`; return its exit status (negative: a signal).

    `poll` is called about ten times a second; whatever it raises ends the child and goes on
    to the caller. Raises OSError when the program cannot be started.
    """
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP
    with log.open("wb") as output:
        # Its own session: Ctrl-C reaches us alone, and we then end the child in good order.
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=None if environment is None else dict(environment),
            start_new_session=True,
            creationflags=flags,
        )
    try:
        while True:
            try:
                return child.wait(POLL_SECONDS)
            except subprocess.TimeoutExpired:
                poll()
    finally:
        if child.poll() is None:
            child.terminate()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def tail(log: Path, wanted: Callable[[str], bool] = bool) -> str:
    """The last line of a log for which `wanted` holds, shortened; "" when there is none."""
    try:
        lines = log.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    found = [line.strip() for line in lines if wanted(line.strip())]
    return found[-1][:300] if found else ""
