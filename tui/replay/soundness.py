"""Whether an event of a trace can have happened: a file may be damaged, or made to do harm.

The reader of traces sees to it that every field has its type. That the fields go together, and
that the numbers are such that one can reckon with them, is seen to here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from edge_spec import (
    Alternatives,
    Calibrating,
    Drafted,
    Event,
    Finished,
    Inspected,
    Prefilled,
    Proposal,
    Stats,
    Verified,
)

_LARGEST: Final = 1e15
_ROUNDING: Final = 1e-3


def is_sound(event: Event) -> bool:
    """Whether everything that an event says can be so."""
    match event:
        case Calibrating(fraction=fraction):
            return 0 <= fraction <= 1
        case Prefilled(done=done, total=total, cached=cached):
            return _are_amounts((done, total, cached)) and done <= total
        case Drafted(proposal=proposal):
            return _is_sound_proposal(proposal)
        case Verified():
            return _is_sound_proposal(event.proposal) and _is_sound_verdict(event)
        case Inspected(rows=rows):
            return all(_is_sound_row(row) for row in rows)
        case Finished(stats=stats):
            return _are_sound_stats(stats)
        case _:
            return True


def _is_sound_proposal(proposal: Proposal) -> bool:
    drawn = (None if d is None else d.prob(t) for t, d in zip(proposal.tokens, proposal.dists, strict=True))
    return _are_shares(drawn)


def _is_sound_verdict(event: Verified) -> bool:
    """The accepted path is one of drafted nodes, and what was emitted is that path and one token more."""
    proposal, verdict, num_nodes = event.proposal, event.verdict, len(event.proposal)
    return (
        len(verdict.fates) == len(verdict.target_probs) == num_nodes
        and all(0 <= node < num_nodes for node in verdict.path)
        and len(verdict.tokens) == len(verdict.path) + (verdict.origin != "accepted")
        and all(proposal.tokens[n] == t for n, t in zip(verdict.path, verdict.tokens, strict=False))
        and _are_shares(verdict.target_probs)
        and _are_amounts(dataclasses.astuple(event.timings))
    )


def _is_sound_row(row: Alternatives) -> bool:
    return row.depth >= 0 and _are_shares(one.prob for one in (*row.target, *row.draft))


def _are_sound_stats(stats: Stats) -> bool:
    judged, accepted = stats.judged_by_position, stats.accepted_by_position
    numbers = [
        stats.prompt_tokens, stats.cached_tokens, stats.draft_cached_tokens, stats.completion_tokens,
        stats.rounds, stats.drafted, stats.accepted, stats.rejected, stats.discarded,
        *dataclasses.astuple(stats.timers), stats.draft_read_first_s, stats.time_to_first_token_s,
        stats.wall_s, stats.predicted_tokens_per_second or 0.0, *judged, *accepted,
    ]  # fmt: skip
    return _are_amounts(numbers) and len(judged) == len(accepted) and all(judged)


def _are_amounts(numbers: Iterable[float]) -> bool:
    """Counts and seconds; no NaN is one, for it is in no order with anything."""
    return all(0 <= number <= _LARGEST for number in numbers)


def _are_shares(numbers: Iterable[float | None]) -> bool:
    return all(number is None or 0 <= number <= 1 + _ROUNDING for number in numbers)
