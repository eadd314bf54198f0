"""The Hugging Face hub: what a repository holds, and fetching a file of it, with resume."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edge_spec.errors import Cancelled, FetchError, HashMismatchError, NoSpaceError
from edge_spec.models.catalogue import HubSource
from edge_spec.models.child import run_child, tail
from edge_spec.models.job import Job, SourceFailed
from edge_spec.models.quants import RepoFile

ANSWER_SECONDS = 5.0
"""How long one request may take before the hub counts as out of reach."""
REACH_SECONDS = 8.0
"""The same for everything until it answers, name look-up included, which has no time-out."""
STALL_SECONDS = 120.0
"""A download that grows by nothing for so long is given up."""


@dataclass(frozen=True, slots=True)
class Repo:
    """What a repository holds at one commit. `cached`: only what the hub's cache here has of it."""

    name: str
    commit: str
    files: tuple[RepoFile, ...]
    licence: str | None
    gated: bool
    cached: bool


class _CacheMismatchError(HashMismatchError):
    """The hub's own cache here holds other bytes, or unreadable ones: damaged on this disk, or not the
    file that is meant."""


@dataclass(slots=True)
class Hub:
    """The hub during one pull; once it was out of reach, it is not asked again."""

    unreachable: str | None = None
    _child: Path = field(default=Path(__file__).with_name("hub_child.py"), repr=False)

    def look(self, repo: str, revision: str, cancelled: Callable[[], bool]) -> Repo:
        """What `repo` holds at a branch, tag or commit. Raises SourceFailed or Cancelled."""
        if self.unreachable is not None:
            raise SourceFailed(self.unreachable)
        started = time.monotonic()

        def poll() -> None:
            if cancelled():
                raise Cancelled()
            if time.monotonic() - started > REACH_SECONDS:
                self.unreachable = f"it cannot be reached (no answer in {REACH_SECONDS:.0f} s)"
                raise SourceFailed(self.unreachable)

        with tempfile.TemporaryDirectory(prefix="edge-spec-") as folder:
            log = Path(folder) / "hub.log"
            self._run({"do": "list", "repo": repo, "revision": revision}, log, poll)
            return _repo(repo, self._answer(log, "commit"))

    def fetch(self, job: Job, source: HubSource, sink: Path) -> str | None:
        """Leave the promised file at `sink` and return the commit that it is of, if that is known.

        An interrupted download goes on where it stopped. Raises SourceFailed, HashMismatchError,
        NoSpaceError or Cancelled.
        """
        if self.unreachable is not None:
            raise SourceFailed(self.unreachable)
        part = job.work / f"hub-{job.entry.sha256[:16]}.part"
        present = _size(part)
        job.require_space(max(0, job.entry.size - present))
        use_cache = True
        while True:
            try:
                return self._download(job, source, part, sink, use_cache=use_cache)
            except _CacheMismatchError:
                use_cache = False
            except HashMismatchError:
                if not present:
                    raise
                present = 0  # what was there may have been damaged on this disk: once more from the start
            except SourceFailed as failure:
                if use_cache:
                    raise
                raise SourceFailed(f"{failure}, and the hub's cache here has other bytes for it") from None

    def _download(
        self, job: Job, source: HubSource, part: Path, sink: Path, *, use_cache: bool
    ) -> str | None:
        log = job.work / "hub.log"
        watch = _Watch(job, log, part, time.monotonic(), num_bytes=_size(part))
        request = {"do": "get", "repo": source.repo, "file": source.file, "revision": source.revision}
        request |= {"part": str(part), "sha256": job.entry.sha256}
        try:
            self._run({**request, "use_cache": use_cache}, log, watch)
        except SourceFailed as failure:
            if not watch.reached:
                self.unreachable = str(failure)
            raise
        if "other" in _answers(log):
            part.unlink(missing_ok=True)
            raise HashMismatchError(job.mismatch(source.label))
        answer = self._answer(log, "path")
        path = Path(str(answer["path"]))
        try:
            job.verify(path, source.label)
        except (HashMismatchError, SourceFailed) as error:
            if answer["cached"]:
                raise _CacheMismatchError(str(error)) from None
            part.unlink(missing_ok=True)
            raise
        if answer["cached"]:
            _adopt(path, sink)
        else:
            path.replace(sink)
        commit = answer.get("commit")
        return None if commit is None else str(commit)

    def _run(self, request: Mapping[str, str | bool], log: Path, poll: Callable[[], None]) -> None:
        words = json.dumps({**request, "timeout": ANSWER_SECONDS})
        # -P: the child must not find our modules as if they were top-level ones.
        run_child([sys.executable, "-P", str(self._child), words], log, poll)

    def _answer(self, log: Path, wanted: str) -> dict[str, Any]:
        answer = _answers(log)
        if wanted in answer and "failed" not in answer:
            return answer
        reason = str(answer.get("failed") or tail(log) or "its helper ended without a word")
        if answer.get("full"):
            raise NoSpaceError(f"{reason[0].upper()}{reason[1:]}: make room, and pull again to go on.")
        # A connection that broke in the middle says nothing about the next file.
        if answer.get("unreachable") and "reached" not in answer:
            self.unreachable = reason
        raise SourceFailed(reason)


@dataclass(slots=True)
class _Watch:
    """Looks at a running download: gives it up when it hangs, reports its bytes otherwise."""

    job: Job
    log: Path
    part: Path
    last_change: float
    reached: bool = False
    num_bytes: int = 0

    def __call__(self) -> None:
        now = time.monotonic()
        if not self.reached:
            answer = _answers(self.log)
            self.reached = "reached" in answer or "path" in answer
            if self.reached:
                self.last_change = now
            if not self.reached and now - self.last_change > REACH_SECONDS:
                raise SourceFailed(f"it cannot be reached (no answer in {REACH_SECONDS:.0f} s)")
        num_bytes = _size(self.part)
        if num_bytes != self.num_bytes:
            self.num_bytes, self.last_change = num_bytes, now
        elif self.reached and now - self.last_change > STALL_SECONDS:
            raise SourceFailed(f"the download stood still for {STALL_SECONDS:.0f} s")
        self.job.tell(HubSource.label, num_bytes)


def _answers(log: Path) -> dict[str, Any]:
    """Everything that the child has said, in one dictionary; other lines are its noise."""
    fields: dict[str, Any] = {}
    for line in log.read_text("utf-8", "replace").splitlines():
        if line.startswith("{"):
            try:
                fields |= json.loads(line)
            except ValueError:
                continue  # a half-written line; the next look sees it whole
    return fields


def _repo(name: str, answer: dict[str, Any]) -> Repo:
    """What the child said, with every type checked: the hub is another's program."""
    try:
        files = tuple(
            RepoFile(str(file["path"]), int(file["size"] or 0), _sha256(file["sha256"]))
            for file in answer["files"]
        )
    except (KeyError, TypeError, ValueError):
        raise FetchError(f"The hub's answer about {name} cannot be read: try again later.") from None
    licence = answer.get("licence")
    return Repo(
        name,
        str(answer["commit"]),
        files,
        licence if isinstance(licence, str) else None,
        bool(answer.get("gated")),
        bool(answer.get("cached")),
    )


def _sha256(value: object) -> str | None:
    if value is None:
        return None
    text = str(value)
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise ValueError
    return text


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _adopt(cached: Path, sink: Path) -> None:
    """Take a file from the hub's cache without moving it away from there."""
    sink.unlink(missing_ok=True)
    try:
        os.link(cached.resolve(), sink)
    except OSError:
        shutil.copyfile(cached, sink)
