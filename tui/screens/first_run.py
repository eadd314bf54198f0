"""No model is here yet: what to begin with, what that costs, and getting it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

import edge_spec
from edge_spec import SETTINGS, CataloguePair, EdgeSpecError, PairSpec, harmless, size_text
from tui.models.memory_plan import disk_words, memory_words
from tui.screens.closing import ClosingModal
from tui.screens.pick_file import PickFileScreen
from tui.screens.pull import PullScreen

_INTRO = "There is no model on this machine yet. Choose what to begin with."
_KEYS = "↑↓ move   Enter choose   Esc not now"
_FILE: Final = "file"
_FILE_WHERE = "A GGUF file that is already on this machine."
_FILE_WORDS = "Nothing is downloaded. The file is checked before it is loaded."


class FirstRunScreen(ClosingModal[PairSpec | None]):
    """Gets a first model; the pair to load, with `options`, or None if the user would rather not."""

    CSS_PATH = "first_run.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Not now", show=False)]

    @dataclass
    class Planned(Message):
        """What is known about a pair's disk and memory."""

        name: str
        words: str

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._options = dict(options or {})
        pairs = sorted(
            (pair for pair in edge_spec.catalogue() if pair.sized), key=lambda pair: pair.num_bytes
        )
        self._pairs = {pair.name: pair for pair in pairs}
        self._plans: dict[str, str] = {_FILE: _FILE_WORDS}

    def compose(self) -> ComposeResult:
        with Vertical(id="first-box"):
            yield Static("Welcome to edge-spec", id="first-title", markup=False)
            yield Static(_INTRO, id="first-intro", markup=False)
            yield OptionList(
                *(Option(_look_of(pair), id=pair.name) for pair in self._pairs.values()),
                Option(_look("a file", "no download", _FILE_WHERE), id=_FILE),
                id="first-list",
                markup=False,
            )
            with VerticalScroll(id="first-plan-box", can_focus=False):
                yield Static(id="first-plan", markup=False)
            yield Static(_KEYS, id="first-keys", markup=False)

    def on_mount(self) -> None:
        if (recommended := SETTINGS["pair"].default) in self._pairs:
            self.query_one(OptionList).highlighted = list(self._pairs).index(recommended)

    @on(OptionList.OptionHighlighted)
    def _moved(self, event: OptionList.OptionHighlighted) -> None:
        assert event.option_id is not None
        self._show_plan(event.option_id)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        pair = self._pairs.get(event.option_id or "")
        if pair is None:
            title = "Which GGUF file?"
            self.app.push_screen(PickFileScreen(title, self._words_about), self._picked)
        elif pair.installed:
            self._finish(pair)
        else:
            self.app.push_screen(
                PullScreen([pair.name]), lambda pulled: self._finish(pair) if pulled else None
            )

    def _finish(self, pair: CataloguePair) -> None:
        self.dismiss(PairSpec(pair.target, pair.draft, self._options))

    def _picked(self, path: Path | None) -> None:
        if path is not None:
            self.dismiss(PairSpec(str(path), None, self._options))

    def _words_about(self, path: Path) -> str:
        """The memory plan of a file; EdgeSpecError says why it cannot be used."""
        return memory_words(edge_spec.estimate_pair(PairSpec(str(path), None, self._options)))

    # -- what it would take

    def _show_plan(self, name: str) -> None:
        words = self._plans.get(name)
        self.query_one("#first-plan", Static).update(words or "Looking at disk and memory.")
        if words is None:
            self._plan(self._pairs[name])

    @work(thread=True, exclusive=True, group="plan")
    def _plan(self, pair: CataloguePair) -> None:
        disk = disk_words(pair.num_bytes, edge_spec.store_path())
        try:
            memory = memory_words(edge_spec.estimate_pair(PairSpec(pair.target, pair.draft, self._options)))
        except EdgeSpecError as error:
            memory = str(error)
        if not get_current_worker().is_cancelled:
            self.post_message(
                self.Planned(pair.name, harmless(f"{disk}\n{memory}\nLicence: {pair.licence}."))
            )

    @on(Planned)
    def _planned(self, event: Planned) -> None:
        self._plans[event.name] = event.words
        options = self.query_one(OptionList)
        if options.highlighted_option is not None and options.highlighted_option.id == event.name:
            self._show_plan(event.name)


def _look_of(pair: CataloguePair) -> Content:
    size = f"{size_text(pair.num_bytes)} to download" if pair.num_bytes else "already here"
    recommended = "   recommended" if pair.name == SETTINGS["pair"].default else ""
    return _look(pair.name, size + recommended, f"{pair.description}.")


def _look(name: str, size: str, words: str) -> Content:
    return Content.assemble((harmless(name), "bold"), f"   {size}\n", (harmless(words), "dim"))
