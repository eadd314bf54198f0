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


_FIRST_PLACES = 6
"""About so many places are tried before looking closer: a trial reads text with the whole model."""

Try = Callable[[int, int], Trial]
"""Measures a draft without the layers `first` .. `end` - 1."""


def search(num_layers: int, attempt: Try, num_dropped: int | None) -> Iterator[Trial]:
    """Blocks in the order they are tried; the first layer and the last always stay.

    With `num_dropped`, blocks of that size only. Without, a small block is tried at every place and
    then grows at whichever end costs less, until two steps in a row did not raise the foreseen
    speed-up. `choose` says which trial to take.
    """
    if num_dropped is not None:
        return _search_place(num_layers, attempt, num_dropped)
    return _search_size(num_layers, attempt)


def _search_place(num_layers: int, attempt: Try, size: int) -> Iterator[Trial]:
    """Places far apart first, then ever nearer to the best, until its neighbours are worse."""
    last = num_layers - 1 - size
    stride = max(1, last // _FIRST_PLACES)
    tried: dict[int, Trial] = {}
    places = list(range(1, last + 1, stride))
    while places or stride > 1:
        for first in places:
            tried[first] = attempt(first, first + size)
            yield tried[first]
        stride = max(1, stride // 2)
        best = max(tried.values(), key=lambda trial: trial.acceptance.sampled).first
        places = [at for at in (best - stride, best + stride) if 1 <= at <= last and at not in tried]


def _search_size(num_layers: int, attempt: Try) -> Iterator[Trial]:
    step = max(1, num_layers // 14)
    best: Trial | None = None
    for first in range(1, num_layers - step, step):
        trial = attempt(first, first + step)
        yield trial
        if best is None or trial.acceptance.sampled > best.acceptance.sampled:
            best = trial
    if best is None:
        return
    block, failures = best, 0
    while failures < 2:
        trials = []
        for first, end in ((block.first - step, block.end), (block.first, block.end + step)):
            if first >= 1 and end <= num_layers - 1:
                trials.append(attempt(first, end))
                yield trials[-1]
        if not trials:
            return
        block = max(trials, key=lambda trial: trial.acceptance.sampled)
        failures = 0 if block.gain.speedup > best.gain.speedup else failures + 1
        best = max(best, block, key=lambda trial: trial.gain.speedup)


def choose(trials: list[Trial], num_dropped: int | None) -> Trial | None:
    """The trial to take: the likeliest to be accepted of those with `num_dropped`, else the best gain."""
    if num_dropped is None:
        return max(trials, key=lambda trial: trial.gain.speedup, default=None)
    exact = [trial for trial in trials if trial.num_dropped == num_dropped]
    return max(exact, key=lambda trial: trial.acceptance.sampled, default=None)
