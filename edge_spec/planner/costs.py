"""What a decode of n rows costs on this machine: measured, never modelled.

V(n) is a staircase and not monotone (kernels take rows four or eight at a time and do the rest
one by one), so every n has its own cell. Cells are measured at load and corrected by every round
that is really decoded; what no cell knows is interpolated.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping

DEPTHS = (0, 512, 2048, 8192, 32768)
"""Lower ends of the ranges of context length, in cells, that have cells of their own."""

_TABLE_ROWS = 65
_SPEED_WEIGHT = 0.15
"""How much one decode moves what is believed of the machine's speed: 90% of a change in 14 decodes."""

_FOLLOW_WEIGHT = 0.005
_LASTING_WEIGHT = 0.03
_ENOUGH = 100
_DRIFT = 1.1
_CELL_WEIGHT = 0.05
_MOST_DRIFT = 0.1
"""A width is thought to be off by so much at most, however long one decode took."""

_MOST_SURPRISE = 4.0
"""A decode that took more than so many times what was expected counts as so many times."""


class RowCosts:
    """Seconds of one decode by its number of rows and the cells before it.

    `measured` are seconds by width at a short context. `slowdown` is how much longer than then
    everything takes now: another process, heat, a longer context. It is what moves first when
    times change; the shape of the staircase moves slowly. `least_rows` are decoded at least, where
    a single row is padded (see `KVCache.steady_rows`).
    """

    def __init__(self, measured: Mapping[int, float]) -> None:
        if not measured:
            raise ValueError("at least one width must have been measured")
        self.slowdown = 1.0
        self.least_rows = 1
        self._lasting = 1.0
        self._num_observed = 0
        self._widest = max(measured)
        self._cells: list[dict[int, float]] = [dict(measured)] + [{} for _ in DEPTHS[1:]]
        self._tables = [self._table(depth) for depth in range(len(DEPTHS))]

    @property
    def measured(self) -> dict[int, float]:
        """Seconds by width at a short context, as corrected since."""
        return dict(self._cells[0])

    @property
    def has_drifted(self) -> bool:
        """Whether decodes take a tenth more or less than was measured, and have for a while."""
        return self._num_observed >= _ENOUGH and not 1 / _DRIFT < self._lasting < _DRIFT

    def __call__(self, num_rows: int, num_cells: int = 0) -> float:
        """Expected seconds of a decode of `num_rows` rows behind `num_cells` cells."""
        return self.slowdown * self._steady(max(num_rows, self.least_rows), _depth(num_cells))

    def observe(self, num_rows: int, num_cells: int, seconds: float) -> None:
        """A decode took so long."""
        num_rows, depth = max(num_rows, self.least_rows), _depth(num_cells)
        if num_rows > self._widest and not any(num_rows in cells for cells in self._cells[: depth + 1]):
            # Only guessed at so far, so it says nothing of the machine's speed.
            self._learn(depth, num_rows, seconds / self.slowdown)
            return
        before = self._steady(num_rows, depth)
        surprise = min(max(seconds / (self.slowdown * before), 1 / _MOST_SURPRISE), _MOST_SURPRISE)
        slowdown = self.slowdown
        self.slowdown *= 1 + _SPEED_WEIGHT * (surprise - 1)
        if depth == 0:  # a longer context takes longer than was measured, and is no drift
            self._lasting += _LASTING_WEIGHT * (self.slowdown - self._lasting)
            self._num_observed += 1
        # A sudden change is the machine's, not this width's.
        left = min(max(surprise * slowdown / self.slowdown, 1 - _MOST_DRIFT), 1 + _MOST_DRIFT)
        self._learn(depth, num_rows, before * (1 + _CELL_WEIGHT * (left - 1)))

    def _learn(self, depth: int, num_rows: int, seconds: float) -> None:
        self._cells[depth][num_rows] = seconds
        for deeper in range(depth, len(DEPTHS)):
            self._correct(deeper, num_rows)

    def follow(self, other: RowCosts) -> None:
        """Nothing was decoded that could be observed, but `other` was on the same machine: what it
        has become faster or slower by is slowly believed here, too."""
        self.slowdown += _FOLLOW_WEIGHT * (other.slowdown - self.slowdown)

    def _steady(self, num_rows: int, depth: int) -> float:
        """Without the slowdown."""
        table = self._tables[depth]
        return table[num_rows] if num_rows < len(table) else self._looked_up(num_rows, depth)

    def _table(self, depth: int) -> list[float]:
        """Seconds of every small width, looked up once."""
        return [self._looked_up(num_rows, depth) for num_rows in range(_TABLE_ROWS)]

    def _correct(self, depth: int, num_rows: int) -> None:
        """A cell has changed, and so has what is interpolated between it and its neighbours."""
        if num_rows >= _TABLE_ROWS and num_rows not in self._cells[0]:
            return  # it stands in no table, and nothing is interpolated to it
        widths = sorted(self._cells[0])
        if num_rows not in self._cells[0]:  # of this depth alone, and so nothing is interpolated to it
            self._tables[depth][num_rows : num_rows + 1] = [self._looked_up(num_rows, depth)]
            return
        low = max((width for width in widths if width < num_rows), default=0)
        high = min((width for width in widths if width > num_rows), default=_TABLE_ROWS)
        table = self._tables[depth]
        for width in range(low + 1, min(high, _TABLE_ROWS)):
            table[width] = self._looked_up(width, depth)

    def _looked_up(self, num_rows: int, depth: int) -> float:
        """From the cells; a depth that has seen nothing of a width asks the one above it."""
        for level in range(depth, 0, -1):
            if num_rows in self._cells[level]:
                return self._cells[level][num_rows]
        cells = self._cells[0]
        if num_rows in cells:
            return cells[num_rows]
        widths = sorted(cells)
        place = bisect.bisect(widths, num_rows)
        if place == 0:
            return cells[widths[0]]
        low = widths[place - 1]
        if place == len(widths):
            return cells[low] * num_rows / low
        high = widths[place]
        return cells[low] + (cells[high] - cells[low]) * (num_rows - low) / (high - low)


def _depth(num_cells: int) -> int:
    return 0 if num_cells < DEPTHS[1] else bisect.bisect(DEPTHS, num_cells) - 1
