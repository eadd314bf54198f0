"""`run --isolate`: the engine in a process of its own, which may end by itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from edge_spec import cli
from edge_spec.trace import TraceReader
from tests.unit.test_host import PROGRAM, ROOT, ask, in_process, tokens

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
OPTIONS = ("--isolate", "-m", "t", "-md", "d", "--seed", "5", "-n", "40", "--temp", "0.9", "--top-k", "8",
           "--logit-bias", "3-inf")  # fmt: skip


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("EDGE_SPEC_")]:
        monkeypatch.delenv(name)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("edge_spec.host.process.COMMAND", (sys.executable, "-P", "-c", PROGRAM, str(ROOT)))
    monkeypatch.setattr("edge_spec.cli.isolate.sha256_of", lambda path: f"hash of {path}")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]):
    def run(*args: str) -> Result:
        with pytest.raises(SystemExit) as caught:
            cli.main(["run", *OPTIONS, *args])
        assert isinstance(caught.value.code, int)
        return Result(caught.value.code, *capfd.readouterr())

    return run


def test_the_object_of_an_isolated_answer_has_the_same_fields_and_files(run) -> None:
    code, out, err = run("hello", "--json", "--trace", "t.jsonl")
    found = json.loads(out)
    assert code == 0
    assert found["token_ids"] == tokens(in_process(ask("hello")))
    assert found["target"] == {
        "file": "t.gguf", "sha256": "hash of t.gguf", "quantization": "F64", "load_mode": "none"
    }  # fmt: skip
    assert found["draft"] == {
        "file": "d.gguf", "sha256": "hash of d.gguf", "quantization": "F64", "load_mode": "mmap"
    }  # fmt: skip
    assert err.endswith("; max-tokens reached]\n") and err.count("\n") == 1
    with TraceReader(Path("t.jsonl")) as trace:
        assert trace.header.files["target"] == found["target"]
        assert tokens(list(trace)) == found["token_ids"]


def test_a_crash_is_one_sentence_and_exit_3_and_keeps_what_was_said(run) -> None:
    code, out, err = run("asserts", "--plain")
    assert code == 3
    assert out.strip()
    assert err == (
        "edge-spec: The engine was ended by SIGABRT while answering "
        "(ggml.c:42: GGML_ASSERT(cells > 0) failed); what was said so far is kept.\n"
    )


def test_errors_of_the_child_have_their_own_exit_codes_and_leave_an_older_trace_alone(run) -> None:
    Path("t.jsonl").write_text("an older one\n")
    code, out, err = run("x" * 100_000, "--trace", "t.jsonl")
    assert (code, out, err) == (2, "", "edge-spec: The prompt is too long.\n")
    assert Path("t.jsonl").read_text() == "an older one\n"
    assert run("hi", "-m", "missing")[:2] == (3, "")


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_once_keeps_the_answer_and_twice_ends_the_program(tmp_path: Path, times: int) -> None:
    program = (
        "import signal, sys; sys.path.insert(0, sys.argv[1]);"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from edge_spec import cli; from edge_spec.host import process;"
        f"process.COMMAND = (sys.executable, '-P', '-c', {PROGRAM!r}, sys.argv[1]);"
        "cli.main(sys.argv[2:])"
    )
    options = [*OPTIONS, "-n", "50000"]
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(ROOT), "run", "hello", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.read(8)
    pressed = time.monotonic()
    for _ in range(times):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - pressed < 5
    assert process.returncode == 130
    assert b"Traceback" not in err
    if times == 1:
        assert err.endswith(b"; cancelled]\n") and out.endswith(b"\n")
