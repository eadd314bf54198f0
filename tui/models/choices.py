"""What can be chosen as target and as draft, and in which order; no widget here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_spec import CataloguePair, DraftChoice, InstalledModel, PairSpec, count_text, size_text


@dataclass(frozen=True, slots=True)
class Choice:
    """A model, or a pair of the catalogue, that can be chosen.

    `ref` is what loads it; `names` are all the ways in which it may have been named before.
    `pair` is set for one of the catalogue, `draft` then names its draft. What is no `target` can
    draft at most.
    """

    ref: str
    name: str
    facts: str
    problem: str | None = None
    names: frozenset[str] = frozenset()
    pair: CataloguePair | None = None
    target: bool = True

    @property
    def key(self) -> str:
        """Tells choices apart: a pair is another choice than its target."""
        return f"pair {self.pair.name}" if self.pair is not None else f"model {self.ref}"

    @property
    def to_pull(self) -> CataloguePair | None:
        """The pair that has to be pulled before this can be loaded."""
        return self.pair if self.pair is not None and not self.pair.installed else None


@dataclass(frozen=True, slots=True)
class Draft:
    """A model as a draft for one target, as `DraftChoice` has it."""

    choice: Choice
    verdict: str
    reason: str | None = None
    notes: tuple[str, ...] = ()
    share: float | None = None
    pays: bool = True

    @property
    def usable(self) -> bool:
        return self.reason is None


def of_model(model: InstalledModel) -> Choice:
    """A file that was found; what another program keeps says whose it is."""
    ref = str(model.path)
    parts = [model.quantization or "", "" if model.parameters is None else count_text(model.parameters)]
    parts += [size_text(model.size), "" if model.place == "store" else f"in {model.place}"]
    parts += ["forged" if model.forged else ""]
    names = frozenset((ref, model.name, model.file, model.path.stem))
    is_target = model.kind in (None, "model") and not model.trimmed
    facts = "  ".join(part for part in parts if part)
    return Choice(ref, model.name, facts, model.problem, names, target=is_target)


def of_pair(pair: CataloguePair, models: Sequence[Choice]) -> Choice:
    """A pair of the catalogue; what is known of its target is known once that is in the store."""
    target = named(pair.target, models)
    facts = "installed" if pair.installed else f"{size_text(pair.num_bytes)} to download"
    problem = target.problem if target and pair.installed else None
    return Choice(pair.target, pair.name, f"pair  {facts}", problem, pair=pair)


def of_file(path: str) -> Choice:
    """A file outside the store, of which only the path is known so far."""
    try:
        size = Path(path).stat().st_size
    except OSError:
        size = 0
    return Choice(path, Path(path).stem, size_text(size), names=frozenset((path,)))


def of_ref(ref: str) -> Choice:
    """A model by what it is loaded by, of which no more is known: a path or a name."""
    if Path(ref).is_absolute() or ref.endswith(".gguf"):
        return of_file(ref)
    return Choice(ref, ref, "", names=frozenset((ref,)))


def targets_of(models: Sequence[Choice]) -> list[Choice]:
    """The models that can be a target, damaged ones last; else in their order, the store's first."""
    return sorted((model for model in models if model.target), key=lambda model: model.problem is not None)


def drafts_of(found: Sequence[DraftChoice], models: Sequence[Choice]) -> list[Draft]:
    """What was found out about drafts, best first, and at the end those of `models` that are damaged."""
    drafts = [
        Draft(of_model(choice.model), choice.verdict, choice.reason, choice.notes, choice.share, choice.pays)
        for choice in found
    ]
    judged = {draft.choice.ref for draft in drafts}
    damaged = [model for model in models if model.problem is not None and model.ref not in judged]
    return drafts + [Draft(model, "cannot be used", model.problem) for model in damaged]


def draft_of(name: str | None, drafts: Sequence[Draft]) -> Draft | None:
    """The draft that a name, file name or path means."""
    return next((draft for draft in drafts if name is not None and name in draft.choice.names), None)


def best_of(drafts: Sequence[Draft]) -> Draft | None:
    """The best draft with which drafting can pay."""
    return next((draft for draft in drafts if draft.usable and draft.pays), None)


def named(name: str | None, choices: Sequence[Choice]) -> Choice | None:
    """The choice that a name, file name or path means."""
    return next((choice for choice in choices if name is not None and name in choice.names), None)


def is_target_of(choice: Choice, spec: PairSpec | None) -> bool:
    """Whether `choice` is the target that is loaded."""
    return spec is not None and spec.target in choice.names


def is_pair_of(pair: CataloguePair, spec: PairSpec | None, models: Sequence[Choice]) -> bool:
    """Whether this pair of the catalogue is what is loaded, under whichever names."""
    if spec is None:
        return False
    return named(pair.target, models) is named(spec.target, models) is not None and (
        named(pair.draft, models) is named(spec.draft, models)
        and (pair.draft is None) == (spec.draft is None)
    )


def preset_draft(
    target: Choice, current: PairSpec | None, pairs: Sequence[CataloguePair], drafts: Sequence[Draft]
) -> Draft | None:
    """The draft that goes with `target`: the one in use, else the catalogue's, else the best; or none."""
    if target.pair is not None:
        return draft_of(target.pair.draft, drafts)
    if current is not None and is_target_of(target, current):
        return draft_of(current.draft, drafts)
    known = next((pair.draft for pair in pairs if pair.target in target.names), None)
    wanted = draft_of(known, drafts)
    return wanted if wanted is not None and wanted.usable else best_of(drafts)
