"""The chat in a pseudo-terminal, for the scripts that measure it or torture it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import _bootstrap
import psutil


@dataclass(frozen=True)
class Terminal:
    """A running chat: its process, and the terminal that it believes itself in."""

    process: psutil.Process
    folder: Path
    outer: int

    @property
    def conversations(self) -> Path:
        return self.folder / "data" / "edge-spec" / "conversations.sqlite3"

    @property
    def log(self) -> Path:
        return self.folder / "state" / "edge-spec" / "log" / "chat.log"

    def type(self, keys: bytes) -> None:
        """Send keys as a terminal sends them."""
        while keys:
            keys = keys[os.write(self.outer, keys) :]

    def paste(self, text: str) -> None:
        """Send a text as a bracketed paste, so that its line ends send nothing."""
        self.type(b"\x1b[200~" + text.encode() + b"\x1b[201~")

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.outer, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


@contextlib.contextmanager
def chat(
    arguments: Sequence[str],
    folder: Path,
    models: Path,
    *,
    size: tuple[int, int] = (120, 36),
    hear: Callable[[bytes], None] = lambda _: None,
) -> Iterator[Terminal]:
    """`edge-spec chat arguments...` at `size` (columns, lines), with all that it writes in `folder`.

    `hear` is given what the program sends to its terminal, from a thread.
    """
    outer, inner = pty.openpty()
    environment = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "EDGE_SPEC_MODELS": str(models),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_STATE_HOME": str(folder / "state"),
        "PYTHONPATH": str(_bootstrap.ROOT),
    }
    command = [sys.executable, "-m", "edge_spec.cli", "chat", *arguments]
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", *reversed(size), 0, 0))
    child = subprocess.Popen(
        command,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env=environment,
        cwd=folder,
        preexec_fn=_own_terminal,
    )
    os.close(inner)
    threading.Thread(target=_drain, args=(outer, hear), daemon=True).start()
    try:
        yield Terminal(psutil.Process(child.pid), folder, outer)
    finally:
        child.terminate()
        child.wait()
        os.close(outer)


def _own_terminal() -> None:
    """Make stdin the controlling terminal, so that a new size is signalled as in a real one."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _drain(terminal: int, hear: Callable[[bytes], None]) -> None:
    with contextlib.suppress(OSError):  # the program has gone
        while data := os.read(terminal, 1 << 16):
            hear(data)
