"""How long a draft is worth being: expected tokens against measured seconds.

Each round adds tokens and takes time. With rho tokens a second as what this machine makes
otherwise, a draft is worth its expected tokens less rho times its seconds (the average-reward
criterion of renewal theory: maximising it each round maximises tokens a second). Formulas:
Leviathan et al. 2023 (arXiv:2211.17192), section 3.3, with measured costs.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field

from edge_spec.planner.knowledge import GAP_EDGES, Knowledge

_MARGIN = 1.05
"""Of many lengths the best is likely one that was overrated, so its seconds count for a little more."""

_HOPELESS = 0.02
"""A draft that gets so far with this probability only is not looked at further."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A draft of `length` tokens: `tokens` more are expected, at `extra_s` seconds more; worth `gain`."""

    length: int = 0
    gain: float = 0.0
    tokens: float = 0.0
    extra_s: float = 0.0


def best_length(
    rates: Callable[[int], float], extra_s: Callable[[int], float], rho: float, most: int
) -> Choice:
    """The draft length in 0..most that is worth most.

    `rates(i)` is the acceptance of drafted token i (from 0) given those before it, `extra_s(m)`
    what a round with m drafted tokens takes beyond a plain one, in seconds, `rho` tokens a second.
    All lengths are looked at: on a staircase a longer draft may pay where a shorter does not.
    """
    best = Choice()
    survival, tokens = 1.0, 0.0
    for length in range(1, most + 1):
        survival *= rates(length - 1)
        tokens += survival
        seconds = extra_s(length)
        gain = tokens - _MARGIN * rho * seconds
        if gain > best.gain:
            best = Choice(length, gain, tokens, seconds)
        if survival < _HOPELESS:
            break
    return best


@dataclass(slots=True)
class DraftRun:
    """A draft model's chain while it is drawn: called before each draw, see `Budget.more`.

    Knows the draft's confidence by then, which says more about the next token than its place does.
    """

    knowledge: Knowledge
    num_cells: int
    most: int
    rho: float
    least: int = 0
    classes: list[int] = field(default_factory=list)
    survival: float = 1.0

    def __call__(self, gap: float) -> int:
        done = len(self.classes)
        kind = bisect.bisect(GAP_EDGES, gap)
        knowledge = self.knowledge
        assert knowledge.draft is not None, "only a draft model asks"
        here, step_s = knowledge.gaps(kind), knowledge.draft(1, self.num_cells)
        base_s = knowledge.verify(1 + done, self.num_cells)

        def rate(index: int) -> float:
            return self.survival * here if index == 0 else knowledge.positions(done + index)

        def extra_s(length: int) -> float:
            rows_s = knowledge.verify(1 + done + length, self.num_cells)
            return (length - 1) * step_s + rows_s - base_s

        more = best_length(rate, extra_s, self.rho, self.most - done).length
        more = max(more, min(self.least, self.most) - done)
        if more > 0:
            self.classes.append(kind)
            self.survival *= here
        return max(0, more)
