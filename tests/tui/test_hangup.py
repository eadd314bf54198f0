"""A terminal that goes away takes the program with it, and so does a server behind a page."""

from __future__ import annotations

import contextlib
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


def _environment(folder: Path) -> dict[str, str]:
    folders = {f"XDG_{name}_HOME": str(folder / name) for name in ("DATA", "CONFIG", "STATE", "CACHE")}
    return {**os.environ, **folders, "EDGE_SPEC_MODELS": str(folder), "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("own_session", [True, False], ids=["no controlling terminal", "ours"])
def test_the_chat_ends_when_its_terminal_does_though_sighup_is_ignored(
    tmp_path: Path, own_session: bool
) -> None:
    outer, inner = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "edge_spec.cli", "chat"],
        stdin=inner, stdout=inner, stderr=inner, cwd=tmp_path, preexec_fn=_ignoring,
        start_new_session=own_session, env={**_environment(tmp_path), "TERM": "xterm-256color"},
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


def test_the_chat_behind_a_page_ends_when_its_server_is_killed(tmp_path: Path) -> None:
    """A server as textual-serve is one, but that it leaves the output, whose end tells when all is over."""
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL).wait()\n"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", code, sys.executable, "-m", "edge_spec.cli", "chat"],
        stdout=subprocess.PIPE, cwd=tmp_path, start_new_session=True,
        env={**_environment(tmp_path), "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver"},
    )  # fmt: skip
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"__GANGLION__\n"
        server.kill()
        server.communicate(timeout=20)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.communicate()
