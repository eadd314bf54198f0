"""`run` on a scripted pair: what goes to stdout, what to stderr, and with which exit code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from edge_spec import cli
from edge_spec.config import Decoding, Sampling
from edge_spec.errors import EngineError, FetchError, HashMismatchError, NoSpaceError, PromptTooLongError
from edge_spec.events import (
    Drafted,
    Event,
    Finished,
    Notice,
    Prefilled,
    RoundTimings,
    Started,
    Verified,
)
from edge_spec.models import sources
from edge_spec.stats import Stats
from edge_spec.trace import TraceReader
from edge_spec.types import NO_PROPOSAL, Dist, Fate, FinishReason, Proposal, Timers, Verdict

PIECES = [b"Hello", b" wor", b"ld", b"\xf0\x9f", b"\x98\x80", b"\x1b[2J", b"", b"!\n", b"STO", b"P it"]
TIMINGS = RoundTimings(0.1, 0.2, 0.01, 0.4)


class Result(NamedTuple):
    code: int
    out: str
    err: str


def drafted_round(accepted: Sequence[int], rejected: int, residual: int) -> list[Event]:
    tokens = (*accepted, rejected)
    q = Dist(np.array([rejected]), np.array([1.0]))
    proposal = Proposal.chain(tokens, [None] * len(accepted) + [q], "draft")
    fates = (Fate.ACCEPTED,) * len(accepted) + (Fate.REJECTED,)
    path = tuple(range(len(accepted)))
    verdict = Verdict((*accepted, residual), path, fates, "residual", (0.5,) * len(tokens))
    return [Drafted(0, proposal), Verified(0, proposal, verdict, TIMINGS)]


def plain_round(token: int, finish: FinishReason | None = None) -> list[Event]:
    return [Verified(0, NO_PROPOSAL, Verdict((token,), (), (), "plain", (), finish), TIMINGS)]


def script(*rounds: list[Event], reason: FinishReason = "eog", notices: Sequence[Notice] = ()) -> list[Event]:
    stats = Stats(prompt_tokens=3, timers=Timers(0.1, 0.05, 0.2, 0.5, 0.01), state="on")
    stats.time_to_first_token_s, stats.wall_s = 0.5, 1.5
    for event in (event for events in rounds for event in events):
        if isinstance(event, Verified):
            stats.add(event.proposal, event.verdict)
    start: list[Event] = [Started(0, (7, 8, 9), 0, 0), Prefilled(0, "target", 3, 3, 0)]
    return [*notices, *start, *(e for events in rounds for e in events), Finished(0, reason, stats)]


HELLO = script(plain_round(0), drafted_round([1], 0, 2), drafted_round([3], 1, 4), plain_round(7, "eog"))
"""Hello, then " wor" accepted, "ld" the target's, an emoji over two tokens, and the end."""


class FakeModel:
    def __init__(self, name: str) -> None:
        self.path, self.sha256, self.quantization = Path(name), "ab" * 32, "Q4_0"
        self.load_mode = "none"


class FakePair:
    """Plays a list of events; an exception in it is raised there."""

    def __init__(self, events: Sequence[Event | Exception]) -> None:
        self.events = events
        self.target, self.draft = FakeModel("t.gguf"), FakeModel("d.gguf")
        self.cancelled = self.closed = False
        self.asked: dict[str, Any] = {}

    def generate(self, prompt: str, **asked: Any) -> Generator[Event]:
        self.asked = {"prompt": prompt, **asked}
        if self.events and isinstance(self.events[0], PromptTooLongError):
            raise self.events[0]
        return self._play()

    def _play(self) -> Generator[Event]:
        for event in self.events:
            if isinstance(event, Exception):
                raise event
            yield event

    def piece(self, token: int) -> bytes:
        return PIECES[token]

    def cancel(self) -> None:
        self.cancelled = True

    def __enter__(self) -> FakePair:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True


class Stage:
    """Where `run` plays: the pair that it gets, and what it asked for."""

    def __init__(self) -> None:
        self.pair = FakePair(HELLO)
        self.loaded: tuple[Any, ...] | None = None
        self.options: dict[str, Any] = {}
        self.pulled: list[str] = []

    def play(self, events: Sequence[Event | Exception]) -> None:
        self.pair = FakePair(events)

    def load_pair(self, target: Any, draft: Any = None, **options: Any) -> FakePair:
        self.loaded, self.options = (target, draft), options
        options["on_progress"]("target", 0.5)
        if draft is None:
            self.pair.draft = None  # type: ignore[assignment]
        return self.pair

    def fetch(self, plan: sources.PullPlan, progress: Callable[[str, str, int, int], None]) -> list[Path]:
        for wanted in plan.wanted:
            self.pulled.append(wanted.name)
            progress(wanted.name, "a mirror", 1, 2)
        return []


