"""Ctrl+C acts at once, wherever the main thread is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")

SCRIPT = """
import ctypes, sys
from edge_spec.cli.interrupt import Interrupt

with Interrupt(at_exit=lambda: print("exit", flush=True)) as interrupt:
    if sys.argv[1] == "busy":
        interrupt.cancel_with(lambda: print("cancel", flush=True))
    print("ready", flush=True)
    libc = ctypes.CDLL(None)
    while libc.poll(None, 0, 30000):  # the main thread is in C, as in a long decode
        pass
    print("slept", flush=True)
"""


# A test run in the background of a script would hand down an ignored SIGINT.
HEARING = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def start(script: str, mode: str = "") -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HEARING + script, mode],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_the_first_cancels_and_the_second_exits_at_once() -> None:
    with start(SCRIPT, "busy") as process:
        assert process.stdout is not None
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        assert process.stdout.readline() == "cancel\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "exit\n"
        assert process.wait(10) == 130
        assert time.monotonic() - started < 5


def test_while_nothing_can_be_cancelled_the_first_exits() -> None:
    with start(SCRIPT, "idle") as process:
        assert process.stdout is not None
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "exit\n"
        assert process.wait(10) == 130


def test_afterwards_ctrl_c_is_pythons_again() -> None:
    script = """
from edge_spec.cli.interrupt import Interrupt
before = signal.getsignal(signal.SIGINT)
with Interrupt():
    pass
assert signal.getsignal(signal.SIGINT) is before
assert signal.set_wakeup_fd(-1) == -1
print("ready")
"""
    with start(script) as process:
        assert process.wait(10) == 0


def test_a_background_job_that_ignores_ctrl_c_goes_on_ignoring_it() -> None:
    script = """
from edge_spec.cli.interrupt import Interrupt
signal.signal(signal.SIGINT, signal.SIG_IGN)
with Interrupt():
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
print("ready")
"""
    with start(script) as process:
        assert process.wait(10) == 0
