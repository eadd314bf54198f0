"""No model is here yet: what to begin with, what that costs, and getting it or using another program's."""

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
from edge_spec import (
    SETTINGS,
    CataloguePair,
    EdgeSpecError,
    InstalledModel,
    PairSpec,
    harmless,
    size_text,
)
from tui.keys import Keys, resolve_keys
from tui.models.choices import best_of, drafts_of, of_model, targets_of
from tui.models.memory_plan import disk_words, pair_words
from tui.screens.closing import ClosingModal
from tui.screens.model_rows import offer_look
from tui.screens.pick_file import PickFileScreen
from tui.screens.pull import PullScreen

_INTRO = "There is no model in edge-spec's store yet. Choose what to begin with."
_HERE: Final = "{} of other programs here: no download needed."
_KEYS = "↑↓ move   Enter choose   Esc not now"
_FILE: Final = "file"
_FILE_WHERE = "A GGUF file that is already on this machine."
_FILE_WORDS = "Nothing is downloaded. The file is checked before it is loaded."


class FirstRunScreen(ClosingModal[PairSpec | None]):
    """Gets a first model; the pair to load, with `options`, or None if the user would rather not."""

    CSS_PATH = "first_run.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Not now", show=False)]

    @dataclass
    class Found(Message):
        """What other programs have on this machine."""

        models: list[InstalledModel]

    @dataclass
    class Planned(Message):
        """What is known of a choice: disk and memory, and for a model that was found its draft."""

        name: str
        words: str
        spec: PairSpec | None = None

    def __init__(self, options: Mapping[str, Any] | None = None, keys: Keys | None = None) -> None:
        super().__init__()
        self.VERTICAL_BREAKPOINTS = [(0, "-tiny"), (20, "-tall")]
        self._keys = keys if keys is not None else resolve_keys({})
        self._options = dict(options or {})
        pairs = sorted(
            (pair for pair in edge_spec.catalogue() if pair.sized), key=lambda pair: pair.num_bytes
        )
        self._pairs = {pair.name: pair for pair in pairs}
        self._found: dict[str, InstalledModel] = {}  # by row
        self._plans: dict[str, str] = {_FILE: _FILE_WORDS}
        self._specs: dict[str, PairSpec] = {}
        self._wanted: str | None = None  # chosen before its draft was known

    def compose(self) -> ComposeResult:
        with Vertical(id="first-box"):
            yield Static("Welcome to edge-spec", id="first-title", markup=False)
            yield Static(_INTRO, id="first-intro", markup=False)
            yield OptionList(*self._options_shown(), id="first-list", markup=False)
            with VerticalScroll(id="first-plan-box", can_focus=False):
                yield Static(id="first-plan", markup=False)
            yield Static(_KEYS, id="first-keys", markup=False)

    def on_mount(self) -> None:
        if (recommended := SETTINGS["pair"].default) in self._pairs:
            self.query_one(OptionList).highlighted = list(self._pairs).index(recommended)
        self._look_for_models()

    def _options_shown(self) -> list[Option]:
        return [
            *(Option(_look_of_found(model), id=row) for row, model in self._found.items()),
            *(Option(_look_of(pair), id=pair.name) for pair in self._pairs.values()),
            Option(offer_look("a file", "no download", _FILE_WHERE), id=_FILE),
        ]

    @work(thread=True, group="found")
    def _look_for_models(self) -> None:
        models = {str(model.path): model for model in edge_spec.found_models()}
        others = [model for model in models.values() if model.place != "store"]
        usable = [of_model(model) for model in others if model.problem is None]
        found = [models[choice.ref] for choice in targets_of(usable)]
        if found and not get_current_worker().is_cancelled:
            self.post_message(self.Found(found))

    @on(Found)
    def _show_found(self, event: Found) -> None:
        options = self.query_one(OptionList)
        at = options.highlighted_option
        self._found = {f"found {model.path}": model for model in event.models}
        options.set_options(self._options_shown())
        if at is not None and at.id is not None:
            options.highlighted = options.get_option_index(at.id)
            options.scroll_to_highlight(top=False)
        count = len(event.models)
        words = _HERE.format("There is 1 model" if count == 1 else f"There are {count} models")
        self.query_one("#first-intro", Static).update(words)

    @on(OptionList.OptionHighlighted)
    def _moved(self, event: OptionList.OptionHighlighted) -> None:
        assert event.option_id is not None
        if event.option_id != self._wanted:
            self._wanted = None
        self._show_plan(event.option_id)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        row = event.option_id or ""
        pair = self._pairs.get(row)
        if row in self._specs:
            self.dismiss(self._specs[row])
        elif row in self._found:
            self._wanted = row
            self._show_plan(row)
        elif pair is None:
            picking = PickFileScreen("Which GGUF file?", lambda path: pair_words(self._plain(path)))
            self.open(picking, self._picked)
        elif pair.installed:
            self._finish(pair)
        else:
            self.open(PullScreen([pair.name]), lambda pulled: self._finish(pair) if pulled else None)

    def _finish(self, pair: CataloguePair) -> None:
        self.dismiss(PairSpec(pair.target, pair.draft, self._options))

    def _picked(self, path: Path | None) -> None:
        if path is not None:
            self.dismiss(self._plain(path))

    def _plain(self, path: Path) -> PairSpec:
        """A file without a draft."""
        return PairSpec(str(path), None, self._options)

    # -- what it would take

    def _show_plan(self, name: str) -> None:
        words = self._plans.get(name)
        self.query_one("#first-plan", Static).update(words or "Looking at disk and memory.")
        if words is None and name in self._found:
            self._plan_found(name, self._found[name])
        elif words is None:
            self._plan(self._pairs[name])

    @work(thread=True, exclusive=True, group="plan")
    def _plan(self, pair: CataloguePair) -> None:
        disk = disk_words(pair.num_bytes, edge_spec.store_path())
        try:
            memory = pair_words(PairSpec(pair.target, pair.draft, self._options))
        except EdgeSpecError as error:
            memory = str(error)
        if not get_current_worker().is_cancelled:
            self.post_message(
                self.Planned(pair.name, harmless(f"{disk}\n{memory}\nLicence: {pair.licence}."))
            )

    @work(thread=True, exclusive=True, group="plan")
    def _plan_found(self, row: str, model: InstalledModel) -> None:
        spec: PairSpec | None = None
        try:
            draft = best_of(drafts_of(edge_spec.drafts_for(str(model.path)), []))
            spec = PairSpec(str(model.path), draft.choice.ref if draft else None, self._options)
            words = (
                f"Draft: {draft.choice.name}, which is here too."
                if draft
                else "No draft for it is here, so it decodes plainly at first; "
                f"{self._keys('models')} gets or makes one."
            )
            words = f"Nothing is downloaded. {words}\n{pair_words(spec)}"
        except EdgeSpecError as error:
            spec, words = None, str(error)
        if not get_current_worker().is_cancelled:
            self.post_message(self.Planned(row, harmless(words), spec))

    @on(Planned)
    def _planned(self, event: Planned) -> None:
        self._plans[event.name] = event.words
        if event.spec is not None:
            self._specs[event.name] = event.spec
            if self._wanted == event.name:
                self.dismiss(event.spec)
        options = self.query_one(OptionList)
        if options.highlighted_option is not None and options.highlighted_option.id == event.name:
            self._show_plan(event.name)


def _look_of(pair: CataloguePair) -> Content:
    size = f"{size_text(pair.num_bytes)} to download" if pair.num_bytes else "already here"
    recommended = "   recommended" if pair.name == SETTINGS["pair"].default else ""
    return offer_look(pair.name, size + recommended, f"{pair.description}.")


def _look_of_found(model: InstalledModel) -> Content:
    place = "already here" if model.place == "store" else f"of {model.place}, already here"
    return offer_look(model.name, place, of_model(model).facts)
