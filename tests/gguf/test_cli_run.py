"""`edge-spec run` as a program, on real models: streams, signals, terminals, and what it refuses."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_spec.cli import PIPE_CLOSED
from edge_spec.events import Finished, Prefilled, Verified
from edge_spec.trace import TraceReader

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = (
    # A test run in the background of a script would hand down an ignored SIGINT.
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from edge_spec.cli import main; main()"
)
SUMMARY = re.compile(
    r"\[\d+ tokens, [\d.]+ tokens/s, acceptance \d+%, mean acceptance length [\d.]+, K 3; [a-z -]+\]\n"
)
LONG = "Tell me everything about the sea, the sky and the mountains, at great length."

pytestmark = pytest.mark.gguf


def environment(tmp_path: Path) -> dict[str, str]:
    """Nothing of the person who runs the tests is read or written, but for the store."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("EDGE_SPEC_")}
    folders = {name: str(tmp_path / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    store = {name: os.environ[name] for name in ("EDGE_SPEC_MODELS",) if name in os.environ}
    return {**kept, **folders, **store, "PYTHONPATH": str(ROOT), "TERM": "xterm", "NO_COLOR": ""}


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*args: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, "run", *map(str, args)],
            input=stdin or "", capture_output=True, text=True, timeout=300, cwd=tmp_path,
            env=environment(tmp_path),
        )  # fmt: skip

    return run


def start(tmp_path: Path, *args: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "run", *map(str, args)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=tmp_path,
        env=environment(tmp_path),
    )  # fmt: skip


def test_streamed_text_json_text_and_plain_text_are_one(run: Run, tiny_path: Path) -> None:
    common = ("Name three colours.", "-n", "16", "--temp", "0", "-c", "512")
    draft = ("-md", tiny_path, "-k", "3")
    streamed = run(*common, "-m", tiny_path, *draft)
    assert streamed.returncode == 0
    assert SUMMARY.fullmatch(streamed.stderr)
    drafted = run(*common, "-m", tiny_path, *draft, "--json")
    plain = run(*common, "-m", tiny_path, "--json", "--quiet", "-k", "0")
    assert plain.stderr == "" and plain.returncode == 0
    with_draft, without = json.loads(drafted.stdout), json.loads(plain.stdout)
    assert with_draft["text"] == without["text"]
    assert streamed.stdout in (without["text"], without["text"] + "\n")
    assert with_draft["token_ids"] == without["token_ids"]
    assert without["draft"] is None and with_draft["draft"]["sha256"] == without["target"]["sha256"]
    stats = with_draft["stats"]
    assert stats["drafted"] == stats["accepted"] + stats["rejected"] + stats["discarded"] > 0
    assert stats["completion_tokens"] == len(with_draft["token_ids"])
    assert without["stats"]["drafted"] == 0 and without["stats"]["speculation"]["state"] == "off"


def test_a_trace_tells_the_tokens_that_were_printed(run: Run, tiny_path: Path, tmp_path: Path) -> None:
    result = run(
        "Hello",
        "-m",
        tiny_path,
        "-md",
        tiny_path,
        "-n",
        "12",
        "--json",
        "--trace",
        "t.jsonl",
        "-c",
        "512",
        "-k",
        "3",
    )
    with TraceReader(tmp_path / "t.jsonl") as trace:
        events = list(trace)
        assert trace.header.files["target"]["sha256"] == json.loads(result.stdout)["target"]["sha256"]
    tokens = [token for event in events if isinstance(event, Verified) for token in event.verdict.tokens]
    assert tokens == json.loads(result.stdout)["token_ids"]
    assert isinstance(events[-1], Finished) and events[-1].stats.completion_tokens == len(tokens)


def test_a_prompt_longer_than_the_context_is_refused(run: Run, tiny_path: Path) -> None:
    result = run("word " * 200, "-m", tiny_path, "-c", "64")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert re.match(r"edge-spec: .*the context holds 64", result.stderr)


