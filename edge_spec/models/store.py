"""The folder of installed GGUFs: where it is, and what lies there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from edge_spec.errors import ModelFileError
from edge_spec.models import facts_cache
from edge_spec.models.catalogue import HubEntry, catalogue
from edge_spec.models.names import file_stem, split_of
from edge_spec.models.records import Record, records_in
from edge_spec.paths import user_path


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model in the store; `problem` says why it cannot be used, None that it can.

    `path` is its first file and `size` that of all its files. `catalogue_name` is its name in the
    catalogue, if it has one, and `record` tells where it was pulled from; both are None for a file
    the user put there.
    """

    path: Path
    size: int
    problem: str | None
    catalogue_name: str | None
    record: Record | None = None
    files: tuple[Path, ...] = ()

    @property
    def file(self) -> str:
        """Its first file, as it lies in the store."""
        try:
            return self.path.relative_to(store_path()).as_posix()
        except ValueError:
            return self.path.name

    @property
    def name(self) -> str:
        """What names it in every command: of the catalogue, of the hub, else its file's."""
        if self.catalogue_name is not None:
            return self.catalogue_name
        return self.record.name if self.record is not None else file_stem(self.path.name)


def store_path() -> Path:
    """The store's folder: EDGE_SPEC_MODELS, else the platform's data folder. Not created here."""
    chosen = os.environ.get("EDGE_SPEC_MODELS")
    if chosen:
        return user_path(chosen).absolute()
    return platformdirs.user_data_path("edge-spec") / "models"


def list_models() -> list[StoredModel]:
    """Every model in the store, by file name; damaged ones are listed with their problem."""
    records = records_by_file()
    models = []
    for path in gguf_files():
        files = _parts(path)
        try:
            size = sum(file.stat().st_size for file in files)
            problem = facts_cache.facts(path).problem
        except ModelFileError as error:
            problem = str(error)
        except OSError:
            continue  # removed while we looked
        record = records.get(path)
        models.append(StoredModel(path, size, problem, _catalogue_name(path, record), record, files))
    return models


def records_by_file() -> dict[Path, Record]:
    """What is known of the models in the store that were pulled, by the first file of each."""
    root = store_path()
    return {root / record.files[0].file: record for record in records_in(root)}


def names_of(path: Path, record: Record | None) -> list[str]:
    """What a file of the store is called besides its own name, the best first."""
    name = _catalogue_name(path, record)
    return [*([name] if name else []), *([record.name] if record else [])]


def licence_of(path: Path, record: Record | None) -> str | None:
    """The licence of a file in the store, by what was recorded when it was pulled or by the catalogue."""
    name = _catalogue_name(path, record)
    return (record and record.licence) or (catalogue().models[name].licence if name else None)


def _catalogue_name(path: Path, record: Record | None) -> str | None:
    for entry in catalogue().models.values():
        if isinstance(entry, HubEntry):
            if record is not None and record.means(entry.ref):
                return entry.name
        elif store_path() / entry.file == path:
            return entry.name
    return None


def gguf_files() -> list[Path]:
    """The first file of every model in the store, folders of the hub's users and repositories included."""
    root = store_path()
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(Path(folder).relative_to(root).parts) > 8:
            folders.clear()
        found += [Path(folder) / name for name in files if name.lower().endswith(".gguf")]
    firsts = [path for path in found if path.is_file() and not _follows(path)]
    return sorted(firsts, key=lambda path: path.relative_to(root).as_posix())


def _follows(path: Path) -> bool:
    """Whether this is a later part of a split model whose first part lies beside it."""
    split = split_of(path.name)
    return split is not None and split.part > 1 and path.with_name(split.name(1)).is_file()


def _parts(path: Path) -> tuple[Path, ...]:
    """A model's files that are there: itself, or the parts of a split one in order."""
    split = split_of(path.name)
    if split is None:
        return (path,)
    return tuple(file for name in split.names if (file := path.with_name(name)).is_file())
