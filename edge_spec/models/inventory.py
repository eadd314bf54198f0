"""Every model on this machine with its facts, and which of them pair; quick once they are remembered."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge_spec.errors import ModelFileError
from edge_spec.models import facts_cache, store
from edge_spec.models.discovery import FoundFile, Place, find_files
from edge_spec.models.facts import ModelFacts
from edge_spec.models.header import Header, read_header
from edge_spec.models.kinds import HEADS
from edge_spec.models.names import file_stem
from edge_spec.models.pairing import PairReport, judge
from edge_spec.models.records import Record
from edge_spec.models.resolve import resolve_model

RANKING: Final = (
    "Best first: no masked tokens; the draft's bytes a token as a share of the target's, by halves; "
    "types with the same logits at every width."
)
"""How pairs are ranked, for people."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A file that was found, under the name that loads it everywhere.

    `facts` is None, and `problem` says why, when its header cannot be read; a file with facts may
    have a problem too, when llama.cpp would not survive it. `record` says where a file of our store
    was pulled from. Sizes are in bytes.
    """

    name: str
    path: Path
    place: Place
    size: int
    licence: str | None
    facts: ModelFacts | None
    problem: str | None
    record: Record | None

    @property
    def is_model(self) -> bool:
        """Whether it generates text and can be loaded."""
        return self.problem is None and self.facts is not None and self.facts.kind == "model"

    @property
    def may_draft(self) -> bool:
        """Whether it is meant to be a draft: a model, or a head that goes with one target."""
        return self.is_model or (self.facts is not None and self.facts.kind in HEADS)


@dataclass(frozen=True, slots=True)
class FoundPair:
    """Two found models, the verdict on them, and what decides their rank.

    `share` is the draft's bytes a token as a share of the target's.
    """

    target: FoundModel
    draft: FoundModel
    report: PairReport

    @property
    def share(self) -> float:
        return _bytes(self.draft) / max(1, _bytes(self.target))

    @property
    def rank(self) -> tuple[float, ...]:
        """Pairs in this order are best first; RANKING says the same in words."""
        halves = math.ceil(math.log2(self.share)) if self.share > 0 else 0
        steady = sum(model.facts.steady for model in (self.target, self.draft) if model.facts is not None)
        return (
            not self.report.pairs,
            self.report.draft_free,
            bool(self.report.masked),
            halves,
            -steady,
            self.share,
        )


def found_models() -> list[FoundModel]:
    """Every GGUF in our store and in the places of other programs, damaged ones included."""
    return [_found(file) for file in find_files()]


def stored_models() -> list[FoundModel]:
    """Those in our store; the other places are not looked at."""
    return [_found(file) for file in find_files(only="store")]


def found_pairs(models: Iterable[FoundModel]) -> list[FoundPair]:
    """Every two of these models that are not the same, best first, those that do not pair at the end."""
    all_models = list(models)
    compare = _Comparer()
    pairs = [
        FoundPair(target, draft, compare(target, draft))
        for target in all_models
        for draft in all_models
        if target.is_model and draft.may_draft and draft is not target
    ]
    return sorted(pairs, key=lambda pair: (*pair.rank, pair.target.name, pair.draft.name))


def drafts_for(target: str | Path, models: Iterable[FoundModel] | None = None) -> list[FoundPair]:
    """Every model on this machine as a draft for `target`, best first, each with verdict and reasons.

    `models` are those to judge, by default all that are found. Raises ModelFileError for a target
    that cannot be used.
    """
    path = resolve_model(target)
    known = list(found_models() if models is None else models)
    own = next((model for model in known if _same(model.path, path)), None) or _found(
        FoundFile(path, "store", (file_stem(path.name),))
    )
    if own.problem is not None:
        raise ModelFileError(own.problem)
    compare = _Comparer()
    pairs = [
        FoundPair(own, draft, compare(own, draft))
        for draft in known
        if draft.may_draft and not _same(draft.path, path)
    ]
    return sorted(pairs, key=lambda pair: (*pair.rank, pair.draft.name))


class _Comparer:
    """Judges pairs; of many files with one vocabulary only one is read, and at most once."""

    def __init__(self) -> None:
        self._headers: dict[str, Header] = {}

    def __call__(self, target: FoundModel, draft: FoundModel) -> PairReport:
        t, d = target.facts, draft.facts
        assert t is not None and d is not None

        def headers() -> list[Header]:
            return [self._header(target, t.vocab.key), self._header(draft, d.vocab.key)]

        return judge(t, d, lambda: facts_cache.comparison(t.vocab, d.vocab, headers))

    def _header(self, model: FoundModel, key: str) -> Header:
        if key not in self._headers:
            self._headers[key] = read_header(model.path)
        return self._headers[key]


def _found(file: FoundFile) -> FoundModel:
    facts, problem, size = None, None, 0
    try:
        size = file.path.stat().st_size
        facts = facts_cache.facts(file.path)
        size, problem = facts.size, facts.problem
    except ModelFileError as error:
        problem = str(error)
    except OSError as error:
        problem = f"{file.path} cannot be read: {error.strerror or error}."
    licence = store.licence_of(file.path, file.record) if file.place == "store" else None
    licence = licence or (facts.licence if facts is not None else None)
    return FoundModel(file.name, file.path, file.place, size, licence, facts, problem, file.record)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _bytes(model: FoundModel) -> int:
    return model.facts.bytes_per_token if model.facts is not None else 0
