"""Commands about model files: what they print, and what they say of files that cannot be used."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import psutil
import pytest

from edge_spec import cli, limits
from edge_spec.errors import ModelError
from edge_spec.forge.report import ForgeSettings
from edge_spec.forge.running import running_options
from edge_spec.models import catalogue as catalogue_module
from edge_spec.models import job, sources, store
from tests.gguf_maker import make_gguf

ROOT = Path(__file__).resolve().parents[2]


class Result(NamedTuple):
    code: int
    out: str
    err: str


Invoke = Callable[..., Result]


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("EDGE_SPEC_")]:
        monkeypatch.delenv(name)
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    folder = tmp_path / "store"
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Invoke:
    def run(*args: str) -> Result:
        with pytest.raises(SystemExit) as caught:
            cli.main(args)
        assert isinstance(caught.value.code, int)
        return Result(caught.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A catalogue of one model, `small`, to be had from a file of ours."""

    def offer(*, sha256: str | None = None, there: bool = True) -> Path:
        source = make_gguf(tmp_path / "origin.gguf")
        data = source.read_bytes()
        if not there:
            source.unlink()
        toml = tmp_path / "catalogue.toml"
        toml.write_text(
            f"""
            [models.small]
            file = "small.gguf"
            size = {len(data)}
            sha256 = "{sha256 or hashlib.sha256(data).hexdigest()}"
            licence = "CC0-1.0"
            description = "for tests"
            sources = [{{ kind = "path", path = '{source}' }}]
            [pairs.duo]
            target = "small"
            description = "for tests"
            """
        )
        loaded = catalogue_module.load_catalogue(toml)
        for module in (catalogue_module, sources, store):
            monkeypatch.setattr(module, "catalogue", lambda: loaded)
        return source

    return offer


def test_pull_says_where_the_file_is(invoke: Invoke, offer: Callable[..., Path], own_store: Path) -> None:
    size = f"{offer().stat().st_size / 1000:.0f} kB"
    path = own_store / "small.gguf"
    assert invoke("models", "pull", "small") == (
        0, f"small is at {path}\n", f"Fetching small ({size}) into {own_store}.\n"
    )  # fmt: skip
    assert invoke("models", "pull", "duo", "-q") == (0, f"small is at {path}\n", "")


def test_list_shows_what_is_here_and_what_could_be(
    invoke: Invoke, offer: Callable[..., Path], own_store: Path
) -> None:
    offer()
    empty = invoke("models", "list")
    assert empty.out.splitlines()[0] == f"There is no model in {own_store} yet."
    assert empty.out.splitlines()[-3:] == [
        "Pairs, for --pair NAME:",
        "  to be had with edge-spec models pull NAME: duo",
        "1 more model can be had: edge-spec models list --all",
    ]
    invoke("models", "pull", "small")
    (own_store / "broken.gguf").write_bytes(b"GGUF")
    listed = invoke("models", "list")
    rows = [line.split() for line in listed.out.splitlines()]
    assert rows[0] == ["store,", f"{own_store}:"]
    assert rows[1] == ["name", "architecture", "params", "quant", "size", "vocab", "licence"]
    assert rows[2][:2] == ["broken", "damaged"]
    assert rows[3][:2] == ["small", "llama"] and rows[3][-1] == "CC0-1.0"
    assert listed.out.splitlines()[4:] == ["", "Pairs, for --pair NAME:", "  here: duo"]
    assert "broken.gguf" in listed.err
    make_gguf(own_store / f"{'long-name-' * 6}.gguf", vocab_size=280)
    lines = invoke("models", "list").out.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert f"  {'long-name-' * 6}" in lines
    (own_store / f"{'long-name-' * 6}.gguf").unlink()


