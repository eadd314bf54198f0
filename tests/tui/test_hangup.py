"""A terminal that goes away takes the program with it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _ignoring() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does, which is inherited


@pytest.mark.parametrize("own_session", [True, False], ids=["no controlling terminal", "ours"])
def test_the_chat_ends_when_its_terminal_does_though_sighup_is_ignored(
    tmp_path: Path, own_session: bool
) -> None:
    outer, inner = pty.openpty()
    folders = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("DATA", "CONFIG", "STATE", "CACHE")}
    child = subprocess.Popen(
        [sys.executable, "-m", "edge_spec.cli", "chat"],
        stdin=inner, stdout=inner, stderr=inner, cwd=tmp_path, preexec_fn=_ignoring,
        start_new_session=own_session,
        env={**os.environ, **folders, "EDGE_SPEC_MODELS": str(tmp_path), "PYTHONPATH": str(ROOT),
             "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(inner)
    shown = bytearray()
    drawn = threading.Event()

    def read() -> None:
        while not drawn.is_set():
            shown.extend(os.read(outer, 65536))
            if b"?1049h" in shown and len(shown) > 2000:  # the other screen, and something on it
                drawn.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        assert drawn.wait(60), bytes(shown[-300:])
        thread.join()
        os.close(outer)
        assert child.wait(20) == -signal.SIGHUP
    finally:
        child.kill()
        child.wait()
