"""The child process of an engine host: its two pipes, its log, and how it ended."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

from edge_spec.errors import EngineCrashedError, EngineError

_PROGRAM: Final = """
import sys
if sys.argv[1] not in sys.path:
    sys.path.insert(0, sys.argv[1])
import importlib
importlib.import_module(sys.argv[2]).main()
"""

COMMAND: Final = (sys.executable, "-P", "-c", _PROGRAM, str(Path(__file__).parents[2]))
"""The child has the edge_spec of its parent, and (-P) takes no file beside the user's for a module."""

MAX_LINE_BYTES: Final = 1 << 26
"""A line that is longer is not ours; a context of a million tokens takes a tenth of it."""

PATIENCE_SECONDS: Final = 1.0
"""How long a process may take to end, before it is killed."""

LOG_LINES: Final = 50
_LOG_TAIL_BYTES: Final = 1 << 14
_TELLING: Final = re.compile(r"GGML_|CUDA|Vulkan|terminate called|what\(\)|[Ee]rror|[Aa]ssert|failed")


class EngineProcess:
    """A child that runs the engine. It is started at once; whoever starts it must `close` it.

    It runs `main` of `module`, which speaks on the two pipes.
    """

    def __init__(self, module: str = "edge_spec.host.child") -> None:
        # Not a file with a name: several may run, and none may be left over.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # `close` closes it
        flags = 0
        if sys.platform == "win32":
            flags = subprocess.CREATE_NEW_PROCESS_GROUP
        try:
            self._process = subprocess.Popen(
                (*COMMAND, module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                # A failed assertion would first fetch a debugger, which takes seconds.
                env={"GGML_NO_BACKTRACE": "1", **os.environ},
                start_new_session=True,
                creationflags=flags,
            )
        except OSError as error:
            self._log.close()
            raise EngineError(
                f"The engine's process cannot be started: {error.strerror or error}."
            ) from error
        self._writing = threading.Lock()
        self._closed = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def send(self, line: str) -> None:
        """Write a line; from any thread. A child that is gone is found out by reading from it."""
        data = memoryview(line.encode("ascii"))
        assert self._process.stdin is not None
        with self._writing, contextlib.suppress(OSError):
            while data and not self._closed:
                data = data[os.write(self._process.stdin.fileno(), data) :]

    def read_line(self) -> bytes | None:
        """The next line, from one thread at a time; None when there is no whole one any more."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline(MAX_LINE_BYTES)
        return line if line.endswith(b"\n") else None

    def end(self) -> None:
        """End the process if it has not ended; quick, from any thread, whatever it is doing."""
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """End the process and give its pipes and its log back; nobody may be reading."""
        self.end()
        with self._writing:
            self._closed = True
            for file in (self._process.stdin, self._process.stdout, self._log):
                if file is not None:
                    file.close()

    def crash(
        self, doing: str, nonsense: str = "", outcome: str = "what was said so far is kept"
    ) -> EngineCrashedError:
        """What happened to a child that said no more, or said `nonsense`, while `doing` something."""
        if not nonsense:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE_SECONDS)
        status = self._process.poll()
        self.end()
        log = self._read_log()
        name = None
        if nonsense:
            how = f"said what is not understood ({nonsense})"
        elif status is None:
            how = "fell silent"
        elif status < 0:
            name = _signal_name(-status)
            how = f"was ended by {name}"
        else:
            how = f"ended with status {status}"
        if name == "SIGKILL":
            how += f" while {doing}, which is what happens when memory runs out"
        else:
            gist = _gist(log)
            how += f" while {doing}" + (f" ({gist})" if gist and not nonsense else "")
        return EngineCrashedError(f"The engine {how}; {outcome}.", name, log)

    def _read_log(self) -> tuple[str, ...]:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _LOG_TAIL_BYTES))
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        return tuple(line.rstrip() for line in lines if line.strip())[-LOG_LINES:]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _gist(log: tuple[str, ...]) -> str:
    """The last line that tells why, short and without its folder; what Python's fault handler adds
    after it is for bug reports."""
    said = []
    for line in log:
        if line.startswith("Fatal Python error"):
            break
        if _TELLING.search(line):
            said.append(line.strip())
    if not said:
        return ""
    text = re.sub(r"^\S*/(?=\S+:\d+: )", "", said[-1])
    return "".join(c for c in text if c.isprintable())[:200].rstrip(".")
