"""The metrics of a generation, each defined once.

drafted = accepted + rejected + discarded, always.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from edge_spec.types import Fate, Proposal, Timers, Verdict

SpeculationState = Literal["on", "off", "auto-off"]


@dataclass(slots=True)
class Stats:
    """Counts and seconds of one text, folded round by round.

    The times of a round that served several slots are counted whole for each of them. Time in
    which the consumer of the events held the generator is in none of them. `draft_read_first_s`
    is the part of the draft's prefill that came before this text's first token (other slots').
    `predicted_tokens_per_second` is what a planner that goes by measured costs expected of the
    rounds that `tokens_per_second` measured, None where nobody did. `judged_by_position[i]`
    counts how often a token was judged at depth i, and `accepted_by_position[i]` how often one
    was accepted there.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    draft_cached_tokens: int = 0
    completion_tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    rejected: int = 0
    discarded: int = 0
    accepted_by_position: list[int] = field(default_factory=list)
    judged_by_position: list[int] = field(default_factory=list)
    timers: Timers = field(default_factory=Timers)
    draft_read_first_s: float = 0.0
    time_to_first_token_s: float = 0.0
    wall_s: float = 0.0
    state: SpeculationState = "off"
    reason: str = ""
    predicted_tokens_per_second: float | None = None

    def add(self, proposal: Proposal, verdict: Verdict) -> None:
        """Fold in one round's verdict."""
        self.rounds += 1
        self.completion_tokens += len(verdict.tokens)
        self.drafted += len(proposal)
        self.accepted += verdict.num_accepted
        self.rejected += verdict.count(Fate.REJECTED)
        self.discarded += verdict.count(Fate.DISCARDED)
        judged = _judged_depths(proposal, verdict)
        for depth in range(judged):
            if depth == len(self.judged_by_position):
                self.judged_by_position.append(0)
                self.accepted_by_position.append(0)
            self.judged_by_position[depth] += 1
            self.accepted_by_position[depth] += depth < verdict.num_accepted

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / (accepted + rejected); None when nothing was judged."""
        judged = self.accepted + self.rejected
        return self.accepted / judged if judged else None

    @property
    def draft_yield(self) -> float | None:
        """accepted / drafted, llama.cpp's "accept"; None when nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def mean_acceptance_length(self) -> float | None:
        """Emitted tokens a round, the target's own included (Leviathan's E[#tokens])."""
        return self.completion_tokens / self.rounds if self.rounds else None

    @property
    def acceptance_by_position(self) -> list[float]:
        """Conditional acceptance at each depth, given that all before were accepted."""
        return [a / j for a, j in zip(self.accepted_by_position, self.judged_by_position, strict=True)]

    @property
    def decode_s(self) -> float:
        """Seconds from the first emitted token to the last, the draft's reading left out.

        The draft reads the prompt after the first token (see `Engine`), and prefill is no part
        of decoding on either side.
        """
        read_s = self.timers.draft_prefill_s - self.draft_read_first_s
        return max(self.wall_s - self.time_to_first_token_s - read_s, 0.0)

    @property
    def tokens_per_second(self) -> float | None:
        """Decoding alone: tokens after the first over `decode_s`; None for fewer than two."""
        if self.completion_tokens < 2 or self.decode_s == 0:
            return None
        return (self.completion_tokens - 1) / self.decode_s

    @property
    def rest_s(self) -> float:
        """Wall time that no phase's timer covers."""
        t = self.timers
        attributed = t.prefill_s + t.draft_prefill_s + t.draft_s + t.verify_s + t.sample_s
        return max(self.wall_s - attributed, 0.0)


def _judged_depths(proposal: Proposal, verdict: Verdict) -> int:
    """How many tree levels were judged: the accepted ones, and the one that had a rejection."""
    last = verdict.path[-1] if verdict.path else -1
    rejected_below = any(
        parent == last and fate is Fate.REJECTED
        for parent, fate in zip(proposal.parents, verdict.fates, strict=True)
    )
    return verdict.num_accepted + rejected_below
