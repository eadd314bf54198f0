"""The child of an engine host: `main` speaks the protocol of `wire` on stdin and stdout.

One thread listens, so that a cancel is heard and the parent's end is noticed whatever the other
one does: that sits in llama.cpp, or waits for a parent that is slow to read. Both leave Python
free to run the listener.
"""

from __future__ import annotations

import inspect
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from edge_spec.config import Decoding, Sampling
from edge_spec.conversation import History
from edge_spec.errors import EdgeSpecError, SettingError
from edge_spec.events import Event
from edge_spec.host.pipes import private_pipes, write_all
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
    read_request,
    reply_line,
)
from edge_spec.trace import EventEncoder, TraceHeader
from edge_spec.types import Message
from edge_spec.versions import versions

if TYPE_CHECKING:
    from edge_spec.pair import Pair

OnProgress = Callable[[Literal["target", "draft"], float], None]

_PROGRESS_STEP = 0.01


class Speaker(Protocol):
    """The part of `pair.Pair` that answers requests."""

    def generate(
        self,
        prompt: str | Sequence[Message],
        *,
        sampling: Sampling,
        decoding: Decoding,
        raw: bool = False,
        inspect: int = 0,
        history: History | None = None,
    ) -> Generator[Event]: ...

    def piece(self, token: int) -> bytes: ...

    def cancel(self) -> None: ...

    def skip_calibration(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Loaded:
    """A pair, and what the parent is told about it."""

    pair: Speaker
    info: PairInfo


Load = Callable[[PairSpec, OnProgress], Loaded]


class Server:
    """Answers the requests that come through the pipe `source`, one at a time, into `sink`.

    `load` makes the pair. `leave` is called when `source` ends, in the thread that listens; where
    it returns, the running generation is stopped and `run` returns after it.
    """

    def __init__(self, load: Load, source: int, sink: int, leave: Callable[[], None]) -> None:
        self._load = load
        self._source = source
        self._sink = sink
        self._leave = leave
        self._requests: queue.SimpleQueue[tuple[int, Request] | None] = queue.SimpleQueue()
        self._pair: Speaker | None = None
        self._encoder: EventEncoder | None = None
        # A cancel is for one request, and may come before that is begun or after it has ended.
        self._lock = threading.Lock()
        self._running = 0
        self._cancelled = 0

    def run(self) -> None:
        """Serve until the parent closes its end."""
        threading.Thread(target=self._listen, name="requests", daemon=True).start()
        self._say(Ready())
        while (item := self._requests.get()) is not None:
            number, request = item
            try:
                if isinstance(request, PairSpec):
                    self._answer_load(request)
                else:
                    self._answer(number, request)
            except EdgeSpecError as error:
                self._say(Failed(type(error).__name__, str(error)))

    def _answer_load(self, spec: PairSpec) -> None:
        told = ("", 0.0)

        def on_progress(model: Literal["target", "draft"], fraction: float) -> None:
            nonlocal told
            if model != told[0] or fraction >= min(1.0, told[1] + _PROGRESS_STEP):
                told = (model, fraction)
                self._say(Loading(model, fraction))

        loaded = self._load(spec, on_progress)
        self._pair = loaded.pair
        self._encoder = EventEncoder(loaded.pair.piece)
        self._say(loaded.info)

    def _answer(self, number: int, request: ChatRequest | TextRequest) -> None:
        assert self._pair is not None and self._encoder is not None, "the first request loads"
        events = _events(self._pair, request)
        with self._lock:
            self._running = number
        try:
            for event in events:
                write_all(self._sink, self._encoder.encode(event))
                if self._cancelled >= number:  # a pair forgets a cancel that came before its start
                    self._pair.cancel()
        finally:
            with self._lock:
                self._running = 0
            events.close()
        self._say(Done())

    # -- the thread that listens

    def _listen(self) -> None:
        try:
            with os.fdopen(self._source, "rb", closefd=False) as lines:
                for text in lines:
                    line = json.loads(text)
                    if "cancel" in line:
                        self._cancel(line["cancel"])
                    elif "skip" in line:
                        self._skip_calibration(line["skip"])
                    else:
                        self._requests.put((line["request"], read_request(line)))
        finally:
            self._requests.put(None)
            self._cancel(sys.maxsize)
            self._leave()

    def _cancel(self, number: int) -> None:
        """Stop request `number` and those before it."""
        with self._lock:
            self._cancelled = number
            if self._pair is not None and 0 < self._running <= number:
                self._pair.cancel()

    def _skip_calibration(self, number: int) -> None:
        with self._lock:
            if self._pair is not None and self._running == number:
                self._pair.skip_calibration()

    # -- the way up

    def _say(self, reply: Reply) -> None:
        write_all(self._sink, reply_line(reply))


def _events(pair: Speaker, request: ChatRequest | TextRequest) -> Generator[Event]:
    sampling, decoding, num = request.sampling, request.decoding, request.inspect
    if isinstance(request, TextRequest):
        return pair.generate(request.text, sampling=sampling, decoding=decoding, raw=True, inspect=num)
    return pair.generate(
        request.messages, sampling=sampling, decoding=decoding, inspect=num, history=request.history
    )


def load(spec: PairSpec, on_progress: OnProgress) -> Loaded:
    """Load a real pair. Raises what `load_pair` raises, and SettingError for unknown options."""
    from edge_spec.api import load_pair

    known = inspect.signature(load_pair).parameters.keys() - {"target", "draft", "on_progress"}
    unknown = spec.options.keys() - known
    if unknown:
        raise SettingError(f"load_pair has no option {', '.join(sorted(unknown))}.")
    pair = load_pair(spec.target, spec.draft, on_progress=on_progress, **spec.options)
    return Loaded(pair, _info(pair, spec))


def _info(pair: Pair, spec: PairSpec) -> PairInfo:
    from edge_spec.models.hashes import known_sha256

    target, draft = pair.target, pair.draft
    files = {
        role: {
            "file": str(model.path),
            "sha256": known_sha256(model.path),
            "quantization": model.quantization,
        }
        if model
        else None
        for role, model in (("target", target), ("draft", draft))
    }
    settings = {"model": spec.target, "draft_model": spec.draft, **spec.options}
    return PairInfo(
        target_name=target.header.short_name,
        target_quantization=target.quantization,
        target_file=str(target.path),
        draft_name=draft.header.short_name if draft else None,
        draft_quantization=draft.quantization if draft else None,
        draft_file=str(draft.path) if draft else None,
        context_size=target.settings.context_size,
        notices=pair.notices,
        header=TraceHeader(versions(), files, settings),
        target_load_mode=target.load_mode,
        draft_load_mode=draft.load_mode if draft else None,
    )


def main(load: Load = load) -> None:
    """Serve on what were stdin and stdout."""
    source, sink = private_pipes()
    try:
        Server(load, source, sink, leave=lambda: os._exit(0)).run()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
