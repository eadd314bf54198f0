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

from edge_spec.planner.knowledge import GAP_EDGES, MAX_DRAFT_STEPS, Knowledge, match_class
from edge_spec.planner.round_costs import RoundCosts

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
    rates: Callable[[int], float], extra_s: Callable[[int], float], rho: float, most: int, least: int = 1
) -> Choice:
    """The draft length that is worth most: 0, or one in `least` .. `most`.

    `rates(i)` is the acceptance of drafted token i (from 0) given those before it, `extra_s(m)`
    what a round with m drafted tokens takes beyond a plain one, in seconds, `rho` tokens a second.
    All lengths are looked at: on a staircase a longer draft may pay where a shorter does not.
    """
    best = Choice()
    survival, tokens = 1.0, 0.0
    for length in range(1, most + 1):
        survival *= rates(length - 1)
        tokens += survival
        if length >= least:
            seconds = extra_s(length)
            gain = tokens - _MARGIN * rho * seconds
            if gain > best.gain:
                best = Choice(length, gain, tokens, seconds)
        if survival < _HOPELESS:
            break
    return best


def expected_tokens(rates: Callable[[int], float], length: int) -> float:
    """How many of `length` drafted tokens are expected to be accepted."""
    survival, tokens = 1.0, 0.0
    for index in range(length):
        survival *= rates(index)
        tokens += survival
    return tokens


@dataclass(slots=True)
class DraftRun:
    """A draft model's chain while it is drawn: called before each draw, see `Budget.more`.

    Knows the draft's confidence by then, which says more about the next token than its place
    does. A chain that was begun goes on to `least` tokens; one with `forced` is begun in any case.
    The model drafts `most` tokens at most; with what is copied behind them it may be `room`.
    """

    costs: RoundCosts
    most: int
    room: int
    rho: float
    least: int = 1
    forced: bool = False
    classes: list[int] = field(default_factory=list)
    survival: float = 1.0
    asked: bool = False

    def __call__(self, gap: float) -> int:
        self.asked = True
        done = len(self.classes)
        kind = bisect.bisect(GAP_EDGES, gap)
        costs, knowledge = self.costs, self.costs.knowledge
        here, step_s, so_far_s = knowledge.gaps(kind), costs.read_s(1), costs.verify_s(done)

        def rate(index: int) -> float:
            return self.survival * here if index == 0 else knowledge.positions(done + index)

        def extra_s(length: int) -> float:
            return (length - 1) * step_s + costs.verify_s(done + length) - so_far_s

        more = best_length(rate, extra_s, self.rho, self.most - done, self.least - done).length
        if done or self.forced:
            more = max(more, min(self.least, self.most) - done)
        if more > 0:
            self.classes.append(kind)
            self.survival *= here
        return max(0, more)

    def copies(self, match_length: int, contested: bool) -> int:
        """How many copied tokens are worth adding behind the chain as it is now, see `Budget.copies`."""
        done, costs, matches = len(self.classes), self.costs, self.costs.knowledge.matches
        so_far_s = costs.verify_s(done)

        def rate(index: int) -> float:
            here = matches(match_class(match_length + index, contested and index == 0))
            return self.survival * here if index == 0 else here

        def extra_s(length: int) -> float:
            return costs.verify_s(done + length) - so_far_s

        return best_length(rate, extra_s, self.rho, self.room - done).length


def needed_acceptance(knowledge: Knowledge, num_cells: int = 0) -> float | None:
    """The acceptance, the same at every place, from which on the draft model pays; None: it never does."""
    costs = RoundCosts(knowledge, num_cells)

    def pays(rate: float) -> bool:
        return best_length(lambda _place: rate, costs.draft_s, 1 / costs.base_s, MAX_DRAFT_STEPS).length > 0

    if not pays(1.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


def described(knowledge: Knowledge) -> str:
    """What was measured, in one sentence."""
    one, four = (1e3 * knowledge.verify(rows) for rows in (1, 4))
    text = f"Measured: one row takes the target {one:.0f} ms here, four {four:.0f} ms"
    if knowledge.draft is None:
        return f"{text}."
    text += f", a step of the draft {1e3 * knowledge.draft(1):.0f} ms"
    needed = needed_acceptance(knowledge)
    if needed is None:
        return f"{text}: drafting with it would not pay here even if every token were accepted."
    return f"{text}: drafting with it pays from {needed:.0%} acceptance on."
