"""The lines that a measurement is held against, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bench.measure import PLAIN
from bench.report import ALL, AUTO, DRAFTING_K, FIXED_K, LLAMA_CPP, rivals_of_auto


@dataclass(frozen=True, slots=True)
class Requirement:
    """One arm over another: at least `each` in every category and `mean` over them, None for no matter."""

    arm: str
    over: str
    speed: Literal["decode", "wall"]
    each: float | None
    mean: float | None


PEERS = (
    Requirement(AUTO, PLAIN, "decode", each=0.98, mean=None),
    Requirement(AUTO, PLAIN, "wall", each=0.96, mean=None),
    Requirement(AUTO, FIXED_K, "decode", each=0.95, mean=1.05),
    Requirement(AUTO, LLAMA_CPP, "decode", each=0.98, mean=1.15),
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One cell: `met` unless its upper bound lies below the line; None when it was not measured."""

    text: str
    met: bool | None

    def __str__(self) -> str:
        word = {True: "PASS", False: "FAIL", None: "NONE"}[self.met]
        return f"{word} {self.text}"


def judge(name: str, line: float, ratio: float | None, low: float | None, high: float | None) -> Judgement:
    """The cell `name` against `line`: it fails when its 95% upper bound lies below."""
    if ratio is None or low is None or high is None:
        return Judgement(f"{name}: not measured, at least {line:g} wanted", None)
    return Judgement(f"{name}: {ratio:.3f} ({low:.3f} to {high:.3f}), at least {line:g} wanted", high >= line)


def all_met(judged: Sequence[Judgement]) -> bool:
    """Whether every cell meets its line; not if there is none."""
    return bool(judged) and all(one.met for one in judged)


def judge_run(
    rows: Sequence[Mapping[str, Any]],
    arms: Sequence[str],
    categories: Sequence[str],
    requirements: Sequence[Requirement] = PEERS,
) -> Iterator[Judgement]:
    """A judgement for every cell that a requirement has a line for; `rows` as a record has them.

    Only requirements count whose arms took part. Plain decoding alone is no choice among fixed lengths.
    """
    rivals = rivals_of_auto(arms)
    took_part = {*arms, *rivals} - ({FIXED_K} if DRAFTING_K not in rivals else set())
    found = {(tuple(row["over"]), row["category"]): row for row in rows}
    # Of a single category the mean is that category itself.
    mean = ALL if len(categories) > 1 else categories[0]
    for wanted in requirements:
        if not {wanted.arm, wanted.over} <= took_part:
            continue
        cells = [] if wanted.each is None else [(category, wanted.each) for category in categories]
        cells += [] if wanted.mean is None else [(mean, wanted.mean)]
        for number, (category, line) in enumerate(cells):
            row = found.get(((wanted.arm, wanted.over), category), {})
            values = [row.get(f"{wanted.speed}_{part}") for part in ("ratio", "low", "high")]
            shown = "mean" if wanted.mean is not None and number == len(cells) - 1 else category
            yield judge(f"{wanted.arm} / {wanted.over}, {wanted.speed}, {shown}", line, *values)
