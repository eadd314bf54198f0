"""Ratios of neighbours: their centre, and its bootstrap interval.

A ratio of two arms is taken within one visit to one prompt, where they ran one after another. Of
a prompt the median over visits counts, of a category the geometric mean over its prompts, of all
the geometric mean over categories, each of which weighs the same.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BOOTSTRAPS = 2000

Ratios = Sequence[Sequence[float]]
"""One list a prompt: the ratio at each visit."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A ratio with its 95% interval, and what it rests on."""

    ratio: float
    low: float
    high: float
    prompts: int
    pairs: int


def centre(ratios: Ratios) -> float:
    """The geometric mean over prompts of the median over visits."""
    return math.exp(statistics.fmean(math.log(statistics.median(r)) for r in ratios))


def mean_centre(categories: Sequence[Ratios]) -> float:
    """The geometric mean of the categories' centres."""
    return math.exp(statistics.fmean(math.log(centre(ratios)) for ratios in categories))


def interval(categories: Sequence[Ratios], seed: int) -> tuple[float, float]:
    """95% bootstrap interval of `mean_centre`.

    In each category its prompts are drawn again, and the visits within them; the categories stay
    as they are, since the mean is one over just these.
    """
    rng = np.random.default_rng(seed)
    return middle(np.exp(np.mean([_redrawn_logs(ratios, rng) for ratios in categories], axis=0)))


def _redrawn_logs(ratios: Ratios, rng: np.random.Generator) -> NDArray[np.float64]:
    """The logarithms of BOOTSTRAPS redrawn centres of one category."""
    counts = np.array([len(r) for r in ratios])
    most = int(counts.max())
    padded = np.array([[*r, *[math.nan] * (most - len(r))] for r in ratios])
    prompts = rng.integers(len(ratios), size=(BOOTSTRAPS, len(ratios)))
    visits = (rng.random((*prompts.shape, most)) * counts[prompts][..., None]).astype(np.intp)
    drawn = padded[prompts[..., None], visits]
    # As many as the prompt has visits count: the others are sorted behind them.
    drawn[np.arange(most) >= counts[prompts][..., None]] = np.inf
    drawn.sort(axis=-1)
    ends = np.stack([(counts[prompts] - 1) // 2, counts[prompts] // 2], axis=-1)
    medians = np.take_along_axis(drawn, ends, axis=-1).mean(axis=-1)
    logs: NDArray[np.float64] = np.log(medians).mean(axis=-1)
    return logs


def middle(values: NDArray[np.float64]) -> tuple[float, float]:
    """The ends of the middle 95% of bootstrapped values."""
    ordered = np.sort(values)
    return float(ordered[int(0.025 * len(ordered))]), float(ordered[int(0.975 * len(ordered))])


def estimate(categories: Sequence[Ratios], seed: int) -> Estimate | None:
    """The mean over categories with its interval; None when one of them has no ratio at all."""
    kept = [[list(r) for r in ratios if r] for ratios in categories]
    if not kept or not all(kept):
        return None
    low, high = interval(kept, seed)
    prompts = sum(map(len, kept))
    return Estimate(mean_centre(kept), low, high, prompts, sum(len(r) for ratios in kept for r in ratios))
