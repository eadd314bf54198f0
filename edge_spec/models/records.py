"""What is known about each model that was pulled: where it came from, and what its bytes were.

One JSON file a model, in `.records` of the store. A record never names a file outside the store:
one that does is ignored, as is anything else that cannot be read.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_spec.models.names import HubRef, file_stem, is_safe
from edge_spec.whole_file import write_whole

_SHA256 = re.compile(r"[0-9a-f]{64}")
_OPTIONAL = ("repo", "commit", "quant", "licence", "revision")


@dataclass(frozen=True, slots=True)
class RecordFile:
    """One file of a model: its place in the store, with `/` between folders, and its bytes."""

    file: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Record:
    """A model that was pulled. `name` pulls it again; `source` says where it came from.

    `repo` and `commit` are of the hub, `revision` the branch, tag or commit that was asked for, and
    `quant` the quantisation that its name there says; `pulled` is the date in ISO form.
    """

    name: str
    files: tuple[RecordFile, ...]
    source: str
    pulled: str
    repo: str | None = None
    commit: str | None = None
    quant: str | None = None
    licence: str | None = None
    revision: str | None = None

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def is_whole(self, folder: Path) -> bool:
        """Whether all its files lie in the store `folder`; an interrupted pull leaves only some."""
        return all(os.path.isfile(folder / file.file) for file in self.files)

    def means(self, ref: HubRef) -> bool:
        """Whether `ref` names this model: by its quantisation, by its file, or by neither."""
        if self.repo is None or self.repo.lower() != ref.repo.lower():
            return False
        if ref.quant is None:
            return True
        file = self.files[0].file.lower()
        names = {(self.quant or "").lower(), file.removeprefix(f"{self.repo.lower()}/"),
                 file.rpartition("/")[2], file_stem(file), self.name.lower().partition(":")[2]}  # fmt: skip
        return ref.quant.lower() in names


def records_in(folder: Path) -> list[Record]:
    """All records of a store, by name."""
    try:
        paths = sorted((folder / ".records").glob("*.json"))
    except OSError:
        return []
    read = [_read(path) for path in paths]
    return sorted((record for record in read if record is not None), key=lambda record: record.name)


def keep_record(folder: Path, record: Record) -> None:
    """Write a record, replacing one of the same name. Raises OSError."""
    write_whole(_path(folder, record.name), json.dumps(_plain(record), indent=1).encode())


def drop_record(folder: Path, name: str) -> None:
    with contextlib.suppress(OSError):
        _path(folder, name).unlink(missing_ok=True)


def _path(folder: Path, name: str) -> Path:
    return folder / ".records" / f"{re.sub(r'[^A-Za-z0-9._-]', '+', name)}.json"


def _plain(record: Record) -> dict[str, Any]:
    fields = {name: getattr(record, name) for name in Record.__slots__ if name != "files"}
    files = [{"file": file.file, "size": file.size, "sha256": file.sha256} for file in record.files]
    return {name: value for name, value in fields.items() if value is not None} | {"files": files}


def _read(path: Path) -> Record | None:
    """A record, or None: others may have written what lies there."""
    try:
        raw = json.loads(path.read_text("utf-8"))
        files = tuple(RecordFile(file["file"], file["size"], file["sha256"]) for file in raw["files"])
        texts = {name: raw.get(name) for name in _OPTIONAL}
        record = Record(raw["name"], files, raw["source"], raw["pulled"], **texts)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return record if _is_sound(record) else None


def _is_sound(record: Record) -> bool:
    texts: Iterable[object] = (record.name, record.source, record.pulled)
    others: Iterable[object] = (getattr(record, name) for name in _OPTIONAL)
    return (
        bool(record.files)
        and all(isinstance(text, str) for text in texts)
        and all(text is None or isinstance(text, str) for text in others)
        and all(
            isinstance(file.file, str) and is_safe(file.file) and isinstance(file.size, int)
            and isinstance(file.sha256, str) and _SHA256.fullmatch(file.sha256) is not None
            for file in record.files
        )
    )  # fmt: skip
