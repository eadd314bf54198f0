"""`edge-spec models forge`: make a faster draft out of a model that is here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_spec.cli.output import print_json, say, show, table
from edge_spec.errors import ModelError, SettingError
from edge_spec.paths import user_path
from edge_spec.sizes import size_text

if TYPE_CHECKING:
    from edge_spec.forge.report import ForgeReport, Stage


class _Layers(click.ParamType[int | str]):
    """How many layers to drop, or `auto`."""

    name = "N|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == "auto":
            return "auto"
        if not str(value).isdecimal():
            self.fail(f"{value!r} is neither a number of layers nor auto.", param, ctx)
        return int(value)


@click.command("forge")
@click.argument("draft", required=False)
@click.option("--for", "target", metavar="TARGET", required=True, help="The model that it shall draft for.")
@click.option("--self", "itself", is_flag=True, help="Make the draft out of TARGET, with fewer layers.")
@click.option(
    "--type",
    "kind",
    default="auto",
    metavar="TYPE",
    show_default=True,
    help="Weights: auto (the best of several, measured), keep, or a type such as Q4_0.",
)
@click.option(
    "--keep-tokens",
    type=click.IntRange(min=1000),
    metavar="N",
    help="Trim the vocabulary to N tokens (default: chosen by measuring).",
)
@click.option("--no-trim", is_flag=True, help="Leave the vocabulary whole.")
@click.option(
    "--drop-layers",
    type=_Layers(),
    metavar="N|auto",
    help="Leave N layers out, or as many as pay (default: 0, with --self auto).",
)
@click.option(
    "--prompts",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='JSONL with a "prompt" or "messages" a line, in place of the built-in ones.',
)
@click.option(
    "--sample-tokens",
    type=click.IntRange(8, 512),
    default=64,
    metavar="N",
    show_default=True,
    help="Tokens that the target writes to each prompt.",
)
@click.option("-t", "--threads", metavar="N", help="Threads (default: chosen).")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write it (default: into the store, under a free name).",
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")  # fmt: skip
def command(
    draft: str | None,
    target: str,
    itself: bool,
    kind: str,
    keep_tokens: int | None,
    no_trim: bool,
    drop_layers: int | str | None,
    prompts: Path | None,
    sample_tokens: int,
    threads: str | None,
    output: Path | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Make a faster draft for TARGET out of the model DRAFT, and say what each step brought.

    \b
    - other weights: the type with the largest speed-up by what is measured here
    - fewer tokens: those that TARGET writes, all bytes and special tokens
    - fewer layers, on request: a block in the middle, by measured acceptance

    A step is taken when it raises the expected speed-up, or when it was asked for. TARGET answers
    sample prompts first; the text that a forged draft helps to write stays exactly TARGET's own.
    Where nothing is better than DRAFT as it is, no file is written, which is an error only with -o.
    Threads, layers on GPUs and devices are those of the settings files: a draft is measured as it will run.
    """
    from edge_spec.cancel import Cancel
    from edge_spec.cli.interrupt import Interrupt
    from edge_spec.forge.job import Forge
    from edge_spec.forge.report import ForgeSettings
    from edge_spec.forge.running import running_options
    from edge_spec.forge.samples import built_in_prompts, read_prompts
    from edge_spec.models.resolve import resolve_model
    from edge_spec.settings import resolve

    if (draft is None) != itself:
        raise SettingError("Name either a DRAFT to forge or --self, which makes it out of the target.")
    if no_trim and keep_tokens is not None:
        raise SettingError("--keep-tokens and --no-trim exclude each other: give one.")
    dropped = drop_layers if drop_layers is not None else "auto" if itself else 0
    options = resolve({"threads": threads}).load_options()
    target_path = resolve_model(target)
    settings = ForgeSettings(
        target=target_path,
        draft=target_path if draft is None else resolve_model(draft),
        output=None if output is None else user_path(output),
        prompts=built_in_prompts() if prompts is None else read_prompts(user_path(prompts)),
        type_name=_checked_type(kind),
        num_tokens=0 if no_trim else keep_tokens,
        num_dropped=dropped if isinstance(dropped, int) else None,
        sample_tokens=sample_tokens,
        force=force,
        **running_options(options),
    )
    cancel, reporter = Cancel(), _Reporter(quiet=quiet)
    forge = Forge(settings, cancel, reporter)
    try:
        with Interrupt(at_exit=forge.clear) as interrupt:
            interrupt.cancel_with(cancel.set)
            report = forge.run()
    finally:
        reporter.clear()
    if as_json:
        print_json(_record(report))
    else:
        _show(report)
    if report.path is None and output is not None:
        raise ModelError(
            f"{output} was not written: nothing that was tried is better than the draft as given."
        )


def _checked_type(name: str) -> str:
    """Refuse an unknown type before anything is loaded."""
    from edge_spec.models.quantize import checked_type

    return name if name in ("auto", "keep") else checked_type(name)


class _Reporter:
    """Tells a person how it goes, on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        from edge_spec.cli.progress import StatusLine

        self._line = StatusLine(quiet=quiet)
        self._quiet = quiet

    def status(self, text: str) -> None:
        self._line.show(text)

    def stage(self, stage: Stage) -> None:
        self._say(
            f"{stage.name}: {stage.step_s * 1e3:.1f} ms a step, acceptance {stage.acceptance.sampled:.3f}, "
            f"expected {stage.gain.speedup:.2f}x"
        )

    def note(self, text: str) -> None:
        self._say(text)

    def clear(self) -> None:
        self._line.clear()

    def _say(self, text: str) -> None:
        if not self._quiet:
            self._line.clear()
            say(text)


def _show(report: ForgeReport) -> None:
    rows = [["draft", "size", "ms a step", "acceptance", "greedy", "expected", "K"]]
    for stage in report.taken:
        rows.append(
            [
                stage.name,
                size_text(stage.header.size),
                f"{stage.step_s * 1e3:.2f}",
                f"{stage.acceptance.sampled:.3f}",
                f"{stage.acceptance.greedy:.3f}",
                f"{stage.gain.speedup:.2f}x",
                str(stage.gain.length),
            ]
        )
    table(rows)
    covered = report.best.coverage
    if covered is not None:
        show(f"Of the target's tokens in texts that the choice did not see, {covered:.1%} are kept.")
    base, best = report.stages[0], report.best
    if report.path is None:
        show("Nothing that was tried is better here than the draft as given, so no file was written.")
        return
    faster, gain = base.step_s / best.step_s, best.gain
    show(f"{report.path} has {size_text(best.header.size)}, and its step is {faster:.2f} times as fast.")
    verdict = "is" if gain.speedup > 1 else "stays below 1, at"
    show(
        f"The speed-up to be expected {verdict} {gain.speedup:.2f}x plain decoding with K = {gain.length}; "
        f"of the draft as given, {base.gain.speedup:.2f}x."
    )


def _record(report: ForgeReport) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "file": report.path,
        "recipe": report.recipe,
        "target_ms": [round(seconds * 1e3, 3) for seconds in report.target_s],
        "positions": report.num_positions,
        "stages": [
            {
                "name": stage.name,
                "taken": stage in report.taken,
                "size": stage.header.size,
                "step_ms": round(stage.step_s * 1e3, 3),
                "acceptance": round(stage.acceptance.sampled, 4),
                "greedy_acceptance": round(stage.acceptance.greedy, 4),
                "expected_speedup": round(stage.gain.speedup, 3),
                "draft_max": stage.gain.length,
                "coverage": stage.coverage,
            }
            for stage in report.stages
        ],
    }
