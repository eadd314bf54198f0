"""Made-up answers, as events and as trace files, for tests of what plays them."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from edge_spec import (
    Alternative,
    Alternatives,
    Drafted,
    Event,
    Fate,
    Finished,
    Inspected,
    Origin,
    Prefilled,
    Proposal,
    RoundTimings,
    Started,
    Stats,
    TraceHeader,
    TraceWriter,
    Verdict,
    Verified,
)
from edge_spec.types import Dist

PIECES = (
    b"", b"user\n", b"Hi", b" one", b" two", b",", b"\n", b"\xf0\x9f", b"\x99\x82", b" [red]x[/]",
    b"\x1b[31m", b"ST", b"OP",
)  # fmt: skip
"""The bytes of token i; 7 and 8 are the halves of a smiling face."""

PROMPT = (0, 1, 2, 0)


def piece(token: int) -> bytes:
    return PIECES[token]


def header(stop: Iterable[str] = ()) -> TraceHeader:
    files = {
        "target": {"file": "/models/big-[red].gguf", "sha256": "0" * 64, "quantization": "Q4_0"},
        "draft": {"file": "/models/small.gguf", "sha256": "1" * 64, "quantization": "Q8_0"},
    }
    settings = {"stop": list(stop), "draft_max": 3, "ctx_size": 4096}
    return TraceHeader({"edge-spec": "0.1.0"}, files, settings)


def timings(wall_s: float = 0.1, draft_s: float = 0.04) -> RoundTimings:
    return RoundTimings(draft_s, wall_s - draft_s, 0.0, wall_s)


def verdict(proposal: Proposal, num_accepted: int, own: int | None) -> Verdict:
    """`num_accepted` of a chain are right, then comes `own`; None: the text was cut before it."""
    num_left = len(proposal) - num_accepted
    fates = [Fate.ACCEPTED] * num_accepted
    if num_left:
        fates += [Fate.REJECTED if own is not None else Fate.DISCARDED] + [Fate.DISCARDED] * (num_left - 1)
    tokens = proposal.tokens[:num_accepted] + (() if own is None else (own,))
    origin: Origin = "plain" if not len(proposal) else "residual" if num_left else "bonus"
    probs = tuple(0.5 if fate is not Fate.DISCARDED else None for fate in fates)
    return Verdict(
        tokens, tuple(range(num_accepted)), tuple(fates), "accepted" if own is None else origin, probs
    )


def one_round(slot: int, drafted: list[int], num_accepted: int, own: int | None) -> list[Event]:
    """What one round says: its guess if it has one, and the verdict."""
    dists = [Dist(np.array([token]), np.array([0.25])) for token in drafted]
    proposal = Proposal.chain(drafted, dists, "draft") if drafted else Proposal()
    events: list[Event] = [Drafted(slot, proposal)] if drafted else []
    return [*events, Verified(slot, proposal, verdict(proposal, num_accepted, own), timings())]


def answer(num_rounds: int, seed: int = 0, slot: int = 0, *, inspected: bool = False) -> list[Event]:
    """A whole answer of random rounds, the first of them plain."""
    rng = random.Random(seed)
    events: list[Event] = [
        Started(slot, PROMPT, 0, 0),
        Prefilled(slot, "target", 2, 4, 0),
        Prefilled(slot, "target", 4, 4, 0),
    ]
    stats = Stats(prompt_tokens=len(PROMPT))
    for number in range(num_rounds):
        drafted = [rng.randrange(len(PIECES)) for _ in range(3)] if number else []
        events += one_round(slot, drafted, rng.randint(0, len(drafted)), rng.randrange(len(PIECES)))
        last = events[-1]
        assert isinstance(last, Verified)
        stats.add(last.proposal, last.verdict)
        if inspected:
            best = (Alternative(3, 0.75), Alternative(4, 0.25))
            rows = tuple(Alternatives(depth, best, best) for depth in range(len(last.verdict.tokens)))
            events.append(Inspected(slot, rows))
    stats.time_to_first_token_s, stats.wall_s = 0.5, 0.4 + 0.1 * num_rounds
    return [*events, Finished(slot, "length", stats)]


def write_trace(path: Path, events: Iterable[Event], stop: Iterable[str] = ()) -> Path:
    with TraceWriter(path) as writer:
        writer.begin(header(stop), piece)
        for event in events:
            writer.write(event)
    return path
