"""The exact law of what a decoding loop writes, by enumeration of every random outcome.

The code under test runs unchanged. Its random numbers are `Uniform` objects that know only
the interval they lie in: a comparison that the interval does not settle forks the run in two,
and the weight of a run is the product of its intervals' lengths. All runs together are the
law, with no sampling error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from edge_spec.types import Coupling, Dist, Proposal
from edge_spec.verify import RejectionCoupling, without

T = TypeVar("T")
Context = tuple[int, ...]
Law = dict[Context, float]
Table = Callable[[Context], Dist]
Draft = Callable[[Context, Coupling], Proposal]


class Uniform:
    """A number in [low, high), uniform there, of which comparisons decide ever more."""

    def __init__(self, rng: ForkingRng) -> None:
        self.low, self.high = 0.0, 1.0
        self._rng = rng

    def __mul__(self, scale: float) -> Scaled:
        return Scaled(self, float(scale))

    def is_below(self, point: float) -> bool:
        if point <= self.low:
            return False
        if point >= self.high:
            return True
        below = self._rng.decide()
        if below:
            self.high = point
        else:
            self.low = point
        return below


class Scaled:
    """A Uniform times a scale; numpy's searchsorted compares it like a number."""

    def __init__(self, uniform: Uniform, scale: float) -> None:
        self._uniform, self._scale = uniform, scale

    def __lt__(self, other: float | Scaled) -> bool:
        if isinstance(other, Scaled):
            return False  # searchsorted also compares a key with the key before it: itself
        if self._scale == 0.0:
            return float(other) > 0.0
        return self._uniform.is_below(float(other) / self._scale)

    def __gt__(self, other: float | Scaled) -> bool:
        return not isinstance(other, Scaled) and not self < other


class ForkingRng:
    """Stands in for a Generator; replays the decisions of `script`, then decides False."""

    def __init__(self, script: list[bool]) -> None:
        self._script, self._used = script, 0
        self._uniforms: list[Uniform] = []

    def random(self) -> Any:
        self._uniforms.append(Uniform(self))
        return self._uniforms[-1]

    def decide(self) -> bool:
        if self._used == len(self._script):
            self._script.append(False)
        self._used += 1
        return self._script[self._used - 1]

    @property
    def weight(self) -> float:
        weight = 1.0
        for uniform in self._uniforms:
            weight *= uniform.high - uniform.low
        return weight


class StuckRng:
    """A wrong generator: every number is the first one again."""

    def __init__(self, rng: Any) -> None:
        self._number = rng.random()

    def random(self) -> Any:
        return self._number


def outcomes(run: Callable[[Any], T]) -> Iterator[tuple[T, float]]:
    """Every outcome of `run(rng)` with its weight; the weights sum to 1."""
    script: list[bool] = []
    while True:
        rng = ForkingRng(script)
        outcome = run(rng)
        yield outcome, rng.weight
        while script and script[-1]:
            script.pop()
        if not script:
            return
        script[-1] = True


def output_law(round_: Callable[[Any, Context], Sequence[int]], length: int) -> Law:
    """The law of the first `length` tokens that rounds write; `round_(rng, context)` is one of them."""
    rounds: dict[Context, Law] = {}

    def round_law(context: Context) -> Law:
        if context not in rounds:
            law: Law = defaultdict(float)
            for tokens, weight in outcomes(lambda rng: round_(rng, context)):
                law[tuple(tokens)] += weight
            rounds[context] = law
        return rounds[context]

    law: Law = defaultdict(float)
    todo: list[tuple[Context, float]] = [((), 1.0)]
    while todo:
        context, weight = todo.pop()
        if len(context) == length:
            law[context] += weight
            continue
        for tokens, share in round_law(context).items():
            todo.append((context + tokens[: length - len(context)], weight * share))
    return dict(law)


def plain_law(target: Table, length: int) -> Law:
    """The law of plain decoding: the product of the target's own probabilities."""
    law: Law = {(): 1.0}
    for _ in range(length):
        law = {
            (*context, int(token)): weight * float(prob)
            for context, weight in law.items()
            for token, prob in zip(target(context).ids, target(context).probs, strict=True)
            if prob > 0.0
        }
    return law


def deviation(law: Law, other: Law) -> float:
    """The largest difference of a text's two probabilities."""
    return max(abs(law.get(text, 0.0) - other.get(text, 0.0)) for text in law.keys() | other.keys())


def nodes_before(proposal: Proposal, node: int) -> Context:
    """The tokens from the first level down to `node`; () for -1."""
    tokens: Context = ()
    while node >= 0:
        tokens = (proposal.tokens[node], *tokens)
        node = proposal.parents[node]
    return tokens


def speculative_round(target: Table, draft: Draft) -> Callable[[Any, Context], Sequence[int]]:
    """One round of the real rejection coupling: draft, judge, emit."""

    def round_(rng: Any, context: Context) -> Sequence[int]:
        coupling = RejectionCoupling(rng)
        proposal = draft(context, coupling)
        verdict = coupling.verify(
            proposal, lambda node: target(context + nodes_before(proposal, node)), len(context)
        )
        return verdict.tokens

    return round_


def drafter(parents: Sequence[int], modes: Sequence[str], q: Table) -> Draft:
    """Grows a tree of the given shape, each node in its mode.

    - "drawn": from q, whatever its siblings are (with replacement);
    - "fresh": from q without the earlier siblings (without replacement);
    - "best": deterministic, q's most likely token that no earlier sibling has;
    - "fixed": deterministic, the node's index modulo 3, whatever q says.

    A node that cannot be made is left out, and so are those below it.
    """

    def draft(context: Context, coupling: Coupling) -> Proposal:
        tokens: list[int] = []
        made_parents: list[int] = []
        dists: list[Dist | None] = []
        made: dict[int, int] = {-1: -1}  # node of the shape -> node of the proposal
        for node, (parent, mode) in enumerate(zip(parents, modes, strict=True)):
            if parent not in made:
                continue
            above = Proposal(tuple(tokens), tuple(made_parents), tuple(dists))
            before = context + nodes_before(above, made[parent])
            siblings = [t for t, p in zip(tokens, made_parents, strict=True) if p == made[parent]]
            left: Dist | None = q(before)
            if mode in ("fresh", "best"):
                for token in siblings:
                    left = left and without(left, token)
            if left is None:
                continue
            if mode in ("drawn", "fresh"):
                token, dist = coupling.draw(left, len(before)), left
            else:
                token = int(left.ids[left.probs.argmax()]) if mode == "best" else node % 3
                dist = None
            made[node] = len(tokens)
            tokens.append(token)
            made_parents.append(made[parent])
            dists.append(dist)
        return Proposal(tuple(tokens), tuple(made_parents), tuple(dists), "test")

    return draft


def chain(num: int, mode: str, q: Table) -> Draft:
    """A drafter of `num` tokens in a row, all in one mode."""
    return drafter(range(-1, num - 1), [mode] * num, q)


def table(rows: Sequence[Sequence[float]], dense: bool = False) -> Table:
    """Distributions from rows of weights, of which every context picks one by a checksum."""
    dists = []
    for row in rows:
        weights = np.array(row, np.float64)
        ids = np.arange(len(row)) if dense else np.flatnonzero(weights)
        dists.append(Dist(ids, weights[ids] / weights.sum()))
    return lambda context: dists[
        (len(context) + sum((i + 2) * t for i, t in enumerate(context))) % len(dists)
    ]
