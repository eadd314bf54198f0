"""The command line: stdout is data, stderr is for people.

Importing this is cheap. Each command's module is imported when the command is asked for, and
what is slow to import (numpy, llama_cpp, rich, huggingface_hub) only when it runs.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import click

from edge_spec.cli.lazy import LazyGroup
from edge_spec.cli.output import INTERRUPTED, complain, report_bug
from edge_spec.errors import Cancelled, EdgeSpecError, OutputError, UsageError

__all__ = ["main"]

PIPE_CLOSED = 141
"""128 + SIGPIPE, what a shell reports of a program whose reader went away."""

_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)

COMMANDS = {
    "run": "Answer one prompt, streamed.",
    "check": "Can two models pair, and if not, why?",
    "models": "Get, list and make model files.",
    "doctor": "What this machine and installation have.",
    "config": "Where settings come from.",
    "completion": "Print a script that completes commands in a shell.",
}
"""The commands and their one-line help; module `edge_spec.cli.NAME` holds each as `command`."""

_MEANT = {"list": "models list", "ls": "models list", "pull": "models pull", "rm": "models rm"}
"""What somebody used to Ollama may look for, and where it is here."""


class Commands(LazyGroup):
    """The commands of edge-spec itself; others may add theirs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from edge_spec.cli.plugins import plugin_names

        return [*(name for name in plugin_names() if name not in COMMANDS), *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            from edge_spec.cli.plugins import load_plugin

            return load_plugin(cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name in _MEANT and self.get_command(ctx, name) is None:
            raise UsageError(f"No such command '{name}'; did you mean '{_MEANT[name]}'?")
        return super().resolve_command(ctx, args)

    def summary(self, name: str) -> str:
        from edge_spec.cli.plugins import plugin_summary

        return COMMANDS.get(name) or plugin_summary(name)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _stdout_errors():  # --help and --version print here
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _stdout_errors():
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            return result


@contextlib.contextmanager
def _stdout_errors() -> Iterator[None]:
    """Turn a stdout that is gone or full into an end without a traceback.

    Whatever else is written or read has its own errors, or a file name in them.
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        # Point stdout elsewhere so that Python's last flush is quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if error.errno == errno.EPIPE:  # whoever read us has enough
            raise click.exceptions.Exit(PIPE_CLOSED) from None
        raise OutputError(
            f"Standard output cannot be written ({error.strerror}): make room, or send it elsewhere."
        ) from None


def _version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from edge_spec.versions import installed_version

        click.echo(f"edge-spec {installed_version('edge-spec')}")
        ctx.exit()


@click.command(
    cls=Commands,
    package=__name__,
    summaries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "-V", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
    help="Show the version.",
)  # fmt: skip
def root() -> None:
    """Lossless speculative decoding on your own machine.

    A small draft model guesses tokens, the target model checks them, and the answer is exactly
    the target's own, sooner.

    \b
    edge-spec                                    the chat
    edge-spec run "Write a haiku about caches"
    edge-spec run -m target.gguf -md draft.gguf -f prompt.txt --json
    """


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that lacks a character is no reason to fail; a file or a program gets all of them.
        keep = sys.stdout.isatty() or "PYTHONIOENCODING" in os.environ
        sys.stdout.reconfigure(encoding=None if keep else "utf-8", errors="replace")
    sys.exit(_run(args))


def _run(args: Sequence[str] | None) -> int:
    try:
        code = root.main(_or_chat(args), prog_name="edge-spec", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        where = f"; see '{context.command_path} --help'" if context else ""
        complain(f"{error.format_message().removesuffix('.')}{where}.")
        return error.exit_code
    except EdgeSpecError as error:
        complain(str(error))
        return error.exit_code
    except (click.Abort, Cancelled, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:
        report_bug(error)
        return 1
    return code if isinstance(code, int) else 0


def _or_chat(args: Sequence[str] | None) -> Sequence[str]:
    """The arguments; on a terminal, none at all means the chat."""
    given = sys.argv[1:] if args is None else args
    streams = (sys.stdin, sys.stdout)
    if not given and all(stream is not None and stream.isatty() for stream in streams):
        return ["chat"]
    return given
