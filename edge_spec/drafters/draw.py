"""How a draft model draws at temperature > 0: from its distribution, or the likeliest token.

A token x drawn from q is accepted with probability sum min(p, q), the likeliest one, taken
without a draw, with p(argmax q) (Leviathan et al. 2023, arXiv:2211.17192, section 3). Which is
more differs from place to place: where q is flat a draw is better, where p is sharper than q the
likeliest token is. What is known of a place before its token is drafted is q alone, so the choice
is learned by how sure q is, from rows that the round computes anyway. A choice by q keeps the
text's law: the node is then deterministic, which the coupling is told.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from edge_spec.sampling import likeliest
from edge_spec.types import Dist, Logits, Sampler, Slot, Verdict

EDGES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
"""Upper edges of the classes: the probability that q gives its likeliest token."""

_MIDDLES = (0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.94, 0.99)
_PRIOR_WEIGHT = 4.0
_MEMORY = 0.995
"""What one more place leaves of the weight of earlier ones: the last 200 of a class count."""


class DrawChoice:
    """Learns for one pair whether its draft shall draw, and outlives texts."""

    def __init__(self) -> None:
        # Where nothing was seen, a draft that is as sure as the target is thought to be right as often.
        self._drawn = [(0.6 + 0.4 * middle) * _PRIOR_WEIGHT for middle in _MIDDLES]
        self._likeliest = [middle * _PRIOR_WEIGHT for middle in _MIDDLES]
        self._count = [_PRIOR_WEIGHT] * len(_MIDDLES)

    def takes_likeliest(self, q: Dist) -> bool:
        """Whether q's likeliest token is the better guess than one drawn from q."""
        drawn, top = self.expected(q)
        return top > drawn

    def expected(self, q: Dist) -> tuple[float, float]:
        """Acceptance of a drawn token and of the likeliest one, at places like q's."""
        kind = _kind(q)
        return self._drawn[kind] / self._count[kind], self._likeliest[kind] / self._count[kind]

    def observe(self, q: Dist, p: Dist, agreement: float) -> None:
        """At one place the draft had q, and the target p; see `Coupling.agreement`."""
        kind = _kind(q)
        self._drawn[kind] = _MEMORY * self._drawn[kind] + agreement
        self._likeliest[kind] = _MEMORY * self._likeliest[kind] + p.prob(likeliest(q))
        self._count[kind] = _MEMORY * self._count[kind] + 1


class WatchedSampler:
    """A target's sampler that remembers its distributions by position until they are taken."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self.dists: dict[int, Dist] = {}

    def __call__(self, logits: Logits, history: Sequence[int]) -> Dist:
        dist = self.dists[len(history)] = self._sampler(logits, history)
        return dist


class DrawWatch:
    """What one slot's draft said, to be held against what the target says of the same places."""

    def __init__(self, slot: Slot, choice: DrawChoice) -> None:
        self.choice = choice
        self._target = slot.target_sampler = WatchedSampler(slot.target_sampler)
        self._said: dict[int, Dist] = {}

    def say(self, position: int, q: Dist) -> None:
        """The draft has q at a position."""
        self._said[position] = q

    def judge(self, slot: Slot, verdict: Verdict) -> None:
        """Learn from a round; called before the slot's tokens grow."""
        first = len(slot.tokens)
        for position in range(first, first + len(verdict.tokens)):
            q, p = self._said.get(position), self._target.dists.get(position)
            if q is not None and p is not None:
                self.choice.observe(q, p, slot.coupling.agreement(p, q, position))
        self._said.clear()
        self._target.dists.clear()


def _kind(q: Dist) -> int:
    return bisect.bisect(EDGES, float(q.probs.max()))
