"""The child's ends of the two pipes to its parent, for any process that serves on them."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys


def private_pipes() -> tuple[int, int]:
    """What were stdin and stdout, which belong to nobody else from here on; a crash is quick and told."""
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)  # what native code prints goes into the log with its complaints
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _no_core_file()
    faulthandler.enable(all_threads=False)
    return source, sink


def write_all(sink: int, line: str) -> None:
    """Write a line of ASCII into a pipe, waiting for a parent that is slow to read."""
    data = memoryview(line.encode("ascii"))
    while data:
        data = data[os.write(sink, data) :]


def _no_core_file() -> None:
    """A core file of some gigabytes would hold up whoever waits for this process to be gone."""
    if sys.platform != "win32":
        import resource

        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        # 1, not 0: Linux then also spares the programs that collect core files.
        resource.setrlimit(resource.RLIMIT_CORE, (0 if hard == 0 else 1, hard))
