"""The command line as a whole: help, speed of start, errors in one sentence, settings shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from edge_spec import cli

ROOT = Path(__file__).resolve().parents[2]


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing of the person who runs the tests is read or written."""
    for name in [name for name in os.environ if name.startswith("EDGE_SPEC_")]:
        monkeypatch.delenv(name)
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("EDGE_SPEC_MODELS", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    def run(*args: str) -> Result:
        with pytest.raises(SystemExit) as caught:
            cli.main(args)
        assert isinstance(caught.value.code, int)
        return Result(caught.value.code, *capsys.readouterr())

    return run


def python(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *args]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, **options)  # type: ignore[call-overload,no-any-return]


def test_the_overview_fits_a_small_terminal(invoke) -> None:  # type: ignore[no-untyped-def]
    result = invoke("--help")
    assert result.code == 0 and not result.err
    lines = result.out.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    for name in cli.COMMANDS:
        assert any(line.split()[:1] == [name] for line in lines)


def test_commands_that_do_not_exist_yet_are_not_shown(invoke) -> None:  # type: ignore[no-untyped-def]
    words = invoke("--help").out.split()
    assert not {"batch", "compare", "certify", "pick"} & set(words)


def test_the_lines_of_the_overview_are_what_the_commands_say_of_themselves() -> None:
    context = click.Context(cli.root)
    for name, summary in cli.COMMANDS.items():
        command = cli.root.get_command(context, name)
        assert command is not None and command.name == name
        assert len(summary) < 60


@pytest.mark.parametrize(
    "args", [["run"], ["check"], ["models", "pull"], ["models", "list"], ["models", "forge"],
             ["models", "quantize"], ["doctor"], ["config", "path"],
             ["config", "show"], ["completion"], ["models"], ["config"]],
)  # fmt: skip
def test_every_command_has_help_of_80_columns(invoke, args: list[str]) -> None:  # type: ignore[no-untyped-def]
    result = invoke(*args, "--help")
    assert result.code == 0 and not result.err
    assert max(map(len, result.out.splitlines())) <= 80
    if args not in (["run"], ["config", "show"], ["models", "forge"]):
        assert len(result.out.splitlines()) <= 24


def test_help_starts_at_once_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom edge_spec.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n"
        "    heavy = {'numpy', 'llama_cpp', 'huggingface_hub', 'rich', 'psutil', 'jinja2'}\n"
        "    print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    seconds = []
    for _ in range(5):  # the quickest counts, for others use the machine too
        started = time.perf_counter()
        result = python("-c", code)
        seconds.append(time.perf_counter() - started)
    assert result.stderr == "[]\n"
    assert min(seconds) < 0.3


def test_check_reads_headers_without_llama_cpp(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom edge_spec.cli import main\ntry:\n    main(['check', 'a.gguf', 'b.gguf'])\n"
        "except SystemExit as e:\n    print(e.code, 'llama_cpp' in sys.modules)"
    )
    result = python("-c", code, cwd=tmp_path)
    assert result.stdout == "3 False\n"
    assert result.stderr.startswith('edge-spec: There is no model "a.gguf"')


def test_the_module_runs_as_a_program() -> None:
    for flag in ("--version", "-V"):
        result = python("-m", "edge_spec.cli", flag)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.startswith("edge-spec ")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--colour"], "No such option '--colour'; see 'edge-spec --help'."),
        (["rum"], "No such command 'rum'"),
        (["pull", "starter"], "No such command 'pull'; did you mean 'models pull'?"),
        (["rm"], "No such command 'rm'; did you mean 'models rm'?"),
        (["list"], "No such command 'list'; did you mean 'models list'?"),
        (["ls", "--json"], "No such command 'ls'; did you mean 'models list'?"),
        (["run", "--tmep", "1"], "No such option '--tmep'"),
        (["run", "a", "b"], "Got unexpected extra argument (b); see 'edge-spec run --help'."),
        (["check", "a"], "Missing argument 'DRAFT'; see 'edge-spec check --help'."),
        (["models", "pull"], "Missing argument 'NAME...'; see 'edge-spec models pull --help'."),
        (["run", "hi", "--temp"], "Option '--temp' requires an argument."),
    ],
)
def test_a_mistyped_command_is_one_sentence_and_exit_2(invoke, args: list[str], message: str) -> None:  # type: ignore[no-untyped-def]
    code, out, err = invoke(*args)
    assert (code, out) == (2, "")
    assert err.startswith(f"edge-spec: {message}") and err.count("\n") == 1