@pytest.mark.parametrize("k", ["0", "1", "3", "7"])
def test_a_full_context_ends_the_text_cleanly(run: Run, tiny_path: Path, k: str) -> None:
    draft = () if k == "0" else ("-md", tiny_path)
    result = run(
        LONG,
        "-m",
        tiny_path,
        *draft,
        "-c",
        "96",
        "-n",
        "200",
        "-k",
        k,
        "--json",
        "-q",
        "--logit-bias",
        "2-inf",
    )
    assert (result.returncode, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["finish_reason"] == "context"
    assert found["stats"]["prompt_tokens"] + found["stats"]["completion_tokens"] == 96


def test_raw_prompts_have_no_template_and_stop_strings_end_them(run: Run, tiny_path: Path) -> None:
    result = run(
        "1, 2, 3, 4,",
        "--raw",
        "-m",
        tiny_path,
        "--temp",
        "0",
        "-n",
        "30",
        "--stop",
        "8",
        "--json",
        "-k",
        "0",
        "-c",
        "128",
    )
    found = json.loads(result.stdout)
    assert found["finish_reason"] == "stop"
    assert found["text"] == " 5, 6, 7, "


def test_the_prompt_can_come_through_a_pipe(run: Run, tiny_path: Path) -> None:
    result = run("-m", tiny_path, "-n", "4", "-k", "0", "-q", "-c", "128", stdin="Say hello.\n")
    assert result.returncode == 0 and result.stdout.strip() and result.stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_a_closed_stdin_is_one_sentence(tmp_path: Path, tiny_path: Path) -> None:
    script = f"'{sys.executable}' -m edge_spec.cli run -m '{tiny_path}' <&-"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment(tmp_path))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "edge-spec: There is no prompt: give it as an argument, with -f FILE, or on standard input.\n"
    )


def test_a_truncated_download_is_refused(run: Run, tiny_path: Path, tmp_path: Path) -> None:
    with tiny_path.open("rb") as whole:
        (tmp_path / "half.gguf").write_bytes(whole.read(50_000_000))
    result = run("hi", "-m", "half.gguf")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (3, "", 1)
    assert result.stderr.startswith("edge-spec: half.gguf ")


def test_a_context_that_cannot_fit_in_memory_is_foreseen(run: Run, tiny_path: Path) -> None:
    started = time.monotonic()
    result = run("hi", "-m", tiny_path, "-c", "2000000000")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (3, "", 1)
    assert "KV cache" in result.stderr and time.monotonic() - started < 10


