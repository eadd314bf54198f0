"""The engine in a child process: one pair, requests down a pipe, events up another.

llama.cpp ends its whole process when an assertion fails, and model files come from strangers.
Behind an `EngineHost` only the child dies: the caller is told what happened and loads again.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Generator
from types import TracebackType

from edge_spec.errors import Cancelled, EngineCrashedError, UsageError
from edge_spec.events import Event
from edge_spec.host.process import EngineProcess
from edge_spec.host.wire import (
    ChatRequest,
    Done,
    Failed,
    Loading,
    PairInfo,
    PairSpec,
    Ready,
    Reply,
    Request,
    TextRequest,
    cancel_line,
    read_reply,
    request_line,
    skip_line,
)
from edge_spec.trace import EventDecoder


class EngineHost:
    """One pair in a child process; the methods block.

    One request is answered at a time; `cancel` and `close` may be called from any thread. The
    child has no terminal, and it ends when this process does, however that ends.
    """

    def __init__(self, spec: PairSpec) -> None:
        self.spec = spec
        # Held for each step of loading or answering: whoever holds it may read the child's pipe.
        self._turn = threading.RLock()
        # Guards what `close` shares with the others; never held while anything waits.
        self._state = threading.Lock()
        self._child: EngineProcess | None = None
        self._closed = False
        self._info: PairInfo | None = None
        self._ready = False
        self._crash: EngineCrashedError | None = None
        self._decoder = EventDecoder()
        self._num_requests = 0
        self._running: int | None = None

    @property
    def info(self) -> PairInfo | None:
        """What is loaded; None before `load` and after a crash."""
        return self._info

    def load(self) -> Generator[Loading, None, PairInfo]:
        """Start the child and load the pair, anew if there is one; its progress, then what it is.

        Raises what `load_pair` raises, EngineCrashedError, and Cancelled when the host is closed
        meanwhile. Closing the generator early ends the child.
        """
        with self._step():
            self._end_child()
            child = self._start_child()
            self._ask(child, self.spec)
        try:
            while self._info is None:
                with self._step(child):
                    heard = self._next(child, "loading the models")
                    if isinstance(heard, PairInfo):
                        self._info = heard
                if isinstance(heard, Failed):
                    raise heard.exception()
                if isinstance(heard, Loading):
                    yield heard
            return self._info
        finally:
            if self._info is None and self._child is child:
                with self._turn:
                    self._end_child()

    def generate(self, request: ChatRequest | TextRequest) -> Generator[Event]:
        """Answer one request, as events; `load` comes first.

        Raises what `Pair.generate` raises, EngineCrashedError (then `load` again), and Cancelled
        when the host is closed meanwhile. Closing the generator early stops the generation, and
        the next request goes on from what was read.
        """
        with self._step():
            child = self._loaded_child()
            if self._running is None and child.has_ended:
                raise self._lost(child, "waiting")
            self._abandon(child)
            self._ask(child, request)
            number = self._running
        try:
            while True:
                with self._step(child):
                    if self._running != number:
                        raise UsageError(
                            "This text cannot go on, because another one was started with its engine; "
                            "finish one text before the next."
                        )
                    heard = self._next(child, "answering")
                    if isinstance(heard, Failed | Done):
                        self._running = None
                if isinstance(heard, Failed):
                    raise heard.exception()
                if isinstance(heard, Done):
                    return
                if not isinstance(heard, Ready | Loading | PairInfo):
                    yield heard
        finally:
            if self._running == number and self._child is child:
                # The next request tells of a crash; whoever stops here does not want to know more.
                with self._turn, contextlib.suppress(EngineCrashedError, Cancelled):
                    self._abandon(child)

    def piece(self, token: int) -> bytes:
        """The bytes of a token that an event named."""
        return self._decoder.piece(token)

    def cancel(self) -> None:
        """Stop the running generation; it ends with reason "cancelled", its text kept."""
        child, running = self._child, self._running
        if child is not None and running is not None:
            child.send(cancel_line(running))

    def skip_calibration(self) -> None:
        """See `Pair.skip_calibration`."""
        child, running = self._child, self._running
        if child is not None and running is not None:
            child.send(skip_line(running))

    def close(self) -> None:
        """End the child; safe to call twice, and while another thread loads or generates."""
        with self._state:
            self._closed = True
            child = self._child
        if child is not None:
            child.end()  # whoever waits for its pipe now sees the end of it
        with self._turn:
            self._end_child()

    def __enter__(self) -> EngineHost:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- inside

    @contextlib.contextmanager
    def _step(self, child: EngineProcess | None = None) -> Generator[None]:
        """Hold the host for one step, with `child` where something that it does goes on."""
        if not self._turn.acquire(blocking=self._closed):
            raise UsageError("This engine is at work in another thread; make a host for each thread.")
        try:
            if self._closed:
                raise (
                    Cancelled
                    if child is not None
                    else UsageError("This engine host was closed; make a new one.")
                )
            if child is not None and child is not self._child:
                raise self._crash or UsageError("This cannot go on, because the engine was loaded anew.")
            yield
        finally:
            self._turn.release()

    def _start_child(self) -> EngineProcess:
        child = EngineProcess()
        with self._state:
            self._child = child
        self._ready, self._crash = False, None
        return child

    def _end_child(self) -> None:
        with self._state:
            child, self._child = self._child, None
        self._info = self._running = None
        if child is not None:
            child.close()

    def _loaded_child(self) -> EngineProcess:
        if self._child is None or self._info is None:
            raise self._crash or UsageError("There is no pair in this engine host yet; call load first.")
        return self._child

    def _ask(self, child: EngineProcess, request: Request) -> None:
        self._num_requests += 1
        if not isinstance(request, PairSpec):
            self._running = self._num_requests  # first, so that a cancel is never too early
        child.send(request_line(self._num_requests, request))

    def _abandon(self, child: EngineProcess) -> None:
        """Stop a text that nobody reads to its end, so that its child is free for the next one."""
        self.cancel()
        while self._running is not None:
            if isinstance(self._next(child, "stopping an answer"), Failed | Done):
                self._running = None

    def _next(self, child: EngineProcess, doing: str) -> Reply | Event:
        """The next thing that the child says."""
        while True:
            line = child.read_line()
            if line is None:
                raise self._lost(child, doing)
            try:
                heard = self._understood(json.loads(line))
            except (ValueError, RecursionError) as error:
                if self._ready:
                    raise self._lost(child, doing, str(error)) from error
                continue  # what some module printed while Python started
            if isinstance(heard, Ready):
                self._ready = True
            elif heard is not None:
                return heard

    def _understood(self, line: object) -> Reply | Event | None:
        """A line as what it says; None for pieces, which are kept."""
        if not isinstance(line, dict):
            raise ValueError("it is not an object")
        return read_reply(line) if "host" in line else self._decoder.decode(line)

    def _lost(self, child: EngineProcess, doing: str, nonsense: str = "") -> Exception:
        """The child is of no more use: why."""
        if self._closed:
            return Cancelled()
        self._crash = child.crash(doing, nonsense)
        self._end_child()
        return self._crash
