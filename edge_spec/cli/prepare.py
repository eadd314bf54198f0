"""From settings to the models that they name, fetched if the catalogue has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from edge_spec.config import Decoding
from edge_spec.errors import SettingError
from edge_spec.settings import Settings

if TYPE_CHECKING:
    from edge_spec.models.catalogue import ModelEntry


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
    """The models of -m and -md, and what the pair has where they are silent; `pairs` are those known.

    With K = 0 there is no draft. A target of the user's own has none unless -md names one:
    the pair's would rarely fit. Raises SettingError for an unknown pair.
    """
    target, draft = settings["model"], settings["draft-model"]
    if target is None:
        name = settings["pair"]
        pair = pairs.get(name)
        if pair is None:
            known = ", ".join(pairs)
            raise SettingError(f'There is no pair called "{name}"; there are {known}.')
        target = pair.target
        draft = draft or pair.draft
    return ModelNames(target, draft if decoding.draft_max else None)


def fetch_missing(models: ModelNames, *, quiet: bool) -> None:
    """Pull what the catalogue has of the two and the store has not. Raises FetchError."""
    from edge_spec.models import store
    from edge_spec.models.catalogue import catalogue

    entries: list[ModelEntry] = []
    for name in dict.fromkeys((models.target, models.draft)):
        entry = catalogue().models.get(name) if name is not None else None
        if entry is not None and not (store.store_path() / entry.file).is_file():
            entries.append(entry)
    if entries:
        from edge_spec.cli.progress import pull_all

        names = {entry.name for entry in entries}
        pairs = (pair.name for pair in catalogue().pairs.values() if set(pair.models) == names)
        pull_all(entries, quiet=quiet, pair=next(pairs, None))
