"""The sha256 of model files, remembered in the store so that gigabytes are read once."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from edge_spec.errors import Cancelled, ModelFileError
from edge_spec.models.store import store_path
from edge_spec.whole_file import write_whole

CHUNK_BYTES = 4 << 20


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
