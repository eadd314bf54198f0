"""A folder for what is made on the way: on the result's disk, and gone in the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple

from edge_spec.errors import OutputError
from edge_spec.locks import try_lock
from edge_spec.models.header import Header

_PREFIX = ".forge-"
_LOCK = "lock"
_SPARE_BYTES = 64 << 20


class Scratch:
    """Entered, makes a folder inside `folder` and gives its path; left, removes it.

    With `create`, `folder` is made too. What forgings left that were killed is removed first.
    Raises OutputError, also when the disk cannot hold what may lie there at once.
    """

    def __init__(self, folder: Path, source: Header, *, create: bool) -> None:
        self._folder = folder
        self._source = source
        self._create = create
        self._made: _Made | None = None

    def __enter__(self) -> Path:
        folder = self._folder
        try:
            if self._create:
                folder.mkdir(parents=True, exist_ok=True)
            clear_orphans(folder)
            self._check_space()
            self._made = _make(folder)
        except OSError as error:
            raise OutputError(f"{folder} cannot be written to: {error.strerror or error}.") from None
        return self._made.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove the folder, if there is one."""
        if self._made is not None:
            self._made.lock.close()  # before, as Windows keeps what is open
            shutil.rmtree(self._made.path, ignore_errors=True)

    def _check_space(self) -> None:
        """At most three files lie there at once: the best so far, the one in hand, and the result."""
        largest = max(self._source.size, int(self._source.num_parameters * 8.5 / 8))
        needed = 3 * largest + _SPARE_BYTES
        free = shutil.disk_usage(self._folder).free
        if free < needed:
            raise OutputError(
                f"Forging needs up to {needed / 1e6:.0f} MB in {self._folder}, which has {free / 1e6:.0f} MB "
                "free: make room, or write to another disk with -o."
            )


class _Made(NamedTuple):
    """A folder, and its lock, which is held until it is closed."""

    path: Path
    lock: BinaryIO


def _make(folder: Path) -> _Made:
    """Who clears up may meet the new folder before it is locked, and take it: then another is made."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
        with contextlib.suppress(FileNotFoundError):
            lock = (path / _LOCK).open("a+b")
            try:
                is_ours = try_lock(lock)
            except OSError:  # a file system without locks, where nobody clears up either
                is_ours = True
            if is_ours and (path / _LOCK).exists():
                return _Made(path, lock)
            lock.close()


def clear_orphans(folder: Path) -> None:
    """Remove what forgings left in `folder` that were killed.

    That they live is told by their locks and not by process ids: those of other containers and other
    computers that share the folder mean nothing here.
    """
    for path in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            with (path / _LOCK).open("a+b") as lock:
                if not try_lock(lock):
                    continue
                shutil.rmtree(path, ignore_errors=True)
            # What was open stayed where the system is Windows, and until now where the disk is NFS.
            if os.name == "nt":
                (path / _LOCK).unlink(missing_ok=True)
            path.rmdir()
