"""Pulling inside the interface: progress, stopping, failing, trying again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from textual.content import Content

import edge_spec
from edge_spec import Cancelled, CataloguePair, count_text, size_text
from edge_spec.errors import FetchError
from tests.tui.alone import alone, until
from tui.models.amounts import clock_text, duration_text
from tui.models.downloads import DownloadMeter
from tui.screens.pull import REFRESH_S, PullScreen
from tui.widgets.download_row import DownloadRow

PAIR = CataloguePair("both", "Two models", "big", "small[red]", 300, 300, "Apache-2.0")


@dataclass
class Library:
    """pull_models, told what to do next by the test."""

    calls: list[tuple[str, ...]] = field(default_factory=list)
    error: Exception | None = None
    let_go: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    report: Callable[[str, str, int, int], None] = print

    def pull(
        self,
        names: Sequence[str],
        on_progress: Callable[[str, str, int, int], None],
        cancelled: Callable[[], bool],
    ) -> list[Path]:
        self.calls.append(tuple(names))
        self.report = on_progress
        try:
            while not self.let_go.wait(0.01):
                if cancelled():
                    raise Cancelled
            if self.error is not None:
                raise self.error
            return []
        finally:
            self.ended.set()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    library = Library()
    monkeypatch.setattr(edge_spec, "pull_models", library.pull)
    monkeypatch.setattr(edge_spec, "catalogue", lambda: [PAIR])
    return library


async def test_a_pull_that_succeeds_closes_itself(library: Library) -> None:
    async with alone(PullScreen(["both"])) as (app, pilot):
        await until(pilot, lambda: library.calls)
        library.let_go.set()
        await until(pilot, lambda: app.results)
        assert app.results == [True]
        assert library.calls == [("both",)]


async def test_progress_shows_bytes_speed_and_source_of_each_file(library: Library) -> None:
    async with alone(PullScreen(["both"])) as (app, pilot):
        await until(pilot, lambda: library.calls)
        assert [row.model for row in app.screen.query(DownloadRow)] == ["big", "small[red]"]
        assert "not here yet" in app.text("DownloadRow")
        library.report("big", "the Hugging Face hub", 250_000_000, 1_000_000_000)
        await until(pilot, lambda: "from the Hugging Face hub" in app.text("DownloadRow"))
        assert "25%   250 MB of 1.0 GB" in app.text("DownloadRow")


async def test_figures_change_at_most_five_times_a_second(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = []
    render = DownloadRow.render

    def counted(row: DownloadRow) -> Content:
        drawn.append(row.model)
        return render(row)

    monkeypatch.setattr(DownloadRow, "render", counted)
    async with alone(PullScreen(["big"])) as (_, pilot):
        await until(pilot, lambda: library.calls)
        drawn.clear()
        started = time.monotonic()
        for done in range(1000):
            library.report("big", "PyPI", done, 1000)
            if done % 100 == 0:
                await pilot.pause(0.05)
        assert 1 <= len(drawn) <= 1 + (time.monotonic() - started) / REFRESH_S
    assert REFRESH_S >= 0.2


async def test_escape_stops_says_what_is_kept_and_closes_with_no(library: Library) -> None:
    async with alone(PullScreen(["both"])) as (app, pilot):
        await until(pilot, lambda: library.calls)
        await pilot.press("escape")
        await until(pilot, lambda: "Stopped" in app.text("#pull-words"))
        assert "kept" in app.text("#pull-words")
        assert not app.results
        await pilot.press("escape")
        await until(pilot, lambda: app.results)
        assert app.results == [False]


async def test_what_was_stopped_goes_on_at_enter(library: Library) -> None:
    async with alone(PullScreen(["both"])) as (app, pilot):
        await until(pilot, lambda: library.calls)
        await pilot.press("escape")
        await until(pilot, lambda: "Stopped" in app.text("#pull-words"))
        library.let_go.set()
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [True] and len(library.calls) == 2


async def test_a_failure_shows_the_librarys_sentence_as_it_is_and_can_be_tried_again(
    library: Library,
) -> None:
    library.error = FetchError("big could not be brought to /a[red]b (no network): check the network.")
    library.let_go.set()
    async with alone(PullScreen(["both"])) as (app, pilot):
        await until(pilot, lambda: "/a[red]b (no network)" in app.text("#pull-words"))
        assert "Enter try again" in app.text("#pull-keys")
        library.error = None
        await pilot.press("enter")
        await until(pilot, lambda: app.results)
        assert app.results == [True]


async def test_leaving_the_program_stops_the_pull(library: Library) -> None:
    async with alone(PullScreen(["both"])) as (_, pilot):
        await until(pilot, lambda: library.calls)
    assert library.ended.wait(10), "it was not let go, so only a stop ends it"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_speed_is_what_arrived_lately_and_not_what_was_there_before() -> None:
    clock = Clock()
    meter = DownloadMeter(["a"], clock)
    meter.report("a", "PyPI", 0, 1000)
    for second in range(1, 4):
        clock.now = second
        meter.report("a", "PyPI", 500 + 10 * second, 1000)  # 500 of an earlier pull
    (download,) = meter.read()
    assert download.speed == 10 and download.seconds_left == 47


def test_speed_falls_while_nothing_arrives() -> None:
    clock = Clock()
    meter = DownloadMeter(["a"], clock)
    for second in range(4):
        clock.now = second
        meter.report("a", "PyPI", 100 * (second + 1), 1000)
    clock.now = 30
    assert meter.read()[0].speed == 10


def test_another_source_begins_anew() -> None:
    clock = Clock()
    meter = DownloadMeter(["a"], clock)
    for second in range(4):
        clock.now = second
        meter.report("a", "the Hugging Face hub", 100 * (second + 1), 1000)
    meter.report("a", "PyPI", 0, 1000)
    (download,) = meter.read()
    assert (download.source, download.done, download.speed) == ("PyPI", 0, None)


def test_a_file_is_over_when_the_next_one_begins() -> None:
    meter = DownloadMeter(["a", "b"])
    meter.report("a", "PyPI", 10, 10)
    assert not meter.read()[0].over
    meter.report("b", "PyPI", 0, 10)
    assert [download.over for download in meter.read()] == [True, False]


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (size_text(98_362_432), "98 MB"),
        (size_text(1_608_720_832), "1.6 GB"),
        (duration_text(8.4), "8 s"),
        (duration_text(130), "2 min 10 s"),
        (duration_text(3900), "1 h 05 min"),
        (clock_text(7.34), "0:07.3"),
        (clock_text(760.0), "12:40.0"),
        (count_text(98_304), "98K"),
        (count_text(134_515_008), "135M"),
        (count_text(1_543_714_304), "1.5B"),
    ],
)
def test_amounts_read_as_people_say_them(shown: str, text: str) -> None:
    assert shown == text
