"""Models of other programs: found in each place, named as one knows them, and never touched."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import gguf
import pytest

from edge_spec import cli
from edge_spec.errors import ModelFileError
from edge_spec.models import discovery, inventory, library, store
from edge_spec.models.discovery import find_files
from edge_spec.models.discovery_ollama import MAX_MANIFEST_BYTES, MODEL_LAYER
from edge_spec.models.records import Record, RecordFile, keep_record, records_in
from edge_spec.models.resolve import resolve_model
from tests.gguf_maker import make_gguf


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it, where every place is where it is by default."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.setenv("LOCALAPPDATA", str(folder / "local"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / ".cache"))
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(folder / "store"))
    monkeypatch.setattr("edge_spec.models.facts_cache.cache_folder", lambda: tmp_path / "facts")
    monkeypatch.chdir(tmp_path)
    return folder


def _plant(path: Path, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return make_gguf(path, **options)


def _in_hub_cache(root: Path, repo: str, file: str, **options: Any) -> Path:
    """A file as huggingface_hub keeps it: a blob, and a link to it in a snapshot."""
    folder = root / f"models--{repo.replace('/', '--')}"
    blob = _plant(folder / "blobs" / "etag", **options)
    link = folder / "snapshots" / "0123abcd" / file
    link.parent.mkdir(parents=True)
    link.symlink_to(os.path.relpath(blob, link.parent))
    return link


def _in_ollama(root: Path, name: str, **options: Any) -> Path:
    data = _plant(root.parent / "made.gguf", **options).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    blob = root / "blobs" / f"sha256-{digest}"
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(data)
    (root.parent / "made.gguf").unlink()
    _manifest(root, name, [{"mediaType": MODEL_LAYER, "digest": f"sha256:{digest}", "size": len(data)}])
    return blob


def _manifest(root: Path, name: str, layers: Any) -> Path:
    path = root / "manifests" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return path


LIBRARY = "registry.ollama.ai/library"


def _five_places(home: Path) -> dict[str, Path]:
    cache = home / ".cache"
    return {
        "mine": _plant(home / "store" / "mine.gguf", seed=1),
        "Qwen-0.5B-Q4_K_M": _in_hub_cache(
            cache / "huggingface" / "hub", "Qwen/Qwen-GGUF", "Qwen-0.5B-Q4_K_M.gguf", seed=2
        ),
        "small.Q8_0": _plant(home / ".lmstudio/models/lmstudio-community/Small-GGUF/small.Q8_0.gguf", seed=3),
        "old": _plant(cache / "lm-studio/models/someone/Old/old.gguf", seed=4),
        "qwen2.5:7b": _in_ollama(home / ".ollama" / "models", f"{LIBRARY}/qwen2.5/7b", seed=5),
        "Tiny-Q4_0": _plant(cache / "llama.cpp" / "me_Tiny-GGUF_Tiny-Q4_0.gguf", seed=6),
    }


def _snapshot(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Every path below a folder with its size, modification time and bytes."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_size,
            path.lstat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.skipif(os.name == "nt", reason="places as on Linux")
def test_a_model_in_each_place_is_found_and_nothing_there_changes(home: Path) -> None:
    planted = _five_places(home)
    before = _snapshot(home)
    found = {file.name: (file.path, file.place) for file in find_files()}
    assert {name: path for name, (path, _) in found.items()} == planted
    assert [place for _, place in found.values()] == [
        "store", "hub cache", "LM Studio", "LM Studio", "Ollama", "llama.cpp",
    ]  # fmt: skip
    for line in ("models list", "models list --json", "models pairs --all", "check mine old --json",
                 "check qwen2.5:7b Qwen-0.5B-Q4_K_M"):  # fmt: skip
        args = line.split()
        with pytest.raises(SystemExit) as ended:
            cli.main(args)
        assert ended.value.code == 0
    assert [model.name for model in library.found_models()] == list(planted)
    assert len(library.drafts_for("qwen2.5:7b")) == 5
    assert _snapshot(home) == before


def test_places_that_are_not_there_are_not_made(home: Path) -> None:
    assert find_files() == []
    assert list(home.iterdir()) == []
    with pytest.raises(ModelFileError):
        resolve_model("qwen2.5:7b")
    assert list(home.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="places as on Linux")
def test_a_found_model_is_loaded_by_each_of_its_names(home: Path) -> None:
    planted = _five_places(home)
    names = {
        "Qwen/Qwen-GGUF:Q4_K_M": "Qwen-0.5B-Q4_K_M",
        "Qwen/Qwen-GGUF/Qwen-0.5B-Q4_K_M": "Qwen-0.5B-Q4_K_M",
        "lmstudio-community/Small-GGUF:Q8_0": "small.Q8_0",
        "me_Tiny-GGUF_Tiny-Q4_0": "Tiny-Q4_0",
        **{name: name for name in planted},
    }
    for name, planted_as in names.items():
        assert resolve_model(name) == planted[planted_as]
    latest = _in_ollama(home / ".ollama" / "models", f"{LIBRARY}/llama3/latest", seed=7)
    other = _in_ollama(home / ".ollama" / "models", "hf.co/me/Tiny/Q4_0", seed=8)
    assert resolve_model("llama3") == resolve_model("llama3:latest") == latest
    assert resolve_model("hf.co/me/Tiny:Q4_0") == other


def test_places_follow_their_variables(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path / "llama"))
    hub = _in_hub_cache(tmp_path / "hf" / "hub", "a/b", "one.gguf", seed=1)
    blob = _in_ollama(tmp_path / "ollama", f"{LIBRARY}/x/1b", seed=2)
    newer = _in_hub_cache(tmp_path / "llama", "a/c", "two.gguf", seed=3)  # as newer llama.cpp keeps it
    assert [file.path for file in find_files()] == [hub, blob, newer]
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "nowhere"))
    assert [file.path for file in find_files()] == [blob, newer]


def test_one_file_in_two_places_counts_once_and_two_files_never_share_a_name(home: Path) -> None:
    first = _plant(home / "store" / "same.gguf", seed=1)
    folder = home / ".lmstudio" / "models" / "me" / "Same"
    _plant(folder / "same.gguf", seed=2)
    assert library.drafts_for("me/Same/same")[0].model.path == first
    os.link(first, folder / "linked.gguf")
    assert [file.name for file in find_files()] == ["same", "me/Same/same"]


def test_a_split_model_is_found_once_by_its_first_part(home: Path) -> None:
    folder = home / ".lmstudio" / "models" / "me" / "Big"
    first = _plant(folder / "big-Q8_0.gguf", split_tensors=8)
    (file,) = find_files()
    assert (file.path, file.name) == (first, "big-Q8_0")
    (model,) = inventory.found_models()
    assert model.is_model and model.facts is not None
    assert model.facts.num_files == 3
    assert model.size == sum(path.stat().st_size for path in folder.iterdir())


def test_links_in_a_circle_end(home: Path) -> None:
    folder = home / ".lmstudio" / "models" / "me"
    path = _plant(folder / "one" / "one.gguf")
    (folder / "one" / "back").symlink_to(folder)
    (folder / "self").symlink_to(folder / "self")
    (folder / "itself.gguf").symlink_to(folder / "itself.gguf")
    assert [file.path.resolve() for file in find_files()] == [path.resolve()]


def test_a_place_is_looked_at_within_limits(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = home / "store"
    for _ in range(discovery.MAX_DEPTH + 1):
        deep /= "d"
    _plant(deep / "deep.gguf")
    assert find_files() == []
    for number in range(20):
        (home / "store" / f"{number}.txt").touch()
    monkeypatch.setattr(discovery, "MAX_ENTRIES", 10)
    assert find_files() == []


def test_of_the_hub_cache_only_snapshots_of_models_are_looked_at(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = home / ".cache" / "huggingface" / "hub"
    model = _in_hub_cache(root, "a/b", "one.gguf")
    for folder in ("datasets--a--many", "spaces--a--many", "models--a--b/blobs", "models--z--many/blobs"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        for number in range(20):
            (root / folder / f"{number}.gguf").touch()
    monkeypatch.setattr(discovery, "MAX_ENTRIES", 10)
    assert [(file.path, file.names[-1]) for file in find_files()] == [(model, "a/b/one")]


def test_records_are_read_once_for_all_models(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        _plant(home / "store" / f"{name}.gguf")
        file = RecordFile(f"{name}.gguf", 1, "0" * 64)
        keep_record(home / "store", Record(f"me/{name}:F32", (file,), "hub", "2026-11-30", licence="MIT"))
    asked: list[Path] = []

    def note(folder: Path) -> list[Record]:
        asked.append(folder)
        return records_in(folder)

    monkeypatch.setattr(store, "records_in", note)
    models = inventory.found_models()
    assert [(model.name, model.licence) for model in models] == [(f"me/{n}:F32", "MIT") for n in "abc"]
    assert asked == [home / "store"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_regular_file_is_never_opened(home: Path) -> None:
    (home / "store").mkdir()
    os.mkfifo(home / "store" / "pipe.gguf")
    (home / "store" / "folder.gguf").mkdir()
    assert find_files() == []
    with pytest.raises(ModelFileError, match="not a regular file"):
        inventory.facts_cache.facts(home / "store" / "pipe.gguf")


HOSTILE: dict[str, Any] = {
    "another path": [{"mediaType": MODEL_LAYER, "digest": "sha256:../../../../secret"}],
    "an absolute path": [{"mediaType": MODEL_LAYER, "digest": "/etc/passwd"}],
    "a path behind a hash": [{"mediaType": MODEL_LAYER, "digest": "sha256:" + "0" * 64 + "/../x"}],
    "a line end": [{"mediaType": MODEL_LAYER, "digest": "sha256:" + "0" * 64 + "\n"}],
    "no such blob": [{"mediaType": MODEL_LAYER, "digest": "sha256:" + "0" * 64}],
    "a number": [{"mediaType": MODEL_LAYER, "digest": 7}],
    "no layers": None,
    "layers that are none": {"a": 1},
    "layers of layers": [[[]], None, 3, {"mediaType": ["x"], "digest": {}}],
    "only a template": [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:" + "0" * 64}
    ],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_manifest_names_no_file(home: Path, case: str) -> None:
    root = home / ".ollama" / "models"
    (home / "secret").write_text("secret")
    _manifest(root, f"{LIBRARY}/bad/1b", HOSTILE[case])
    good = _in_ollama(root, f"{LIBRARY}/good/1b")
    assert [(file.name, file.path) for file in find_files()] == [("good:1b", good)]


def test_junk_among_the_manifests_is_passed_by(home: Path) -> None:
    root = home / ".ollama" / "models"
    good = _in_ollama(root, f"{LIBRARY}/good/1b")
    for name, junk in {
        "text": b"hello", "bytes": b"\xff\xfe\0", "nested": b"[" * 100_000, "number": b"1" * 10_000,
        "empty": b"",
    }.items():  # fmt: skip
        (root / "manifests" / LIBRARY / "good" / name).write_bytes(junk)
    huge = root / "manifests" / LIBRARY / "good" / "huge"
    with huge.open("wb") as file:
        file.truncate(MAX_MANIFEST_BYTES + 1)
    (root / "manifests" / LIBRARY / "loop").symlink_to(root / "manifests")
    (root / "manifests" / "file").write_text("x")
    assert [file.path for file in find_files()] == [good]


def test_a_blob_that_is_a_folder_is_no_model(home: Path) -> None:
    root = home / ".ollama" / "models"
    (root / "blobs" / ("sha256-" + "0" * 64)).mkdir(parents=True)
    _manifest(root, f"{LIBRARY}/x/1b", HOSTILE["no such blob"])
    assert find_files() == []


def test_files_that_are_no_models_are_named_as_what_they_are(home: Path) -> None:
    def kind(name: str, architecture: str, **keys: str) -> None:
        writer = gguf.GGUFWriter(home / "store" / f"{name}.gguf", architecture)
        for key, value in keys.items():
            writer.add_string(f"general.{key}", value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()

    _plant(home / "store" / "model.gguf")
    kind("projector", "clip", type="mmproj")
    kind("matrix", "imatrix", type="imatrix")
    kind("lora", "llama", type="adapter")
    kind("vectors", "nomic-bert")
    kind("words", "llama")
    kinds = {model.name: model.kind for model in library.found_models()}
    assert kinds == {
        "lora": "adapter", "matrix": "imatrix", "model": "model", "projector": "mmproj",
        "vectors": "embedding", "words": "vocabulary only",
    }  # fmt: skip
    assert library.drafts_for("model") == []
