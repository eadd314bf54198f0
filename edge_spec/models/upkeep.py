"""Taking models out of the store, and finding out whether their bytes are still what they were."""

from __future__ import annotations

import difflib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edge_spec.errors import ModelFileError
from edge_spec.models import store
from edge_spec.models.catalogue import HubEntry, ModelEntry, catalogue
from edge_spec.models.hashes import hash_again
from edge_spec.models.job import folder_size, work_name
from edge_spec.models.names import HubRef, hub_ref
from edge_spec.models.quants import label_of
from edge_spec.models.records import drop_record
from edge_spec.models.store import StoredModel
from edge_spec.paths import user_path

State = Literal["whole", "damaged", "incomplete", "unknown"]

_PART_NUMBER = re.compile(r" \(\d+ of \d+\)$")


@dataclass(frozen=True, slots=True)
class Removal:
    """A model that can be taken out of the store, and the bytes that this frees.

    `shared` bytes stay on the disk: the files are also linked elsewhere, as from the hub's cache.
    """

    name: str
    files: tuple[Path, ...]
    leftovers: tuple[Path, ...]
    freed: int
    shared: int
    record: str | None


def plan_removal(name: str) -> Removal:
    """What `name`, which must be exact, would take out of the store.

    It names an installed model, or one whose pull was interrupted. Raises ModelFileError for
    anything else: nothing outside the store is ever removed.
    """
    models = store.list_models()
    found = named(name, models)
    if len(found) > 1:
        names = ", ".join(model.file for model in found)
        raise ModelFileError(f"{name} may mean {names}: name one of them.")
    leftovers = _leftovers(name, found[0] if found else None)
    if not found and not leftovers:
        raise ModelFileError(_refusal(name, models))
    files = found[0].files if found else ()
    for path in files:
        _require_inside(path)
    sizes = {path: path.lstat() for path in files}
    record = found[0].record if found else None
    return Removal(
        found[0].name if found else name,
        files,
        leftovers,
        sum(state.st_size for state in sizes.values() if state.st_nlink == 1)
        + sum(folder_size(folder) for folder in leftovers),
        sum(state.st_size for state in sizes.values() if state.st_nlink > 1),
        None if record is None else record.name,
    )


def remove(removal: Removal) -> None:
    """Do it: the last part first, so that what a crash leaves is no model. Raises ModelFileError."""
    for path in reversed(removal.files):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ModelFileError(f"{path} cannot be removed: {error.strerror or error}.") from None
        _drop_empty(path.parent)
    for folder in removal.leftovers:
        shutil.rmtree(folder, ignore_errors=True)
    if removal.record is not None:
        drop_record(store.store_path(), removal.record)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a model's bytes are the ones that were pulled.

    "unknown" is a file that nobody has told the sha256 of. `problems` are sentences, each naming a
    file.
    """

    model: StoredModel
    state: State
    problems: tuple[str, ...] = ()


def verify(
    models: Sequence[StoredModel],
    progress: Callable[[str, int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Iterator[Verdict]:
    """Read every byte of each model again and compare with what was recorded when it was pulled.

    What is remembered of hashes is not believed. `progress(name, done, total)` gets bytes. Raises
    ModelFileError (unreadable) or Cancelled.
    """
    for model in models:
        yield _verify(model, progress or _ignore, cancelled)


def named(name: str, models: Sequence[StoredModel]) -> list[StoredModel]:
    """The installed models that `name` means: of the catalogue, of the hub, or its file's."""
    exact = [model for model in models if name in (model.name, model.file, str(model.path))]
    if exact:
        return exact
    ref = hub_ref(name)
    if ref is not None:
        return [model for model in models if model.record is not None and model.record.means(ref)]
    return [model for model in models if name in (model.path.name, model.path.stem)]


def find(names: Sequence[str]) -> list[StoredModel]:
    """The installed models with these names; all of them for none. Raises ModelFileError."""
    models = store.list_models()
    if not names:
        return models
    found: list[StoredModel] = []
    for name in names:
        wanted = catalogue().pairs[name].models if name in catalogue().pairs else (name,)
        for one in wanted:
            meant = named(one, models)
            if not meant:
                raise ModelFileError(_refusal(one, models))
            found += [model for model in meant if model not in found]
    return found


