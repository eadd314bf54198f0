"""Pulling from the hub: the real huggingface-hub library against a server made here."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge_spec.errors import (
    Cancelled,
    FetchError,
    HashMismatchError,
    ModelFileError,
    NoSpaceError,
    SettingError,
)
from edge_spec.models import hub_child, job, store, upkeep
from edge_spec.models.catalogue import Catalogue, HubEntry, PairEntry
from edge_spec.models.hub import Hub
from edge_spec.models.job import SourceFailed
from edge_spec.models.names import HubRef
from edge_spec.models.records import records_in
from edge_spec.models.resolve import is_missing, resolve_model
from edge_spec.models.sources import fetch, plan_pull, pull
from tests.hub_server import COMMIT, FakeHub, serve

ROOT = Path(__file__).resolve().parents[2]
REPO = "someone/demo-GGUF"
SMALL = b"GGUF" + random.Random(0).randbytes(300_000)
PARTS = [b"GGUF" + random.Random(seed).randbytes(100_000) for seed in (1, 2)]
LARGE = b"GGUF" + random.Random(3).randbytes(8 << 20)
NOTHING = Catalogue({}, {})


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with serve() as hub:
        hub.files[REPO] = {
            "README.md": b"hello",
            "demo-Q4_K_M.gguf": SMALL,
            "Q8_0/demo-Q8_0-00001-of-00002.gguf": PARTS[0],
            "Q8_0/demo-Q8_0-00002-of-00002.gguf": PARTS[1],
            "mmproj-demo-F16.gguf": b"GGUF",
        }
        monkeypatch.setenv("HF_ENDPOINT", hub.address)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        for name in ("HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN", "HF_TOKEN_PATH"):
            monkeypatch.delenv(name, raising=False)
        yield hub


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "store"
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return folder


def _get(name: str, **options: object) -> list[Path]:
    return pull(name, models=NOTHING, **options)  # type: ignore[arg-type]


def _cli(*args: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "edge_spec.cli", *args], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
    )  # fmt: skip


def test_a_repository_is_pulled_at_its_commit_and_recorded(
    hub: FakeHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.token = "hf_secret"
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    plan = plan_pull([REPO], models=NOTHING)
    assert plan.wanted[0].notes == (
        f"Of {REPO}, Q4_K_M, one of 2, since none was named is taken: {REPO}:Q4_K_M.",
    )
    assert plan.num_bytes == len(SMALL)
    path = folder / REPO / "demo-Q4_K_M.gguf"
    assert _get(REPO) == [path]
    assert path.read_bytes() == SMALL
    (record,) = records_in(folder)
    assert (record.name, record.commit, record.licence) == (f"{REPO}:Q4_K_M", COMMIT, "apache-2.0")
    assert record.files[0].sha256 == hashlib.sha256(SMALL).hexdigest()
    assert hub.asked[-1] == f"GET /{REPO}/resolve/{COMMIT}/demo-Q4_K_M.gguf"
    assert hub.tokens_seen_by_store == []
    for name in (REPO, f"{REPO}:q4_k_m", f"hf.co/{REPO}:latest", f"{REPO}:demo-Q4_K_M.gguf"):
        assert resolve_model(name) == path
    (model,) = store.list_models()
    assert (model.name, model.file) == (f"{REPO}:Q4_K_M", f"{REPO}/demo-Q4_K_M.gguf")
    # Out of reach, what is here serves, and its bytes are checked all the same.
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    again = plan_pull([f"{REPO}:Q4_K_M"], models=NOTHING).wanted[0]
    assert again.commit == COMMIT and "was not asked for a newer" in again.notes[0]


def test_a_pull_killed_at_half_goes_on_from_there(hub: FakeHub, folder: Path) -> None:
    hub.files["big/one"] = {"one-Q4_0.gguf": LARGE}
    hub.slice_seconds = 0.01
    child = _cli("models", "pull", "big/one:Q4_0", "-q")
    part = None
    deadline = time.monotonic() + 60
    while part is None or part.stat().st_size < len(LARGE) // 2:
        assert child.poll() is None and time.monotonic() < deadline, child.stderr
        part = next(iter(folder.rglob("hub-*.part")), None)
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    kept = part.stat().st_size
    again = _cli("models", "pull", "big/one:Q4_0", "-q")
    out, err = again.communicate(timeout=60)
    path = folder / "big/one/one-Q4_0.gguf"
    assert (again.returncode, err, out) == (0, "", f"big/one:Q4_0 is at {path}\n")
    assert hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(LARGE).digest()
    first, second = hub.ranges
    assert first is None and second is not None
    assert int(second.removeprefix("bytes=").rstrip("-")) >= kept >= len(LARGE) // 2
    assert not list(folder.rglob("*.part"))


def test_a_damaged_partial_file_costs_a_second_download_and_no_more(hub: FakeHub, folder: Path) -> None:
    digest = hashlib.sha256(SMALL).hexdigest()
    work = job.work_folder(folder, f"{REPO}:Q4_K_M")
    work.mkdir(parents=True)
    (work / f"hub-{digest[:16]}.part").write_bytes(bytes(1000))
    (path,) = _get(f"{REPO}:Q4_K_M")
    assert path.read_bytes() == SMALL
    assert hub.ranges == ["bytes=1000-", None]


def test_a_broken_connection_is_taken_up_where_it_broke(hub: FakeHub, folder: Path) -> None:
    hub.break_after = 2 << 20
    hub.files["big/one"] = {"one-Q4_0.gguf": LARGE}
    (path,) = _get("big/one")
    assert path.read_bytes() == LARGE
    assert len(hub.ranges) == 2 and hub.ranges[1] is not None


def test_a_server_that_takes_no_ranges_starts_again_without_damage(hub: FakeHub, folder: Path) -> None:
    hub.takes_ranges = False
    work = job.work_folder(folder, f"{REPO}:Q4_K_M")
    work.mkdir(parents=True)
    (work / f"hub-{hashlib.sha256(SMALL).hexdigest()[:16]}.part").write_bytes(SMALL[:1000])
    (path,) = _get(f"{REPO}:Q4_K_M")
    assert path.read_bytes() == SMALL


def test_a_file_beyond_what_one_answer_holds_is_fetched_in_pieces(
    hub: FakeHub, folder: Path, tmp_path: Path
) -> None:
    """The library refuses more than 50 GB by HTTP; here it refuses more than 3 MB."""
    hub.files["big/one"] = {"one-Q4_0.gguf": LARGE}
    most, size = 3 << 20, len(LARGE)
    child = tmp_path / "child.py"
    child.write_text(
        "import os, runpy\nos.environ['HF_HUB_DISABLE_PROGRESS_BARS'] = '1'\n"
        "from huggingface_hub import constants\n"
        f"constants.MAX_HTTP_DOWNLOAD_SIZE = {most}\n"
        f"runpy.run_path({hub_child.__file__!r}, run_name='__main__')\n"
    )
    plan = dataclasses.replace(plan_pull(["big/one"], models=NOTHING), hub=Hub(_child=child))
    hub.break_after = 1 << 20
    (path,) = fetch(plan)
    assert path.read_bytes() == LARGE
    first, resumed, second, last = hub.ranges
    assert (first, second, last) == (
        f"bytes=0-{most - 1}", f"bytes={most}-{2 * most - 1}", f"bytes={2 * most}-",
    )  # fmt: skip
    assert resumed is not None and resumed.endswith(f"-{most - 1}")
    path.unlink()
    hub.ranges.clear()
    work = job.work_folder(folder, "big/one:Q4_0")
    work.mkdir(parents=True)
    (work / f"hub-{hashlib.sha256(LARGE).hexdigest()[:16]}.part").write_bytes(LARGE[: size - most])
    assert fetch(plan) == [path] and path.read_bytes() == LARGE
    assert hub.ranges == [f"bytes={size - most}-"]


def test_what_an_interrupted_pull_of_parts_left_has_the_models_name(hub: FakeHub, folder: Path) -> None:
    name = f"{REPO}:Q8_0"
    first, second = (folder / REPO / f"Q8_0/demo-Q8_0-0000{part}-of-00002.gguf" for part in (1, 2))
    with pytest.raises(Cancelled):
        _get(name, cancelled=first.exists)
    assert first.exists() and not second.exists()
    (model,) = store.list_models()
    assert (model.name, model.files) == (name, (first,)) and model.problem is not None
    (verdict,) = upkeep.verify([model])
    assert (verdict.state, verdict.problems) == ("incomplete", (f"{second} is missing.",))
    for asked in (name, REPO):
        assert is_missing(asked)
        with pytest.raises(
            ModelFileError, match=f"{asked} is not in the store yet: run `edge-spec models pull"
        ):
            resolve_model(asked)
    assert _get(name) == [first] and resolve_model(name) == first and not is_missing(REPO)
    second.unlink()
    upkeep.remove(upkeep.plan_removal(name))
    assert not list(folder.rglob("*.gguf")) and records_in(folder) == []


def test_parts_are_pulled_as_one_model(hub: FakeHub, folder: Path) -> None:
    seen: list[tuple[str, str, int, int]] = []
    (path,) = _get(f"{REPO}:Q8_0", progress=lambda *step: seen.append(step))
    assert path == folder / REPO / "Q8_0/demo-Q8_0-00001-of-00002.gguf"
    assert [file.read_bytes() for file in sorted(path.parent.iterdir())] == PARTS
    total = len(PARTS[0]) + len(PARTS[1])
    assert {(name, of) for name, _, _, of in seen} == {(f"{REPO}:Q8_0", total)}
    done = [done for _, _, done, _ in seen]
    assert done == sorted(done) and done[-1] == total
    (model,) = store.list_models()
    assert (model.size, len(model.files)) == (len(PARTS[0]) + len(PARTS[1]), 2)
    assert resolve_model("demo-Q8_0") == resolve_model(f"{REPO}:Q8_0") == path


REFUSED = {
    "gated": ("gated/model", "gated/model is gated: accept its licence at {}/gated/model, then set HF_TOKEN"),
    "no repository": (
        "no/body",
        "it has no no/body, or wants a log-in for it: set HF_TOKEN or run `hf auth login`",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_hub_refuses_is_told_with_what_to_do(hub: FakeHub, folder: Path, case: str) -> None:
    hub.files["gated/model"] = {"x-Q4_K_M.gguf": SMALL}
    hub.gated = {"gated/model"}
    name, words = REFUSED[case]
    with pytest.raises(FetchError) as caught:
        _get(name)
    assert words.format(hub.address) in str(caught.value)
    assert hub.ranges == []


def test_a_wrong_token_and_a_wrong_revision_are_told(
    hub: FakeHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FetchError, match=f"{REPO} has no revision v9"):
        plan_pull([REPO], revision="v9", models=NOTHING)
    (folder / "mine.gguf").parent.mkdir(parents=True, exist_ok=True)
    for settled in ("tiny", f"file:{folder / 'mine.gguf'}"):
        with pytest.raises(SettingError, match=r"--revision is for .*: leave it out"):
            plan_pull([settled], revision="v9")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(FetchError, match="it refuses the token: run `hf auth login` again"):
        _get(REPO)


def test_out_of_reach_only_the_revision_that_was_asked_for_serves(
    hub: FakeHub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.tags.add("v1")
    fetch(plan_pull([REPO], revision="v1", models=NOTHING))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for revision in (None, "v1", COMMIT[:7]):
        (wanted,) = plan_pull([REPO], revision=revision, models=NOTHING).wanted
        assert (wanted.commit, wanted.revision) == (COMMIT, "v1")
    entry = HubEntry("demo", HubRef(REPO, "Q4_K_M"), "v2", "MIT", "for tests")
    for name, revision in ((REPO, COMMIT[:3]), ("demo", None)):
        with pytest.raises(FetchError, match="cannot be had from the hub: it cannot be reached"):
            plan_pull([name], revision=revision, models=Catalogue({"demo": entry}, {}))


def test_a_name_that_the_hub_does_not_take_is_not_told_as_an_unreachable_hub(hub: FakeHub) -> None:
    asked = Hub()
    with pytest.raises(SourceFailed, match=r"^it takes no such name \(.*'user/foo--bar'"):
        asked.look("user/foo--bar", "main", lambda: False)
    assert asked.unreachable is None and asked.look(REPO, "main", lambda: False).commit == COMMIT
    assert not any("foo--bar" in line for line in hub.asked)


def test_offline_is_said_and_what_the_hubs_cache_has_is_used(
    hub: FakeHub, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(
        FetchError, match=f"HF_HUB_OFFLINE is set, and the hub's cache here has no GGUF of {REPO}"
    ):
        _get(REPO)
    blob = _cached(tmp_path, SMALL)
    (path,) = _get(REPO)
    assert path.read_bytes() == SMALL and blob.exists()
    assert hub.asked == []


def _cached(tmp_path: Path, content: bytes) -> Path:
    """Give the hub's own cache `content` as the small model; returns the file that holds it."""
    cache = tmp_path / "hf/hub/models--someone--demo-GGUF"
    blob = cache / "blobs" / hashlib.sha256(SMALL).hexdigest()
    for path, data in ((blob, content), (cache / "refs/main", COMMIT.encode())):
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
    link = cache / "snapshots" / COMMIT / "demo-Q4_K_M.gguf"
    link.parent.mkdir(parents=True)
    link.symlink_to(blob)
    return blob


