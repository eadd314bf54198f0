"""One model being fetched: where its partial files lie, who is told, and what is checked."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from edge_spec.errors import Cancelled, FetchError, HashMismatchError, NoSpaceError, OutputError
from edge_spec.locks import try_lock
from edge_spec.models.catalogue import Source
from edge_spec.models.hashes import CHUNK_BYTES
from edge_spec.sizes import size_text

PullProgress = Callable[[str, str, int, int], None]
"""Called with (model name, source, bytes done, bytes in all)."""

DiskUsage = Callable[[Path], "Usage"]
_SPARE_BYTES = 16 << 20


class Usage(NamedTuple):
    """Bytes of a disk, as shutil.disk_usage gives them."""

    total: int
    used: int
    free: int


def disk_usage(path: Path) -> Usage:
    """Space on the disk that `path` is on, or will be on once it is created."""
    for place in (path, *path.parents):
        with suppress(OSError):
            return Usage(*shutil.disk_usage(place))
    return Usage(*shutil.disk_usage(path))


def folder_size(folder: Path) -> int:
    """Bytes of all files below `folder`; 0 when it is not there."""
    return sum(file_sizes(folder))


def file_sizes(folder: Path) -> Iterator[int]:
    """The bytes of each file below `folder`. Files may come and go meanwhile."""
    with suppress(OSError):
        for path in folder.rglob("*"):
            with suppress(OSError):
                if path.is_file():
                    yield path.stat().st_size


class SourceFailed(Exception):
    """Why a source did not give the file; the next one is tried."""


@dataclass(frozen=True, slots=True)
class WantedFile:
    """One file to bring into the store: `file` is its place there, `name` what progress calls it.

    `sources` are tried in order; `replaces` says whether other bytes under that name give way.
    """

    name: str
    file: str
    size: int
    sha256: str
    sources: tuple[Source, ...]
    replaces: bool = True


@dataclass(frozen=True, slots=True)
class Job:
    """A file on its way into the store.

    `folder` is the store, `work` this file's place for what is not whole, kept until it is done.
    """

    entry: WantedFile
    folder: Path
    progress: PullProgress
    cancelled: Callable[[], bool]
    disk_usage: DiskUsage

    @property
    def work(self) -> Path:
        return work_folder(self.folder, self.entry.name)

    @property
    def destination(self) -> Path:
        return self.folder / self.entry.file

    def tell(self, source: str, done: int) -> None:
        """Report progress, and stop here if the caller asked for it: raises Cancelled."""
        if self.cancelled():
            raise Cancelled()
        self.progress(self.entry.name, source, min(done, self.entry.size), self.entry.size)

    def require_space(self, needed: int) -> None:
        require_space(self.entry.name, needed, self.folder, self.disk_usage)

    def join(self, chunks: Iterator[bytes], source: str, sink: Path) -> None:
        """Write `chunks` one after another to `sink`, which must then be the promised file.

        Raises HashMismatchError, with `sink` deleted, when it is not.
        """
        digest = hashlib.sha256()
        done = 0
        with sink.open("wb") as output:
            for chunk in chunks:
                output.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                if done > self.entry.size:
                    break  # whatever this is, it is not our file, and may be endless
                self.tell(source, done)
            output.flush()
            os.fsync(output.fileno())
        if done != self.entry.size or digest.hexdigest() != self.entry.sha256:
            sink.unlink()
            raise HashMismatchError(self.mismatch(source))

    def verify(self, path: Path, source: str) -> None:
        """Check that `path` is the promised file. Raises HashMismatchError, SourceFailed or Cancelled."""
        digest = hashlib.sha256()
        try:
            with path.open("rb") as file:
                for chunk in chunks_of(file):
                    digest.update(chunk)
                    self.tell(source, self.entry.size)
        except OSError as error:
            raise SourceFailed(f"{path} cannot be read ({error.strerror or error})") from None
        if digest.hexdigest() != self.entry.sha256:
            raise HashMismatchError(self.mismatch(source))

    def mismatch(self, source: str) -> str:
        return f"{source} gave bytes for {self.entry.name} whose sha256 is not the promised one"


def work_folder(folder: Path, name: str) -> Path:
    """Where partial files of the model `name` lie, in the store `folder`."""
    return folder / ".partial" / work_name(name)


def work_name(name: str) -> str:
    """What the folder of `work_folder` is called."""
    return re.sub(r"[^A-Za-z0-9._ ()-]", "+", name)


def chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def require_space(what: str, needed: int, folder: Path, usage: DiskUsage) -> None:
    """Raise NoSpaceError, naming needed, free and where, unless `needed` bytes fit."""
    free = usage(folder).free
    if free < needed + _SPARE_BYTES:
        raise NoSpaceError(
            f"{what} needs {size_text(needed + _SPARE_BYTES)} of disk in {folder}, which has "
            f"{size_text(free)} free: make room, or set EDGE_SPEC_MODELS to a folder on another disk."
        )


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Turn a full disk and an unwritable folder into errors that say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise NoSpaceError(
                f"The disk of {folder} is full: make room, or set EDGE_SPEC_MODELS to another disk."
            ) from None
        where, why = error.filename or folder, error.strerror or error
        raise OutputError(
            f"{where} cannot be written ({why}): set EDGE_SPEC_MODELS to another folder."
        ) from None


@contextmanager
def only_one(job: Job) -> Iterator[None]:
    """Hold the model's lock; raises FetchError when another pull of it is running.

    The operating system drops the lock when its holder dies, so it is never stale.
    """
    path = job.work.with_name(job.work.name + ".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        if not try_lock(file):
            file.seek(0)
            holder = file.read(20).decode("ascii", "replace").strip() or "unknown"
            raise FetchError(
                f"Another pull of {job.entry.name} is running (process {holder}): wait for it, or stop it."
            )
        file.truncate(0)
        file.write(str(os.getpid()).encode())
        file.flush()
        yield
