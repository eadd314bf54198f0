"""What decodes of each width take, found out by decoding them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from edge_spec.types import KVCache, Rows

WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32)
"""The widths that a target is measured at."""

DRAFT_WIDTHS = (1, 2, 3, 4, 5, 8, 16, 32)

_MOST_USED = (1, 2, 4)
"""What every decision rests on is measured often enough to pass over a slow second."""

_PREFIX = 8


@dataclass(frozen=True, slots=True)
class Staircase:
    """One model's decodes by width, in seconds, as far as they have been measured.

    `wanted` asks for every row's logits, as verification does; else for the last one's, as drafting
    does. What its cache holds is lost.
    """

    cache: KVCache
    widths: Sequence[int] = WIDTHS
    wanted: bool = True
    times: dict[int, list[float]] = field(default_factory=dict)

    def begin(self) -> None:
        """Warm up: weights are read from the disk, buffers grow to what the widest needs."""
        self.cache.clear()
        self.cache.append([Rows(0, self._tokens(0, _PREFIX), _PREFIX)])
        for width in (1, max(self.widths)):
            self._decode(width)

    def measure(self, width: int) -> None:
        """Decode so many rows once."""
        self.times.setdefault(width, []).append(self._decode(width))

    @property
    def seconds(self) -> dict[int, float]:
        """By width the median, or of fewer than three times the shortest: none is too short by chance."""
        return {
            width: statistics.median(times) if len(times) > 2 else min(times)
            for width, times in self.times.items()
        }

    def _decode(self, width: int) -> float:
        before = self.cache.busy_s
        self.cache.append([Rows(0, self._tokens(_PREFIX, width), 0 if self.wanted else width - 1)])
        spent = self.cache.busy_s - before
        self.cache.rollback(0, _PREFIX)
        return spent

    def _tokens(self, start: int, count: int) -> list[int]:
        return [(40 + start + i) % self.cache.num_vocab for i in range(count)]


def measure(
    stairs: Sequence[Staircase], repetitions: int = 3, budget_s: float = math.inf
) -> Generator[float]:
    """Take so many turns at all widths of all models; yields what share of it is done.

    Widths and models take turns, so that a slow second spoils none of them and a slow machine
    makes all of them slow alike. After `budget_s` seconds only the most used widths are decoded
    further; all widths are once. Leaves the caches empty. Raises Cancelled.
    """
    yield 0.0
    for stair in stairs:
        stair.begin()
    started = sum(stair.cache.busy_s for stair in stairs)
    for repetition in range(repetitions):
        late = repetition > 0 and sum(stair.cache.busy_s for stair in stairs) - started > budget_s
        turn = [(s, width) for s in stairs for width in s.widths if not late or width in _MOST_USED]
        for number, (stair, width) in enumerate(turn):
            yield (repetition + number / len(turn)) / repetitions
            stair.measure(width)
    for stair in stairs:
        stair.cache.clear()
