"""Which layers a draft can do without: a block in the middle, found by measured acceptance.

Layers in the middle of a network change what passes through them least (Gromov et al. 2024,
arXiv:2403.17887); which ones, and how many, is measured here on the target's own text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from edge_spec.forge.gain import Gain
from edge_spec.forge.measure import Acceptance


@dataclass(frozen=True, slots=True)
class Trial:
    """Layers `first` .. `end` - 1 left out, and what came of it; the gain is foreseen, not timed."""

    first: int
    end: int
    acceptance: Acceptance
    gain: Gain

    @property
    def num_dropped(self) -> int:
        return self.end - self.first


Try = Callable[[int, int], Trial]
"""Measures a draft without the layers `first` .. `end` - 1."""


def search(num_layers: int, attempt: Try, num_dropped: int | None) -> Iterator[Trial]:
    """Blocks in the order they are tried; the first layer and the last always stay.

    A small block is tried at every place, then it grows at whichever end costs less. With
    `num_dropped` the last trial has that many layers less; without, growing ends after two steps
    in a row that did not raise the foreseen speed-up, and the best trial is the one to take.
    """
    step = max(1, num_layers // 14)
    if num_dropped is not None:
        step = min(step, num_dropped)
    best: Trial | None = None
    for first in range(1, num_layers - step, step):
        trial = attempt(first, first + step)
        yield trial
        if best is None or trial.acceptance.sampled > best.acceptance.sampled:
            best = trial
    if best is None:
        return
    block, failures = best, 0
    while num_dropped is None or block.num_dropped < num_dropped:
        size = step if num_dropped is None else min(step, num_dropped - block.num_dropped)
        ends = [(block.first - size, block.end), (block.first, block.end + size)]
        trials = []
        for first, end in ends:
            if first >= 1 and end <= num_layers - 1:
                trials.append(attempt(first, end))
                yield trials[-1]
        if not trials:
            return
        block = max(trials, key=lambda trial: trial.acceptance.sampled)
        if num_dropped is None:
            failures = 0 if block.gain.speedup > best.gain.speedup else failures + 1
            best = max(best, block, key=lambda trial: trial.gain.speedup)
            if failures == 2:
                return


def choose(trials: list[Trial], num_dropped: int | None) -> Trial | None:
    """The trial to take: the likeliest to be accepted of those with `num_dropped`, else the best gain."""
    if num_dropped is None:
        return max(trials, key=lambda trial: trial.gain.speedup, default=None)
    exact = [trial for trial in trials if trial.num_dropped == num_dropped]
    return max(exact, key=lambda trial: trial.acceptance.sampled, default=None)
