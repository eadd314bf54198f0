"""Fetch a model from the Hugging Face hub, or find it in the hub's cache on this machine."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from edge_spec.errors import HashMismatchError
from edge_spec.models.catalogue import HubSource
from edge_spec.models.child import run_child, tail
from edge_spec.models.job import Job, SourceFailed, folder_size

ANSWER_SECONDS = 5.0
"""How long one request may take before the hub counts as out of reach."""
REACH_SECONDS = 8.0
"""The same for everything until it answers, name look-up included, which has no time-out."""
STALL_SECONDS = 120.0
"""A download that grows by nothing for so long is given up."""


@dataclass(slots=True)
class Hub:
    """The hub during one pull; once it was out of reach, it is not asked again."""

    unreachable: str | None = None
    _child: Path = field(default=Path(__file__).with_name("hub_child.py"), repr=False)

    def fetch(self, job: Job, source: HubSource, sink: Path) -> None:
        """Leave the promised file at `sink`.

        Raises SourceFailed, HashMismatchError, NoSpaceError or Cancelled. A download that was
        killed starts again: huggingface_hub keeps no partial files.
        """
        if self.unreachable is not None:
            raise SourceFailed(self.unreachable)
        job.require_space(job.entry.size)
        folder = job.work / "hub"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        path, cached = self._download(job, source, folder)
        if cached:
            _adopt(path, sink)
        else:
            path.replace(sink)
        shutil.rmtree(folder, ignore_errors=True)

    def _download(self, job: Job, source: HubSource, folder: Path) -> tuple[Path, bool]:
        log = job.work / "hub.log"
        watch = _Watch(job, log, folder, time.monotonic())
        request = (source.repo, source.file, source.revision, str(folder), str(ANSWER_SECONDS))
        try:
            # -P: the child must not find our modules as if they were top-level ones.
            run_child([sys.executable, "-P", str(self._child), *request], log, watch)
        except SourceFailed as failure:
            if not watch.reached:
                self.unreachable = str(failure)
            raise
        answer = _answers(log)
        if "path" in answer:
            return Path(str(answer["path"])), bool(answer["cached"])
        reason = str(answer.get("failed") or tail(log) or "its helper ended without a word")
        if answer.get("unreachable"):
            self.unreachable = reason
        raise SourceFailed(reason)


@dataclass(slots=True)
class _Watch:
    """Looks at a running download: gives it up when it hangs, reports its bytes otherwise."""

    job: Job
    log: Path
    folder: Path
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
            etag = answer.get("etag")
            if isinstance(etag, str) and len(etag) == 64 and etag != self.job.entry.sha256:
                # The hub names a large file's sha256 beforehand: spare the download.
                raise HashMismatchError(self.job.mismatch(HubSource.label))
            if not self.reached and now - self.last_change > REACH_SECONDS:
                raise SourceFailed(f"it cannot be reached (no answer in {REACH_SECONDS:.0f} s)")
        num_bytes = folder_size(self.folder)
        if num_bytes != self.num_bytes:
            self.num_bytes, self.last_change = num_bytes, now
        elif self.reached and now - self.last_change > STALL_SECONDS:
            raise SourceFailed(f"the download stood still for {STALL_SECONDS:.0f} s")
        self.job.tell(HubSource.label, num_bytes)


def _answers(log: Path) -> dict[str, object]:
    """Everything that the child has said, in one dictionary; other lines are its noise."""
    fields: dict[str, object] = {}
    for line in log.read_text("utf-8", "replace").splitlines():
        if line.startswith("{"):
            try:
                fields |= json.loads(line)
            except ValueError:
                continue  # a half-written line; the next look sees it whole
    return fields


def _adopt(cached: Path, sink: Path) -> None:
    """Take a file from the hub's cache without moving it away from there."""
    sink.unlink(missing_ok=True)
    try:
        os.link(cached.resolve(), sink)
    except OSError:
        shutil.copyfile(cached, sink)
