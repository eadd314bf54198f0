"""Running the arms over the prompts, visit by visit, and keeping what they answered."""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bench.plan import turn, visits
from bench.ratios import Ratios
from bench.samples import Arm, Prompt, Sample, Setting

PLAIN = "ours-plain"
Visit = dict[str, Sample]
"""What each arm answered to one prompt, one after another."""
Speed = Callable[[Sample], float | None]


def decode_speed(sample: Sample) -> float | None:
    return sample.decode_speed


def wall_speed(sample: Sample) -> float | None:
    return sample.wall_speed


@dataclass(slots=True)
class Run:
    """All visits of one pair at one temperature, by (repetition, prompt id), in running order."""

    setting: Setting
    arms: list[str]
    prompts: list[Prompt]
    visits: dict[tuple[int, str], Visit] = field(default_factory=dict)

    def missing(self, repetitions: int) -> list[tuple[int, Prompt]]:
        """The visits that are still to be made, in running order."""
        return [
            (repetition, prompt)
            for repetition, prompt in visits(self.prompts, repetitions)
            if (repetition, prompt.id) not in self.visits
        ]

    def measure(
        self, arms: Mapping[str, Arm], repetitions: int, say: Callable[[str], None]
    ) -> Iterator[None]:
        """Make the missing visits; yields after each, which is the time to save them.

        A visit counts once all arms have answered: what is interrupted is measured again, so
        that neighbours in a ratio were neighbours in time.
        """
        for repetition, prompt in self.missing(repetitions):
            visit: Visit = {}
            for name in turn(self.arms, repetition):
                visit[name] = arms[name].run(prompt, repetition)
                speed = visit[name].decode_speed
                told = "too short" if speed is None else f"{speed:7.2f} tokens/s"
                say(f"  {prompt.id:24} {name:20} {told}")
            self.visits[repetition, prompt.id] = _finished(visit)
            yield

    @property
    def categories(self) -> list[str]:
        return list(dict.fromkeys(prompt.category for prompt in self.prompts))

    def samples(self, arm: str) -> list[Sample]:
        return [visit[arm] for visit in self.visits.values() if arm in visit]

    def ratios(self, over: tuple[str, str], category: str, speed: Speed) -> Ratios:
        """One list a prompt of `category`: the ratio of the two neighbours at each visit."""
        a, b = over
        found: dict[str, list[float]] = {p.id: [] for p in self.prompts if p.category == category}
        for (_, prompt_id), visit in self.visits.items():
            if prompt_id in found and a in visit and b in visit:
                x, y = speed(visit[a]), speed(visit[b])
                if x is not None and y is not None:
                    found[prompt_id].append(x / y)
        return list(found.values())


def _finished(visit: Visit) -> Visit:
    """The visit with hashes for texts, and how far each begins as the plain one."""
    plain = visit[PLAIN].text if PLAIN in visit else None
    finished: Visit = {}
    for name, sample in visit.items():
        text = sample.text
        finished[name] = dataclasses.replace(
            sample,
            text=None,
            text_sha256=None if text is None else hashlib.sha256(text.encode()).hexdigest(),
            agreement=agreement(plain, text) if plain and text and name != PLAIN else None,
        )
    return finished


def agreement(a: str, b: str) -> float:
    """How much of the shorter text both begin with, as a share; 1 is all of it."""
    shared = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return min(1.0, shared / max(1, min(len(a.rstrip()), len(b.rstrip()))))


class Clock:
    """Says how long a run will take, from the visits that it made so far."""

    def __init__(self, to_do: int, now: Callable[[], float] = time.monotonic) -> None:
        self._to_do = to_do
        self._done = 0
        self._spent_s = 0.0
        self._now = now
        self._started = now()

    def start(self) -> None:
        """The next visit begins: loading models is not counted."""
        self._started = self._now()

    def visited(self) -> str:
        """One more visit is done: how far the run is, and how long the rest will take."""
        self._spent_s += self._now() - self._started
        self._done += 1
        self._started = self._now()
        left_s = (self._to_do - self._done) * self._spent_s / self._done
        return f"[visit {self._done} of {self._to_do}] {minutes(left_s)} left"


def minutes(seconds: float) -> str:
    """A duration for a person: 42 s, 7 min, 3 h 05 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    whole = round(seconds / 60)
    return f"{whole} min" if whole < 90 else f"{whole // 60} h {whole % 60:02d} min"


def plan_text(runs: Sequence[Run], repetitions: int) -> str:
    """How many answers will be made, and by how many arms to how many prompts."""
    to_do = sum(len(run.missing(repetitions)) * len(run.arms) for run in runs)
    all_of_it = sum(len(run.prompts) * repetitions * len(run.arms) for run in runs)
    first = runs[0]
    text = (
        f"{all_of_it} answers: {len(runs)} x {len(first.prompts)} prompts x {repetitions} alternations x "
        f"{len(first.arms)} arms ({', '.join(first.arms)})"
    )
    return text if to_do == all_of_it else f"{text}; {to_do} of them are left"
