"""Ctrl+C: the first one stops the answer, the second one ends the process."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from edge_spec.cli.output import INTERRUPTED


class Interrupt:
    """While entered, Ctrl+C cancels once; again, or while nothing can be cancelled, it exits with 130.

    Python runs its signal handlers only between bytecodes of the main thread, and that thread
    may sit in llama.cpp for seconds. So the C-level handler's wakeup byte is read by a thread
    of its own, which acts at once. `at_exit` runs before a sudden exit.
    """

    def __init__(self, at_exit: Callable[[], None] = lambda: None) -> None:
        self._cancel: Callable[[], None] | None = None
        self._pressed = False
        self._at_exit = at_exit
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def cancel_with(self, cancel: Callable[[], None] | None) -> None:
        """What the first Ctrl+C calls from now on; None: it ends the program."""
        self._cancel = cancel

    def __enter__(self) -> Interrupt:
        self._ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        if self._ignored:  # a background job of a script; whoever started it said so
            return self
        self._old_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._old_handler: Any = signal.signal(signal.SIGINT, _nothing)
        threading.Thread(target=self._watch, name="interrupt", daemon=True).start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        if self._ignored:
            return
        signal.signal(signal.SIGINT, self._old_handler)
        signal.set_wakeup_fd(self._old_fd)
        self._writer.close()

    def _watch(self) -> None:
        with self._reader:
            while data := self._reader.recv(16):
                for number in data:
                    if number == signal.SIGINT:
                        self._act()

    def _act(self) -> None:
        if self._cancel is not None and not self._pressed:
            self._pressed = True
            self._cancel()
            return
        try:
            self._at_exit()
        finally:
            os._exit(INTERRUPTED)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Keeps Python from raising KeyboardInterrupt; the watching thread does the work."""
