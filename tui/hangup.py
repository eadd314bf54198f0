"""A program ends when its terminal or page goes away, whatever whoever started it thinks of signals."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading


def end_with_terminal() -> None:
    """From now on the process ends as by SIGHUP once its terminal is gone.

    SIGHUP alone is not enough: it is ignored below nohup, and not sent where the terminal is not
    the controlling one (docker exec). Behind a web page the input is a pipe of the server's, which may
    be killed. Textual would read the end of its input for ever.
    """
    if not hasattr(signal, "SIGHUP") or not hasattr(select, "poll"):
        return  # Windows ends the programs of a console itself
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    threading.Thread(target=_watch, args=(sys.stdin.fileno(),), name="hangup", daemon=True).start()


def _watch(stdin: int) -> None:
    poll = select.poll()
    poll.register(stdin, 0)  # a hang-up is told unasked
    if any(event & select.POLLHUP for _, event in poll.poll()):
        os.kill(os.getpid(), signal.SIGHUP)
