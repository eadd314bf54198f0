"""A folder for what is made on the way: on the result's disk, and gone in the end."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType

import psutil

from edge_spec.errors import OutputError
from edge_spec.models.header import Header

_PREFIX = ".forge-"
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
        self._made: Path | None = None

    def __enter__(self) -> Path:
        folder = self._folder
        try:
            if self._create:
                folder.mkdir(parents=True, exist_ok=True)
            clear_orphans(folder)
            self._check_space()
            self._made = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=folder))
        except OSError as error:
            raise OutputError(f"{folder} cannot be written to: {error.strerror or error}.") from None
        return self._made

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove the folder, if there is one."""
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)

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


def clear_orphans(folder: Path) -> None:
    for path in folder.glob(f"{_PREFIX}*-*"):
        owner = path.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(path, ignore_errors=True)
