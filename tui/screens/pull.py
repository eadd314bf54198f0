"""Get models into the store, with progress; Esc stops, what failed can be tried again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Static
from textual.worker import get_current_worker

import edge_spec
from edge_spec import Cancelled, EdgeSpecError, harmless
from tui.models.downloads import DownloadMeter
from tui.screens.closing import ClosingModal
from tui.widgets.download_row import DownloadRow

REFRESH_S: Final = 0.2
"""Figures change so often at most, however often a pull reports."""

_STOPPED = "Stopped. Pull again to go on: what has come is kept, of PyPI's files the whole ones."
_KEYS: Final = {
    "pulling": "Esc stop",
    "stopping": "",
    "stopped": "Enter go on   Esc close",
    "failed": "Enter try again   Esc close",
}


class PullScreen(ClosingModal[bool]):
    """Pulls models or pairs of the catalogue; True when all of them are there."""

    CSS_PATH = "pull.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", show=False),
        Binding("enter", "retry", "Try again", show=False),
    ]

    @dataclass
    class Ended(Message):
        """The pull is over: `problem` is None if all went well, "" if it was stopped."""

        problem: str | None

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = tuple(names)
        self._state: Literal["pulling", "stopping", "stopped", "failed"] = "pulling"
        self._stop = threading.Event()
        self._meter = DownloadMeter()

    def compose(self) -> ComposeResult:
        with Vertical(id="pull-box"):
            yield Static(f"Pulling {' and '.join(self._names)}", id="pull-title", markup=False)
            yield VerticalScroll(id="pull-files", can_focus=False)
            yield Static(id="pull-words", markup=False)
            yield Static(id="pull-keys", markup=False)

    def on_mount(self) -> None:
        self._begin()
        self.set_interval(REFRESH_S, self._show_progress)

    # -- the pull

    def _begin(self) -> None:
        self._stop = threading.Event()
        self._meter = DownloadMeter(_models_of(self._names))
        self._show("pulling", "")
        self._pull(self._meter, self._stop)

    @work(thread=True, exclusive=True, group="pull")
    def _pull(self, meter: DownloadMeter, stop: threading.Event) -> None:
        worker = get_current_worker()
        try:
            edge_spec.pull_models(self._names, meter.report, lambda: stop.is_set() or worker.is_cancelled)
        except Cancelled:
            self.post_message(self.Ended(""))
        except EdgeSpecError as error:
            self.post_message(self.Ended(str(error)))
        else:
            self.post_message(self.Ended(None))

    @on(Ended)
    def _ended(self, event: Ended) -> None:
        self._show_progress()
        if event.problem is None:
            self.dismiss(True)
        elif event.problem:
            self._show("failed", harmless(event.problem))
        else:
            self._show("stopped", _STOPPED)

    # -- keys

    def action_stop(self) -> None:
        """Stop the pull; or close, when nothing is being pulled."""
        if self._state == "pulling":
            self._stop.set()
            self._show("stopping", "Stopping.")
        elif self._state != "stopping":
            self.dismiss(False)

    def action_retry(self) -> None:
        if self._state in ("stopped", "failed"):
            self._begin()

    # -- what is seen

    def _show(self, state: Literal["pulling", "stopping", "stopped", "failed"], words: str) -> None:
        self._state = state
        box = self.query_one("#pull-box")
        for name in _KEYS:
            box.set_class(name == state, f"-{name}")
        self.query_one("#pull-words", Static).update(words)
        self.query_one("#pull-keys", Static).update(_KEYS[state])
        self._show_progress()

    def _show_progress(self) -> None:
        files = self.query_one("#pull-files")
        rows = {row.model: row for row in files.query(DownloadRow)}
        for download in self._meter.read():
            if self._state in ("stopped", "failed"):
                download = replace(download, speed=None)
            row = rows.get(download.model)
            if row is None:
                files.mount(DownloadRow(download))
            else:
                row.download = download


def _models_of(names: Sequence[str]) -> list[str]:
    """The models that pulls of these names will bring, as far as the catalogue says."""
    pairs = {pair.name: pair for pair in edge_spec.catalogue()}
    models: list[str] = []
    for name in names:
        pair = pairs.get(name)
        models += [name] if pair is None else [m for m in (pair.target, pair.draft) if m is not None]
    return list(dict.fromkeys(models))