def test_the_list_fits_a_small_terminal_and_with_all_only_its_width(invoke: Invoke, own_store: Path) -> None:
    own_store.mkdir()
    for number in range(4):
        make_gguf(own_store / f"{'long-name-' * 6}{number}.gguf")
    make_gguf(own_store / "SmolLM2-135M-Instruct.Q4_1.gguf")  # what the pair tiny is made of
    short, everything = (invoke("models", "list", *args).out.splitlines() for args in ((), ("--all",)))
    assert len(short) <= 24 and "  here: tiny" in short
    assert short[-1] == "26 more models can be had: edge-spec models list --all"
    assert max(map(len, short + everything)) <= 80
    rows = [line.split() for line in everything]
    assert ["qwen3-8b", "?", "Apache-2.0", "Qwen3", "8B"] in rows
    assert ["tiny", "here", "smollm2-135m"] in rows
    assert ["qwen3-8b-with-0.6b", "qwen3-8b", "+", "qwen3-0.6b"] in rows


def test_a_forged_model_is_listed_with_its_recipe(invoke: Invoke, own_store: Path) -> None:
    def edit(writer: gguf.GGUFWriter) -> None:
        writer.add_string("edge_spec.forge.from", "big.gguf")
        writer.add_uint32("edge_spec.forge.tokens", 32000)
        writer.add_float64("edge_spec.forge.step_ms", 4.25)

    own_store.mkdir()
    make_gguf(own_store / "forged.gguf", edit=edit)
    lines = invoke("models", "list").out.splitlines()
    assert "      forged from big.gguf, tokens 32,000, step ms 4.25" in lines
    found = json.loads(invoke("models", "list", "--json").out)["installed"]
    assert found[0]["forged"] == "from big.gguf, tokens 32,000, step ms 4.25"


def test_the_list_as_json(invoke: Invoke, offer: Callable[..., Path], own_store: Path) -> None:
    offer()
    invoke("models", "pull", "small")
    (own_store / "broken.gguf").write_bytes(b"GGUF")
    found = json.loads(invoke("models", "list", "--json").out)
    assert [model["name"] for model in found["installed"]] == ["broken", "small"]
    assert found["installed"][1]["quantization"] == "F32" and found["installed"][0]["problem"]
    assert found["available"] == [] and found["pairs"] == {
        "duo": {"target": "small", "draft": None, "pitfall": None}
    }


def test_a_pull_of_an_unknown_name_fetches_nothing(
    invoke: Invoke, offer: Callable[..., Path], own_store: Path
) -> None:
    offer()
    code, out, err = invoke("models", "pull", "small", "large")
    assert (code, out) == (2, "")
    assert err.startswith('edge-spec: There is no model or pair called "large"') and err.count("\n") == 1
    assert not own_store.exists()


def test_wrong_bytes_are_exit_4_and_leave_no_model(
    invoke: Invoke, offer: Callable[..., Path], own_store: Path
) -> None:
    offer(sha256="0" * 64)
    code, out, err = invoke("models", "pull", "small", "-q")
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert (
        err.startswith("edge-spec: small could not be brought to") and "sha256 is not the promised one" in err
    )
    assert not list(own_store.glob("*.gguf"))


