"""`edge-spec chat` and `edge-spec replay` on the command line, found through their entry points."""

from __future__ import annotations

import importlib.metadata
import io
import os
import pty
import subprocess
import sys
import time
import tomllib
import types
from pathlib import Path

import click
import pytest

from edge_spec import cli
from edge_spec.cli import plugins
from tests.tui import traces
from tui.widgets.token_view import TokenView

ROOT = Path(__file__).resolve().parents[2]


def invoke(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main(args)
    return (caught.value.code, *capsys.readouterr())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this checkout were installed, with its entry points."""
    found = {
        name: importlib.metadata.EntryPoint(name, f"tui.cli:{name}", plugins.GROUP)
        for name in plugins.INTERFACE
    }
    monkeypatch.setattr(plugins, "_found", lambda: found)


def test_the_project_names_the_commands() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"][plugins.GROUP] == {"chat": "tui.cli:chat", "replay": "tui.cli:replay"}


def test_the_overview_has_the_commands_of_the_interface_first(
    installed: None, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = invoke(capsys, "--help")
    commands = [line.split()[0] for line in out.partition("Commands:")[2].splitlines() if line.strip()]
    assert code == 0 and commands[:3] == ["chat", "replay", "run"]
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("name", ["chat", "replay"])
def test_every_command_has_help_of_80_columns(
    installed: None, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    code, out, err = invoke(capsys, name, "--help")
    assert (code, err) == (0, "") and max(map(len, out.splitlines())) <= 80
    if name == "chat":
        assert all(flag in out for flag in ("--temp", "--theme", "-md", "--web", "--config"))


def test_the_command_line_does_not_import_textual_to_say_its_help() -> None:
    code = (
        "import sys\nfrom edge_spec.cli import main\ntry:\n    main(['chat', '--help'])\nexcept SystemExit:\n"
        "    print(sorted({'numpy', 'llama_cpp', 'textual', 'rich'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stderr.splitlines()[-1] in ("[]", f"edge-spec: {MISSING}")


MISSING = (
    "The terminal interface, which has the command chat, is not installed; "
    "installing edge-spec again brings it."
)


def test_without_the_entry_points_the_missing_interface_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plugins, "_found", dict)
    assert invoke(capsys, "chat") == (2, "", f"edge-spec: {MISSING}\n")
    code, out, _ = invoke(capsys, "--help")
    assert code == 0 and "chat  " not in out.partition("Commands:")[2]


def test_a_plugin_that_cannot_be_imported_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = importlib.metadata.EntryPoint("chat", "no_such_module:chat", plugins.GROUP)
    monkeypatch.setattr(plugins, "_found", lambda: {"chat": broken})
    code, out, err = invoke(capsys, "chat")
    assert (code, out) == (2, "")
    assert err == (
        "edge-spec: The command chat (no_such_module:chat) cannot be loaded: "
        "No module named 'no_such_module'.\n"
    )
    assert invoke(capsys, "--help")[0] == 0


def test_without_a_terminal_the_chat_says_so(installed: None, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = invoke(capsys, "chat")
    assert (code, out) == (2, "")
    assert err == "edge-spec: This needs a terminal; edge-spec run answers without one.\n"


def test_no_arguments_without_a_terminal_are_still_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = invoke(capsys)
    assert code == 2 and "Usage: edge-spec" in err


def test_no_arguments_on_a_terminal_are_the_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []

    @click.command("chat")
    def chat() -> None:
        called.append("chat")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(plugins, "load_plugin", lambda name: chat if name == "chat" else None)
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(sys, "stdout", Terminal())
    with pytest.raises(SystemExit) as caught:
        cli.main([])
    assert called == ["chat"] and caught.value.code == 0


def test_wrong_settings_are_one_sentence_before_any_screen(
    installed: None, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = invoke(capsys, "chat", "--temp", "hot")
    assert (code, out) == (2, "") and err == "edge-spec: --temp is 'hot', but it must be a number.\n"


def test_replay_refuses_what_is_no_trace(installed: None, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.txt").write_text("hello")
    code, out, err = invoke(capsys, "replay", "x.txt")
    assert (code, out) == (2, "") and "is not an edge-spec trace" in err
    code, _, err = invoke(capsys, "replay", "missing.jsonl")
    assert code == 2 and "cannot be read" in err


def test_web_without_its_extra_says_what_to_install(
    installed: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    code, _, err = invoke(capsys, "chat", "--web")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    install = f'`{sys.executable} -m pip install "{extras["web"][0]}"`'
    assert (code, err) == (2, f"edge-spec: --web needs textual-serve: run {install}.\n")


def test_web_serves_this_very_command(
    installed: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = []

    module = types.ModuleType("tui.web")
    module.serve = lambda command, port: served.append((command, port))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tui.web", module)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: True)
    arguments = ["chat", "--web", "--port", "8765", "-m", "my model.gguf"]
    monkeypatch.setattr(sys, "argv", ["edge-spec", *arguments])
    code, out, err = invoke(capsys, *arguments)
    assert (code, out, err) == (0, "", "")
    program = [sys.executable, "-m", "edge_spec.cli"]
    wanted = [*program, "chat", "--port", "8765", "-m", "my model.gguf"]
    assert served == [(wanted, 8765)]


def test_behind_a_web_page_no_terminal_is_asked_for(
    installed: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    ran = []
    monkeypatch.setattr("tui.cli._run", ran.append)
    assert invoke(capsys, "chat", "-m", "x.gguf")[0] == 0
    assert type(ran[0]).__name__ == "ChatApp"
    ran[0].on_unmount()


async def test_the_replay_program_plays_a_trace_and_ends_with_its_screen(tmp_path: Path) -> None:
    from edge_spec import resolve_settings
    from tui.replay_app import ReplayApp

    path = traces.write_trace(tmp_path / "x.trace.jsonl", traces.answer(5))
    app = ReplayApp(path, resolve_settings())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause(0.1)
        assert type(app.screen).__name__ == "ReplayScreen"
        await pilot.press("escape")
        deadline = time.monotonic() + 5
        while app.is_running and time.monotonic() < deadline:
            await pilot.pause(0.01)
        assert not app.is_running


async def test_the_users_keys_count_in_the_replay_program(tmp_path: Path) -> None:
    from edge_spec import resolve_settings
    from tui.replay_app import ReplayApp

    Path("edge-spec.toml").write_text('[keys]\nquit = "ctrl+x"\nrejected = "f11"\nhelp = "esk"\n')
    path = traces.write_trace(tmp_path / "x.trace.jsonl", traces.answer(5))
    app = ReplayApp(path, resolve_settings())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause(0.1)
        assert [notice.message for notice in app._notifications] == [
            '[keys] gives "help" the key "esk", which does not exist.'
        ]
        await pilot.press("f11", "ctrl+q")
        assert app.is_running and not app.screen.query_one(TokenView).show_rejected
        await pilot.press("ctrl+c")
        assert [notice.message for notice in app._notifications][1:] == [
            "Press [b]ctrl+x[/b] to quit the app"
        ]
        await pilot.press("ctrl+p")
        await pilot.pause(0.1)
        assert type(app.screen).__name__ == "Palette"
        await pilot.press("ctrl+x")
        deadline = time.monotonic() + 5
        while app.is_running and time.monotonic() < deadline:
            await pilot.pause(0.01)
        assert not app.is_running


@pytest.mark.skipif(not hasattr(os, "forkpty"), reason="needs a pseudo-terminal")
def test_a_bug_leaves_the_terminal_as_it_was_and_one_line(tmp_path: Path) -> None:
    """The program in a terminal of its own: what it leaves behind is one sentence, no traceback."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from tui import cli\nfrom tui.app import ChatApp\nfrom edge_spec.cli import _run, plugins\n"
        "import importlib.metadata as m\n"
        "plugins._found = lambda: {'chat': m.EntryPoint('chat', 'tui.cli:chat', plugins.GROUP)}\n"
        "ChatApp._begin = lambda self: 1 / 0\n"
        "sys.exit(_run(['chat', '-m', 'x.gguf']))\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.executable, [sys.executable, "-c", code])
    output = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # Linux says so at the end
            break
        if not part:
            break
        output += part
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    after = output.rpartition(b"\x1b[?1049l")[2].decode()
    assert os.waitstatus_to_exitcode(status) == 1
    assert "This is a bug in edge-spec: ZeroDivisionError: division by zero; its traceback is in " in after
    assert "Traceback" not in after
