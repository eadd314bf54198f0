"""How far something long has come, on stderr: one line that moves on a terminal, few lines elsewhere."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edge_spec.cli.output import say
from edge_spec.sizes import size_text

if TYPE_CHECKING:
    from edge_spec.models.sources import PullPlan

LINE_SECONDS = 5.0
"""Between two lines about a download when stderr is no terminal."""

_FRAME_SECONDS = 0.05


def stderr_is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


class StatusLine:
    """A line on the terminal's last row that is rewritten in place; silent elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._active = not quiet and stderr_is_terminal()
        self._shown = ""
        self._when = 0.0

    def show(self, text: str) -> None:
        now = time.monotonic()
        if self._active and text != self._shown and now - self._when >= _FRAME_SECONDS:
            self._when, self._shown = now, text
            click.echo(f"\r\x1b[K{text}", err=True, nl=False)

    def clear(self) -> None:
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._shown = ""

    def loading(self, model: str, fraction: float) -> None:
        self.show(f"loading the {model}: {fraction:.0%}")

    def calibrating(self, fraction: float) -> None:
        self.show(f"measuring what decodes cost here: {fraction:.0%}")

    def reading(self, model: str, done: int, total: int) -> None:
        self.show(f"the {model} reads the prompt: {done} of {total} tokens")


def fetch_planned(plan: PullPlan, *, quiet: bool) -> list[Path]:
    """Fetch what was planned, with progress on stderr; returns each model's first file."""
    from edge_spec.models import sources

    if not quiet:
        for wanted in plan.wanted:
            for note in wanted.notes:
                say(note)
        names = " and ".join(f"{wanted.name} ({size_text(wanted.size)})" for wanted in plan.wanted)
        say(f"Fetching {names} into {plan.folder}.")
    meter = _Quiet() if quiet else _Bars() if stderr_is_terminal() else _Lines()
    with meter:
        return sources.fetch(plan, meter)


class _Quiet:
    """No progress at all."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def __call__(self, model: str, source: str, done: int, total: int) -> None: ...


class _Lines(_Quiet):
    """A line every few seconds, for logs."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}

    def __call__(self, model: str, source: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done < total and now >= self._due.setdefault(model, now + LINE_SECONDS):
            self._due[model] = now + LINE_SECONDS
            say(f"{model}: {done / total:.0%} of {size_text(total)} from {source}")


class _Bars(_Quiet):
    """A bar for each model."""

    def __init__(self) -> None:
        from rich import progress
        from rich.console import Console

        self._tasks: dict[str, progress.TaskID] = {}
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
        )

    def __enter__(self) -> None:
        self._progress.start()

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, model: str, source: str, done: int, total: int) -> None:
        if model not in self._tasks:
            self._tasks[model] = self._progress.add_task(model, total=total)
        self._progress.update(self._tasks[model], completed=done, description=f"{model} from {source}")
