"""Facts of model files and comparisons of vocabularies, remembered in the platform's cache folder.

Each is a file of its own, put in place in one step, so that writers at the same time never harm
one another. A file holds the hash of its text: what is damaged, foreign or of another version
counts as not there. Facts are of a path, sizes and modification times; a comparison is of two
vocabularies by hashes of all that it depends on, so it never gets old.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import platformdirs

from edge_spec.models.comparison import VocabComparison, compare_vocabs
from edge_spec.models.facts import ModelFacts, VocabFacts, facts_of, target_ids_of
from edge_spec.models.header import Header, read_header
from edge_spec.whole_file import write_whole

VERSION: Final = 2
"""Raised whenever facts are told otherwise than before; what has another number is not read."""

MAX_ENTRIES: Final = 4096
_MAX_BYTES: Final = 4 << 20

Record = TypeVar("Record", ModelFacts, VocabComparison)
_State = list[list[Any]]


def facts(path: Path) -> ModelFacts:
    """The facts of the model at `path`, from the cache unless its files changed.

    Raises ModelFileError, which is never remembered.
    """
    return facts_and_header(path)[0]


def facts_and_header(path: Path) -> tuple[ModelFacts, Header | None]:
    """The facts, and the header if it had to be read for them."""
    entry = _entry("facts", str(path.absolute()))
    known = _read(entry)
    if known is not None and known.get("path") == str(path.absolute()):
        with contextlib.suppress(KeyError, TypeError, ValueError, OSError):
            if known["state"] == _state([path.with_name(str(name)) for name, *_ in known["state"]]):
                return _decode(ModelFacts, known["facts"]), None
    header = read_header(path)
    found = facts_of(header)
    with contextlib.suppress(OSError):
        state = _state(header.files)
        if sum(size for _, size, _ in state) == header.size:  # else a file is being written right now
            content = {"path": str(path.absolute()), "state": state, "facts": dataclasses.asdict(found)}
            _write(entry, content)
    return found, header


def comparison(target: VocabFacts, draft: VocabFacts, headers: Callable[[], list[Header]]) -> VocabComparison:
    """The comparison of two vocabularies, remembered; `headers` gives both if it is not."""
    key = f"{target.key} {draft.key}"
    entry = _entry("vocabularies", key)
    known = _read(entry)
    if known is not None and known.get("key") == key:
        with contextlib.suppress(KeyError, TypeError, ValueError):
            return _decode(VocabComparison, known["comparison"])
    first, second = headers()
    found = compare_vocabs(first.vocab, second.vocab, target_ids_of(second))
    _write(entry, {"key": key, "comparison": dataclasses.asdict(found)})
    return found


def cache_folder() -> Path:
    """Where everything is remembered; not created here."""
    return platformdirs.user_cache_path("edge-spec") / "models"


def _state(files: list[Path] | tuple[Path, ...]) -> _State:
    """Name, size and modification time of each file."""
    states = [(path.name, path.stat()) for path in files]
    return [[name, state.st_size, state.st_mtime_ns] for name, state in states]


def _entry(kind: str, key: str) -> Path:
    name = hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return cache_folder() / kind / f"{name}.json"


def _read(entry: Path) -> dict[str, Any] | None:
    try:
        if entry.stat().st_size > _MAX_BYTES:
            return None
        head, _, body = entry.read_bytes().partition(b"\n")
        if head != _seal(body):
            return None
        known = json.loads(body)
    except (OSError, ValueError, RecursionError):
        return None
    return known if isinstance(known, dict) else None


def _write(entry: Path, content: dict[str, Any]) -> None:
    """Keep an entry; a folder that cannot be written only means that it is computed again."""
    body = json.dumps(content).encode()
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        _make_room(entry.parent)
        write_whole(entry, _seal(body) + b"\n" + body)


def _seal(body: bytes) -> bytes:
    return f"edge-spec {VERSION} {hashlib.sha256(body).hexdigest()}".encode()


def _make_room(folder: Path) -> None:
    """Forget the older half when there is too much."""
    files = [entry for entry in os.scandir(folder) if entry.is_file(follow_symlinks=False)]
    if len(files) < MAX_ENTRIES:
        return
    for entry in sorted(files, key=lambda entry: entry.stat().st_mtime)[: len(files) // 2]:
        with contextlib.suppress(OSError):
            Path(entry.path).unlink()


def _decode(cls: type[Record], raw: object) -> Record:
    """A dataclass from what `dataclasses.asdict` and JSON made of it; ValueError for anything else."""
    value = _value(cls, raw)
    assert isinstance(value, cls)
    return value


def _value(kind: Any, raw: Any) -> Any:
    """`raw` as a value of type `kind`: a dataclass, a tuple of one type, a union, or a plain type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        if not isinstance(raw, dict) or raw.keys() != hints.keys():
            raise ValueError(f"no {kind.__name__}")
        return kind(**{name: _value(hint, raw[name]) for name, hint in hints.items()})
    if origin is tuple and isinstance(raw, list):
        return tuple(_value(arguments[0], item) for item in raw)
    if origin in (types.UnionType, typing.Union):
        if raw is None:
            return None
        return _value(next(one for one in arguments if one is not type(None)), raw)
    if origin is typing.Literal and raw in arguments:
        return raw
    if kind in (bool, int, str, float) and type(raw) is kind:
        return raw
    raise ValueError(f"no {kind}")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
