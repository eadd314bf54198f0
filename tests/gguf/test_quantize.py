"""Requantising through a child process: what is written, what is refused, what a crash leaves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from edge_spec.errors import Cancelled, EngineError, ModelFileError, OutputError, SettingError
from edge_spec.models import quantize as module
from edge_spec.models.ggml_types import FILE_TYPES
from edge_spec.models.header import read_header
from edge_spec.models.quantize import quantize
from tests.gguf_maker import make_gguf


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of 256 weights, which every type can hold."""
    return make_gguf(tmp_path_factory.mktemp("wide") / "wide.gguf", width=256, layers=1)


@pytest.mark.parametrize("name", list(module._BITS))
def test_every_type_on_offer_is_written(wide: Path, tmp_path: Path, name: str) -> None:
    seen: list[tuple[int, int]] = []
    result = quantize(
        wide, tmp_path / "out.gguf", name.lower(), threads=1, progress=lambda *step: seen.append(step)
    )
    header = read_header(result)
    assert header.quantization == name
    assert header.num_parameters == read_header(wide).num_parameters
    assert [path.name for path in tmp_path.iterdir()] == ["out.gguf"]
    assert all(done <= total == len(header.tensors) for done, total in seen)


@pytest.mark.gguf
def test_a_quantised_model_is_quantised_again(tiny_path: Path, tmp_path: Path) -> None:
    header = read_header(quantize(tiny_path, tmp_path / "out.gguf", "Q4_0"))
    assert header.quantization == "Q4_0"
    assert {tensor.type.name for tensor in header.tensors} >= {"Q4_0", "F32"}


@pytest.mark.parametrize("part", [0, 1])
def test_a_split_model_becomes_one_file_whichever_part_is_named(tmp_path: Path, part: int) -> None:
    source = read_header(make_gguf(tmp_path / "in.gguf", width=256, layers=1, split_tensors=5))
    assert len(source.files) > 1
    header = read_header(quantize(source.files[part], tmp_path / "out.gguf", "Q8_0"))
    assert (header.num_splits, header.quantization) == (1, "Q8_0")
    assert {tensor.name for tensor in header.tensors} == {tensor.name for tensor in source.tensors}
    with pytest.raises(SettingError, match="is the source itself"):
        quantize(source.files[0], source.files[1], "Q8_0")


def test_the_output_matrix_can_have_a_type_of_its_own(wide: Path, tmp_path: Path) -> None:
    header = read_header(quantize(wide, tmp_path / "out.gguf", "Q4_0", output_type="Q5_0"))
    types = {tensor.name: tensor.type.name for tensor in header.tensors}
    assert types["output.weight"] == "Q5_0"
    assert types["blk.0.ffn_up.weight"] == "Q4_0"


def test_the_destination_is_replaced_only_on_success(wide: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    out.write_bytes(b"what was there")

    def stop() -> bool:
        return True

    with pytest.raises(Cancelled):
        quantize(wide, out, "Q2_K", cancelled=stop)
    assert out.read_bytes() == b"what was there"
    assert [path.name for path in tmp_path.iterdir()] == ["out.gguf"]
    quantize(wide, out, "Q8_0")
    assert read_header(out).quantization == "Q8_0"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Q9_9", 'There is no type "Q9_9": choose one of F32, F16,'),
        ("iq2_xs", "IQ2_XS cannot be written: it needs an importance matrix"),
        ("NVFP4", "NVFP4 cannot be written: llama.cpp reads it but does not write it"),
    ],
)
def test_types_that_cannot_be_written_are_refused_with_the_reason(
    tmp_path: Path, name: str, words: str
) -> None:
    with pytest.raises(SettingError, match=words):
        quantize(tmp_path / "not-even-read.gguf", tmp_path / "out.gguf", name)


def test_every_file_type_is_either_on_offer_or_refused_with_a_reason() -> None:
    assert {*module._BITS, *module._WHY_NOT} == set(FILE_TYPES.values())


def test_file_types_are_those_of_the_bindings() -> None:
    # Read from the source of the bindings: importing them here would set their logger up.
    import importlib.util
    import re

    spec = importlib.util.find_spec("llama_cpp")
    assert spec is not None
    assert spec.submodule_search_locations
    text = (Path(spec.submodule_search_locations[0]) / "llama_cpp.py").read_text("utf-8")
    constants = re.findall(r"^LLAMA_FTYPE_(?:MOSTLY_|ALL_)?(\w+) = (\d+)$", text, re.MULTILINE)
    theirs = {int(number): name for name, number in constants if name != "GUESSED"}
    assert len(theirs) > 30
    assert theirs == FILE_TYPES


