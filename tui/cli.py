"""`edge-spec chat` and `edge-spec replay`, found by the library through its entry points.

Importing this is cheap; Textual is imported when a command runs.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edge_spec import (
    SettingsCommand,
    UsageError,
    chat_settings_options,
    command_settings,
    resolve_settings,
    user_path,
)

if TYPE_CHECKING:
    from tui.program import Program


@click.command("chat", cls=SettingsCommand)
@click.option("--web", is_flag=True, help="In a browser on this machine instead of the terminal.")
@click.option("--port", metavar="N", type=click.IntRange(1, 65535), default=8000, help="Of --web. [8000]")
@chat_settings_options
@click.pass_context
def chat(ctx: click.Context, web: bool, port: int, config_file: str | None) -> None:
    """Chat with a model, and see which guesses win.

    F1 shows keys and commands. Conversations are saved as they go.
    """
    command_settings(ctx, config_file)  # what is wrong with them is said before any screen
    if web:
        _serve(port)
        return
    _check_terminal()
    from tui.app import ChatApp

    _run(ChatApp(lambda: command_settings(ctx, config_file)))


@click.command("replay")
@click.argument("trace")
def replay(trace: str) -> None:
    """Watch a saved trace again, without a model."""
    path = user_path(trace)
    _check_trace(path)
    _check_terminal()
    from tui.replay_app import ReplayApp

    _run(ReplayApp(path, resolve_settings()))


def _run(app: Program) -> None:
    """Run a program to its end; a bug that ended it is the caller's to report."""
    from tui.guard import start_log
    from tui.hangup import end_with_terminal

    start_log()
    end_with_terminal()
    app.run()
    if app.bug is not None:
        raise app.bug


def _is_shown_elsewhere() -> bool:
    """Whether something else than a terminal shows it: --web's server."""
    return "TEXTUAL_DRIVER" in os.environ


def _check_terminal() -> None:
    if _is_shown_elsewhere():
        return
    streams = (sys.stdin, sys.stdout)
    if not all(stream is not None and stream.isatty() for stream in streams):
        raise UsageError("This needs a terminal; edge-spec run answers without one.")
    if os.environ.get("TERM") == "dumb":
        raise UsageError("This terminal (TERM=dumb) cannot show the chat; edge-spec run needs less.")


def _check_trace(path: Path) -> None:
    """Say what is wrong with a file while there is a terminal to say it on."""
    from edge_spec import TraceReader

    TraceReader(path).close()


def _serve(port: int) -> None:
    """Let textual-serve run this same command for each browser window, on this machine only."""
    if importlib.util.find_spec("textual_serve") is None:
        raise UsageError(
            f'--web needs textual-serve: run `{sys.executable} -m pip install "textual-serve>=1.1"`.'
        )
    from tui.web import serve

    serve([sys.executable, "-m", "edge_spec.cli", *_without_web(sys.argv[1:])], port)


def _without_web(arguments: Sequence[str]) -> list[str]:
    """This command line for the program behind the page: without --web, --port does no harm."""
    return [argument for argument in arguments if argument != "--web"]
