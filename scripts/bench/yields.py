"""Tokens a round of two ways to draft and to judge, at the same K: what is counted, and how it is reckoned.

A round counts when all K tokens were drafted, which is known before it is judged: the first round of
a text drafts nothing, and the last ones have less room.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.ratios import BOOTSTRAPS, Estimate, middle
from bench.samples import BenchError
from edge_spec import Proposal, Sampling, Verdict

UNTRUNCATED = "-untruncated"


@dataclass(frozen=True, slots=True)
class Case:
    """One temperature, by llama.cpp's default truncation or without any."""

    name: str
    sampling: Sampling

    @classmethod
    def of(cls, name: str) -> Case:
        """`0.8` or `1-untruncated`."""
        number = name.removesuffix(UNTRUNCATED)
        try:
            temperature = float(number)
        except ValueError:
            raise BenchError(f"{name!r} is no case: give a temperature, or 1{UNTRUNCATED}.") from None
        if temperature == 0:
            raise BenchError("At temperature 0 both ways are the same; give a temperature above it.")
        if number == name:
            return cls(name, Sampling(temperature=temperature))
        return cls(name, Sampling(temperature=temperature, top_k=0, top_p=1.0, min_p=0.0))


@dataclass(slots=True)
class Yield:
    """Rounds, what they emitted, and what they were expected to emit given what was drafted."""

    rounds: int = 0
    tokens: int = 0
    expected: float = 0.0

    def count(self, proposal: Proposal, verdict: Verdict, k: int) -> None:
        """Take in a round, if it drafted all of `k`."""
        if len(proposal) == k:
            self.rounds += 1
            self.tokens += len(verdict.tokens)
            self.expected += expected_tokens(proposal, verdict)


def expected_tokens(proposal: Proposal, verdict: Verdict) -> float:
    """1 + the sum over judged nodes of their acceptance probability min(1, p(x)/q(x)).

    Its mean is that of the emitted tokens, and its variance lower: whether a judged node was
    accepted is replaced by how probable that was. In a round that a text's end cut it is what was
    emitted.
    """
    if verdict.finish is not None:
        return float(len(verdict.tokens))
    expected = 1.0
    for token, q, p in zip(proposal.tokens, proposal.dists, verdict.target_probs, strict=True):
        if p is not None:
            expected += min(1.0, p / (1.0 if q is None else q.prob(token)))
    return expected


Yields = Mapping[str, Sequence[tuple[Yield, Yield]]]
"""By category: of each prompt what both ways yielded, all seeds together."""


def total(yields: Sequence[Yield]) -> Yield:
    """All of them together."""
    return Yield(
        sum(y.rounds for y in yields), sum(y.tokens for y in yields), sum(y.expected for y in yields)
    )


def ratio_of(yields: Yields, seed: int, *, expected: bool = False) -> Estimate | None:
    """The first way's tokens a round over the second's, with its 95% bootstrap interval.

    In each category the ratio of sums over its prompts, over all the geometric mean of these; the
    prompts of each category are drawn again. None when a category has no round.
    """
    rng = np.random.default_rng(seed)
    logs: list[float] = []
    redrawn: list[NDArray[np.float64]] = []
    for pairs in yields.values():
        # Texts that all ended before a whole draft say nothing.
        kept = [[*_counts(a, expected), *_counts(b, expected)] for a, b in pairs if a.rounds and b.rounds]
        if not kept:
            return None
        table = np.array(kept, dtype=np.float64)
        logs.append(float(_log_ratio(table.sum(axis=0))))
        drawn = rng.integers(len(table), size=(BOOTSTRAPS, len(table)))
        redrawn.append(_log_ratio(table[drawn].sum(axis=1)))
    if not logs:
        return None
    low, high = middle(np.exp(np.mean(redrawn, axis=0)))
    prompts = sum(map(len, yields.values()))
    rounds = sum(a.rounds + b.rounds for pairs in yields.values() for a, b in pairs)
    return Estimate(math.exp(sum(logs) / len(logs)), low, high, prompts, rounds)


def _counts(one: Yield, expected: bool) -> tuple[float, float]:
    return (one.expected if expected else one.tokens), one.rounds


def _log_ratio(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of (..., [tokens, rounds, tokens, rounds])."""
    found: NDArray[np.float64] = np.log(sums[..., 0] / sums[..., 1] / (sums[..., 2] / sums[..., 3]))
    return found
