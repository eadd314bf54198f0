"""How far each file of a pull has come, told by one thread and read by another."""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

WINDOW_S: Final = 5.0
"""Speed is what arrived in so many seconds."""

_SAMPLE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Download:
    """One file: where it comes from ("" until it has begun), bytes, and bytes a second if known.

    It is `over` when all bytes are there and were checked.
    """

    model: str
    source: str = ""
    done: int = 0
    total: int = 0
    speed: float | None = None
    over: bool = False

    @property
    def fraction(self) -> float:
        return self.done / self.total if self.total else 0.0

    @property
    def seconds_left(self) -> float | None:
        return (self.total - self.done) / self.speed if self.speed else None


@dataclass(slots=True)
class _Track:
    source: str = ""
    done: int = 0
    total: int = 0
    over: bool = False
    samples: collections.deque[tuple[float, int]] = field(default_factory=collections.deque)


class DownloadMeter:
    """Keeps the latest numbers of each file, in the order in which they were named."""

    def __init__(self, models: Iterable[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._tracks = {model: _Track() for model in models}
        self._present: _Track | None = None

    def report(self, model: str, source: str, done: int, total: int) -> None:
        """Take in one report of a pull; any thread may call it, as often as it likes."""
        now = self._clock()
        with self._lock:
            track = self._tracks.setdefault(model, _Track())
            if self._present is not None and self._present is not track:
                # Files come one after another, so the one before was checked, if it came at all.
                self._present.over = self._present.done >= self._present.total
            self._present = track
            if source != track.source or done < track.done:
                track.samples.clear()  # another beginning
            track.source, track.done, track.total, track.over = source, done, total, False
            samples = track.samples
            # What a pull finds of an earlier one comes with the first bytes, and is no speed.
            if done and (not samples or now - samples[-1][0] >= _SAMPLE_S):
                samples.append((now, done))
                while now - samples[0][0] > WINDOW_S:
                    samples.popleft()

    def read(self) -> list[Download]:
        """Every file as it stands."""
        now = self._clock()
        with self._lock:
            return [
                Download(model, track.source, track.done, track.total, _speed(track, now), track.over)
                for model, track in self._tracks.items()
            ]


def _speed(track: _Track, now: float) -> float | None:
    if not track.samples:
        return None
    then, done = track.samples[0]
    seconds = now - then
    return (track.done - done) / seconds if seconds >= 1 else None
