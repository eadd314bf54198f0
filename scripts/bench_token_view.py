#!/usr/bin/env python3
"""How fast the token view is with a long answer on screen, in figures to compare with its limits.

    scripts/bench_token_view.py [--tokens 5000]

An answer of so many tokens, with rejected and discarded ones between, is in the view of an app
without a terminal; keys come while it streams on at twenty rounds a second. Shown are
milliseconds: the median, and what 19 of 20 stay below. Exit code 1 when a median is over its limit.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import asyncio
import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from textual.app import App, ComposeResult
from textual.widgets import Input

from edge_spec import Drafted, Fate, Proposal, RoundTimings, Verdict, Verified
from tui.chat.transcript import AnswerFold, Block, Transcript
from tui.widgets.token_layout import BlockLayout
from tui.widgets.token_lines import Look
from tui.widgets.token_view import TokenView

ROUNDS_PER_SECOND = 20
NUM_MEASURED = 100
TIMINGS = RoundTimings(0.03, 0.05, 0.001, 0.09)
WORDS = (
    " the def return self value: = list[int] merge( left, right) result.append( i j + 1 while for"
    " in range( len( and or not \n\n \n     \n         ( ) : if else: . \u65e5\u672c \U0001f600 string number"
)


@dataclass(frozen=True)
class Figure:
    name: str
    median_ms: float
    most_ms: float
    limit_ms: float | None

    @property
    def is_over(self) -> bool:
        return self.limit_ms is not None and self.median_ms > self.limit_ms

    @property
    def limit_note(self) -> str:
        if self.limit_ms is None:
            return ""
        return f"  (limit {self.limit_ms:g}{', over it' if self.is_over else ''})"


class Answer:
    """An endless answer in rounds of three drafted tokens, of which some lose."""

    def __init__(self, seed: int) -> None:
        words = [f" {word}" if word[:1].isalpha() else word for word in WORDS.split(" ")]
        self.pieces = [word.encode() for word in [*words, " ", "    "]]
        self._random = random.Random(seed)

    def rounds(self) -> Iterator[tuple[Drafted, Verified]]:
        while True:
            ids = [self._random.randrange(len(self.pieces)) for _ in range(4)]
            accepted = min(3, int(self._random.expovariate(0.3)))
            proposal = Proposal.chain(ids[:3], [None] * 3, "draft")
            fates = [Fate.ACCEPTED] * accepted + [Fate.REJECTED] * (accepted < 3)
            fates += [Fate.DISCARDED] * (3 - len(fates))
            verdict = Verdict(
                (*ids[:accepted], ids[3]),
                tuple(range(accepted)),
                tuple(fates),
                "bonus" if accepted == 3 else "residual",
                (0.5,) * 3,
            )
            yield Drafted(0, proposal), Verified(0, proposal, verdict, TIMINGS)


class BenchApp(App[None]):
    """A view with a long answer that may go on; knows when a key's effect was drawn."""

    def __init__(self, num_tokens: int) -> None:
        super().__init__()
        answer = Answer(7)
        self.block = Block("model")
        self.fold = AnswerFold(self.block, answer.pieces.__getitem__)
        self.rounds = answer.rounds()
        while len(self.block.spans) < num_tokens:
            for event in next(self.rounds):
                self.fold.see(event)
        self.view = TokenView(Transcript([Block.of_text("you", "Write much."), self.block]))
        self.prompt = Input()
        self.moved = False
        self.drawn = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield self.view
        yield self.prompt

    def on_mount(self) -> None:
        self.watch(self.view, "cursor", self._note_move)
        self.watch(self.prompt, "value", self._note_move)

    def see_round(self) -> None:
        for event in next(self.rounds):
            first = self.fold.see(event)
            if first is not None:
                self.view.changed(1, first)

    def _note_move(self) -> None:
        self.moved = True

    def _display(self, *arguments: Any) -> None:
        super()._display(*arguments)
        if self.moved:
            self.drawn.set()


def measured(name: str, limit_ms: float | None, times: list[float]) -> Figure:
    times = sorted(times)
    return Figure(name, 1000 * times[len(times) // 2], 1000 * times[len(times) * 19 // 20], limit_ms)


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


async def key_times(app: BenchApp, key: str) -> list[float]:
    """Seconds from a key to the end of the drawing that shows its effect."""
    times = []
    for index in range(NUM_MEASURED):
        await asyncio.sleep(0.01 + 0.0007 * index)  # at all moments between two rounds
        app.moved = False
        app.drawn.clear()
        started = time.perf_counter()
        app.simulate_key(key)
        await asyncio.wait_for(app.drawn.wait(), 5)
        times.append(time.perf_counter() - started)
    return times


async def bench(num_tokens: int) -> list[Figure]:
    app = BenchApp(num_tokens)
    figures: list[Figure] = []
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
        look = Look(110)
        wraps = [timed(lambda: BlockLayout(app.block, look, is_first=True)) for _ in range(20)]
        figures.append(measured("wrap the answer anew", 150, wraps))
        widths = itertools.cycle((100, 120))
        resizes = []
        for width in itertools.islice(widths, 20):
            started = time.perf_counter()
            await pilot.resize_terminal(width, 36)
            resizes.append(time.perf_counter() - started)
        figures.append(measured("resize the terminal, all in all", None, resizes))

        appends = []
        for _ in range(NUM_MEASURED):
            appends.append(timed(app.see_round))
            await pilot.pause(0)
        figures.append(measured("append a round (guess and verdict)", 1, appends))

        timer = app.set_interval(1 / ROUNDS_PER_SECOND, app.see_round)
        app.prompt.focus()
        figures.append(measured("key in the prompt to screen", 50, await key_times(app, "x")))
        app.view.focus()
        app.view.move_cursor(-1)
        figures.append(measured("key in the view to screen", 50, await key_times(app, "left")))
        timer.stop()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tokens", type=int, default=5000, help="spans of the answer (default 5000)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    figures = asyncio.run(bench(arguments.tokens))
    if arguments.json:
        print(json.dumps({figure.name: [figure.median_ms, figure.most_ms] for figure in figures}))
        return
    for figure in figures:
        print(f"{figure.name:36} {figure.median_ms:8.2f} {figure.most_ms:8.2f} ms{figure.limit_note}")
    if any(figure.is_over for figure in figures):
        sys.exit(1)


if __name__ == "__main__":
    main()
