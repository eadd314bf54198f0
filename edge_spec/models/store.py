"""The folder of installed GGUFs: what lies there, which file a name means, and file hashes."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from edge_spec.errors import Cancelled, ModelFileError
from edge_spec.models import facts_cache
from edge_spec.models.catalogue import Entry, HubEntry, catalogue
from edge_spec.models.names import HubRef, file_stem, hub_ref, is_safe, split_of
from edge_spec.models.quants import PREFERRED
from edge_spec.models.records import Record, records_in
from edge_spec.paths import user_path
from edge_spec.whole_file import write_whole

CHUNK_BYTES = 4 << 20


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
    records = {store_path() / record.files[0].file: record for record in records_in(store_path())}
    models = []
    for path in _gguf_files():
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


def resolve(ref: str | Path) -> Path:
    """The file that `ref` means: a path, a name in the store, or one of another program's models.

    In the store, names are the catalogue's, `user/repo[:QUANT]`, and those of files, which may lack
    `.gguf`; of a split model it is the first part. Of the hub's models only what was pulled is
    found; without QUANT that is Q4_K_M, or the only one that is here. Raises ModelFileError with
    what to do.
    """
    text = str(ref)
    if not text:
        raise ModelFileError("The model's name is empty.")
    entry = catalogue().models.get(text)
    if entry is not None and (installed := _installed_entry(entry)) is not None:
        return installed
    for candidate in _candidates(text):
        if os.path.isfile(candidate):  # unlike Path's, never an error
            return candidate
    from edge_spec.models import discovery  # it asks here where the store is

    found = discovery.find_file(text)
    if found is not None:
        return found.path
    if entry is not None:
        raise ModelFileError(f"{text} is not in the store yet: run `edge-spec models pull {text}`.")
    if os.path.isdir(text):
        raise ModelFileError(f"{text} is a folder; name a GGUF file in it.")
    if text in catalogue().pairs:
        raise ModelFileError(f'"{text}" is a pair, not one model: use --pair {text}.')
    if (named := hub_ref(text)) is not None:
        return _pulled(named)
    raise ModelFileError(f'There is no model "{text}": {_suggestion(text)}.')


def names_of(path: Path) -> list[str]:
    """What a file of the store is called besides its own name, the best first."""
    record = record_of(path)
    name = _catalogue_name(path, record)
    return [*([name] if name else []), *([record.name] if record else [])]


def licence_of(path: Path, record: Record | None) -> str | None:
    """The licence of a file in the store, by what was recorded when it was pulled or by the catalogue."""
    name = _catalogue_name(path, record)
    return (record and record.licence) or (catalogue().models[name].licence if name else None)


def record_of(path: Path) -> Record | None:
    """What is known of a file in the store that was pulled."""
    root = store_path()
    return next((item for item in records_in(root) if root / item.files[0].file == path), None)


def is_missing(ref: str) -> bool:
    """Whether a pull could bring this model, which is not here: of the catalogue, or of the hub."""
    entry = catalogue().models.get(ref)
    if entry is None and hub_ref(ref) is None:
        return False
    try:
        resolve(ref)
    except ModelFileError:
        return True
    return False


def _installed_entry(entry: Entry) -> Path | None:
    """The file of a catalogue entry, if it is in the store."""
    if isinstance(entry, HubEntry):
        found = [record for record in records_in(store_path()) if record.means(entry.ref)]
        paths = [store_path() / record.files[0].file for record in found]
    else:
        paths = [store_path() / entry.file]
    return next((path for path in paths if os.path.isfile(path)), None)


def _pulled(ref: HubRef) -> Path:
    """The first file of a model that was pulled from the hub. Raises ModelFileError."""
    records = [
        record for record in records_in(store_path())
        if record.means(ref) and os.path.isfile(store_path() / record.files[0].file)
    ]  # fmt: skip
    if ref.quant is None and len(records) > 1:
        records = [record for record in records if record.quant == PREFERRED] or records
    if len(records) == 1:
        return store_path() / records[0].files[0].file
    if records:
        names = ", ".join(record.name for record in records)
        raise ModelFileError(f"{ref} may mean {names}: name one of them.")
    raise ModelFileError(f"{ref} is not in the store yet: run `edge-spec models pull {ref}`.")


def _catalogue_name(path: Path, record: Record | None) -> str | None:
    for entry in catalogue().models.values():
        if isinstance(entry, HubEntry):
            if record is not None and record.means(entry.ref):
                return entry.name
        elif store_path() / entry.file == path:
            return entry.name
    return None


def sha256_of(
    path: str | Path,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> str:
    """The sha256 of a file, remembered by path, size and modification time.

    `progress(done, total)` is called in bytes. Raises ModelFileError, or Cancelled.
    """
    known = known_sha256(path)
    return known if known is not None else hash_again(path, progress, cancelled)


def hash_again(
    path: str | Path,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> str:
    """The sha256 of a file, whatever is remembered of it: every byte is read.

    Raises ModelFileError, or Cancelled.
    """
    path = Path(path).absolute()
    try:
        size = path.stat().st_size
        digest = hashlib.sha256()
        done = 0
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
                done += len(chunk)
                if cancelled is not None and cancelled():
                    raise Cancelled()
                if progress is not None:
                    progress(done, size)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}.") from None
    remember_sha256(path, digest.hexdigest())
    return digest.hexdigest()


def known_sha256(path: str | Path) -> str | None:
    """The sha256 of a file if it is remembered; None, at once, if it would have to be computed."""
    path = Path(path).absolute()
    try:
        state = path.stat()
    except OSError:
        return None
    cached = _read_cache().get(str(path))
    return str(cached[2]) if cached is not None and cached[:2] == [state.st_size, state.st_mtime_ns] else None


def remember_sha256(path: Path, sha256: str) -> None:
    """Keep a hash that was just computed from a file's bytes; quietly does nothing if it cannot."""
    # A read-only store is fine: the hash is then computed again next time.
    with contextlib.suppress(OSError):
        path = path.absolute()
        state = path.stat()
        cache = {name: value for name, value in _read_cache().items() if Path(name).exists()}
        cache[str(path)] = [state.st_size, state.st_mtime_ns, sha256]
        write_whole(_cache_file(), json.dumps(cache).encode())


def _cache_file() -> Path:
    return store_path() / ".cache" / "sha256.json"


def _read_cache() -> dict[str, list[object]]:
    """What is remembered: path to [size, mtime_ns, sha256]; anything odd in it is dropped."""
    try:
        raw = json.loads(_cache_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(raw, dict):
        return {}
    return {name: value for name, value in raw.items() if isinstance(value, list) and len(value) == 3}


def _gguf_files() -> list[Path]:
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


def _candidates(text: str) -> list[Path]:
    path = user_path(text)
    found = [path]
    if is_safe(text):
        found += [store_path() / text, store_path() / f"{text}.gguf"]
        found += [path for path in _gguf_files() if split_of(path.name) and file_stem(path.name) == text]
    return found


def _suggestion(text: str) -> str:
    """The nearest names, or how to see them all."""
    if os.sep in text or text.endswith(".gguf"):
        known = [path.name for path in _gguf_files()]
    else:
        known = [file_stem(path.name) for path in _gguf_files()] + [*catalogue().models, *catalogue().pairs]
    near = difflib.get_close_matches(Path(text).name, known, n=3, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(near)
    return "`edge-spec models list` shows the ones that are here, `edge-spec models pull NAME` gets one"
