"""`edge-spec run`: answer one prompt, streamed."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from edge_spec.cli.options import SettingsCommand, resolve_settings, settings_options
from edge_spec.cli.output import INTERRUPTED, print_json, say
from edge_spec.errors import UsageError
from edge_spec.paths import user_path
from edge_spec.settings import Settings, Value

if TYPE_CHECKING:
    from edge_spec.cli.isolate import IsolatedPair
    from edge_spec.cli.prepare import ModelNames
    from edge_spec.cli.progress import StatusLine
    from edge_spec.cli.render import AnswerPrinter, AnswerText, Span
    from edge_spec.config import Decoding, Sampling
    from edge_spec.events import Event, Finished, Notice
    from edge_spec.pair import Pair
    from edge_spec.trace import TraceHeader, TraceWriter
    from edge_spec.types import FinishReason


@click.command("run", cls=SettingsCommand)
@click.argument("prompt", required=False)
@click.option("-p", "--prompt", "option", hidden=True)  # as llama.cpp has it
@click.option("-f", "--file", metavar="FILE", help="Read the prompt from FILE; - is standard input.")
@click.option(
    "--raw", is_flag=True,
    help="Give the prompt to the model as it is: no chat template, special tokens read as such.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of streaming.")
@click.option("--trace", metavar="FILE", help="Save every drafted token and its fate, as JSON lines.")
@click.option("--plain", is_flag=True, help="Do not underline accepted tokens.")
@click.option(
    "--isolate", is_flag=True,
    help="Run the models in a process of their own, so that a crash there is an error message here.",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Nothing on stderr but errors.")
@settings_options
@click.pass_context
def command(
    ctx: click.Context,
    prompt: str | None,
    option: str | None,
    file: str | None,
    raw: bool,
    as_json: bool,
    trace: str | None,
    plain: bool,
    isolate: bool,
    quiet: bool,
    config_file: str | None,
) -> None:
    """Answer PROMPT; on a terminal, text that was drafted and accepted is underlined.

    Without PROMPT and -f the prompt is read from standard input; beside them, what is piped
    follows the prompt. Ctrl+C ends the answer early and keeps what is there; a second one ends
    the program.
    """
    from edge_spec.cli.prepare import chosen_models, fetch_missing
    from edge_spec.cli.prompt import read_prompt
    from edge_spec.models.catalogue import catalogue

    settings = resolve_settings(ctx, config_file)
    prompt = read_prompt(prompt, file, option=option, quiet=quiet)
    if raw:
        settings = _without_system(settings)
    request = Request(settings, settings.sampling(), settings.decoding(), prompt, raw, isolate)
    models = chosen_models(settings, request.decoding, catalogue().pairs)
    writer = _trace_writer(trace)
    with writer or contextlib.nullcontext():
        fetch_missing(models, quiet=quiet)
        reason = _run(request, models, writer, as_json=as_json, plain=plain, quiet=quiet)
    if reason == "cancelled":
        ctx.exit(INTERRUPTED)


def _without_system(settings: Settings) -> Settings:
    """The settings of a raw prompt: --raw beats a system message of a variable or a file."""
    if settings["system"] and settings.origin("system") == "--system":
        raise UsageError("A system message needs the chat template, which --raw leaves out.")
    return replace(settings, values={**settings.values, "system": Value(None, "--raw")})


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the models."""

    settings: Settings
    sampling: Sampling
    decoding: Decoding
    prompt: str
    raw: bool
    isolate: bool

    def start(self, pair: Pair | IsolatedPair) -> Generator[Event]:
        """The events of the answer; to be closed, for an error may leave them half read."""
        return pair.generate(
            self.prompt,
            system=self.settings["system"],
            sampling=self.sampling,
            decoding=self.decoding,
            raw=self.raw,
        )


