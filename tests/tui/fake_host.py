"""An engine host that says what a script says: no process, no model, no time of its own.

A script is a list of answers, each a list of parts: rounds, notices, errors to raise, and gates,
where the answer waits until the test opens them or cancels it.
"""

from __future__ import annotations

import collections
import threading
import zlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from edge_spec import (
    Alternative,
    Alternatives,
    Calibrating,
    Cancelled,
    ChatRequest,
    Drafted,
    EngineCrashedError,
    Event,
    Fate,
    Finished,
    FinishReason,
    Inspected,
    Loading,
    Notice,
    Origin,
    PairInfo,
    PairSpec,
    Prefilled,
    Proposal,
    RoundTimings,
    Started,
    Stats,
    TraceHeader,
    UsageError,
    Verdict,
    Verified,
)
from edge_spec.types import Dist

SPEC = PairSpec("target.gguf", "draft.gguf", {})
CONTEXT = 4096
WAIT_S = 20.0
"""So long a gate waits at most, for a test that fails to open it."""


def token_id(text: str | bytes) -> int:
    """The id of a piece of text, the same in every vocabulary that has it."""
    return zlib.crc32(text.encode() if isinstance(text, str) else text)


class Vocabulary:
    """The pieces that one host has named, and no others, as a real one knows them."""

    def __init__(self) -> None:
        self._pieces: dict[int, bytes] = {}

    def id(self, text: str | bytes) -> int:
        piece = text.encode() if isinstance(text, str) else text
        assert self._pieces.setdefault(token_id(piece), piece) == piece, "two pieces have one id"
        return token_id(piece)

    def piece(self, token: int) -> bytes:
        return self._pieces[token]


TIMINGS = RoundTimings(draft_s=0.030, verify_s=0.050, sample_s=0.001, wall_s=0.090)


class Gate:
    """A place where an answer, or loading, waits; what is cancelled there may fail with `error`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.reached = threading.Event()
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def wait(self) -> None:
        self.reached.set()
        assert self._open.wait(WAIT_S), "nobody opened the gate"


@dataclass(frozen=True)
class Round:
    """One round: `accepted` of the drafted pieces, then the target's own; None: cut before it."""

    drafted: tuple[str | bytes, ...] = ()
    accepted: int = 0
    own: str | bytes | None = None
    timings: RoundTimings = TIMINGS
    hold: Gate | None = None
    """Waited for between the guess and its verdict."""


def plain(*pieces: str | bytes, wall_s: float = 0.030) -> list[Round]:
    """Rounds in which nothing was drafted."""
    timings = RoundTimings(0.0, wall_s - 0.001, 0.001, wall_s)
    return [Round(own=piece, timings=timings) for piece in pieces]


@dataclass(frozen=True)
class Reading:
    """A model has read so much of the prompt."""

    done: int
    total: int
    model: Literal["target", "draft"] = "target"


@dataclass(frozen=True)
class Measuring:
    """So much is measured before the answer; it goes on where that is skipped or the gate is opened."""

    fraction: float
    hold: Gate


@dataclass(frozen=True)
class End:
    """How the answer ends, if otherwise than by itself."""

    reason: FinishReason


Part = Measuring | Round | Reading | Notice | Gate | Exception | End


def say(*words: str) -> list[Part]:
    """An answer of a plain first word, then rounds of three guesses each, all but the last right."""
    parts: list[Part] = list(plain(words[0]))
    for start in range(1, len(words), 3):
        group = words[start : start + 3]
        parts.append(Round((*group[:-1], " no"), len(group) - 1, group[-1]))
    return parts


@dataclass
class Script:
    """What the hosts of a test do, and what was asked of them."""

    answers: collections.deque[list[Part]] = field(default_factory=collections.deque)
    loads: collections.deque[list[Loading | Gate | Exception]] = field(default_factory=collections.deque)
    info: Callable[[PairSpec], PairInfo] = lambda spec: pair_info(spec)
    prompt_tokens: int = 20
    requests: list[ChatRequest] = field(default_factory=list)
    specs: list[PairSpec] = field(default_factory=list)
    num_loads: int = 0
    num_closed: int = 0
    num_skipped: int = 0
    killed: int = 0
    """So many of the next requests find that the engine ended while it waited."""

    def answer(self, *parts: Part | list[Part] | list[Round]) -> None:
        """The next request is answered so."""
        flat: list[Part] = []
        for part in parts:
            flat.extend(part if isinstance(part, list) else [part])
        self.answers.append(flat)

    def host(self, spec: PairSpec) -> FakeHost:
        self.specs.append(spec)
        return FakeHost(spec, self)


def pair_info(spec: PairSpec, *notices: Notice, context_size: int = CONTEXT) -> PairInfo:
    """What a loaded pair says of itself."""
    header = TraceHeader(
        {"edge-spec": "0"},
        {"target": {"file": spec.target, "sha256": None, "quantization": "Q4_0"}},
        {"draft_max": 3},
    )
    has_draft = spec.draft is not None
    return PairInfo(
        "Qwen2.5-Coder-1.5B", "Q4_0", spec.target,
        "Qwen2.5-Coder-0.5B" if has_draft else None, "Q4_0" if has_draft else None, spec.draft,
        context_size, notices, header,
    )  # fmt: skip


