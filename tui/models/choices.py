"""What can be chosen as target and as draft, and in which order; no widget here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_spec import CataloguePair, InstalledModel, PairSpec, size_text
from tui.models.amounts import count_text


@dataclass(frozen=True, slots=True)
class Choice:
    """A model, or a pair of the catalogue, that can be chosen.

    `ref` is what loads it; `names` are all the ways in which it may have been named before.
    `pair` is set for one of the catalogue, `draft` then names its draft.
    """

    ref: str
    name: str
    facts: str
    size: int = 0
    num_vocab: int | None = None
    problem: str | None = None
    names: frozenset[str] = frozenset()
    pair: CataloguePair | None = None

    @property
    def key(self) -> str:
        """Tells choices apart: a pair is another choice than its target."""
        return f"pair {self.pair.name}" if self.pair is not None else f"model {self.ref}"

    @property
    def to_pull(self) -> CataloguePair | None:
        """The pair that has to be pulled before this can be loaded."""
        return self.pair if self.pair is not None and not self.pair.installed else None


def of_model(model: InstalledModel) -> Choice:
    """A file in the store."""
    ref = str(model.path)
    parts = [] if model.parameters is None else [count_text(model.parameters)]
    parts = [*([model.quantization] if model.quantization else []), *parts, size_text(model.size)]
    names = frozenset((ref, model.name, model.file, model.path.stem))
    return Choice(ref, model.name, "  ".join(parts), model.size, model.num_vocab, model.problem, names)


def of_pair(pair: CataloguePair, models: Sequence[Choice]) -> Choice:
    """A pair of the catalogue; what is known of its target is known once that is in the store."""
    target = named(pair.target, models)
    facts = "installed" if pair.installed else f"{size_text(pair.num_bytes)} to download"
    return Choice(
        pair.target,
        pair.name,
        f"pair  {facts}",
        target.size if target else pair.total_bytes,
        target.num_vocab if target else None,
        target.problem if target and pair.installed else None,
        pair=pair,
    )


def of_file(path: str) -> Choice:
    """A file outside the store, of which only the path is known so far."""
    try:
        size = Path(path).stat().st_size
    except OSError:
        size = 0
    return Choice(path, Path(path).stem, size_text(size), size, names=frozenset((path,)))


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


def preset_draft(target: Choice, current: PairSpec | None, pairs: Sequence[CataloguePair]) -> str | None:
    """The name of the draft that goes with `target`: the one in use, else the catalogue's."""
    if target.pair is not None:
        return target.pair.draft
    if current is not None and is_target_of(target, current):
        return current.draft
    return next((pair.draft for pair in pairs if pair.target in target.names), None)


def sorted_drafts(
    target: Choice, models: Sequence[Choice], reasons: Mapping[str, str | None]
) -> list[Choice]:
    """Models by how likely one wants them as a draft: usable ones, unchecked ones, the rest.

    `reasons` tells, of those that were checked, why they cannot draft, or None. Among equals the
    smaller comes first, and those no smaller than the target last.
    """

    def rank(model: Choice) -> tuple[int, bool, int, str]:
        reason = model.problem or reasons.get(model.ref, "")
        usable = model.problem is None and reason is None
        unknown = model.problem is None and model.ref not in reasons
        if unknown:
            # Vocabularies of other sizes hardly ever pair, so these are checked last.
            unlike = model.num_vocab != target.num_vocab
            return (1 + unlike, model.size >= target.size, model.size, model.name)
        return (0 if usable else 3, model.size >= target.size, model.size, model.name)

    return sorted(models, key=rank)