class Watcher:
    """Folds the events of one answer, and shows them as they come when `printer` is given.

    What is for people is told while nothing of the answer stands on the terminal, whose last line
    would be broken or erased by it; `notices` are those that came later.
    """

    def __init__(
        self,
        text: AnswerText,
        printer: AnswerPrinter | None,
        status: StatusLine,
        trace: TraceWriter | None,
        *,
        quiet: bool,
    ) -> None:
        self.text = text
        self.token_ids: list[int] = []
        self.notices: list[Notice] = []
        self.finished: Finished | None = None
        self._printer = printer
        self._status = status
        self._trace = trace
        self._quiet = quiet

    def see(self, event: Event) -> None:
        from edge_spec.events import (
            Calibrating,
            Drafted,
            Finished,
            Inspected,
            Notice,
            Prefilled,
            Started,
            Verified,
        )

        if self._trace is not None:
            self._trace.write(event)
        match event:
            case Verified(verdict=verdict):
                self._status.clear()
                self.token_ids += verdict.tokens
                self._show(self.text.push(verdict.tokens, verdict.origins))
            case Calibrating(fraction=fraction):
                self._status.calibrating(fraction)
            case Prefilled(model=model, done=done, total=total):
                if not self._has_printed:
                    self._status.reading(model, done, total)
            case Notice():
                if self._has_printed:
                    self.notices.append(event)
                else:
                    self._status.clear()
                    self.tell(event)
            case Finished():
                self.finished = event
            case Started() | Drafted() | Inspected():
                pass

    def end(self) -> None:
        """Show what was held back and end the line; also right when an error ended the answer."""
        self._status.clear()
        self._show(self.text.flush())
        if self._printer is not None and self.text.text:
            self._printer.end()

    def tell(self, notice: Notice) -> None:
        if not self._quiet:
            say(f"{notice.level}: {notice.text}")

    @property
    def _has_printed(self) -> bool:
        return self._printer is not None and bool(self.text.text)

    def _show(self, spans: list[Span]) -> None:
        if self._printer is not None:
            self._printer.write(spans)


def _trace_writer(trace: str | None) -> TraceWriter | None:
    if trace is None:
        return None
    from edge_spec.trace import TraceWriter

    return TraceWriter(user_path(trace))


def _run(
    request: Request,
    models: ModelNames,
    trace: TraceWriter | None,
    *,
    as_json: bool,
    plain: bool,
    quiet: bool,
) -> FinishReason:
    """Load, answer, report; returns why the text ended."""
    from edge_spec.cli.interrupt import Interrupt
    from edge_spec.cli.progress import StatusLine
    from edge_spec.cli.render import AnswerPrinter, AnswerText
    from edge_spec.cli.result import result_object, summary_line

    status = StatusLine(quiet=quiet)
    with (
        Interrupt(at_exit=trace.close if trace else _nothing) as interrupt,
        _load(request, models, status) as pair,
    ):
        events = request.start(pair)
        if trace is not None:
            trace.begin(_trace_header(request, pair), pair.piece)
        printer = None if as_json else AnswerPrinter.for_stdout(plain=plain)
        watcher = Watcher(AnswerText(pair.piece, request.decoding.stop), printer, status, trace, quiet=quiet)
        try:
            for event in events:
                interrupt.cancel_with(pair.cancel)
                watcher.see(event)
        finally:
            interrupt.cancel_with(None)
            events.close()
            watcher.end()
        finished = watcher.finished
        assert finished is not None, "a generation ends with Finished"
        if as_json:
            print_json(
                result_object(
                    pair,
                    request.settings,
                    request.decoding,
                    text=watcher.text.text,
                    token_ids=watcher.token_ids,
                    finished=finished,
                )
            )
        for notice in watcher.notices:
            watcher.tell(notice)
        if not quiet:
            say(summary_line(finished, request.decoding))
        return finished.reason


def _load(request: Request, models: ModelNames, status: StatusLine) -> Pair | IsolatedPair:
    options = request.settings.load_options()
    try:
        if request.isolate:
            from edge_spec.cli.isolate import IsolatedPair

            return IsolatedPair(models.target, models.draft, on_progress=status.loading, **options)
        from edge_spec.api import load_pair

        return load_pair(models.target, models.draft, on_progress=status.loading, **options)
    finally:
        status.clear()


def _trace_header(request: Request, pair: Pair | IsolatedPair) -> TraceHeader:
    from edge_spec.cli.result import model_objects, settings_object
    from edge_spec.trace import TraceHeader
    from edge_spec.versions import versions

    return TraceHeader(versions(), model_objects(pair), settings_object(request.settings, request.decoding))


def _nothing() -> None:
    """There is nothing to do before a sudden exit."""