@pytest.fixture(autouse=True)
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    for name in [name for name in os.environ if name.startswith("EDGE_SPEC_")]:
        monkeypatch.delenv(name)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    stage = Stage()
    monkeypatch.setattr("edge_spec.api.load_pair", stage.load_pair)
    monkeypatch.setattr(sources, "fetch", stage.fetch)
    return stage


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*args: str) -> Result:
        with pytest.raises(SystemExit) as caught:
            cli.main(["run", *args])
        assert isinstance(caught.value.code, int)
        return Result(caught.value.code, *capsys.readouterr())

    return run


MODELS = ("-m", "t.gguf", "-md", "d.gguf")


def test_the_answer_is_on_stdout_and_one_summary_line_on_stderr(run: Run) -> None:
    assert run("hi", *MODELS) == (
        0,
        "Hello world\U0001f600!\n",
        "[6 tokens, 5.3 tokens/s, acceptance 50%, mean acceptance length 1.50, K chosen each round; "
        "the model ended it]\n",
    )


def test_quiet_leaves_stderr_empty(run: Run, stage: Stage) -> None:
    stage.play(script(plain_round(0), notices=[Notice("warning", "slow.")]))
    assert run("hi", "-q", *MODELS) == (0, "Hello\n", "")


SUMMARY = "[2 tokens, 1.1 tokens/s, nothing drafted; the model ended it]\n"


