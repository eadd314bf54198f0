"""What of the machine this process may use: memory and processors, a container's limits counted.

Linux limits a container through cgroups, and neither psutil nor /proc/meminfo say so: both show the
host. The files are those of https://docs.kernel.org/admin-guide/cgroup-v2.html and of its version 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


class Memory(NamedTuple):
    """Bytes that this process may use in all, and those of them that are free, swap not counted."""

    total: int
    available: int


def usable_memory() -> Memory:
    """The machine's memory, or the least that a cgroup around this process leaves of it."""
    import psutil  # slow to import, and `--help` does without

    machine = psutil.virtual_memory()
    total, available = machine.total, machine.available
    for folder in _cgroups("memory"):
        limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes")
        if limit is not None and used is not None and limit < machine.total:
            total = min(total, limit)
            available = min(available, max(0, limit - used + _cached(folder)))
    return Memory(total, available)


def usable_cores() -> int:
    """Logical processors that this process may keep busy: its affinity, and its cgroups' shares of time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _cgroups("cpu"):
        share = _share(folder)
        if share is not None:
            cores = min(cores, max(1, int(share)))  # one thread too many makes all of them wait
    return cores


def _cgroups(controller: str) -> Iterator[Path]:
    """Folders of the cgroups around this process that may limit `controller`, innermost first.

    In a container the path may be the host's, which is not there: its own limits are at the root.
    """
    try:
        lines = _OWN.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        root = _ROOT if number == "0" else _ROOT / controller
        if number == "0" or controller in controllers.split(","):
            folder = root / path.lstrip("/")
            yield from (place for place in (folder, *folder.parents) if place.is_relative_to(root))


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # not there, or "max"
        return None


def _cached(folder: Path) -> int:
    """Bytes of files in memory that the kernel gives up when it needs room."""
    try:
        lines = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    found = {name: int(value) for name, _, value in (line.partition(" ") for line in lines)}
    # Version 1 counts the cgroups below only under these longer names.
    return sum(found.get(f"total_{name}", found.get(name, 0)) for name in ("inactive_file", "active_file"))


def _share(folder: Path) -> float | None:
    """Processors' worth of time that a cgroup gets, or None for no limit."""
    try:
        quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        return int(quota) / int(period)
    except (OSError, ValueError):
        microseconds = _number(folder / "cpu.cfs_quota_us")
        per = _number(folder / "cpu.cfs_period_us")
        return microseconds / per if per and microseconds is not None and microseconds > 0 else None