def test_a_full_disk_is_exit_4_before_anything_is_fetched(
    invoke: Invoke, offer: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    offer()
    monkeypatch.setattr(job.shutil, "disk_usage", lambda _path: (100, 90, 10))
    code, out, err = invoke("models", "pull", "small", "-q")
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert err.startswith("edge-spec: small needs ")


def test_a_source_that_cannot_be_reached_is_exit_4(invoke: Invoke, offer: Callable[..., Path]) -> None:
    offer(there=False)
    code, out, err = invoke("models", "pull", "small", "-q")
    assert (code, out, err.count("\n")) == (4, "", 1)
    assert "check the network" in err


def test_no_network_is_exit_4_in_one_sentence(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "HF_ENDPOINT": nowhere, "PIP_INDEX_URL": nowhere,
        "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull, "http_proxy": nowhere, "https_proxy": nowhere,
        "no_proxy": "",
    }  # fmt: skip
    result = subprocess.run(
        [sys.executable, "-m", "edge_spec.cli", "run", "hi", "--pair", "tiny", "-q"],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (4, "", 1)
    assert result.stderr.startswith("edge-spec: smollm2-135m could not be brought to")


def test_pairs_are_listed_best_first_and_the_others_on_request(invoke: Invoke, own_store: Path) -> None:
    own_store.mkdir()
    assert invoke("models", "pairs").out.startswith("No two models on this machine pair;")
    make_gguf(own_store / "target.gguf", layers=20)
    make_gguf(own_store / "small.gguf", layers=1)
    make_gguf(own_store / "masked.gguf", layers=1, changed_token=9)
    make_gguf(own_store / "odd.gguf", tokenizer="spm")
    code, out, err = invoke("models", "pairs")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert out.startswith("Best first: no masked tokens; the draft's bytes a token")
    assert [line.split()[2:] for line in lines if "<-" in line] == [
        ["target", "<-", "small"],
        ["target", "<-", "masked", "(1", "masked)"],
    ]
    assert lines[-1] == "10 more do not pair or would not pay; --all says why."
    out = invoke("models", "pairs", "--all").out
    assert "- small <- target: the draft reads " in out
    assert "- target <- odd: The target's tokenizer is byte-level BPE (gpt2) but the" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    found = json.loads(invoke("models", "pairs", "--json").out)["pairs"]
    assert [(pair["target"]["name"], pair["draft"]["name"], pair["masked"]) for pair in found] == [
        ("target", "small", []),
        ("target", "masked", [9]),
    ]
    assert len(json.loads(invoke("models", "pairs", "--all", "--json").out)["pairs"]) == 12


def _truncated(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing": (Path.unlink, "There is no model"),
    "truncated": (_truncated, "t.gguf"),
    "not a GGUF": (lambda path: path.write_text("hello, I am a text"), "t.gguf"),
    "empty": (lambda path: path.write_bytes(b""), "t.gguf"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "t.gguf is a folder"),
}


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize(
    "args", [("run", "hi", "-m", "t.gguf"), ("check", "t.gguf", "d.gguf")], ids=["run", "check"]
)
def test_a_model_file_that_cannot_be_used_is_exit_3_in_one_sentence(
    invoke: Invoke, name: str, args: tuple[str, ...]
) -> None:
    make_gguf(Path("t.gguf"))
    make_gguf(Path("d.gguf"))
    damage, message = DAMAGE[name]
    damage(Path("t.gguf"))
    code, out, err = invoke(*args)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("edge-spec: ") and message in err


def test_a_draft_with_another_vocabulary_is_refused_before_loading(invoke: Invoke) -> None:
    make_gguf(Path("t.gguf"), name="big")
    make_gguf(Path("d.gguf"), name="little", tokenizer="spm")
    code, out, err = invoke("run", "hi", "-m", "t.gguf", "-md", "d.gguf")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith('edge-spec: "little" cannot draft for "big": the target\'s tokenizer is ')


def test_memory_that_will_not_suffice_is_foreseen(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    class Small:
        total, available = 1_000_000, 100_000

    monkeypatch.setattr(psutil, "virtual_memory", lambda: Small)
    make_gguf(Path("t.gguf"))
    code, out, err = invoke("run", "hi", "-m", "t.gguf")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert err.startswith("edge-spec: The model would need at least ")


def test_a_context_beyond_the_memory_is_foreseen(invoke: Invoke) -> None:
    make_gguf(Path("t.gguf"))
    code, out, err = invoke("run", "hi", "-m", "t.gguf", "-c", str(2**31 - 1))
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "KV cache" in err and "-c" in err


def test_quantize_writes_a_file_and_does_not_replace_one_unasked(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edge_spec.models import quantize

    def copy(source: Path, destination: Path, kind: str, **_: object) -> Path:
        assert kind == "Q8_0"
        shutil.copy(source, destination)
        return destination

    monkeypatch.setattr(quantize, "quantize", copy)
    make_gguf(Path("in.gguf"))
    code, out, err = invoke("models", "quantize", "in.gguf", "out.gguf", "Q8_0")
    assert (code, err) == (0, "") and out.startswith("out.gguf has ")
    code, out, err = invoke("models", "quantize", "in.gguf", "out.gguf", "Q8_0")
    assert (code, out, err) == (2, "", "edge-spec: out.gguf exists already; --force replaces it.\n")
    assert invoke("models", "quantize", "in.gguf", "out.gguf", "Q8_0", "--force").code == 0


def test_forge_measures_both_models_as_the_settings_have_them_run(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[ForgeSettings] = []

    def forge(settings: ForgeSettings, *_: object) -> None:
        asked.append(settings)
        raise ModelError("Nothing is forged here.")

    monkeypatch.setattr("edge_spec.forge.job.Forge", forge)
    for name in ("t.gguf", "d.gguf"):
        make_gguf(Path(name))
    Path("edge-spec.toml").write_text(
        'threads = 3\nthreads-batch = 4\ngpu-layers = 5\ngpu-layers-draft = 6\ndevice = "CUDA1"\n'
    )
    monkeypatch.setenv("EDGE_SPEC_DEVICE_DRAFT", "CUDA2")
    assert invoke("models", "forge", "d.gguf", "--for", "t.gguf").code == 3
    assert invoke("models", "forge", "d.gguf", "--for", "t.gguf", "-t", "2").code == 3
    assert [running_options(asdict(settings)) for settings in asked] == [
        {"threads": threads, "threads_batch": 4, "gpu_layers": 5, "draft_gpu_layers": 6,
         "device": "CUDA1", "draft_device": "CUDA2"}
        for threads in (3, 2)
    ]  # fmt: skip
    refused = invoke("models", "forge", "d.gguf", "--for", "t.gguf", "-t", "0")
    assert (refused.code, refused.err) == (
        2, "edge-spec: threads is 0, but it must be from 1 to 512 (--threads).\n"
    )  # fmt: skip


def test_doctor_tells_versions_machine_devices_store_and_files(invoke: Invoke, own_store: Path) -> None:
    make_gguf(own_store.parent / "x.gguf")
    own_store.mkdir()
    (own_store.parent / "x.gguf").rename(own_store / "x.gguf")
    result = invoke("doctor")
    assert (result.code, result.err) == (0, "")
    for line in (
        "  python   ",
        "  llama-cpp-python   ",
        "  physical cores ",
        "  devices            CPU: ",
        "  models             x",
    ):
        assert line in result.out
    found = json.loads(invoke("doctor", "--json").out)
    assert found["problems"] == [] and found["store"]["models"] == ["x"]
    assert found["store"]["path"] == str(own_store) and found["machine"]["memory_bytes"] > 0
    assert any(device["name"] == "CPU" for device in found["llama.cpp"]["devices"])


def test_doctor_knows_not_installed_from_unknown(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    count = psutil.cpu_count
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: count() if logical else None)
    monkeypatch.setattr("edge_spec.cli.doctor.versions", lambda: {"textual": None})
    out = invoke("doctor").out
    assert "  textual            not installed\n" in out
    assert "  physical cores     unknown\n" in out


def test_doctor_shows_what_a_container_leaves_of_the_machine(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = psutil.virtual_memory().total
    monkeypatch.setattr(limits, "usable_memory", lambda: limits.Memory(4_000_000_000, 3_000_000_000))
    monkeypatch.setattr(limits, "usable_cores", lambda: 1)
    found = json.loads(invoke("doctor", "--json").out)["machine"]
    assert (found["memory_bytes"], found["usable_memory_bytes"]) == (whole, 4_000_000_000)
    assert (found["available_memory_bytes"], found["usable_cores"]) == (3_000_000_000, 1)
    assert "  usable memory      4.0 GB\n  available memory   3.0 GB\n" in invoke("doctor").out


def test_doctor_survives_a_llama_cpp_that_does_not_load(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edge_spec.errors import EngineError
    from edge_spec.llama import abi

    def broken() -> None:
        raise EngineError("llama-cpp-python cannot be loaded.")

    monkeypatch.setattr(abi, "devices", broken)
    result = invoke("doctor")
    assert (result.code, result.err) == (3, "")
    assert result.out.endswith("problem: llama-cpp-python cannot be loaded.\n")
