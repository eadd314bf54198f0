"""The numbers beside a conversation, reckoned from what the rounds of its answers measured.

No widget here: the panel, its folded line and a replay all show a `Gauges`.
"""

from __future__ import annotations

import collections
import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tui.chat.speculation import Speculation
from tui.chat.transcript import AnswerFold, Round

BUCKET_S: Final = 0.5
"""Seconds of decoding behind one bar of the sparkline, or one round where a round takes longer."""

NUM_BUCKETS: Final = 12
_NUM_PLAIN: Final = 16
_FEWEST_PLAIN: Final = 3


@dataclass(frozen=True, slots=True)
class Gauges:
    """What the panel shows. None: not known (yet); speeds are tokens per second."""

    speculation: Speculation
    num_drafted: int = 0
    speed: float | None = None
    plain_speed: float | None = None
    recent: tuple[float, ...] = ()
    acceptance: float | None = None
    by_position: tuple[float, ...] = ()
    tokens_a_round: float | None = None
    round_ms: float | None = None
    draft_ms: float | None = None
    verify_ms: float | None = None
    context_used: int | None = None
    context_size: int | None = None

    @property
    def speed_up(self) -> float | None:
        """Speed against plain decoding as it was measured here; None where nothing was drafted."""
        if self.speed is None or self.plain_speed is None or not self.num_drafted:
            return None
        return self.speed / self.plain_speed

    @property
    def rest_ms(self) -> float | None:
        """What of a round was neither drafting nor verifying."""
        if self.round_ms is None or self.draft_ms is None or self.verify_ms is None:
            return None
        return max(self.round_ms - self.draft_ms - self.verify_ms, 0.0)


class PlainReference:
    """How fast plain decoding is where an answer is now, learnt from rounds that drafted nothing.

    The first round of an answer reads the prompt, so it tells nothing. Others without a
    proposal are one target row each; the draft model may read its prompt in them, which is
    taken off. The median of the answer's own counts, from the third on: its context is as long.
    Before, that of the last ones of this session's answers does.
    """

    def __init__(self) -> None:
        self._own: list[float] = []  # seconds of the rounds of `_fold`
        self._last: collections.deque[float] = collections.deque(maxlen=_NUM_PLAIN)
        self._fold: AnswerFold | None = None
        self._num_seen = 0

    def see(self, fold: AnswerFold) -> None:
        """Take in the rounds that `fold` has got since it was last seen."""
        if fold is not self._fold:
            self._fold, self._num_seen, self._own = fold, 1, []
        for one in fold.rounds[self._num_seen :]:
            if one.num_drafted == 0:
                self._own.append(one.timings.wall_s - one.timings.draft_s)
                self._last.append(self._own[-1])
        self._num_seen = max(len(fold.rounds), 1)

    @property
    def speed(self) -> float | None:
        """Tokens per second, or None while too few plain rounds were seen."""
        known = self._own if len(self._own) >= _FEWEST_PLAIN else self._last
        if len(known) < _FEWEST_PLAIN:
            return None
        seconds = statistics.median(known)
        return 1 / seconds if seconds > 0 else None


def read_gauges(
    fold: AnswerFold | None,
    speculation: Speculation,
    *,
    plain_speed: float | None = None,
    context_used: int | None = None,
    context_size: int | None = None,
) -> Gauges:
    """The gauges of the answer that `fold` holds; without one, only what is known beforehand."""
    if fold is None:
        return Gauges(
            speculation, plain_speed=plain_speed, context_used=context_used, context_size=context_size
        )
    stats = fold.stats
    rounds = max(stats.rounds - 1, 0)  # the first one read the prompt
    return Gauges(
        speculation,
        num_drafted=stats.drafted,
        speed=stats.tokens_per_second,
        plain_speed=plain_speed,
        recent=recent_speeds(fold.rounds),
        acceptance=stats.acceptance_rate,
        by_position=tuple(stats.acceptance_by_position),
        tokens_a_round=stats.mean_acceptance_length,
        round_ms=_ms(stats.decode_s, rounds),
        draft_ms=_ms(stats.timers.draft_s, rounds),
        verify_ms=_ms(stats.timers.verify_s, rounds),
        context_used=context_used,
        context_size=context_size,
    )


def recent_speeds(rounds: Sequence[Round]) -> tuple[float, ...]:
    """Speeds of the last stretches of about `BUCKET_S` seconds, oldest first.

    Stretches are counted from the answer's beginning, so that one that was shown stays as it is.
    """
    speeds: collections.deque[float] = collections.deque(maxlen=NUM_BUCKETS)
    num_tokens, seconds = 0, 0.0
    for one in itertools.islice(rounds, 1, None):  # not the first, which read the prompt
        num_tokens += one.num_tokens
        seconds += one.timings.wall_s
        if seconds >= BUCKET_S:
            speeds.append(num_tokens / seconds)
            num_tokens, seconds = 0, 0.0
    return tuple(speeds)


def _ms(seconds: float, rounds: int) -> float | None:
    return 1000 * seconds / rounds if rounds else None
