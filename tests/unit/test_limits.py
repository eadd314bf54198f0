"""A container's limits count, those of both versions of cgroups."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from edge_spec import limits
from edge_spec.llama.model import default_threads
from edge_spec.models.memory import make_machine

GB = 1_000_000_000


@pytest.fixture
def cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of the cgroups, of which this process is told to be in /outer/inner."""
    own = tmp_path / "own"
    own.write_text("4:memory:/outer/inner\n1:cpu,cpuacct:/outer/inner\n0::/outer/inner\n")
    monkeypatch.setattr(limits, "_OWN", own)
    monkeypatch.setattr(limits, "_ROOT", tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    class Host:
        total, available = 64 * GB, 60 * GB

    monkeypatch.setattr(psutil, "virtual_memory", lambda: Host)
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: range(32), raising=False)


def write(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def test_without_cgroups_the_machine_counts(cgroup: Path) -> None:
    assert limits.usable_memory() == (64 * GB, 60 * GB)
    assert limits.usable_cores() == 32


def test_no_limit_is_no_limit(cgroup: Path) -> None:
    write(cgroup / "outer", memory__max="max", memory__current=5 * GB, cpu__max="max 100000")
    write(cgroup / "memory", memory__limit_in_bytes=9223372036854771712, memory__usage_in_bytes=GB)
    write(cgroup / "cpu", cpu__cfs_quota_us=-1, cpu__cfs_period_us=100000)
    assert limits.usable_memory() == (64 * GB, 60 * GB)
    assert limits.usable_cores() == 32


def test_the_limits_of_version_2_count_and_cached_files_are_free(cgroup: Path) -> None:
    stat = f"anon {GB}\ninactive_file {2 * GB}\nactive_file {GB}\nslab 7"
    write(cgroup / "outer/inner", memory__max=4 * GB, memory__current=3 * GB, memory__stat=stat)
    write(cgroup / "outer/inner", cpu__max="250000 100000")
    assert limits.usable_memory() == (4 * GB, 4 * GB)
    assert limits.usable_cores() == 2


def test_the_narrowest_of_the_cgroups_around_counts(cgroup: Path) -> None:
    write(cgroup / "outer/inner", memory__max=8 * GB, memory__current=GB, cpu__max="400000 100000")
    write(cgroup / "outer", memory__max=16 * GB, memory__current=15 * GB, cpu__max="50000 100000")
    assert limits.usable_memory() == (8 * GB, GB)
    assert limits.usable_cores() == 1


def test_the_limits_of_version_1_count_where_the_path_is_the_hosts(cgroup: Path) -> None:
    stat = f"inactive_file 0\ntotal_inactive_file {GB}\ntotal_active_file 0"
    write(
        cgroup / "memory",
        memory__limit_in_bytes=4 * GB,
        memory__usage_in_bytes=2 * GB,
        memory__stat=stat,
    )
    write(cgroup / "cpu", cpu__cfs_quota_us=300000, cpu__cfs_period_us=100000)
    assert limits.usable_memory() == (4 * GB, 3 * GB)
    assert limits.usable_cores() == 3


def test_memory_plans_and_threads_follow_the_limits(cgroup: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 32 if logical else 16)
    assert default_threads() == 16
    assert (make_machine((), ()).total, make_machine((), ()).available) == (64 * GB, 60 * GB)
    write(cgroup / "outer", memory__max=4 * GB, memory__current=GB, cpu__max="250000 100000")
    assert default_threads() == 2
    assert (make_machine((), ()).total, make_machine((), ()).available) == (4 * GB, 3 * GB)
