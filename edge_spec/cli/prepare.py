"""From settings to the models that they name, fetched if the catalogue or the hub has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from edge_spec.config import Decoding
from edge_spec.errors import IncompatiblePairError, SettingError
from edge_spec.models.names import hub_ref
from edge_spec.settings import Settings


@dataclass(frozen=True, slots=True)
class ModelNames:
    """A target and its draft, if there is one: paths or names that `load_pair` takes."""

    target: str
    draft: str | None


class KnownPair(Protocol):
    """What is asked here of a pair of the catalogue."""

    @property
    def target(self) -> str: ...

    @property
    def draft(self) -> str | None: ...


def chosen_models(settings: Settings, decoding: Decoding, pairs: Mapping[str, KnownPair]) -> ModelNames:
    """The models of -m or -hf and of -md or -hfd, and what the pair has where they are silent;
    `pairs` are those known.

    A pair beats models that were named in a lower place: --pair those of any file. A target that was
    named in a higher place than a draft beats it too, where the draft's place names a target of its own.
    With K = 0 or the n-gram drafter there is no draft. A target of the user's own has none unless -md or
    -hfd names one: the pair's would rarely fit. Raises SettingError for an unknown pair, for a model that
    is named twice in one place, and for what -hf names when that is no repository.
    """
    target, draft = _named(settings, "model", "hf-repo"), _named(settings, "draft-model", "hf-repo-draft")
    rank = settings.rank("pair")
    if target is None or target.rank < rank:
        pair = _known_pair(settings["pair"], pairs)
        target = _Named(pair.target, rank)
        if draft is None or draft.rank < rank:
            draft = None if pair.draft is None else _Named(pair.draft, rank)
    elif draft is not None and draft.rank < target.rank and _names_target(settings, draft.rank):
        draft = None
    drafts = decoding.draft_max > 0 and decoding.drafter != "ngram"
    return ModelNames(target.name, draft.name if draft is not None and drafts else None)


def _names_target(settings: Settings, rank: int) -> bool:
    """Whether the place of that rank says which target there is."""
    return any(rank in settings.ranks(name) for name in ("model", "hf-repo", "pair"))


def _known_pair(name: str, pairs: Mapping[str, KnownPair]) -> KnownPair:
    pair = pairs.get(name)
    if pair is not None:
        return pair
    import difflib  # slow to import, and only an error needs it

    near = difflib.get_close_matches(name, pairs, 3, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(near)}?"
        if near
        else "`edge-spec models list` shows those that there are."
    )
    raise SettingError(f'There is no pair called "{name}"; {hint}')


@dataclass(frozen=True, slots=True)
class _Named:
    """A model, and the rank of the place that names it."""

    name: str
    rank: int


def _named(settings: Settings, general: str, hub: str) -> _Named | None:
    """What the one of two settings names that was given in the higher place."""
    ranks = {name: settings.rank(name) for name in (general, hub) if settings[name] is not None}
    if not ranks:
        return None
    if len(ranks) == 2 and ranks[general] == ranks[hub]:
        same = settings.origin(general) == settings.origin(hub)
        both = f"{general if same else settings.where(general)} and {settings.where(hub)}"
        raise SettingError(f"{both} both name a model: give one of the two.")
    name = max(ranks, key=lambda name: ranks[name])
    value = str(settings[name])
    if name != hub:
        return _Named(value, ranks[name])
    ref = hub_ref(value)
    if ref is None:
        raise SettingError(
            f'{settings.where(hub)} is "{value}", but it must name a repository: user/repo[:QUANT].'
        )
    return _Named(str(ref), ranks[name])


def fetch_missing(models: ModelNames, *, quiet: bool) -> None:
    """Pull what the catalogue or the hub has of the two and the store has not.

    Two that are known not to pair are refused before anything is fetched. Raises FetchError,
    SettingError (no such quantisation) and IncompatiblePairError.
    """
    from edge_spec.models.catalogue import catalogue
    from edge_spec.models.resolve import is_missing

    names = [name for name in dict.fromkeys((models.target, models.draft)) if name is not None]
    missing = [name for name in names if is_missing(name)]
    if not missing:
        return
    from edge_spec.cli.progress import fetch_planned
    from edge_spec.models.sources import plan_pull

    if models.draft is not None and (reason := catalogue().refusal(models.target, models.draft)):
        raise IncompatiblePairError(
            f"{models.draft} cannot draft for {models.target}: {reason} Nothing was fetched."
        )
    fetch_planned(plan_pull(missing), quiet=quiet)
