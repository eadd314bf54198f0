"""The store: what lies there, what a name means, and hashes that are computed once."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from edge_spec.errors import Cancelled, ModelFileError
from edge_spec.models import store
from edge_spec.models.hashes import sha256_of
from edge_spec.models.records import Record, RecordFile, keep_record
from edge_spec.models.resolve import is_missing, resolve_model
from tests.gguf_maker import make_gguf

TINY_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "store"
    folder.mkdir()
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def _refusal(ref: str | Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        resolve_model(ref)
    return str(caught.value)


def test_the_folder_is_the_one_in_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.store_path() == folder
    monkeypatch.setenv("EDGE_SPEC_MODELS", "~/somewhere")
    assert store.store_path() == Path.home() / "somewhere"
    monkeypatch.delenv("EDGE_SPEC_MODELS")
    assert store.store_path().parts[-2:] == ("edge-spec", "models")


def test_models_are_listed_with_what_is_wrong_with_them(folder: Path) -> None:
    make_gguf(folder / TINY_FILE)
    make_gguf(folder / "mine.gguf", architecture="mamba")
    (folder / "broken.gguf").write_bytes(b"GGUF")
    (folder / "notes.txt").write_text("not a model")
    models = {model.file: model for model in store.list_models()}
    assert list(models) == [TINY_FILE, "broken.gguf", "mine.gguf"]
    tiny, broken, mine = models.values()
    assert broken.catalogue_name is None
    assert broken.problem is not None
    assert "ends in the middle of the version" in broken.problem
    assert (tiny.catalogue_name, tiny.problem) == ("smollm2-135m", None)
    assert (mine.name, mine.problem) == ("mine", None)
    assert mine.size == (folder / "mine.gguf").stat().st_size


def test_a_store_that_is_not_there_yet_is_empty(folder: Path) -> None:
    folder.rmdir()
    assert store.list_models() == []
    assert "`edge-spec models list`" in _refusal("xyzzy")


def test_a_ref_is_a_path_a_catalogue_name_or_a_file_in_the_store(folder: Path, tmp_path: Path) -> None:
    mine = make_gguf(folder / "mine.Q8_0.gguf")
    tiny = make_gguf(folder / TINY_FILE)
    elsewhere = make_gguf(tmp_path / "elsewhere.gguf")
    assert resolve_model(str(elsewhere)) == elsewhere
    assert resolve_model(elsewhere) == elsewhere
    assert resolve_model("elsewhere.gguf") == Path("elsewhere.gguf")
    assert resolve_model("smollm2-135m") == tiny
    assert resolve_model("mine.Q8_0.gguf") == mine
    assert resolve_model("mine.Q8_0") == mine


def test_a_known_model_that_is_missing_names_the_command_that_gets_it(folder: Path) -> None:
    assert _refusal("smollm2-135m") == (
        "smollm2-135m is not in the store yet: run `edge-spec models pull smollm2-135m`."
    )


def test_an_unknown_name_gets_the_nearest_ones(folder: Path) -> None:
    make_gguf(folder / "mine.gguf")
    assert "did you mean smollm2-135m" in _refusal("smolm2-135")
    assert _refusal("mime.gguf") == 'There is no model "mime.gguf": did you mean mine.gguf?'
    assert _refusal("starter") == (
        '"starter" is a pair, not one model: it stands for qwen2.5-coder-1.5b and qwen2.5-coder-0.5b; '
        "run and chat take --pair starter."
    )
    assert "is a folder" in _refusal(folder)
    assert "is empty" in _refusal("")
    assert 'There is no model "no/such.gguf"' in _refusal("no/such.gguf")


def test_parts_of_a_split_model_are_one_model(folder: Path) -> None:
    first = make_gguf(folder / "big-00001-of-00002.gguf")
    (folder / "big-00002-of-00002.gguf").write_bytes(b"GGUF and more")
    (folder / "lost-00002-of-00002.gguf").write_bytes(b"GGUF")
    models = store.list_models()
    assert [model.file for model in models] == ["big-00001-of-00002.gguf", "lost-00002-of-00002.gguf"]
    assert models[0].name == "big" and models[0].size == first.stat().st_size + 13
    assert resolve_model("big") == first


def test_a_hub_name_is_found_only_once_it_was_pulled(folder: Path) -> None:
    assert _refusal("user/repo:Q8_0") == (
        "user/repo:Q8_0 is not in the store yet: run `edge-spec models pull user/repo:Q8_0`."
    )
    for quant in ("Q8_0", "Q5_0"):
        make_gguf(folder / f"{quant}.gguf")
        file = RecordFile(f"{quant}.gguf", 10, "0" * 64)
        keep_record(
            folder, Record(f"user/repo:{quant}", (file,), "hub", "2026-11-30", "user/repo", "c", quant)
        )
    assert resolve_model("user/repo:q8_0") == folder / "Q8_0.gguf"
    assert "may mean user/repo:Q5_0, user/repo:Q8_0" in _refusal("user/repo")
    assert [is_missing(name) for name in ("user/repo:Q8_0", "user/repo:F16", "x", "smollm2-135m")] == [
        False, True, False, True,
    ]  # fmt: skip


def test_a_hash_is_computed_once_until_the_file_changes(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    calls: list[tuple[int, int]] = []
    one = hashlib.sha256(b"one").hexdigest()
    assert sha256_of(path, lambda *step: calls.append(step)) == one
    assert sha256_of(path, lambda *step: calls.append(step)) == one
    assert calls == [(3, 3)]
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert sha256_of(path) == hashlib.sha256(b"two").hexdigest()


def test_hashes_of_files_that_are_gone_are_forgotten(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode())
        sha256_of(tmp_path / name)
        (tmp_path / "a").unlink(missing_ok=True)
    cache = json.loads((folder / ".cache" / "sha256.json").read_text())
    assert list(cache) == [str(tmp_path / "b")]


@pytest.mark.parametrize("rubbish", ["", "[]", "null", '{"x": 1}', "\0"])
def test_a_damaged_cache_is_ignored(folder: Path, tmp_path: Path, rubbish: str) -> None:
    (folder / ".cache").mkdir()
    (folder / ".cache" / "sha256.json").write_text(rubbish)
    path = tmp_path / "file"
    path.write_bytes(b"one")
    assert sha256_of(path) == hashlib.sha256(b"one").hexdigest()


def test_a_store_that_cannot_be_written_still_gives_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file where the folder should be: unwritable for every user, root included.
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(tmp_path / "blocked"))
    path = tmp_path / "file"
    path.write_bytes(b"one")
    assert sha256_of(path) == hashlib.sha256(b"one").hexdigest()
    assert store.list_models() == []


def test_hashing_can_be_cancelled(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one")
    with pytest.raises(Cancelled):
        sha256_of(tmp_path / "file", cancelled=lambda: True)
    with pytest.raises(ModelFileError, match="cannot be read"):
        sha256_of(tmp_path / "none")