def test_what_is_damaged_in_the_hubs_cache_is_fetched_from_the_hub(
    hub: FakeHub, folder: Path, tmp_path: Path
) -> None:
    blob = _cached(tmp_path, SMALL[:-1] + b"?")
    work = job.work_folder(folder, f"{REPO}:Q4_K_M")
    work.mkdir(parents=True)
    (work / f"hub-{hashlib.sha256(SMALL).hexdigest()[:16]}.part").write_bytes(SMALL[:1000])
    (path,) = _get(REPO)
    assert path.read_bytes() == SMALL
    assert hub.ranges == ["bytes=1000-"]  # and what was there of an earlier pull is no loss
    assert blob.read_bytes().endswith(b"?"), "the cache is not ours to write"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that cannot be read")
def test_what_cannot_be_read_of_the_hubs_cache_is_fetched_from_the_hub(
    hub: FakeHub, folder: Path, tmp_path: Path
) -> None:
    blob = _cached(tmp_path, SMALL)
    blob.unlink()
    blob.symlink_to("/proc/self/mem")
    (path,) = _get(REPO)
    assert path.read_bytes() == SMALL and hub.ranges == [None]


def test_damage_in_the_hubs_cache_is_told_when_the_hub_is_out_of_reach(
    hub: FakeHub, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _cached(tmp_path, SMALL[:-1] + b"?")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(
        FetchError, match="HF_HUB_OFFLINE is set, and the hub's cache here has other bytes for it"
    ):
        _get(REPO)


def test_too_little_disk_is_foreseen_before_a_byte_is_fetched(hub: FakeHub, folder: Path) -> None:
    with pytest.raises(NoSpaceError, match=f"{REPO}:Q4_K_M needs 17 MB of disk in .*, which has 1 MB free"):
        _get(REPO, disk_usage=lambda _: job.Usage(10, 9, 1_000_000))
    assert hub.ranges == [] and not folder.exists()


def test_names_that_would_leave_the_store_are_refused(hub: FakeHub, folder: Path) -> None:
    hub.files["evil/repo"] = {"../../../evil-Q4_K_M.gguf": SMALL}
    with pytest.raises(SettingError, match="might leave the store"):
        _get("evil/repo")
    assert hub.ranges == []
    for name in ("../..", "a/b:../../x.gguf", "a/../b"):
        with pytest.raises(SettingError):
            _get(name)


def test_bytes_that_are_not_the_promised_ones_are_refused(hub: FakeHub, folder: Path) -> None:
    plan = plan_pull([REPO], models=NOTHING)
    hub.files[REPO]["demo-Q4_K_M.gguf"] = SMALL[:-1] + b"?"
    with pytest.raises(HashMismatchError, match="whose sha256 is not the promised one"):
        fetch(plan)
    assert hub.ranges == [] and not list(folder.rglob("*.gguf"))


def test_a_cancel_ends_the_download_and_keeps_what_came(hub: FakeHub, folder: Path) -> None:
    hub.slice_seconds = 0.05
    hub.files["big/one"] = {"one-Q4_0.gguf": LARGE}
    steps: list[int] = []
    with pytest.raises(Cancelled):
        _get(
            "big/one",
            progress=lambda _m, _s, done, _t: steps.append(done),
            cancelled=lambda: steps[-1:] > [1],
        )
    (part,) = folder.rglob("hub-*.part")
    assert 0 < part.stat().st_size < len(LARGE)
    with pytest.raises(Cancelled):
        plan_pull(["big/one"], lambda: True, models=NOTHING)


def test_what_a_cancelled_pull_of_a_catalogue_entry_left_is_removed_by_its_name(
    hub: FakeHub, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "config/edge-spec").mkdir(parents=True)
    (tmp_path / "config/edge-spec/catalogue.toml").write_text(
        '[models.demo]\nhub = "someone/demo-GGUF"\nquant = "q8_0"\nlicence = "MIT"\ndescription = "d"\n'
    )
    with pytest.raises(Cancelled):
        pull("demo", cancelled=lambda: any(folder.glob(".partial/*/")))
    (begun,) = folder.glob(".partial/*/")
    for name in (f"{REPO}:Q8_0", f"hf.co/{REPO}", f"{REPO}:demo-Q8_0.gguf", "demo"):
        removal = upkeep.plan_removal(name)
        assert (removal.name, removal.leftovers) == (name, (begun,))
    upkeep.remove(removal)
    assert not begun.exists()
    (folder / ".partial" / "someone+demo-GGUF+Q8_0 (2 of 2)").mkdir()
    (folder / ".partial" / "someone+demo-GGUF+Q4_K_M").mkdir()
    (folder / ".partial" / "someone+demo-GGUF-2+Q4_K_M").mkdir()
    with pytest.raises(ModelFileError, match=f"may mean {REPO}:Q4_K_M, {REPO}:Q8_0: name one of them"):
        upkeep.plan_removal(REPO)


def test_a_catalogue_entry_may_leave_size_and_hash_to_the_hub(hub: FakeHub, folder: Path) -> None:
    entry = HubEntry("demo", HubRef(REPO, "Q4_K_M"), "main", "MIT", "for tests")
    known = Catalogue({"demo": entry}, {"duo": PairEntry("duo", "demo", None, "for tests")})
    (path,) = pull("duo", models=known)
    assert path.read_bytes() == SMALL
    assert records_in(folder)[0].commit == COMMIT