class FakeHost:
    """One pair of a script."""

    def __init__(self, spec: PairSpec, script: Script) -> None:
        self._spec = spec
        self._script = script
        self._cancelled = threading.Event()
        self._closed = False
        self._waiting: Gate | None = None
        self.vocabulary = Vocabulary()
        self.info: PairInfo | None = None

    def load(self) -> Generator[Loading, None, PairInfo]:
        if self._closed:
            raise UsageError("This engine host was closed; make a new one.")
        self._script.num_loads += 1
        self.info = None
        self._cancelled.clear()
        parts = self._script.loads.popleft() if self._script.loads else []
        for part in parts:
            if isinstance(part, Exception):
                raise part
            if not isinstance(part, Gate):
                yield part
            elif self.wait(part):
                raise part.error or Cancelled()  # closed meanwhile, as a real one says it
        self.info = self._script.info(self._spec)
        return self.info

    def generate(self, request: ChatRequest) -> Generator[Event]:
        self._script.requests.append(request)
        self._cancelled.clear()
        if self._script.killed:
            self._script.killed -= 1
            self.die()
            raise EngineCrashedError("The engine was killed (SIGKILL) while waiting.", "SIGKILL")
        parts = self._script.answers.popleft() if self._script.answers else list(plain("Yes."))
        yield from _Answer(self, request, self._script.prompt_tokens).play(parts)

    def wait(self, gate: Gate) -> bool:
        """Wait at a gate; returns whether the answer was cancelled there."""
        self._waiting = gate
        if not self._cancelled.is_set():
            gate.wait()
        self._waiting = None
        return self._cancelled.is_set()

    def die(self) -> None:
        self.info = None

    def piece(self, token: int) -> bytes:
        return self.vocabulary.piece(token)

    def cancel(self) -> None:
        if self.info is not None:  # a load ends only with the host
            self._break_off()

    def skip_calibration(self) -> None:
        self._script.num_skipped += 1
        if self._waiting is not None:
            self._waiting.open()

    def close(self) -> None:
        self._script.num_closed += 1
        self._closed, self.info = True, None
        self._break_off()

    def _break_off(self) -> None:
        self._cancelled.set()
        if self._waiting is not None:
            self._waiting.open()


class _Answer:
    """One answer being given."""

    def __init__(self, host: FakeHost, request: ChatRequest, prompt_tokens: int) -> None:
        self._host = host
        self._request = request
        self._id = host.vocabulary.id
        self._prompt = tuple(self._id(f"<{i}>") for i in range(prompt_tokens))
        self._stats = Stats(prompt_tokens=prompt_tokens)

    def play(self, parts: list[Part]) -> Generator[Event]:
        cancelled = False
        for part in parts:
            if isinstance(part, Measuring):
                yield Calibrating(part.fraction)
                cancelled = self._host.wait(part.hold)
        yield Started(0, self._prompt, 0, 0)
        if cancelled:
            yield self._finished("cancelled")
            return
        for part in parts:
            match part:
                case Exception():
                    self._host.die()
                    raise part
                case Gate():
                    if self._host.wait(part):
                        if part.error is not None:
                            self._host.die()
                            raise part.error
                        yield self._finished("cancelled")
                        return
                case Reading(done, total, model):
                    yield Prefilled(0, model, done, total, 0)
                case Notice():
                    yield part
                case End(reason):
                    yield self._finished(reason)
                    return
                case Round():
                    done = yield from self._round(part)
                    if not done:
                        yield self._finished("cancelled")
                        return
        yield self._finished("eog")

    def _round(self, part: Round) -> Generator[Event, None, bool]:
        tokens = [self._id(piece) for piece in part.drafted]
        proposal = Proposal()
        if tokens:
            dists = [Dist(np.array([token]), np.array([0.25])) for token in tokens]
            proposal = Proposal.chain(tokens, dists, "draft")
            yield Drafted(0, proposal)
        if part.hold is not None and self._host.wait(part.hold):
            return False
        own = None if part.own is None else self._id(part.own)
        verdict = _verdict(proposal, part, own)
        self._stats.add(proposal, verdict)
        self._stats.wall_s += part.timings.wall_s
        if self._stats.rounds == 1:
            self._stats.time_to_first_token_s = part.timings.wall_s
        else:
            self._stats.timers.draft_s += part.timings.draft_s
            self._stats.timers.verify_s += part.timings.verify_s
        yield Verified(0, proposal, verdict, part.timings)
        if count := self._request.inspect:
            best = tuple(Alternative(self._id(f" alt{i}"), 0.5 / (i + 1)) for i in range(count))
            yield Inspected(0, tuple(Alternatives(i, best, best) for i in range(len(verdict.tokens))))
        return True

    def _finished(self, reason: FinishReason) -> Finished:
        draft_max = self._request.decoding.draft_max
        self._stats.state = "on" if draft_max else "off"
        self._stats.reason = (
            f"fixed draft length {draft_max}" if draft_max else "draft length 0 was asked for"
        )
        return Finished(0, reason, self._stats)


def _verdict(proposal: Proposal, part: Round, own: int | None) -> Verdict:
    num_left = len(proposal) - part.accepted
    fates = [Fate.ACCEPTED] * part.accepted
    if num_left:
        fates += [Fate.REJECTED if own is not None else Fate.DISCARDED, *[Fate.DISCARDED] * (num_left - 1)]
    origin: Origin = "plain" if not len(proposal) else "residual" if num_left else "bonus"
    return Verdict(
        proposal.tokens[: part.accepted] + (() if own is None else (own,)),
        tuple(range(part.accepted)),
        tuple(fates),
        "accepted" if own is None else origin,
        tuple(None if fate is Fate.DISCARDED else 0.5 for fate in fates),
    )
