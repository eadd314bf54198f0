"""Which pair a chat begins with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import edge_spec
from edge_spec import EdgeSpecError, PairSpec, Settings, chosen_models, user_path

_CHOICES: Final = ("model", "draft-model", "hf-repo", "hf-repo-draft", "pair")


def first_pair(settings: Settings, last: PairSpec | None) -> PairSpec | None:
    """What the user named, else the default pair if it is here, else the pair used last if it is.

    None: the user has to choose. Raises SettingError for a name that nothing has.
    """
    default = chosen_pair(settings)
    if any(settings.origin(name) != "default" for name in _CHOICES) or not missing_models(default):
        return default
    if last is not None and _are_here(name for name in (last.target, last.draft) if name is not None):
        return replace(last, options=settings.load_options())
    return None


def chosen_pair(settings: Settings) -> PairSpec:
    """The pair that `edge-spec run` would take. Raises SettingError for an unknown one."""
    pairs = {pair.name: pair for pair in edge_spec.catalogue()}
    chosen = chosen_models(settings, settings.decoding(), pairs)
    return PairSpec(chosen.target, chosen.draft, settings.load_options())


def missing_models(spec: PairSpec) -> list[str]:
    """The models of a pair that the catalogue or the hub has and the store has not."""
    pairs = edge_spec.catalogue()
    known = {name for pair in pairs for name in (pair.target, pair.draft)}
    here = {name for pair in pairs if pair.installed for name in (pair.target, pair.draft)}
    doubtful = [name for name in (spec.target, spec.draft) if name in known and name not in here]
    missing = [name for name in doubtful if name is not None and not _are_here([name])]
    named = [name for name in (spec.target, spec.draft) if name is not None and name not in known]
    return missing + [name for name in named if edge_spec.is_missing(name)]


def problem_of(spec: PairSpec) -> str | None:
    """Why a pair cannot be loaded, as far as its files tell, which are read; None if nothing is wrong.

    What would be pulled first is not judged.
    """
    try:
        if missing_models(spec):
            return None
        edge_spec.estimate_pair(spec)
        return None if spec.draft is None else edge_spec.check_models(spec.target, spec.draft)
    except EdgeSpecError as error:
        return str(error)


def _are_here(names: Iterable[str]) -> bool:
    """Whether all of these are in the store, or files elsewhere."""
    stored = {model.name for model in edge_spec.list_models() if model.problem is None}
    return all(name in stored or os.path.isfile(user_path(name)) for name in names)
