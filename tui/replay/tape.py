"""A trace read for playing: what each of its events changes on screen, and when.

A trace is folded once, when it is read. Each event becomes a `Step` that knows which spans it put in
place of which, so that walking back costs as little as walking on, and no text is folded again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edge_spec import (
    Alternatives,
    Calibrating,
    Cancelled,
    Drafted,
    Event,
    Finished,
    Inspected,
    Notice,
    Prefilled,
    Started,
    Stats,
    TraceHeader,
    TraceReader,
    UsageError,
    Verified,
)
from tui.chat.transcript import AnswerFold, Block, Round, Span
from tui.replay.soundness import is_sound


@dataclass(frozen=True, slots=True)
class Step:
    """What one event did: from `first` on, `added` stands where `removed` stood.

    `at` is in seconds from the beginning; the fields after `alternatives`, which are those that
    the event brought, say how things stood after it.
    """

    at: float
    first: int | None
    removed: tuple[Span, ...]
    added: tuple[Span, ...]
    alternatives: Mapping[int, Alternatives]
    num_rounds: int
    reading: tuple[int, int] | None
    stats: Stats
    finished: Finished | None
    notice: Notice | None


@dataclass(frozen=True, slots=True)
class Recording:
    """One text of a trace, with at least one step.

    `stops[i]` is the number of steps after which i rounds are over; the last one is the end.
    """

    slot: int
    prompt: str
    prompt_ids: tuple[int, ...]
    steps: tuple[Step, ...]
    stops: tuple[int, ...]
    rounds: tuple[Round, ...]

    @property
    def duration(self) -> float:
        """Seconds from the beginning to the last step."""
        return self.steps[-1].at


@dataclass(frozen=True, slots=True)
class Tape:
    """A trace that was read: its header, its texts, and why it ends early if it does."""

    path: Path
    header: TraceHeader
    recordings: tuple[Recording, ...]
    problem: str | None
    pieces: Mapping[int, bytes]

    def piece(self, token: int) -> bytes:
        """The bytes of a token that is named in it; none where the trace lacks them."""
        return self.pieces.get(token, b"")


def read_tape(path: Path, cancelled: Callable[[], bool] = lambda: False) -> Tape:
    """Read a whole trace. One that is cut off or damaged is read up to there, and `problem` says so.

    Raises UsageError for a file that is no trace, and Cancelled when `cancelled()` says so.
    """
    recorders: list[_Recorder] = []
    current: dict[int, _Recorder] = {}
    notice: Notice | None = None
    problem = None
    with TraceReader(path) as reader:
        stop = _stop_strings(reader.header)
        try:
            for event in reader:
                if cancelled():
                    raise Cancelled
                if not is_sound(event):
                    problem = f"The trace {path} is damaged: an event in it cannot have happened."
                    break
                if isinstance(event, Notice):  # of no text in particular
                    notice = event
                    for recorder in current.values():
                        if not recorder.has_finished:
                            recorder.see(event)
                    continue
                if isinstance(event, Calibrating):
                    continue
                if isinstance(event, Started) or event.slot not in current:
                    current[event.slot] = _Recorder(event.slot, reader.piece, stop, notice)
                    recorders.append(current[event.slot])
                current[event.slot].see(event)
        except UsageError as error:
            problem = str(error)
        except KeyError as error:
            problem = f"The trace {path} is damaged: it names token {error} without its text."
        recordings = tuple(recorder.recording() for recorder in recorders if recorder.has_steps)
        return Tape(path, reader.header, recordings, problem, reader.pieces)


class _Recorder:
    """Folds the events of one text, and notes what each of them changes."""

    def __init__(
        self, slot: int, piece: Callable[[int], bytes], stop: tuple[str, ...], notice: Notice | None
    ) -> None:
        self._slot = slot
        self._piece = piece
        self._fold = AnswerFold(Block("model"), piece, stop)
        self._prompt = ""
        self._notice = notice
        self._stats = Stats()
        self._num_emitted = 0
        self._first_inspected = 0
        self._shown: list[Span] = []  # the block's spans before the event that is being folded
        self._events: list[Event | None] = []
        self._steps: list[Step] = []
        self._failed = False

    @property
    def has_steps(self) -> bool:
        return bool(self._steps)

    @property
    def has_finished(self) -> bool:
        return self._fold.finished is not None

    def see(self, event: Event) -> None:
        """Fold one event in. Raises KeyError if it names a token without a text."""
        self._failed = True
        first = self._fold.see(event)
        alternatives: Mapping[int, Alternatives] = {}
        match event:
            case Started(prompt_ids=ids):
                self._prompt = b"".join(map(self._piece, ids)).decode("utf-8", "replace")
            case Verified(verdict=verdict):
                self._first_inspected = self._num_emitted
                self._num_emitted += len(verdict.tokens)
            case Inspected(rows=rows):
                alternatives = dict(enumerate(rows, self._first_inspected))
            case Notice():
                self._notice = event
        if isinstance(event, Started | Verified | Finished):
            self._stats = _copy(self._fold.stats)
        self._note(event, first, alternatives)
        self._failed = False

    def recording(self) -> Recording:
        """Everything that was noted, each step with its time."""
        if self._fold.finished is None and not self._failed:
            self._note(None, self._fold.end(), {})  # what was held back in case more came
        fold = self._fold
        steps = [replace(step, at=at) for step, at in zip(self._steps, self._times(), strict=True)]
        rounds = tuple(fold.rounds[: steps[-1].num_rounds])
        return Recording(self._slot, self._prompt, fold.prompt_ids, tuple(steps), self._stops(), rounds)

    def _note(self, event: Event | None, first: int | None, alternatives: Mapping[int, Alternatives]) -> None:
        fold = self._fold
        removed: tuple[Span, ...] = ()
        added: tuple[Span, ...] = ()
        if first is not None:
            removed, added = tuple(self._shown[first:]), tuple(fold.block.spans[first:])
            self._shown[first:] = added
        num_rounds = len(fold.rounds)
        self._events.append(event)
        self._steps.append(
            Step(0.0, first, removed, added, alternatives, num_rounds, fold.reading, self._stats,
                 fold.finished, self._notice)
        )  # fmt: skip

    def _times(self) -> list[float]:
        """When each event happened, in seconds from the beginning.

        A round takes the time that was measured, and its guess appears when it was drafted. How
        long the prompt was read is known from `Finished` alone, and spread evenly over its tokens.
        """
        times: list[float] = []
        now, reading = 0.0, self._seconds_of_reading()
        guesses: list[int] = []
        for index, event in enumerate(self._events):
            match event:
                case Prefilled(model="target", done=done, total=total) if total > 0:
                    now = max(now, reading * done / total)
                case Drafted():
                    guesses.append(index)
                case Verified(timings=timings):
                    drafted_at = now + min(timings.draft_s, timings.wall_s)
                    for guess in guesses:
                        times[guess:] = [max(drafted_at, at) for at in times[guess:]]
                    guesses.clear()
                    now += timings.wall_s
            times.append(now)
        return times

    def _seconds_of_reading(self) -> float:
        """From the beginning to the round that gave the first token; all of a text without tokens."""
        stats = self._fold.finished.stats if self._fold.finished else Stats()
        first = next((event for event in self._events if isinstance(event, Verified)), None)
        if first is None:
            return stats.wall_s
        return max(0.0, stats.time_to_first_token_s - first.timings.wall_s)

    def _stops(self) -> tuple[int, ...]:
        stops = [1 if isinstance(self._events[0], Started) else 0]
        for count, event in enumerate(self._events, 1):
            if isinstance(event, Verified):
                stops.append(count)
            elif isinstance(event, Inspected) and stops[-1] == count - 1:
                stops[-1] = count  # belongs to the round before it
        if len(stops) == 1:
            stops.append(len(self._events))
        stops[-1] = len(self._events)
        return tuple(stops)


def _copy(stats: Stats) -> Stats:
    """The counts as they are now; the fold goes on counting in its own."""
    return replace(
        stats,
        accepted_by_position=list(stats.accepted_by_position),
        judged_by_position=list(stats.judged_by_position),
        timers=stats.timers.copy(),
    )


def _stop_strings(header: TraceHeader) -> tuple[str, ...]:
    """The stop strings that the text was generated with, as its trace's settings have them."""
    given = header.settings.get("stop") or ()
    texts = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    return tuple(text for text in texts if isinstance(text, str) and text)