def test_a_notice_is_told_at_once_before_the_answer_and_at_its_end_after(
    run: Run, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    early, late = Notice("warning", "slow."), Notice("info", "faster.")
    stage.play(script(plain_round(0), [late, *plain_round(1)], notices=[early]))
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", sys.stdout)
        assert run("hi", *MODELS).out == f"warning: slow.\nHello wor\ninfo: faster.\n{SUMMARY}"
    assert run("hi", *MODELS).err == f"warning: slow.\ninfo: faster.\n{SUMMARY}"


def test_with_json_every_notice_is_told_at_once_on_stderr(
    run: Run, stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = ""

    def watch() -> Generator[Event]:
        nonlocal seen
        *rounds, finished = script(plain_round(0), [Notice("info", "faster."), *plain_round(1)])
        yield from rounds
        seen = capsys.readouterr().err
        yield finished

    stage.pair._play = watch  # type: ignore[method-assign]
    result = run("hi", "--json", *MODELS)
    assert (seen, result.err) == ("info: faster.\n", SUMMARY)
    assert json.loads(result.out)["text"] == "Hello wor"


def test_a_draft_that_reads_the_prompt_late_erases_nothing_of_the_answer(
    run: Run, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("edge_spec.cli.progress._FRAME_SECONDS", 0.0)
    stage.play(script(plain_round(0), [Prefilled(0, "draft", 3, 3, 0), *plain_round(1)]))
    code, out, err = run("hi", *MODELS)
    assert (code, out) == (0, "Hello wor\n")
    assert "the target reads" in err and "the draft reads" not in err
    assert err.endswith(f"\x1b[K{SUMMARY}")


def test_json_is_one_object_with_every_field(run: Run) -> None:
    result = run("hi", "--json", "--seed", "4", *MODELS)
    found = json.loads(result.out)
    assert list(found) == [
        "schema_version", "text", "token_ids", "finish_reason", "stats", "target", "draft", "settings",
        "versions",
    ]  # fmt: skip
    assert (found["schema_version"], found["finish_reason"]) == (1, "eog")
    assert found["text"] == "Hello world\U0001f600!\n"
    assert found["token_ids"] == [0, 1, 2, 3, 4, 7]
    assert found["target"] == {
        "file": "t.gguf", "sha256": "ab" * 32, "quantization": "Q4_0", "load_mode": "none"
    }  # fmt: skip
    assert found["draft"]["file"] == "d.gguf"
    assert found["settings"]["seed"] == 4 and found["settings"]["coupling"] == "shared"
    assert {"python", "llama-cpp-python", "numpy", "edge-spec"} <= set(found["versions"])
    stats = found["stats"]
    assert list(stats) == [
        "prompt_tokens", "cached_tokens", "completion_tokens", "rounds", "drafted", "accepted", "rejected",
        "discarded", "acceptance_rate", "draft_yield", "mean_acceptance_length", "acceptance_by_position",
        "tokens_per_second", "predicted_tokens_per_second", "time_to_first_token_s", "wall_s", "prefill_s",
        "draft_prefill_s", "draft_s",
        "verify_s", "sample_s", "rest_s", "speculation",
    ]  # fmt: skip
    assert (stats["drafted"], stats["accepted"], stats["rejected"], stats["discarded"]) == (4, 2, 2, 0)
    assert stats["acceptance_by_position"] == [1.0, 0.0]
    assert stats["rest_s"] == pytest.approx(1.5 - 0.86)
    assert stats["speculation"] == {"state": "on", "reason": ""}


def test_json_says_null_where_there_is_no_draft_and_nothing_was_counted(run: Run, stage: Stage) -> None:
    stage.play(script(plain_round(0)))
    found = json.loads(run("hi", "--json", "-k", "0", *MODELS).out)
    assert found["draft"] is None and found["settings"]["draft_max"] == 0
    assert found["stats"]["acceptance_rate"] is None and found["stats"]["tokens_per_second"] is None


def test_text_is_cut_at_the_stop_string_in_text_and_json(run: Run, stage: Stage) -> None:
    stage.play(script(plain_round(0), plain_round(8), plain_round(9, "stop"), reason="stop"))
    assert run("hi", "--stop", "STOP", *MODELS).out == "Hello\n"
    assert json.loads(run("hi", "--stop", "STOP", "--json", *MODELS).out)["text"] == "Hello"


def test_settings_reach_the_pair(run: Run, stage: Stage) -> None:
    run("hi", *MODELS, "--temp", "0", "-k", "5", "-n", "9", "--raw", "-c", "64", "-t", "2", "-ngl", "0",
        "-ngld", "1", "-ctk", "q8_0", "-fa", "off", "-lm", "mmap", "--device", "CPU",
        "--draft-temp", "0.5")  # fmt: skip
    assert stage.loaded == ("t.gguf", "d.gguf")
    assert stage.pair.asked == {
        "prompt": "hi",
        "system": None,
        "sampling": Sampling(temperature=0.0),
        "decoding": Decoding(max_tokens=9, draft_max=5, draft_temperature=0.5),
        "raw": True,
    }
    del stage.options["on_progress"]
    assert stage.options == {
        "context_size": 64, "threads": 2, "threads_batch": None, "gpu_layers": 0, "draft_gpu_layers": 1,
        "device": "CPU", "draft_device": None, "kv_type_k": "q8_0", "kv_type_v": "f16",
        "flash_attention": "off", "load_mode": "mmap",
    }  # fmt: skip
    assert stage.pair.closed


def test_a_raw_prompt_has_no_system_message_of_a_file_or_a_variable(
    run: Run, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("edge-spec.toml").write_text('system = "Be brief."')
    monkeypatch.setenv("EDGE_SPEC_SYSTEM", "Be long.")
    code, out, _ = run("hi", "--raw", "--json", *MODELS)
    assert (code, stage.pair.asked["system"]) == (0, None)
    assert json.loads(out)["settings"]["system"] is None
    assert run("hi", "--raw", "--system", "", *MODELS).code == 0
    assert run("hi", *MODELS).code == 0 and stage.pair.asked["system"] == "Be long."


@pytest.mark.parametrize(
    ("args", "models"),
    [
        (("-m", "t.gguf"), ("t.gguf", None)),
        (("-m", "t.gguf", "-md", "d.gguf", "--drafter", "none"), ("t.gguf", None)),
        (("-m", "t.gguf", "-md", "d.gguf", "-k", "0"), ("t.gguf", None)),
        (("-md", "d.gguf"), ("qwen2.5-coder-1.5b", "d.gguf")),
        ((), ("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b")),
        (("--pair", "tiny"), ("smollm2-135m", None)),
    ],
)
def test_which_models_are_loaded(
    run: Run, stage: Stage, args: tuple[str, ...], models: tuple[str, str]
) -> None:
    assert run("hi", *args).code == 0
    assert stage.loaded == models


def test_a_pair_that_is_not_here_is_announced_with_sizes_and_pulled(
    run: Run, stage: Stage, tmp_path: Path
) -> None:
    result = run("hi")
    assert stage.pulled == ["qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"]
    first = f"Fetching qwen2.5-coder-1.5b (1.1 GB) and qwen2.5-coder-0.5b (491 MB) into {tmp_path / 'store'}."
    assert result.err.splitlines()[0] == first and result.err.count("\n") == 2


def test_only_the_missing_half_of_a_pair_is_pulled(run: Run, stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf").touch()
    run("hi", "--quiet")
    assert stage.pulled == ["qwen2.5-coder-0.5b"]
    stage.pulled.clear()
    assert run("hi", "-k", "0", "--quiet").err == ""
    assert stage.pulled == []


def test_the_prompt_comes_from_the_argument_a_file_or_stdin(
    run: Run, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(data: str, *args: str) -> str:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data.encode())))
        assert run(*args, *MODELS).code == 0
        prompt: str = stage.pair.asked["prompt"]
        return prompt

    Path("p.txt").write_bytes("\ufeffTwo\nlines\r\n".encode())
    assert asked("no", "arg\n") == "arg\n"
    assert asked("no", "-f", "p.txt") == "Two\nlines"
    assert asked("piped\n\n") == "piped\n"
    assert asked("dash", "-") == "dash"
    assert asked("file dash", "-f", "-") == "file dash"


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Standard input as a pipe: its writer says something, and ends or stays."""
    with contextlib.ExitStack() as opened:

        def pipe(data: bytes, *, stays: bool = False) -> None:
            reader, writer = os.pipe()
            os.write(writer, data)
            if stays:
                opened.callback(os.close, writer)
            else:
                os.close(writer)
            monkeypatch.setattr("sys.stdin", opened.enter_context(os.fdopen(reader)))

        yield pipe


def test_what_is_piped_beside_a_prompt_follows_it(
    run: Run, stage: Stage, pipe: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*args: str) -> tuple[str, str]:
        code, _, err = run(*args, *MODELS)
        assert code == 0
        return stage.pair.asked["prompt"], err

    pipe("\ufeff-old\n+new\n".encode())
    assert asked("Explain this")[0] == "Explain this\n\n-old\n+new"
    Path("p.txt").write_text("Explain\n")
    pipe(b"diff\n")
    assert asked("-f", "p.txt")[0] == "Explain\n\ndiff"
    for nothing in (b"", b"\n"):
        pipe(nothing)
        assert asked("hi")[0] == "hi"
    with Path("p.txt").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert asked("hi")[0] == "hi\n\nExplain"
    with Path(os.devnull).open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert asked("hi")[0] == "hi"
        file.close()
        assert asked("hi")[0] == "hi"
    pipe(b"ab\xff")
    assert run("hi", *MODELS).err == "edge-spec: There is a byte in standard input that is not UTF-8, at 2.\n"


def test_a_pipe_that_stays_silent_is_not_waited_for(
    run: Run, stage: Stage, pipe: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edge_spec.cli.prompt._PATIENCE", 0)
    pipe(b"", stays=True)
    err = run("hi", *MODELS).err
    assert stage.pair.asked["prompt"] == "hi"
    assert err.startswith("info: Nothing came on standard input yet") and err.count("\n") == 2
    assert run("hi", "-q", *MODELS).err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


NO_PROMPT = "There is no prompt: give it as an argument, with -f FILE, or on standard input."
BAD_PROMPTS: dict[str, tuple[Any, tuple[str, ...], str]] = {
    "closed stdin": (None, (), NO_PROMPT),
    "a terminal": (Terminal(), (), NO_PROMPT),
    "empty stdin": (b"", (), "The prompt is empty."),
    "a blank argument": (b"", (" \n",), "The prompt is empty."),
    "two prompts": (b"", ("a", "-f", "b"), "The prompt was given twice: as an argument, and with -f."),
    "-p too": (b"", ("a", "-p", "b"), "The prompt was given twice: as an argument, and with -p."),
    "-p and -f": (b"", ("--prompt", "a", "-f", "b"), "The prompt was given twice: with -p, and with -f."),
    "no such file": (
        b"", ("-f", "no.txt"), "The prompt file no.txt cannot be read: No such file or directory."
    ),
    "no UTF-8": (b"ab\xff", (), "There is a byte in standard input that is not UTF-8, at 2."),
    "no UTF-8 argument": (b"", ("a\udcff",), "The prompt is not UTF-8 text."),
    "system and raw": (
        b"", ("hi", "--raw", "--system", "x"),
        "A system message needs the chat template, which --raw leaves out.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_PROMPTS)
def test_a_bad_prompt_is_one_sentence_and_exit_2(
    run: Run, stage: Stage, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stdin, args, message = BAD_PROMPTS[name]
    if isinstance(stdin, bytes):
        stdin = io.TextIOWrapper(io.BytesIO(stdin))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run(*args) == (2, "", f"edge-spec: {message}\n")
    assert stage.loaded is None and not stage.pulled


def test_names_of_options_that_llama_cpp_has_are_understood_and_not_shown(run: Run, stage: Stage) -> None:
    assert run("-p", "hi", "--n-predict", "7", "--temperature", "0.5", *MODELS).code == 0
    asked = stage.pair.asked
    assert (asked["prompt"], asked["decoding"].max_tokens) == ("hi", 7)
    assert asked["sampling"].temperature == 0.5
    assert run("--prompt", "hi", "--temperature", "0.5", "--temp", "0.6", *MODELS).code == 0
    assert stage.pair.asked["sampling"].temperature == 0.6
    shown = run("--help").out
    assert "-p," not in shown and "--temperature" not in shown


def test_the_help_begins_with_what_is_used_most_and_ends_with_memory(run: Run) -> None:
    titles = [line for line in run("--help").out.splitlines()[1:] if line.endswith(":") and line[0] != " "]
    assert titles == ["Options:", "Text:", "Sampling:", "Models:", "Drafting:", "Memory and threads:"]


BAD_OPTIONS = {
    ("-k", "-1"): "draft-max is -1, but it must be from 0 (plain decoding) to 64 (--draft-max).",
    ("-k", "many"): "--draft-max is 'many', but it must be a whole number.",
    ("-k", "3", "--draft-min", "4"): "draft-min is 4, but it must be from 0 to draft-max (3).",
    ("--temp", "-0.1"): "temperature is -0.1, but it must be 0 or more (--temp).",
    ("--temp", "nan"): "temperature is nan, but it must be 0 or more (--temp).",
    ("--top-p", "1.1"): "top-p is 1.1, but it must be above 0 and at most 1 (1 is off) (--top-p).",
    ("--top-k", "-1"): "top-k is -1, but it must be 0 (off) or more (--top-k).",
    ("--min-p", "2"): "min-p is 2.0, but it must be from 0 (off) to 1 (--min-p).",
    ("--seed", "-1"): "seed is -1, but it must be from 0 to 2^64 - 1 (--seed).",
    ("-n", "0"): "max-tokens is 0, but it must be 1 or more (--max-tokens).",
    (
        "-c",
        "0",
    ): "context size is 0, but it must be 8 or more, and with all slots below 2^31 tokens (--ctx-size).",
    ("-t", "0"): "threads is 0, but it must be from 1 to 512 (--threads).",
    ("-ngl", "-2"): "gpu-layers is -2, but it must be -1 (all), 0 (none) or more (--gpu-layers).",
    ("--stop", ""): 'stop string is "", but it must be at least one character (--stop).',
    ("--coupling", "best"): "--coupling is 'best', but it must be one of rejection, shared.",
    ("--drafter", "oracle"): "--drafter is 'oracle', but it must be one of auto, draft, ngram, none.",
    (
        "--logit-bias",
        "5",
    ): "--logit-bias is '5', but it must be a token id and a bias, like 15043+1 or 15043-inf.",
    (
        "-ctk",
        "q9",
    ): "--cache-type-k is 'q9', but it must be one of f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0.",
    ("--config", "none.toml"): "The settings file none.toml does not exist.",
    ("--pair", "trousers"): (
        'There is no pair called "trousers"; `edge-spec models list` shows those that there are.'
    ),
    ("--trace", "no/where.jsonl"): "The trace no/where.jsonl cannot be written: No such file or directory.",
    ("--trace", "."): "The trace . cannot be written: Is a directory.",
}


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=" ".join)
def test_a_bad_option_is_one_sentence_and_exit_2_before_any_model(
    run: Run, stage: Stage, options: tuple[str, ...]
) -> None:
    assert run("hi", *options) == (2, "", f"edge-spec: {BAD_OPTIONS[options]}\n")
    assert stage.loaded is None and not stage.pulled


@pytest.mark.parametrize(
    "error", [FetchError("no network."), HashMismatchError("other bytes."), NoSpaceError("the disk is full.")]
)
def test_a_failed_pull_is_exit_4(run: Run, monkeypatch: pytest.MonkeyPatch, error: FetchError) -> None:
    def fetch(*_: object) -> None:
        raise error

    monkeypatch.setattr(sources, "fetch", fetch)
    assert run("hi", "--quiet") == (4, "", f"edge-spec: {error}\n")


def test_a_prompt_over_the_context_is_exit_2(run: Run, stage: Stage) -> None:
    stage.play([PromptTooLongError("The prompt is too long.")])
    assert run("hi", *MODELS) == (2, "", "edge-spec: The prompt is too long.\n")
    assert stage.pair.closed


def test_a_full_context_ends_the_answer_cleanly(run: Run, stage: Stage) -> None:
    stage.play(script(plain_round(0, "context"), reason="context"))
    assert run("hi", *MODELS) == (0, "Hello\n", "[1 token, nothing drafted; the context is full]\n")


def test_an_engine_failure_keeps_what_was_said_and_is_exit_3(run: Run, stage: Stage) -> None:
    stage.play([*script(plain_round(0))[:-1], EngineError("llama.cpp failed.")])
    assert run("hi", *MODELS) == (3, "Hello\n", "edge-spec: llama.cpp failed.\n")
    stage.play([*script(plain_round(0))[:-1], EngineError("llama.cpp failed.")])
    assert run("hi", "--json", *MODELS) == (3, "", "edge-spec: llama.cpp failed.\n")


def test_a_cancelled_answer_is_kept_and_is_exit_130(run: Run, stage: Stage) -> None:
    events = script(plain_round(0), plain_round(3), reason="cancelled")
    stage.play(events)
    summary = "[2 tokens, 1.1 tokens/s, nothing drafted; cancelled]\n"
    assert run("hi", *MODELS) == (130, "Hello\ufffd\n", summary)
    stage.play(events)
    code, out, _ = run("hi", "--json", *MODELS)
    assert (code, json.loads(out)["finish_reason"]) == (130, "cancelled")


def test_a_trace_is_saved_with_header_events_and_pieces(run: Run) -> None:
    assert run("hi", "--trace", "t.jsonl", *MODELS).code == 0
    with TraceReader(Path("t.jsonl")) as trace:
        events = list(trace)
        assert [type(event) for event in events] == [type(event) for event in HELLO]
        assert trace.header.files["draft"]["file"] == "d.gguf"
        assert trace.header.settings["temp"] == 0.8
        assert trace.piece(1) == b" wor"


def test_a_failed_load_leaves_an_old_trace_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_pair(*_: object, **__: object) -> None:
        raise EngineError("no.")

    monkeypatch.setattr("edge_spec.api.load_pair", load_pair)
    Path("t.jsonl").write_text("old")
    assert run("hi", "--trace", "t.jsonl", *MODELS).code == 3
    assert Path("t.jsonl").read_text() == "old"


@pytest.mark.parametrize(
    ("is_terminal", "asked_for", "shown"),
    [(True, None, b"Hello world?!\n"), (False, None, "Hello world😀!\n".encode()),
     (False, "latin-1", b"Hello world?!\n")],
)  # fmt: skip
def test_only_a_terminal_and_whoever_asks_for_it_may_lack_a_character(
    run: Run, monkeypatch: pytest.MonkeyPatch, is_terminal: bool, asked_for: str | None, shown: bytes
) -> None:
    class Stream(io.TextIOWrapper):
        def isatty(self) -> bool:
            return is_terminal

    buffer = io.BytesIO()
    monkeypatch.setattr("sys.stdout", Stream(buffer, encoding="latin-1"))
    monkeypatch.delenv("PYTHONIOENCODING", raising=False)
    if asked_for:
        monkeypatch.setenv("PYTHONIOENCODING", asked_for)
    assert run("hi", *MODELS, "-q", "--plain").code == 0
    assert buffer.getvalue() == shown


def test_control_characters_pass_through_a_pipe_untouched(run: Run, stage: Stage) -> None:
    stage.play(script(plain_round(5)))
    assert run("hi", *MODELS).out == "\x1b[2J\n"


def test_a_terminal_sees_accepted_text_underlined_and_no_control_characters(
    run: Run, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stage.play(script(drafted_round([1], 0, 2), plain_round(5)))
    assert run("hi", "-q", *MODELS).out == "\x1b[4m wor\x1b[24mld␛[2J\n"
    stage.play(script(drafted_round([1], 0, 2), plain_round(5)))
    assert run("hi", "-q", "--plain", *MODELS).out == " world␛[2J\n"
