"""Choose the target and a draft for it: what is here, what can be had, what pairs, what fits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import OptionList, Static
from textual.worker import get_current_worker

import edge_spec
from edge_spec import CataloguePair, EdgeSpecError, InstalledModel, PairSpec, UsageError, harmless
from tui.models.choices import (
    Choice,
    is_target_of,
    named,
    of_file,
    of_model,
    of_pair,
    preset_draft,
    sorted_drafts,
)
from tui.models.memory_plan import disk_words, memory_words
from tui.models.rows import (
    FILE,
    FILE_ROW,
    NO_DRAFT,
    NO_DRAFT_ROW,
    READING_ROW,
    draft_row,
    own_draft_row,
    target_row,
)
from tui.screens.closing import ClosingModal
from tui.screens.pick_file import PickFileScreen
from tui.screens.pull import PullScreen
from tui.widgets.filter_list import FilterList, Row

SETTLE_S: Final = 0.15
"""Files are looked at when the highlight has rested for so long."""

_BATCH_S = 0.2
_FREED = " What is loaded now is freed first."
_KEYS = "↑↓ move   Tab other list   letters filter   Enter use   Esc cancel"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known of a target with a draft: whether they can be used, and words about it."""

    usable: bool
    words: str


class ModelScreen(ClosingModal[PairSpec | None]):
    """Picks a pair, `current` being the one in use; pulls what is not here yet."""

    CSS_PATH = "models.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel", show=False)]

    @dataclass
    class Listed(Message):
        """What is in the catalogue, and in the store; None: that is still being read."""

        pairs: list[CataloguePair]
        models: list[InstalledModel] | None

    @dataclass
    class Checked(Message):
        """Why each of these drafts cannot draft for a target; None: it can."""

        target: str
        reasons: dict[str, str | None]

    @dataclass
    class Planned(Message):
        """What became known of a selection."""

        target: str
        draft: str | None
        plan: Plan

    def __init__(self, current: PairSpec | None) -> None:
        super().__init__()
        self._current = current
        self._options = dict(current.options) if current is not None else {}
        self._pairs: list[CataloguePair] = []
        self._models: list[Choice] = []
        self._targets: dict[str, Choice] = {}
        self._reasons: dict[str, dict[str, str | None]] = {}  # by target, then by draft
        self._plans: dict[tuple[str, str | None], Plan] = {}
        self._is_read = False
        self._target: Choice | None = None
        self._selection: tuple[str, str | None] | None = None
        self._wanted = False  # Enter was pressed before the plan was known
        self._settling: Timer | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="models-box"):
            with Horizontal(id="models-lists"):
                yield FilterList("Target", id="targets")
                yield FilterList("Draft", id="drafts")
            with VerticalScroll(id="models-plan-box", can_focus=False):
                yield Static("Reading the store.", id="models-plan", markup=False)
            yield Static(_KEYS, id="models-keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#models-box").border_title = Content("Models")
        self._list()

    # -- what there is

    @work(thread=True, group="store")
    def _list(self) -> None:
        pairs = [pair for pair in edge_spec.catalogue() if pair.sized]
        self.post_message(self.Listed(pairs, None))  # every file of the store is looked into, this is quick
        models = edge_spec.list_models()
        if not get_current_worker().is_cancelled:
            self.post_message(self.Listed(pairs, models))

    @on(Listed)
    def _listed(self, event: Listed) -> None:
        self._pairs = event.pairs
        targets = self._list_of("targets")
        has_moved = targets.highlighted not in (None, 0)
        if event.models is not None:
            self._is_read = True
            self._models = [of_model(model) for model in event.models]
            for ref in (self._current.target, self._current.draft) if self._current is not None else ():
                if ref is not None and named(ref, self._models) is None:
                    self._models.append(of_file(ref))
        current = next((choice for choice in self._models if is_target_of(choice, self._current)), None)
        chosen = self._target if self._wanted else None
        self._target = None  # more is known of it now
        self._show_targets(None if has_moved else chosen or current)
        self._target_moved()
        targets.focus()
        if chosen is not None:
            self._choose()

    def _show_targets(self, wanted: Choice | None) -> None:
        pairs = [of_pair(pair, self._models) for pair in self._pairs]
        self._targets = {choice.key: choice for choice in (*pairs, *self._models)}
        rows = [target_row(choice, self._current, self._models) for choice in self._targets.values()]
        rows.append(FILE_ROW if self._is_read else READING_ROW)
        self._list_of("targets").set_rows(rows, wanted.key if wanted is not None else None)

    def _show_drafts(self, preset: str | None = None) -> None:
        """The drafts of the target, with `preset` highlighted if it is given."""
        target = self._target
        rows: list[Row] = []
        if target is None or target.problem is not None:
            pass  # nothing can draft for it
        elif target.to_pull is not None or not self._is_read:
            name = target.pair.draft if target.pair is not None else None
            rows = [own_draft_row(name) if name else NO_DRAFT_ROW]
        else:
            reasons = self._reasons.setdefault(target.ref, {})
            rows = [NO_DRAFT_ROW]
            rows += [
                draft_row(target, draft, reasons, self._current)
                for draft in sorted_drafts(target, self._models, reasons)
            ]
            rows.append(FILE_ROW)
        self._list_of("drafts").set_rows(rows, preset)

    # -- moving

    @on(OptionList.OptionHighlighted, "#targets")
    def _target_moved(self) -> None:
        target = self._targets.get(self._list_of("targets").key or "")
        if target is not None and self._target is not None and target.key == self._target.key:
            return
        self._target = target
        self.workers.cancel_group(self, "check")
        preset = NO_DRAFT
        if target is not None and target.to_pull is None:
            draft = named(preset_draft(target, self._current, self._pairs), self._models)
            preset = draft.ref if draft is not None else NO_DRAFT
        self._show_drafts(preset)
        self._moved()

    @on(OptionList.OptionHighlighted, "#drafts")
    def _moved(self) -> None:
        selection = None if self._target is None else (self._target.key, self._draft_ref())
        self._show_plan()
        if selection == self._selection:
            return  # only the rows around it are others
        self._selection = selection
        self._wanted = False
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(SETTLE_S, self._settled)

    def _settled(self) -> None:
        """The highlight rests: look at the files that it is about, and then at the other drafts."""
        target = self._target
        if target is None or target.problem is not None:
            return
        draft = self._draft_ref()
        if (target.ref, draft) not in self._plans:
            self._plan(target, draft)
        elif target.to_pull is None and self._is_read:
            known = self._reasons[target.ref]
            drafts = sorted_drafts(target, self._models, known)
            self._check([d.ref for d in drafts if d.problem is None and d.ref not in known], target.ref)

    def _draft_ref(self) -> str | None:
        """What loads the draft that is highlighted; None: no draft."""
        key = self._list_of("drafts").key
        return None if key in (None, NO_DRAFT, FILE) else key

    # -- looking at files

    @work(thread=True, exclusive=True, group="check")
    def _check(self, drafts: Sequence[str], target: str) -> None:
        worker = get_current_worker()
        reasons: dict[str, str | None] = {}
        told = time.monotonic()
        for draft in drafts:
            if worker.is_cancelled:
                return
            try:
                reasons[draft] = edge_spec.check_models(target, draft)
            except EdgeSpecError as error:
                reasons[draft] = str(error)
            if time.monotonic() - told >= _BATCH_S:
                self.post_message(self.Checked(target, reasons))
                reasons, told = {}, time.monotonic()
        self.post_message(self.Checked(target, reasons))

    @on(Checked)
    def _checked(self, event: Checked) -> None:
        self._reasons[event.target].update(event.reasons)
        if self._target is not None and self._target.ref == event.target and event.reasons:
            self._show_drafts()

    @work(thread=True, exclusive=True, group="plan")
    def _plan(self, target: Choice, draft: str | None) -> None:
        usable, words = True, ""
        if target.to_pull is not None:
            words = disk_words(target.to_pull.num_bytes, edge_spec.store_path()) + "\n"
        try:
            to_check = draft if target.to_pull is None else None
            if to_check is not None and (reason := edge_spec.check_models(target.ref, to_check)):
                raise UsageError(reason)
            estimate = edge_spec.estimate_pair(PairSpec(target.ref, draft, self._options))
            words += memory_words(estimate)
            if not estimate.fits and self._current is not None:
                words += _FREED
        except EdgeSpecError as error:
            usable, words = target.to_pull is not None, words + str(error)
        if not get_current_worker().is_cancelled:
            self.post_message(self.Planned(target.ref, draft, Plan(usable, words)))

    @on(Planned)
    def _planned(self, event: Planned) -> None:
        self._plans[event.target, event.draft] = event.plan
        self._show_plan()
        if self._wanted:
            self._choose()
        if self.is_current:
            self._settled()

    def _show_plan(self) -> None:
        target = self._target
        words, bad = "", False
        if target is None:
            if self._list_of("targets").key == FILE:
                words = "Choose a GGUF file anywhere on this machine."
        elif target.problem is not None:
            words, bad = target.problem, True
        else:
            about = target.pair.description if target.pair is not None else target.ref
            plan = self._plans.get((target.ref, self._draft_ref()))
            words = f"{about}\n{plan.words if plan else 'Looking at the files.'}"
            bad = plan is not None and not plan.usable
        shown = self.query_one("#models-plan", Static)
        shown.update(harmless(words))
        shown.set_class(bad, "-bad")

    # -- choosing

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        if event.option_id != FILE:
            self._choose()
        elif event.option_list.id == "targets":
            self.app.push_screen(PickFileScreen("Which GGUF file?", self._words_about), self._target_picked)
        elif self._target is not None:
            self.app.push_screen(PickFileScreen("Which draft?", self._words_about_draft), self._draft_picked)

    def _choose(self) -> None:
        """Use the selection, as soon as it is known to be usable."""
        target, draft = self._target, self._draft_ref()
        if target is None:
            return
        plan = self._plans.get((target.ref, draft))
        self._wanted = False
        if target.problem is not None or (plan is not None and not plan.usable):
            self.app.bell()
        elif plan is None:
            self._wanted = True
            self._settled()
        elif target.to_pull is not None:
            self.app.push_screen(PullScreen([target.to_pull.name]), self._pulled)
        else:
            self.dismiss(PairSpec(target.ref, draft, self._options))

    def _pulled(self, there: bool | None) -> None:
        if there and self._target is not None:
            self.dismiss(PairSpec(self._target.ref, self._draft_ref(), self._options))

    def _words_about(self, path: Path) -> str:
        return memory_words(edge_spec.estimate_pair(PairSpec(str(path), None, self._options)))

    def _words_about_draft(self, path: Path) -> str:
        assert self._target is not None
        if reason := edge_spec.check_models(self._target.ref, str(path)):
            raise UsageError(reason)
        return memory_words(edge_spec.estimate_pair(PairSpec(self._target.ref, str(path), self._options)))

    def _target_picked(self, path: Path | None) -> None:
        if path is not None:
            choice = self._add_file(path)
            self._show_targets(choice)

    def _draft_picked(self, path: Path | None) -> None:
        if path is not None:
            self._show_drafts(self._add_file(path).ref)

    def _add_file(self, path: Path) -> Choice:
        choice = named(str(path), self._models)
        if choice is None:
            choice = of_file(str(path))
            self._models.append(choice)
        return choice

    def _list_of(self, role: str) -> FilterList:
        return self.query_one(f"#{role}", FilterList)
