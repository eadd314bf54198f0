"""The thread that waits for the engine, so that the interface never does.

One thread does one job after the other: load, answer, close. What it has to say goes through a
`Mailbox`, which hands it over on the interface's thread, in order and in batches.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Generator
from typing import Final, Protocol

from textual.message import Message

from edge_spec import (
    Cancelled,
    ChatRequest,
    EdgeSpecError,
    EngineCrashedError,
    EngineHost,
    Event,
    Loading,
    PairInfo,
    PairSpec,
)
from tui.chat.messages import Crashed, EngineEvents, Failed, Loaded, LoadingProgress, Unloaded

FLUSH_SECONDS: Final = 0.05 if (os.cpu_count() or 1) > 2 else 0.2
"""The shortest time between two batches: with two cores the engine needs both."""

_log = logging.getLogger(__name__)


class Host(Protocol):
    """What the interface needs of an `EngineHost`; a test scripts it."""

    @property
    def info(self) -> PairInfo | None: ...
    def load(self) -> Generator[Loading, None, PairInfo]: ...
    def generate(self, request: ChatRequest) -> Generator[Event]: ...
    def piece(self, token: int) -> bytes: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...


Schedule = Callable[[float, Callable[[], None]], None]
"""Calls a function on the interface's thread after so many seconds; any thread may call it."""


class Mailbox:
    """Collects what one thread says and delivers it on another, at most once in `interval` seconds.

    The first thing said after a quiet time goes out at once, and nothing ever stays behind.
    """

    def __init__(
        self,
        deliver: Callable[[Message], object],
        schedule: Schedule,
        interval: float = FLUSH_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deliver = deliver
        self._schedule = schedule
        self._interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        self._items: list[Event | Message] = []
        self._scheduled = False
        self._last = clock() - interval

    def put(self, item: Event | Message) -> None:
        """Say something; events are gathered, a message goes out after what was said before it."""
        with self._lock:
            self._items.append(item)
            if self._scheduled:
                return
            self._scheduled = True
            delay = max(0.0, self._last + self._interval - self._clock())
        self._schedule(delay, self._flush)

    def _flush(self) -> None:
        with self._lock:
            items, self._items = self._items, []
            self._scheduled = False
            self._last = self._clock()
        events: list[Event] = []
        for item in items:
            if isinstance(item, Message):
                if events:
                    self._deliver(EngineEvents(events))
                    events = []
                self._deliver(item)
            else:
                events.append(item)
        if events:
            self._deliver(EngineEvents(events))


class EngineThread:
    """One `Host` at a time and the thread that talks to it.

    `load`, `generate`, `unload` and `close` return at once; `cancel` reaches a job that is under way.
    """

    def __init__(self, mailbox: Mailbox, make_host: Callable[[PairSpec], Host] = EngineHost) -> None:
        self._mailbox = mailbox
        self._make_host = make_host
        self._host: Host | None = None
        self._spec: PairSpec | None = None
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._unloading = threading.Event()
        # Not one of Python's pool: those are waited for at exit, and a load may take long.
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def load(self, spec: PairSpec) -> None:
        """Load a pair in the place of the one before; an answer under way is cancelled."""
        self.cancel()
        self._jobs.put(lambda: self._load(spec))

    def generate(self, request: ChatRequest) -> None:
        """Answer a request with the pair that is loaded."""
        self._jobs.put(lambda: self._generate(request))

    def unload(self) -> None:
        """End the engine, which frees its memory; a load that is under way is broken off."""
        self._unloading.set()
        self._jobs.put(self._unload)
        host = self._host
        if host is not None:
            # Ending a process may take a moment, and this is the interface's thread.
            threading.Thread(target=host.close, name="unload", daemon=True).start()

    def cancel(self) -> None:
        """Stop the answer that is being given; it still ends with `Finished`."""
        if self._host is not None:
            self._host.cancel()

    def close(self) -> None:
        """End the engine; nothing is delivered any more."""
        self._closed.set()
        self._jobs.put(None)
        if self._host is not None:
            self._host.close()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None and not self._closed.is_set():
            job()
        if self._host is not None:
            self._host.close()

    def _load(self, spec: PairSpec) -> None:
        if self._unloading.is_set():
            return  # it was broken off before it began
        try:
            # The host of the same pair is asked again, for after a crash it knows what it knew.
            if self._host is None or spec != self._spec:
                if self._host is not None:
                    self._host.close()
                self._host, self._spec = self._make_host(spec), spec
            loading = self._host.load()
            while True:
                try:
                    progress = next(loading)
                except StopIteration as done:
                    self._say(Loaded(done.value, self._host.piece))
                    return
                self._say(LoadingProgress(progress.model, progress.fraction))
        except Exception as error:
            self._fail(error, loading=True)

    def _unload(self) -> None:
        if self._host is not None:
            self._host.close()
        self._host = self._spec = None
        self._unloading.clear()
        self._say(Unloaded())

    def _generate(self, request: ChatRequest) -> None:
        assert self._host is not None, "a pair was loaded"
        try:
            for event in self._host.generate(request):
                self._say(event)
        except Exception as error:
            self._fail(error, loading=False)

    def _fail(self, error: Exception, *, loading: bool) -> None:
        match error:
            case EngineCrashedError():
                self._say(Crashed(error, loading))
            case EdgeSpecError():
                self._say(Failed(str(error), error, loading))
            case Cancelled() if self._unloading.is_set():
                pass
            case Cancelled():
                self._say(Failed("It was cancelled.", error, loading))
            case _:
                _log.error("the engine's thread failed", exc_info=error)
                words = f"This is a bug in edge-spec: {type(error).__name__}: {error}".rstrip(".")
                self._say(Failed(f"{words}.", error, loading))

    def _say(self, item: Event | Message) -> None:
        if not self._closed.is_set():
            self._mailbox.put(item)
