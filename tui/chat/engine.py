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
    def skip_calibration(self) -> None: ...
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
    Whatever was wanted last counts: a load in whose place something else was wanted is broken off, and
    no more is said of it. What was said of it before may still lie in the mailbox, so messages have the
    load's number, to be compared with `newest_load`.
    """

    def __init__(self, mailbox: Mailbox, make_host: Callable[[PairSpec], Host] = EngineHost) -> None:
        self._mailbox = mailbox
        self._make_host = make_host
        self._host: Host | None = None
        self._spec: PairSpec | None = None
        self._wanted: PairSpec | None = None
        self._newest_load = self._ended_load = 0
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        # Not one of Python's pool: those are waited for at exit, and a load may take long.
        self._thread = threading.Thread(target=self._work, name="engine", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def newest_load(self) -> int:
        """The number of the last load that was asked for; unloading has one too."""
        return self._newest_load

    def load(self, spec: PairSpec) -> None:
        """Load a pair in the place of the one before; an answer or a load under way is broken off.

        A load of the same pair that is under way goes on.
        """
        is_other = spec != self._wanted
        if not is_other and self._ended_load != self._newest_load:
            return
        self.cancel()
        host = self._host
        self._want(spec)
        if is_other and host is not None and host.info is None:
            self._end(host)
        load = self._newest_load
        self._jobs.put(lambda: self._load(spec, load))

    def generate(self, request: ChatRequest) -> None:
        """Answer a request with the pair that is loaded."""
        load = self._newest_load
        self._jobs.put(lambda: self._generate(request, load))

    def unload(self) -> None:
        """End the engine, which frees its memory; a load that is under way is broken off."""
        self._want(None)
        self._jobs.put(self._unload)
        if self._host is not None:
            self._end(self._host)

    def cancel(self) -> None:
        """Stop the answer that is being given; it still ends with `Finished`."""
        if self._host is not None:
            self._host.cancel()

    def skip_calibration(self) -> None:
        """End what `Calibrating` events tell of; the answer goes on."""
        if self._host is not None:
            self._host.skip_calibration()

    def close(self) -> None:
        """End the engine; nothing is delivered any more."""
        self._closed.set()
        self._jobs.put(None)
        if self._host is not None:
            self._host.close()

    def _want(self, spec: PairSpec | None) -> None:
        self._wanted = spec
        self._newest_load += 1

    def _end(self, host: Host) -> None:
        """End what the engine's thread waits for, which then drops the host."""
        # Ending a process may take a moment, and this is the interface's thread.
        threading.Thread(target=host.close, name="unload", daemon=True).start()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None and not self._closed.is_set():
            job()
        if self._host is not None:
            self._host.close()

    def _load(self, spec: PairSpec, load: int) -> None:
        is_wanted = load == self._newest_load
        # The host of the same pair is asked again, for after a crash it knows what it knew; but not
        # if another pair was wanted in between: then it may have been ended.
        if spec != self._spec or not is_wanted:
            self._drop()
        if not is_wanted:
            return
        try:
            if self._host is None:
                self._host, self._spec = self._make_host(spec), spec
            loading = self._host.load()
            while True:
                try:
                    progress = next(loading)
                except StopIteration as done:
                    self._ended_load = load
                    self._say_of(load, Loaded(done.value, self._host.piece, load))
                    return
                self._say_of(load, LoadingProgress(progress.model, progress.fraction, load))
        except Exception as error:
            self._ended_load = load
            if load == self._newest_load:
                self._say(self._failure(error, load))

    def _unload(self) -> None:
        self._drop()
        self._say(Unloaded())

    def _drop(self) -> None:
        if self._host is not None:
            self._host.close()
        self._host = self._spec = None

    def _generate(self, request: ChatRequest, load: int) -> None:
        assert self._host is not None, "a pair was loaded"
        try:
            for event in self._host.generate(request):
                self._say(event)
        except Cancelled as error:
            if load == self._newest_load:
                self._say(self._failure(error, None))
        except Exception as error:
            self._say(self._failure(error, None))

    def _failure(self, error: Exception, load: int | None) -> Failed | Crashed:
        match error:
            case EngineCrashedError():
                return Crashed(error, load)
            case EdgeSpecError():
                return Failed(str(error), error, load)
            case Cancelled():
                return Failed("It was cancelled.", error, load)
        _log.error("the engine's thread failed", exc_info=error)
        words = f"This is a bug in edge-spec: {type(error).__name__}: {error}".rstrip(".")
        return Failed(f"{words}.", error, load)

    def _say_of(self, load: int, item: Message) -> None:
        if load == self._newest_load:
            self._say(item)

    def _say(self, item: Event | Message) -> None:
        if not self._closed.is_set():
            self._mailbox.put(item)
