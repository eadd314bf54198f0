"""What was found out while models are chosen: which there are, what drafts for what, what a pair takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import edge_spec
from edge_spec import CataloguePair, EdgeSpecError, InstalledModel, PairSpec
from tui.models.choices import (
    Choice,
    Draft,
    best_of,
    draft_of,
    is_target_of,
    named,
    of_file,
    of_model,
    of_pair,
    of_ref,
    preset_draft,
    targets_of,
)
from tui.models.memory_plan import disk_words, memory_table

_FREED: Final = "What is loaded now is freed first."


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known of a target with a draft: whether they can be used, and words about it."""

    usable: bool
    words: str


class Findings:
    """Models and pairs as far as they are known; `current` is the pair in use.

    `is_read` says whether this machine was looked through. `plans` are by what loads target and draft.
    """

    def __init__(self, current: PairSpec | None) -> None:
        self.current = current
        self.pairs: list[CataloguePair] = []
        self.models: list[Choice] = []
        self.is_read = False
        self.plans: dict[tuple[str, str | None], Plan] = {}
        self._elsewhere: list[Choice] = []  # files that are in use or were picked, and that no search finds
        self._drafts: dict[str, list[Draft]] = {}  # by target
        self._made: dict[str, str] = {}  # the draft to go on with, by target

    # -- models

    def take(self, pairs: list[CataloguePair], models: Sequence[InstalledModel] | None) -> None:
        """The catalogue has these pairs, and this machine these models; None: they are still looked for."""
        self.pairs = pairs
        if models is None:
            return
        self.is_read = True
        self.models = [of_model(model) for model in models]
        for ref in (self.current.target, self.current.draft) if self.current is not None else ():
            if ref is not None and named(ref, [*self.models, *self._elsewhere]) is None:
                self._elsewhere.append(of_ref(ref))
        self.models += self._elsewhere

    def add_file(self, path: Path) -> Choice:
        """A file that was picked."""
        choice = named(str(path), self.models)
        if choice is None:
            choice = of_file(str(path))
            self._elsewhere.append(choice)
            self.models.append(choice)
        return choice

    def targets(self) -> dict[str, Choice]:
        """What can be a target, by key; pairs of the catalogue first."""
        pairs = [of_pair(pair, self.models) for pair in self.pairs]
        return {choice.key: choice for choice in (*pairs, *targets_of(self.models))}

    @property
    def current_target(self) -> Choice | None:
        return next((choice for choice in self.models if is_target_of(choice, self.current)), None)

    def forget(self) -> None:
        """There are other models now than were taken: what was found out about drafts is old."""
        self._drafts.clear()
        self.plans.clear()

    # -- drafts

    def drafts_for(self, target: Choice) -> list[Draft] | None:
        """Every model as a draft for `target`; None before that was found out."""
        return self._drafts.get(target.ref)

    def lacks_drafts(self, target: Choice) -> bool:
        """Whether the drafts for `target` can be found out, and were not."""
        return target.to_pull is None and self.is_read and target.ref not in self._drafts

    def take_drafts(self, target: str, drafts: list[Draft], *, in_use: bool) -> None:
        """The drafts for what `target` loads, which may be `in_use`; files from elsewhere are added."""
        for file in self._elsewhere:
            is_draft = file.ref == self._made.get(target) or (
                in_use and self.current is not None and file.ref == self.current.draft
            )
            if is_draft and draft_of(file.ref, drafts) is None:
                drafts = [Draft(file, "pairs"), *drafts]
        self._drafts[target] = drafts

    def add_draft(self, target: Choice, choice: Choice) -> None:
        """A file that was picked as a draft for `target`, and was judged to pair."""
        drafts = self._drafts.get(target.ref, [])
        if draft_of(choice.ref, drafts) is None:
            self._drafts[target.ref] = [Draft(choice, "pairs"), *drafts]

    def made(self, target: Choice, path: Path) -> None:
        """A draft was made for `target`, which goes with it from now on."""
        self._made[target.ref] = str(path)

    def preset(self, target: Choice) -> Draft | None:
        """The draft that goes with `target`, if one does and that is known."""
        drafts = self._drafts.get(target.ref)
        if drafts is None:
            return None
        made = draft_of(self._made.get(target.ref), drafts)
        return made or preset_draft(target, self.current, self.pairs, drafts)

    def source(self, target: Choice, draft: Draft | None) -> Choice | None:
        """What a faster draft is made of: `draft`, else the best one there is; None: the target itself."""
        if draft is None or not draft.usable:
            drafts = self._drafts.get(target.ref, [])
            draft = best_of([one for one in drafts if "forged" not in one.choice.facts])
        return draft.choice if draft is not None else None


def plan_of(target: Choice, draft: str | None, options: Mapping[str, Any], *, frees: bool) -> Plan:
    """What loading a pair with `options` takes; its files are read. `frees`: another pair makes room."""
    usable, words = True, ""
    if target.to_pull is not None:
        words = disk_words(target.to_pull.num_bytes, edge_spec.store_path()) + "\n"
    try:
        estimate = edge_spec.estimate_pair(PairSpec(target.ref, draft, options))
        words += memory_table(estimate)
        if not estimate.fits and frees:
            words += f"\n{_FREED}"
    except EdgeSpecError as error:
        usable, words = target.to_pull is not None, words + str(error)
    return Plan(usable, words)
