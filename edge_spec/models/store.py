"""The folder of installed GGUFs: what lies there, which file a name means, and file hashes."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from edge_spec.errors import Cancelled, ModelFileError
from edge_spec.models.catalogue import catalogue
from edge_spec.models.header import Header, read_header

CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A GGUF in the store; `header` is None, and `problem` says why, when it cannot be used.

    `catalogue_name` is the name that pulls it, or None for a file the user put there.
    """

    path: Path
    size: int
    header: Header | None
    problem: str | None
    catalogue_name: str | None

    @property
    def file(self) -> str:
        return self.path.name


def store_path() -> Path:
    """The store's folder: EDGE_SPEC_MODELS, else the platform's data folder. Not created here."""
    chosen = os.environ.get("EDGE_SPEC_MODELS")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return platformdirs.user_data_path("edge-spec") / "models"


def list_models() -> list[StoredModel]:
    """Every GGUF in the store, by file name; damaged ones are listed with their problem."""
    names = {entry.file: entry.name for entry in catalogue().models.values()}
    models = []
    for path in _gguf_files():
        header, problem = None, None
        try:
            size = path.stat().st_size
            header = read_header(path)
        except ModelFileError as error:
            problem = str(error)
        except OSError:
            continue  # removed while we looked
        models.append(StoredModel(path, size, header, problem, names.get(path.name)))
    return models


def resolve(ref: str | Path) -> Path:
    """The file that `ref` means: a path, a catalogue name, a file in the store, or a name found elsewhere.

    A file in the store may be named without `.gguf`. Raises ModelFileError with what to do.
    """
    text = str(ref)
    if not text:
        raise ModelFileError("The model's name is empty.")
    entry = catalogue().models.get(text)
    if entry is not None and os.path.isfile(installed := store_path() / entry.file):
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
    raise ModelFileError(f'There is no model "{text}": {_suggestion(text)}.')


def names_of(path: Path) -> list[str]:
    """What a file of the store is called besides its own name, the best first."""
    return [entry.name for entry in catalogue().models.values() if store_path() / entry.file == path]


def remove(ref: str) -> Path:
    """Delete a model from the store and return the path that it had.

    Only files in the store can be removed; raises ModelFileError otherwise.
    """
    path = resolve(ref)
    if path.parent.resolve() != store_path().resolve():
        raise ModelFileError(f"{path} is not in the store, so it is left alone.")
    try:
        path.unlink()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be removed: {error.strerror or error}.") from None
    return path


def sha256_of(
    path: str | Path,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> str:
    """The sha256 of a file, remembered by path, size and modification time.

    `progress(done, total)` is called in bytes. Raises ModelFileError, or Cancelled.
    """
    path = Path(path).absolute()
    try:
        known = known_sha256(path)
        if known is not None:
            return known
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
        target = _cache_file()
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix="sha256-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(cache, file)
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


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
    try:
        return sorted(
            path for path in store_path().iterdir() if path.suffix.lower() == ".gguf" and path.is_file()
        )
    except OSError:
        return []


def _candidates(text: str) -> list[Path]:
    path = Path(text).expanduser()
    found = [path]
    if path.name == text:
        found += [store_path() / text, store_path() / f"{text}.gguf"]
    return found


def _suggestion(text: str) -> str:
    """The nearest names, or how to see them all."""
    if os.sep in text or text.endswith(".gguf"):
        known = [path.name for path in _gguf_files()]
    else:
        known = [path.stem for path in _gguf_files()] + [*catalogue().models, *catalogue().pairs]
    near = difflib.get_close_matches(Path(text).name, known, n=3, cutoff=0.5)
    if near:
        return "did you mean " + " or ".join(near)
    return "`edge-spec models list` shows the ones that are here, `edge-spec models pull NAME` gets one"
