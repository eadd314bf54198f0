"""Choose the target and a draft for it: what is here, what can be had, what pairs, what fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

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
from edge_spec import CataloguePair, EdgeSpecError, InstalledModel, PairSpec, UsageError
from tui.keys import Keys, resolve_keys
from tui.models.choices import Choice, Draft, draft_of, drafts_of, is_target_of, named
from tui.models.engine_use import EngineUse
from tui.models.findings import Findings, Plan, plan_of
from tui.models.memory_plan import disk_words, pair_words
from tui.screens.closing import ClosingModal
from tui.screens.confirm import ConfirmScreen
from tui.screens.model_rows import (
    FILE,
    FILE_ROW,
    FORGE,
    FORGE_ROW,
    JUDGING_ROW,
    NO_DRAFT,
    NO_DRAFT_ROW,
    PULL,
    PULL_ROW,
    READING_ROW,
    draft_row,
    own_draft_row,
    target_row,
)
from tui.screens.pick_file import PickFileScreen
from tui.screens.pull import PullScreen
from tui.widgets.filter_list import FilterList, Row
from tui.widgets.words import Words

SETTLE_S: Final = 0.15
"""Files are looked at when the highlight has rested for so long."""

_ABOUT: Final = {
    FILE: "Choose a GGUF file anywhere on this machine.",
    PULL: "Get a pair of the catalogue, or any GGUF of the hub as USER/REPO or USER/REPO:QUANT.",
    FORGE: (
        "Makes a faster draft out of {}: other weights, fewer tokens, fewer layers, each measured on this "
        "machine. It takes some minutes and can be stopped."
    ),
}


class ModelScreen(ClosingModal[PairSpec | None]):
    """Picks a pair, `current` being the one in use; pulls what is not here yet, and makes drafts.

    `options` are what the pair will be loaded with, whatever the one in use was loaded with. `engine` is
    the one of the chat, which has to make room for forging.
    """

    CSS_PATH = "models.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Cancel", show=False),
        Binding("ctrl+down", "scroll_plan(1)", "More of the plan", show=False, priority=True),
        Binding("ctrl+up", "scroll_plan(-1)", "Back in the plan", show=False, priority=True),
    ]

    @dataclass
    class Listed(Message):
        """What is in the catalogue, and on this machine; None: that is still being looked for."""

        pairs: list[CataloguePair]
        models: list[InstalledModel] | None
        wanted: str | None = None
        """The model to highlight."""
        problem: str | None = None
        """Why some are missing."""

    @dataclass
    class Judged(Message):
        """Every model as a draft for a target, or why that target cannot be used."""

        target: str
        drafts: list[Draft]
        problem: str | None = None

    @dataclass
    class Planned(Message):
        """What became known of a selection."""

        target: str
        draft: str | None
        plan: Plan

    def __init__(
        self,
        current: PairSpec | None,
        options: Mapping[str, Any],
        engine: EngineUse | None = None,
        keys: Keys | None = None,
    ) -> None:
        super().__init__()
        self.VERTICAL_BREAKPOINTS = [(0, "-tiny"), (20, "-short"), (30, "-tall")]
        self._found = Findings(current)
        self._engine = engine
        self._keys = keys if keys is not None else resolve_keys({})
        self._options = dict(options)
        self._problem: str | None = None  # why not all models are listed
        self._targets: dict[str, Choice] = {}
        self._target: Choice | None = None
        self._selection: tuple[str, str | None] | None = None  # keys of both rows
        self._wanted = False  # Enter was pressed before the plan was known
        self._settling: Timer | None = None
        for name in ("pull", "forge"):
            for key in self._keys.by_command[name]:
                self._bindings.bind(key, name, priority=True, show=False)

    def compose(self) -> ComposeResult:
        with Vertical(id="models-box"):
            with Horizontal(id="models-lists"):
                yield FilterList("Target, writes", id="targets")
                yield FilterList("Draft, best first", id="drafts")
            with VerticalScroll(id="models-plan-box", can_focus=False):
                yield Words("Looking for models.", id="models-plan")
            yield Static(
                f"Enter use  Tab lists  letters filter  {self._keys('pull')} get  "
                f"{self._keys('forge')} make draft  Esc",
                id="models-keys",
                markup=False,
            )

    def on_mount(self) -> None:
        box = self.query_one("#models-box")
        box.border_title, box.border_subtitle = Content("Models"), Content("Ctrl+↑↓ scroll the plan")
        self._list()

    # -- what there is

    @work(thread=True, exclusive=True, group="list")
    def _list(self, wanted: str | None = None) -> None:
        """Look for models; `wanted` is the one to highlight then."""
        pairs: list[CataloguePair] = []
        models: list[InstalledModel] = []
        problem = None
        try:
            pairs = [pair for pair in edge_spec.catalogue() if pair.sized]
            if not self._found.is_read:  # every file that was found is looked into, this is quick
                self.post_message(self.Listed(pairs, None))
            models = edge_spec.found_models()
        except EdgeSpecError as error:
            problem = str(error)
        if not get_current_worker().is_cancelled:
            self.post_message(self.Listed(pairs, models, wanted, problem))

    @on(Listed)
    def _listed(self, event: Listed) -> None:
        self._problem = event.problem
        targets = self._list_of("targets")
        has_moved = targets.highlighted not in (None, 0)
        self._found.take(event.pairs, event.models)
        chosen = self._target if self._wanted else None
        got = named(event.wanted, self._found.models)
        self._target = None  # more is known of it now
        self._show_targets(got or (None if has_moved else chosen or self._found.current_target))
        self._target_moved()
        if not self._list_of("drafts").has_focus:
            targets.focus()
        if chosen is not None:
            self._choose()

    def _show_targets(self, wanted: Choice | None) -> None:
        found = self._found
        self._targets = found.targets()
        rows = [target_row(choice, found.current, found.models) for choice in self._targets.values()]
        rows += [PULL_ROW, FILE_ROW] if found.is_read else [READING_ROW]
        self._list_of("targets").set_rows(rows, wanted.key if wanted is not None else None)

    def _show_drafts(self, preset: str | None = None) -> None:
        """The drafts of the target, with `preset` highlighted if it is given."""
        target, found = self._target, self._found
        rows: list[Row] = []
        if target is None or target.problem is not None:
            pass  # nothing can draft for it
        elif target.to_pull is not None or not found.is_read:
            name = target.pair.draft if target.pair is not None else None
            rows = [own_draft_row(name) if name else NO_DRAFT_ROW]
        elif (drafts := found.drafts_for(target)) is None:
            rows = [JUDGING_ROW]
        else:
            made = [draft_row(target, draft, found.current) for draft in drafts if draft.usable]
            others = [draft_row(target, draft, found.current) for draft in drafts if not draft.usable]
            rows = [*made, NO_DRAFT_ROW, FORGE_ROW, FILE_ROW, *others]
        self._list_of("drafts").set_rows(rows, preset)

    # -- moving

    @on(OptionList.OptionHighlighted, "#targets")
    def _target_moved(self) -> None:
        target = self._targets.get(self._list_of("targets").key or "")
        if target is not None and self._target is not None and target.key == self._target.key:
            return
        self._target = target
        self._show_drafts(self._preset())
        self._moved()

    @on(OptionList.OptionHighlighted, "#drafts")
    def _moved(self) -> None:
        draft = self._list_of("drafts").key
        selection = None if self._target is None else (self._target.key, draft)
        self._show_plan()
        if selection == self._selection:
            return  # only the rows around it are others
        before, self._selection = self._selection, selection
        if self._target is None or before != (self._target.key, JUDGING_ROW.key):
            self._wanted = False  # else what was waited for is known now
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(SETTLE_S, self._settled)

    def _settled(self) -> None:
        """The highlight rests: look at the files that it is about."""
        target = self._target
        if target is None or target.problem is not None:
            return
        if self._found.lacks_drafts(target):
            self._judge(target.ref)
        elif self._is_pair_selected and (target.ref, self._draft_ref()) not in self._found.plans:
            self._plan(target, self._draft_ref())

    def _preset(self) -> str:
        """The key of the draft that goes with the target."""
        draft = self._found.preset(self._target) if self._target is not None else None
        return draft.choice.ref if draft is not None else NO_DRAFT

    @property
    def _is_pair_selected(self) -> bool:
        """Whether the highlighted draft, or none, is something to load."""
        return self._list_of("drafts").key not in (None, FILE, FORGE, JUDGING_ROW.key)

    def _draft_ref(self) -> str | None:
        """What loads the draft that is highlighted; None: no draft."""
        key = self._list_of("drafts").key
        return None if key in (None, NO_DRAFT, FILE, FORGE, JUDGING_ROW.key) else key

    def _draft(self) -> Draft | None:
        """What was found out about the draft that is highlighted."""
        drafts = self._found.drafts_for(self._target) if self._target is not None else None
        return draft_of(self._draft_ref(), drafts or [])

    # -- looking at files

    @work(thread=True, exclusive=True, group="judge")
    def _judge(self, target: str) -> None:
        try:
            judged = self.Judged(target, drafts_of(edge_spec.drafts_for(target), self._found.models))
        except EdgeSpecError as error:
            judged = self.Judged(target, [], str(error))
        if not get_current_worker().is_cancelled:
            self.post_message(judged)

    @on(Judged)
    def _judged(self, event: Judged) -> None:
        target = self._target
        if event.problem is not None:
            self._found.plans[event.target, None] = Plan(False, event.problem)
        in_use = target is not None and is_target_of(target, self._found.current)
        self._found.take_drafts(event.target, event.drafts, in_use=in_use)
        if target is not None and target.ref == event.target:
            self._show_drafts(self._preset())
            self._moved()
            if self._wanted:
                self._choose()

    @work(thread=True, exclusive=True, group="plan")
    def _plan(self, target: Choice, draft: str | None) -> None:
        plan = plan_of(target, draft, self._options, frees=self._found.current is not None)
        if not get_current_worker().is_cancelled:
            self.post_message(self.Planned(target.ref, draft, plan))

    @on(Planned)
    def _planned(self, event: Planned) -> None:
        self._found.plans[event.target, event.draft] = event.plan
        self._show_plan()
        if self._wanted:
            self._choose()
        if self.is_current:
            self._settled()

    # -- what is known of the selection, in words

    def _show_plan(self) -> None:
        words, bad = self._about_selection()
        if self._problem is not None:
            words, bad = f"{self._problem}\n{words}", True
        self.query_one(Words).say(words, bad=bad)

    def _about_selection(self) -> tuple[str, bool]:
        """Words about what is highlighted, and whether they are about something wrong."""
        target, draft = self._target, self._draft()
        if target is None:
            return _ABOUT.get(self._list_of("targets").key or "", ""), False
        if target.problem is not None:
            return target.problem, True
        if draft is not None and draft.reason is not None:
            return f"✗ {draft.choice.name} cannot draft for {target.name}.\n{draft.reason}", True
        if self._list_of("drafts").key == FORGE:
            source = self._found.source(target, draft)
            return _ABOUT[FORGE].format(source.name if source else f"{target.name} itself"), False
        if self._list_of("drafts").key == FILE:
            return _ABOUT[FILE], False
        lines = []
        if target.pair is not None:
            lines.append(target.pair.description)
            lines += [target.pair.pitfall] if target.pair.pitfall else []
        if draft is not None:
            sign = "✓" if draft.pays else "!"
            lines.append(f"{sign} {draft.verdict}: {draft.choice.name} drafts for {target.name}")
            lines += [f"  {note}" for note in draft.notes]
        plan = self._found.plans.get((target.ref, self._draft_ref()))
        lines.append(plan.words if plan else "Looking at the files.")
        return "\n".join(lines), plan is not None and not plan.usable

    def action_scroll_plan(self, lines: int) -> None:
        self.query_one("#models-plan-box", VerticalScroll).scroll_relative(
            y=lines, animate=False, immediate=True
        )

    # -- choosing

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        match event.option_id:
            case "pull":
                self.action_pull()
            case "forge":
                self.action_forge()
            case "file" if event.option_list.id == "targets":
                picking = PickFileScreen("Which GGUF file?", self._words_about_target)
                self.open(picking, self._target_picked)
            case "file":
                picking = PickFileScreen("Which draft?", self._words_about_draft)
                self.open(picking, self._draft_picked)
            case _:
                self._choose()

    def _choose(self) -> None:
        """Use the selection, as soon as it is known to be usable."""
        target, draft = self._target, self._draft()
        if target is None:
            return
        plan = self._found.plans.get((target.ref, self._draft_ref()))
        self._wanted = False
        is_bad = target.problem is not None or (draft is not None and not draft.usable)
        if is_bad or (plan is not None and not plan.usable):
            self.app.bell()
        elif plan is None or self._found.lacks_drafts(target):
            self._wanted = True
            self._settled()
        elif target.to_pull is not None:
            self._ask_to_pull(target.to_pull)
        else:
            self.dismiss(PairSpec(target.ref, self._draft_ref(), self._options))

    def _ask_to_pull(self, pair: CataloguePair) -> None:
        """Get it, once the user knows how much that is and means it."""

        def answered(meant: bool | None) -> None:
            if meant:
                self.open(PullScreen([pair.name]), self._pulled)

        disk = disk_words(pair.num_bytes, edge_spec.store_path())
        self.open(ConfirmScreen(f"Get {pair.name}? {disk}", "Get it", "Not now"), answered)

    def _pulled(self, there: bool | None) -> None:
        if there and self._target is not None:
            self.dismiss(PairSpec(self._target.ref, self._draft_ref(), self._options))

    # -- getting and making models

    def action_pull(self) -> None:
        """Get a model by its name."""
        from tui.screens.get import GetScreen

        self.open(GetScreen(), self._got)

    def _got(self, names: tuple[str, ...] | None) -> None:
        if names:
            self._look_again(names[0])

    def action_forge(self) -> None:
        """Make a faster draft out of the one that is highlighted, or the best there is."""
        target = self._target
        if target is None or target.problem is not None or target.to_pull is not None:
            self.app.bell()
            return
        from tui.screens.forge import ForgeScreen

        def forged(path: Path | None) -> None:
            if path is not None:
                self._found.made(target, path)
                self._list_of("drafts").focus()
            self._look_again(None)

        source = self._found.source(target, self._draft())
        self.open(ForgeScreen(target, source, self._engine, self._options), forged)

    def _look_again(self, wanted: str | None) -> None:
        """There are other models now than were listed."""
        self._found.forget()
        self._selection = None
        self._list(wanted)

    # -- files from elsewhere

    def _words_about_target(self, path: Path) -> str:
        return pair_words(PairSpec(str(path), None, self._options))

    def _words_about_draft(self, path: Path) -> str:
        assert self._target is not None
        if reason := edge_spec.check_models(self._target.ref, str(path)):
            raise UsageError(reason)
        return pair_words(PairSpec(self._target.ref, str(path), self._options))

    def _target_picked(self, path: Path | None) -> None:
        if path is not None:
            self._show_targets(self._found.add_file(path))

    def _draft_picked(self, path: Path | None) -> None:
        target = self._target
        if path is None or target is None:
            return
        choice = self._found.add_file(path)
        self._found.add_draft(target, choice)
        self._show_drafts(choice.ref)

    def _list_of(self, role: str) -> FilterList:
        return self.query_one(f"#{role}", FilterList)