def test_short_options_of_several_letters_are_not_split(invoke) -> None:  # type: ignore[no-untyped-def]
    shown = json.loads(
        invoke(
            "config", "show", "--json", "-m", "a", "-md", "b", "-ngl", "3", "-ngld=4", "-k5", "-n", "6",
            "-tb", "7", "-t", "8", "-ctk", "q8_0", "-ctv", "q4_0", "-fa", "on", "-c", "99", "-r", "x",
            "--stop", "y", "--logit-bias", "5-inf", "--system", "-",
        ).out
    )  # fmt: skip
    values = {name: entry["value"] for name, entry in shown.items() if entry["origin"] != "default"}
    assert values == {
        "model": "a", "draft-model": "b", "gpu-layers": 3, "gpu-layers-draft": 4, "draft-max": 5,
        "max-tokens": 6, "threads-batch": 7, "threads": 8, "cache-type-k": "q8_0", "cache-type-v": "q4_0",
        "flash-attn": "on", "ctx-size": 99, "stop": ["x", "y"], "logit-bias": [[5, "-inf"]], "system": "-",
    }  # fmt: skip


def test_config_show_names_the_place_of_each_value(invoke, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    Path("edge-spec.toml").write_text("temp = 0.5\ntop-k = 3")
    monkeypatch.setenv("EDGE_SPEC_TOP_K", "4")
    lines = [line.split() for line in invoke("config", "show", "--seed", "1").out.splitlines()]
    assert ["temp", "0.5", "edge-spec.toml"] in lines
    assert ["top-k", "4", "EDGE_SPEC_TOP_K"] in lines
    assert ["seed", "1", "--seed"] in lines
    assert ["min-p", "0.05", "default"] in lines


def test_config_path_says_which_files_are_there(invoke, own_folders: Path) -> None:  # type: ignore[no-untyped-def]
    Path("edge-spec.toml").touch()
    found = json.loads(invoke("config", "path", "--json").out)
    assert found["project"] == {"path": str(own_folders / "edge-spec.toml"), "exists": True}
    assert not found["user"]["exists"]
    assert "found" in invoke("config", "path").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(invoke, shell: str) -> None:  # type: ignore[no-untyped-def]
    result = invoke("completion", shell)
    assert result.code == 0 and "_EDGE_SPEC_COMPLETE" in result.out


def test_completion_completes_commands_and_options() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "_EDGE_SPEC_COMPLETE": "bash_complete"}
    for words, wanted in (("edge-spec mo", "plain,models"), ("edge-spec run --draft-m", "plain,--draft-max")):
        line = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        result = subprocess.run(
            [sys.executable, "-m", "edge_spec.cli"],
            env={**environment, **line},
            capture_output=True,
            text=True,
        )
        assert wanted in result.stdout.split()


def test_a_bug_is_one_line_with_its_traceback_in_a_file(invoke, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr("edge_spec.cli.config.resolve_settings", broken)
    code, out, err = invoke("config", "show")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(
        "edge-spec: This is a bug in edge-spec: RuntimeError: no such luck; its traceback is in "
    )
    log = Path(err.split(" is in ")[1].strip().removesuffix("."))
    assert "no such luck" in log.read_text() and "Traceback" in log.read_text()
    monkeypatch.setenv("EDGE_SPEC_DEBUG", "1")
    assert "Traceback (most recent call last)" in invoke("config", "show").err


def test_an_interrupt_outside_an_answer_is_130_without_words(invoke, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("edge_spec.cli.config.resolve_settings", interrupted)
    code, out, err = invoke("config", "show")
    assert (code, out, err.strip()) == (130, "", "")


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_a_reader_that_goes_away_is_no_error() -> None:
    script = f"'{sys.executable}' -m edge_spec.cli config show; echo $? >&2"
    with subprocess.Popen(
        ["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate()
    assert err == "141\n"


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
def test_a_closed_stdout_is_no_error() -> None:
    script = f"'{sys.executable}' -m edge_spec.cli config show >&-; echo $?"
    result = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert (result.stdout, result.stderr) == ("0\n", "")


FULL = Path("/dev/full")
UNFLUSHED = (
    "import click\nfrom edge_spec import cli\n"
    "cli.root.get_command = lambda _context, _name: click.Command('plugin', callback=lambda: print('text'))\n"
    "cli.main(['plugin'])"
)


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "args",
    [["models", "list", "--json"], ["config", "show"], ["--help"], ["run", "--help"], ["--version"],
     UNFLUSHED],
)  # fmt: skip
def test_a_disk_that_is_full_behind_stdout_is_one_sentence_and_exit_2(args: list[str] | str) -> None:
    what = ["-c", args] if isinstance(args, str) else ["-m", "edge_spec.cli", *args]
    with FULL.open("w") as full:
        result = subprocess.run(
            [sys.executable, *what], stdout=full, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""},
        )  # fmt: skip
    assert (result.returncode, result.stderr) == (
        2,
        "edge-spec: Standard output cannot be written (No space left on device): make room, or send it "
        "elsewhere.\n",
    )