def test_paths_that_cannot_work_are_refused(wide: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is the source itself"):
        quantize(wide, wide, "Q8_0")
    (tmp_path / "link.gguf").symlink_to(wide)
    with pytest.raises(SettingError, match="is the source itself"):
        quantize(wide, tmp_path / "link.gguf", "Q8_0")
    with pytest.raises(OutputError, match="is a folder"):
        quantize(wide, tmp_path, "Q8_0")
    with pytest.raises(OutputError, match="cannot be written"):
        quantize(wide, tmp_path / "no" / "such" / "out.gguf", "Q8_0")
    with pytest.raises(OutputError, match="File name too long"):
        quantize(wide, tmp_path / f"{'a' * 300}.gguf", "Q8_0")
    with pytest.raises(ModelFileError, match="no file"):
        quantize(tmp_path / "none.gguf", tmp_path / "out.gguf", "Q8_0")


def test_a_full_disk_is_an_unwritable_output(
    wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: SimpleNamespace(free=1000))
    with pytest.raises(OutputError, match="which has 0 MB free: make room") as caught:
        quantize(wide, tmp_path / "out.gguf", "Q8_0")
    assert caught.value.exit_code == 2


def test_a_disk_that_fills_up_meanwhile_is_an_unwritable_output(
    wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = tmp_path / "python"
    fails.write_text("#!/bin/sh\necho 'failed to quantize: basic_ios::clear: iostream error'\nexit 1\n")
    fails.chmod(0o755)
    free = iter((10**12, 4096))
    monkeypatch.setattr("sys.executable", str(fails))
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: SimpleNamespace(free=next(free)))
    with pytest.raises(OutputError, match=r"The disk of .* is full: make room"):
        quantize(wide, tmp_path / "out.gguf", "Q8_0")
    assert [path.name for path in tmp_path.iterdir()] == ["python"]


def test_what_llama_cpp_refuses_is_an_engine_error_with_its_words(tmp_path: Path) -> None:
    # The header is sound, the architecture unknown: only llama.cpp can tell.
    source = make_gguf(tmp_path / "odd.gguf")
    data = source.read_bytes()
    source.write_bytes(data.replace(b"llama", b"lorem"))
    with pytest.raises(EngineError, match=r"status 1.*unknown model architecture: 'lorem'"):
        quantize(source, tmp_path / "out.gguf", "Q8_0")
    assert [path.name for path in tmp_path.iterdir()] == ["odd.gguf"]


def test_a_crash_of_the_child_is_an_engine_error_and_leaves_nothing(
    wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = tmp_path / "python"
    crash.write_text("#!/bin/sh\necho 'GGML_ASSERT(n > 0) failed'\nkill -ABRT $$\n")
    crash.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(crash))
    with pytest.raises(EngineError, match=r"SIGABRT.*GGML_ASSERT\(n > 0\) failed"):
        quantize(wide, tmp_path / "out.gguf", "Q8_0")
    assert [path.name for path in tmp_path.iterdir()] == ["python"]


@pytest.mark.gguf
def test_a_kill_of_the_parent_ends_the_child_and_clears_its_file(tiny_path: Path, tmp_path: Path) -> None:
    program = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
from edge_spec.models.quantize import quantize
quantize({str(tiny_path)!r}, {str(tmp_path / "out.gguf")!r}, "Q2_K",
         progress=lambda done, total: os.kill(os.getpid(), signal.SIGKILL))
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    deadline = time.monotonic() + 30
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gguf
def test_an_orphan_deletes_nothing_but_its_own_files(tiny_path: Path, tmp_path: Path) -> None:
    other, part = tmp_path / "other.gguf", tmp_path / "part.gguf"
    other.write_text("somebody else's")
    command = [sys.executable, "-m", "edge_spec.llama.quantize", str(tiny_path), str(part), "10", "-1", "1"]
    program = f"""
import os, pathlib, subprocess, sys
sys.path[:0] = {sys.path!r}
subprocess.Popen({command!r}, env=os.environ | {{"PYTHONPATH": os.pathsep.join(sys.path)}})
while not pathlib.Path({str(part)!r}).exists():
    pass
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    deadline = time.monotonic() + 30
    while part.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.2)  # what else it might delete comes with its file
    assert list(tmp_path.iterdir()) == [other]
