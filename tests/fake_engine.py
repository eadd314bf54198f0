"""The child of an engine host without llama.cpp: a pair of tables that does what its prompt says.

A prompt that begins with a key of ACTS does that in the middle of its answer. One that begins with
"measure" measures, before it, until it is told to skip that.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

from edge_spec.cancel import Cancel
from edge_spec.config import Decoding, Sampling
from edge_spec.conversation import History
from edge_spec.drafters import ModelDrafter
from edge_spec.engine import Engine
from edge_spec.errors import EngineError, ModelFileError, PromptTooLongError, UsageError
from edge_spec.events import Calibrating, Event, Notice
from edge_spec.host import PairInfo, PairSpec, child
from edge_spec.host.child import Loaded, OnProgress
from edge_spec.planner import FixedPlanner
from edge_spec.sampling import SamplerChain
from edge_spec.target import ModelTarget
from edge_spec.testing import TableCache, TableModel
from edge_spec.trace import TraceHeader
from edge_spec.types import Message, Rows, Slot, Timers
from edge_spec.verify import make_coupling

NUM_VOCAB = 128
CONTEXT = 100_000
P = TableModel(NUM_VOCAB, seed=1, order=1)
Q = TableModel(NUM_VOCAB, seed=2, order=1).blend(P, 0.7)
INFO = PairInfo(
    "tables", "F64", "t.gguf", "draft tables", "F64", "d.gguf", CONTEXT,
    (Notice("info", "It is a table."),), TraceHeader({"edge-spec": "0"}, {"target": None}, {"k": 3}),
    "none", "mmap",
)  # fmt: skip

WIRE: list[int] = []
"""The pipe to the parent, for a child that spoils it."""


def _say_and_die(text: bytes) -> Callable[[], None]:
    def act() -> None:
        os.write(WIRE[0], text)
        os._exit(0)

    return act


def _assert_like_ggml() -> None:
    os.write(2, b"/build/ggml/src/ggml.c:42: GGML_ASSERT(cells > 0) failed\n")
    os.kill(os.getpid(), signal.SIGABRT)


def _raise(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


ACTS: dict[str, Callable[[], Any]] = {
    "killed": lambda: os.kill(os.getpid(), 9),
    "asserts": _assert_like_ggml,
    "faults": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "spoils": _say_and_die(b"this is no JSON\n"),
    "lists": _say_and_die(b"[]\n"),
    "invents": _say_and_die(b'{"event": "party"}\n'),
    "breaks off": _say_and_die(b'{"event": "ver'),
    "sleeps": lambda: time.sleep(60),
    "leaves": lambda: os._exit(0),
    "prints": lambda: (os.write(1, b"native words\n"), print("python words", flush=True)),
    "fails": _raise(EngineError("llama.cpp failed to decode 4 rows.")),
    "bugs": _raise(RuntimeError("nobody thought of this")),
}


class TablePair:
    """Answers like `pair.Pair`, from tables; a prompt's ids are its characters."""

    def __init__(self, options: Any) -> None:
        self._seconds = options.get("seconds_a_decode", 0.0)
        self._act: Callable[[], Any] | None = None
        self._cancel = Cancel()
        self._measures = False
        self._skipped = threading.Event()
        sizes: Any = {"context_size": CONTEXT, "cancel": self._cancel}
        self._target_cache = TableCache(P, on_append=self._decoding, **sizes)
        self._draft_cache = TableCache(Q, **sizes)
        self._timers = Timers()

    def generate(
        self,
        prompt: str | Sequence[Message],
        *,
        sampling: Sampling,
        decoding: Decoding,
        raw: bool = False,
        inspect: int = 0,
        history: History | None = None,
    ) -> Generator[Event]:
        text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        if not text:
            raise UsageError("The prompt is empty.")
        if len(text) >= CONTEXT:
            raise PromptTooLongError("The prompt is too long.")
        self._measures = text.startswith("measure")
        self._act = next((act for name, act in ACTS.items() if text.startswith(name)), None)
        ids = [*(history.ids if history else ()), *(ord(c) % NUM_VOCAB for c in text)]
        slot = Slot(
            0, ids, len(ids), decoding.max_tokens, make_coupling("shared", decoding.seed, 0),
            SamplerChain(sampling), SamplerChain(sampling), lambda _tokens: None,
        )  # fmt: skip
        return self._events(slot, decoding)

    def _events(self, slot: Slot, decoding: Decoding) -> Generator[Event]:
        self._cancel.clear()
        self._num_decodes = 0
        self._skipped.clear()
        if self._measures:
            yield Calibrating(0.5)
            assert self._skipped.wait(10), "the order to skip did not come"
        target = ModelTarget(self._target_cache, self._timers)
        drafter = ModelDrafter(self._draft_cache, NUM_VOCAB, self._timers)
        engine = Engine(target, drafter, FixedPlanner(decoding.draft_max), self._timers)
        yield from engine.generate([slot])

    def piece(self, token: int) -> bytes:
        return bytes([token]) if token else b"\xff"

    def cancel(self) -> None:
        self._cancel.set()

    def skip_calibration(self) -> None:
        self._skipped.set()

    def _decoding(self, _parts: Sequence[Rows]) -> None:
        self._num_decodes += 1
        if self._num_decodes == 6 and self._act is not None:
            self._act()
        time.sleep(self._seconds)


def load(spec: PairSpec, on_progress: OnProgress) -> Loaded:
    if spec.target == "missing":
        raise ModelFileError("There is no file missing.")
    if spec.target == "breaks":
        ACTS["asserts"]()
    for step in range(1001):
        on_progress("target", step / 1000)
        time.sleep(spec.options.get("seconds_to_load", 0.0) / 1000)
    return Loaded(TablePair(spec.options), INFO)


def main() -> None:
    WIRE.append(os.dup(1))
    os.write(WIRE[0], b"some module greets the world\n")
    child.main(load)
