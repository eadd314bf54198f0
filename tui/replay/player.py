"""A place in a recording, and a clock that moves it: playing, pausing, stepping, speed."""

from __future__ import annotations

import bisect
from typing import Final

from edge_spec import Notice, Stats
from tui.chat.transcript import AnswerFold, Block
from tui.replay.tape import Recording

SPEEDS: Final = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


class Player:
    """Plays one recording.

    `fold` is how everything stood at the present place, to be read only. Every method that moves
    returns the first span of its block that changed, or None if none did.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.playing = False
        self.clock = 0.0
        self.fold = AnswerFold(Block("model"), _no_piece)
        self.fold.prompt_ids = recording.prompt_ids
        self._position = 0
        self._speed = SPEEDS.index(1.0)
        self.seek(0)

    @property
    def speed(self) -> float:
        """How many recorded seconds pass in a real one."""
        return SPEEDS[self._speed]

    @property
    def num_rounds(self) -> int:
        """Rounds that are over at this place."""
        return len(self.fold.rounds)

    @property
    def at_end(self) -> bool:
        return self._position == len(self.recording.steps)

    @property
    def notice(self) -> Notice | None:
        """The last notice that was given up to here."""
        return self.recording.steps[self._position - 1].notice if self._position else None

    def faster(self) -> None:
        self._speed = min(self._speed + 1, len(SPEEDS) - 1)

    def slower(self) -> None:
        self._speed = max(self._speed - 1, 0)

    def toggle(self) -> int | None:
        """Play, or pause; what was played to its end begins again."""
        first = self.seek(0) if self.at_end else None
        self.playing = not self.playing
        return first

    def advance(self, seconds: float) -> int | None:
        """Let `seconds` of real time pass, if it is playing; at the end it stops."""
        if not self.playing:
            return None
        steps, position = self.recording.steps, self._position
        self.clock = min(self.clock + seconds * self.speed, self.recording.duration)
        while position < len(steps) and steps[position].at <= self.clock:
            position += 1
        first = self._go(position)
        self.playing = not self.at_end
        return first

    def step(self, num_rounds: int) -> int | None:
        """Go so many rounds on, or back when negative; inside a round, its beginning is one back."""
        stops = self.recording.stops
        if num_rounds < 0:
            return self.seek(bisect.bisect_left(stops, self._position) + num_rounds)
        return self.seek(bisect.bisect_right(stops, self._position) - 1 + num_rounds)

    def seek(self, num_rounds: int) -> int | None:
        """Go to where so many rounds are over; outside the recording it is the nearer end."""
        stops = self.recording.stops
        first = self._go(stops[min(max(num_rounds, 0), len(stops) - 1)])
        self.clock = self.recording.steps[self._position - 1].at if self._position else 0.0
        self.playing = self.playing and not self.at_end
        return first

    def seek_end(self) -> int | None:
        return self.seek(len(self.recording.stops))

    def _go(self, position: int) -> int | None:
        """Apply steps, or take them back, until the first `position` of them are applied."""
        steps, block = self.recording.steps, self.fold.block
        on, back = steps[self._position : position], steps[position : self._position]
        for step in on:
            if step.first is not None:
                block.spans[step.first :] = step.added
            block.alternatives.update(step.alternatives)
        for step in reversed(back):
            if step.first is not None:
                block.spans[step.first :] = step.removed
            for index in step.alternatives:
                block.alternatives.pop(index, None)
        self._position = position
        self._show_counts()
        return min((step.first for step in (*on, *back) if step.first is not None), default=None)

    def _show_counts(self) -> None:
        fold = self.fold
        if self._position:
            step = self.recording.steps[self._position - 1]
            fold.stats, fold.reading, fold.finished = step.stats, step.reading, step.finished
            fold.rounds = list(self.recording.rounds[: step.num_rounds])
        else:
            fold.stats, fold.reading, fold.finished, fold.rounds = Stats(), None, None, []


def _no_piece(token: int) -> bytes:
    raise AssertionError(f"the recording was folded already, but token {token} was asked for")
