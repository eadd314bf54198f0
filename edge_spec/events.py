"""What a generation tells its watchers: frozen values, matched exhaustively.

Order: Calibrating... where that was not done yet, Started, Prefilled..., then rounds of Drafted,
Verified (with Prefilled between them as it happens), then Finished. Where inspection was asked for,
Inspected follows each Verified. A Notice may come at any time; those of loading come before a pair's
first Started. With several slots, `slot` is the index in the list of texts that was given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edge_spec.stats import Stats
from edge_spec.types import FinishReason, Proposal, Verdict


@dataclass(frozen=True, slots=True)
class Started:
    """A text begins: its prompt's tokens, and how many of them each cache already holds."""

    slot: int
    prompt_ids: tuple[int, ...]
    cached: int
    draft_cached: int


@dataclass(frozen=True, slots=True)
class Calibrating:
    """What decodes cost here is being measured, before a text begins; `fraction` of it is done, 0 to 1.

    `Pair.skip_calibration` ends it.
    """

    fraction: float


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The model `model` has read `done` of `total` prompt tokens, `cached` of them from cache."""

    slot: int
    model: Literal["target", "draft"]
    done: int
    total: int
    cached: int


@dataclass(frozen=True, slots=True)
class Drafted:
    """A drafter proposed; the proposal now waits for its verdict. Not sent when empty."""

    slot: int
    proposal: Proposal


@dataclass(frozen=True, slots=True)
class RoundTimings:
    """Seconds of one round, all slots together: drafting, verifying, sampling, the whole."""

    draft_s: float
    verify_s: float
    sample_s: float
    wall_s: float


@dataclass(frozen=True, slots=True)
class Verified:
    """A round's verdict on `proposal` (empty in plain decoding); its tokens are now emitted."""

    slot: int
    proposal: Proposal
    verdict: Verdict
    timings: RoundTimings


@dataclass(frozen=True, slots=True)
class Alternative:
    """A token that a model might have put somewhere, and the probability it gave it."""

    token: int
    prob: float


@dataclass(frozen=True, slots=True)
class Alternatives:
    """What each model thought of one position of a round, best first.

    `depth` counts the emitted tokens of the round from 0. The probabilities are the softmax of
    the raw logits: temperature 1, no penalties, nothing truncated. `draft` is empty where the
    draft model was not asked.
    """

    depth: int
    target: tuple[Alternative, ...]
    draft: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class Inspected:
    """The alternatives at each token that the Verified before this emitted, in order."""

    slot: int
    rows: tuple[Alternatives, ...]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a user should know, in one sentence."""

    level: Literal["info", "warning"]
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """A text ended."""

    slot: int
    reason: FinishReason
    stats: Stats


Event = Calibrating | Started | Prefilled | Drafted | Verified | Inspected | Notice | Finished