def test_an_unwritable_trace_is_refused_before_loading(run: Run, tiny_path: Path) -> None:
    result = run("hi", "-m", tiny_path, "--trace", "/no/such/folder/t.jsonl")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "edge-spec: The trace /no/such/folder/t.jsonl cannot be written: No such file or directory.\n"
    )


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_ctrl_c_keeps_the_answer_so_far(tmp_path: Path, tiny_path: Path, as_json: bool) -> None:
    args = (
        LONG,
        "-m",
        tiny_path,
        "-md",
        tiny_path,
        "-n",
        "4000",
        "-k",
        "3",
        "--logit-bias",
        "2-inf",
        "--trace",
        "t.jsonl",
    )
    process = start(tmp_path, *args, *(["--json"] if as_json else []))
    assert process.stdout is not None
    first = b""
    if as_json:
        _wait_for(
            lambda: (tmp_path / "t.jsonl").exists() and b'"verified"' in (tmp_path / "t.jsonl").read_bytes()
        )
    else:
        first = process.stdout.read(8)
    process.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - pressed < 5
    assert process.returncode == 130
    text = (first + out).decode()
    assert err.decode().endswith("; cancelled]\n") and err.count(b"\n") == 1
    with TraceReader(tmp_path / "t.jsonl") as trace:
        last = list(trace)[-1]
    assert isinstance(last, Finished) and last.reason == "cancelled"
    if as_json:
        found = json.loads(text)
        assert found["finish_reason"] == "cancelled" and found["text"]
    else:
        assert text.endswith("\n") and len(text) > 8


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
def test_ctrl_c_twice_exits_at_once(tmp_path: Path, tiny_path: Path) -> None:
    process = start(tmp_path, LONG, "-m", tiny_path, "-k", "0", "-n", "4000", "--logit-bias", "2-inf")
    assert process.stdout is not None
    process.stdout.read(8)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err and err.count(b"\n") <= 1


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_a_reader_that_has_enough_ends_the_run_quietly(tmp_path: Path, tiny_path: Path) -> None:
    command = (
        f"'{sys.executable}' -m edge_spec.cli run '{LONG}' -m '{tiny_path}' -k 0 -n 2000 --logit-bias 2-inf"
    )
    script = f"{command} | head -c 20; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=environment(tmp_path), timeout=120
    )
    assert result.stderr == "" and len(result.stdout) == 20
    assert result.returncode == PIPE_CLOSED


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("plain", [False, True], ids=["styled", "plain"])
def test_a_terminal_shows_accepted_text_underlined(tmp_path: Path, tiny_path: Path, plain: bool) -> None:
    import pty

    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        "run",
        "Name three colours.",
        "-m",
        tiny_path,
        "-md",
        tiny_path,
        "-k",
        "3",
    ]
    command += ["-n", "16", "--temp", "0", "-c", "512", *(["--plain"] if plain else [])]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(tmp_path))
    os.close(theirs)
    shown = _read_all(ours).decode()
    assert process.wait(60) == 0
    assert "loading the target: " in shown
    assert ("\x1b[4m" in shown) is not plain
    assert "tokens/s" in shown.splitlines()[-1]


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_a_terminal_keeps_the_first_words_while_the_draft_reads_the_prompt(
    tmp_path: Path, tiny_path: Path
) -> None:
    import pty

    ours, theirs = pty.openpty()
    args = ["The sea is deep and the sky is high. " * 30, "-m", tiny_path, "-md", tiny_path, "-k", "3"]
    args += ["-n", "12", "--temp", "0", "-c", "512", "--trace", tmp_path / "t.jsonl"]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "run", *map(str, args)],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment(tmp_path),
    )  # fmt: skip
    os.close(theirs)
    shown = _read_all(ours).decode()
    assert process.wait(60) == 0
    with TraceReader(tmp_path / "t.jsonl") as trace:
        events = list(trace)
        tokens = [token for event in events if isinstance(event, Verified) for token in event.verdict.tokens]
        text = b"".join(map(trace.piece, tokens)).decode()
    kinds = [event.model if isinstance(event, Prefilled) else type(event) for event in events]
    assert kinds.index(Verified) < kinds.index("draft"), "the draft read before the first word"
    *answer, _summary = _screen(shown)
    assert answer == text.splitlines()


def _screen(text: str) -> list[str]:
    """The lines that a wide terminal shows in the end: of its controls, what `run` uses."""
    lines = [""]
    column = 0
    for part in re.findall(r"\x1b\[[0-9]*[a-zA-Z]|[^\x1b]", text):
        if part == "\n":
            lines.append("")
            column = 0
        elif part == "\r":
            column = 0
        elif part == "\x1b[K":
            lines[-1] = lines[-1][:column]
        elif len(part) == 1:
            lines[-1] = lines[-1][:column] + part + lines[-1][column + 1 :]
            column += 1
    return lines[:-1]


def _read_all(file: int) -> bytes:
    data = b""
    while select.select([file], [], [], 120)[0]:
        try:
            chunk = os.read(file, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not chunk:
            break
        data += chunk
    os.close(file)
    return data


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("more", [(), ("--json",), ("--isolate",)])
def test_an_answer_that_a_full_disk_refuses_is_one_sentence_and_exit_2(
    tmp_path: Path, tiny_path: Path, more: tuple[str, ...]
) -> None:
    args = ["hi", "-m", str(tiny_path), "-c", "256", "-n", "8", "-k", "0", "-q", *more]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM, "run", *args], stdout=full, stderr=subprocess.PIPE, text=True,
            timeout=300, cwd=tmp_path, env=environment(tmp_path),
        )  # fmt: skip
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("edge-spec: Standard output cannot be written (No space left on device)")