def _verify(
    model: StoredModel, progress: Callable[[str, int, int], None], cancelled: Callable[[], bool] | None
) -> Verdict:
    promised = _promised(model)
    if promised is None:
        state: State = "damaged" if model.problem is not None else "unknown"
        return Verdict(model, state, (model.problem,) if model.problem is not None else ())
    total, before = sum(size for size, _ in promised.values()), 0
    problems, missing = [], False
    for path, (size, sha256) in promised.items():
        if not path.is_file():
            problems.append(f"{path} is missing.")
            missing = True
            continue
        actual = path.stat().st_size
        if actual != size:
            problems.append(f"{path} has {actual:,} bytes instead of {size:,}.")
        elif (found := hash_again(path, _shifted(progress, model.name, before, total), cancelled)) != sha256:
            problems.append(f"{path} is damaged: its sha256 is {found}, and it was {sha256}.")
        before += size
    state = "incomplete" if missing else "damaged" if problems else "whole"
    return Verdict(model, state, tuple(problems))


def _promised(model: StoredModel) -> dict[Path, tuple[int, str]] | None:
    """What each file of a model must be, as recorded at its pull or written in the catalogue."""
    if model.record is not None:
        return {store.store_path() / file.file: (file.size, file.sha256) for file in model.record.files}
    entry = catalogue().models.get(model.catalogue_name or "")
    return {model.path: (entry.size, entry.sha256)} if isinstance(entry, ModelEntry) else None


def _shifted(
    progress: Callable[[str, int, int], None], name: str, before: int, total: int
) -> Callable[[int, int], None]:
    return lambda done, _: progress(name, before + done, total)


def _leftovers(name: str, found: StoredModel | None) -> tuple[Path, ...]:
    """What an interrupted pull of this model has left; it lies under the name that the hub has for it.

    A repository without a quantisation means the one model of it that was begun, unless `found` is
    meant. Raises ModelFileError where several were.
    """
    entry = catalogue().models.get(name)
    ref = entry.ref if isinstance(entry, HubEntry) else hub_ref(name)
    names = [name]
    if found is not None and found.record is not None:
        names.append(found.record.name)
    if ref is not None:
        quants = (ref.quant, label_of(ref.quant)) if ref.quant is not None else ()
        names += [str(HubRef(ref.repo, quant)) for quant in quants if quant is not None]
    begun: dict[str, list[Path]] = {}
    for path in sorted((store.store_path() / ".partial").glob("*")):
        if path.is_dir():
            begun.setdefault(_PART_NUMBER.sub("", path.name), []).append(path)
    keys = {work_name(one).lower() for one in names}
    meant = [key for key in begun if key.lower() in keys]
    if not meant and found is None and ref is not None and ref.quant is None:
        repo = work_name(f"{ref.repo}:")
        meant = [key for key in begun if key.lower().startswith(repo.lower())]
        if len(meant) > 1:
            several = ", ".join(f"{ref.repo}:{key[len(repo) :]}" for key in meant)
            raise ModelFileError(f"{name} may mean {several}: name one of them.")
    return tuple(path for key in meant for path in begun[key])


def _require_inside(path: Path) -> None:
    """Refuse a file whose folder is really elsewhere, as through a link. Raises ModelFileError."""
    root = store.store_path().resolve()
    if not path.parent.resolve().is_relative_to(root):
        raise ModelFileError(f"{path} is not in the store, so it is left alone.")


def _drop_empty(folder: Path) -> None:
    """Remove the folders of user and repository that a model leaves empty, never the store's own."""
    root = store.store_path()
    while folder != root and folder.is_relative_to(root):
        try:
            folder.rmdir()
        except OSError:
            return  # something else lies there
        folder = folder.parent


def _refusal(name: str, models: Sequence[StoredModel]) -> str:
    if name in catalogue().pairs:
        both = " and ".join(catalogue().pairs[name].models)
        return f'"{name}" is a pair, and others may use its models: name them one by one ({both}).'
    if os.path.isfile(user_path(name)):
        return f"{name} is not in the store, so it is left alone."
    near = difflib.get_close_matches(name, [model.name for model in models], n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}" if near else "`edge-spec models list` shows what is"
    return f'"{name}" is not in the store: {hint}?' if near else f'"{name}" is not in the store; {hint}.'


def _ignore(_name: str, _done: int, _total: int) -> None:
    """Progress that nobody wants."""
