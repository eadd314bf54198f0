"""`edge-spec check TARGET DRAFT`: would they pair?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_spec.cli.output import print_json, show, size_text
from edge_spec.cli.paragraph import count_text, show_wrapped
from edge_spec.errors import ModelError

if TYPE_CHECKING:
    from edge_spec.models.facts import ModelFacts
    from edge_spec.models.pairing import PairReport

MAX_LISTED = 8
"""How many differing tokens are printed; --json has them all."""


@click.command("check")
@click.argument("target")
@click.argument("draft")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, every differing token in it.")
@click.pass_context
def command(ctx: click.Context, target: str, draft: str, as_json: bool) -> None:
    """Can DRAFT draft for TARGET, and if not, why?

    Both are GGUF files or names of models; only their headers are read. Exits with 0 when they
    pair and 3 when they do not.
    """
    from edge_spec.models import facts_cache, store
    from edge_spec.models.pairing import check_files

    paths = [store.resolve(ref) for ref in (target, draft)]
    facts = [facts_cache.facts(path) for path in paths]
    report = check_files(*paths)
    if as_json:
        _print_json(report, paths, facts)
    else:
        for role, model in zip(("target", "draft"), facts, strict=True):
            _show_model(role, model)
        _show_report(report)
    if not report.pairs:
        ctx.exit(ModelError.exit_code)


def _show_model(role: str, model: ModelFacts) -> None:
    vocab, indent = model.vocab, " " * 8
    kind = [] if model.kind == "model" else [f"kind: {model.kind}"]
    context = [f"context {model.context_length:,}"] if model.context_length else []
    parts = [f"{model.num_files} files"] if model.num_files > 1 else []
    size = [count_text(model.parameters), model.quantization, size_text(model.size)]
    show_wrapped(model.name, first=f"{role + ':':8}", rest=indent)
    show_wrapped(", ".join([*kind, model.architecture or "no architecture", *size, *parts, *context]),
                 first=indent, rest=indent)  # fmt: skip
    if vocab.has_texts:
        show(f"{indent}{vocab.size:,} tokens, {vocab.title}, vocabulary {vocab.fingerprint[:8]}")
        begin = f"begins with token {vocab.bos_id}" if vocab.add_bos else "no begin token"
        ends = " ".join(end.text for end in vocab.ends) or "none named"
        show_wrapped(f"{begin}; ends: {ends}", first=indent, rest=indent)
    if model.kind == "model":
        show(f"{indent}{model.memory} memory: {ROLLBACKS[model.rollback]}")
    if model.forged:
        show_wrapped(f"forged {model.forged}", first=indent, rest=indent)


ROLLBACKS = {
    "trim": "rejected tokens are trimmed",
    "checkpoint": "saved before a guess, accepted tokens read again",
    "state rollback": "llama.cpp can step back within a batch",
}
"""How rejected tokens leave each kind of memory."""


def _show_report(report: PairReport) -> None:
    from edge_spec.models.pairing import uncapital

    first, *others = report.reasons or ("",)
    why = f", because {uncapital(first)}" if first else ""
    show_wrapped(f"verdict: {report.verdict}{why}", rest=" " * 9)
    for sentence in others or (() if report.reasons else report.notes):
        show_wrapped(sentence, first="- ", rest="  ")
    if report.reasons:
        show_wrapped(
            "What to do: `edge-spec models pairs` shows what pairs on this machine; a drafter without a "
            "model goes with every target.",
            first="- ",
            rest="  ",
        )
    if report.differences:
        _show_differences(report)


def _show_differences(report: PairReport) -> None:
    from edge_spec.models.pairing import shown

    listed = report.differences[:MAX_LISTED]
    rows = [(str(one.token), _cut(shown(one.target_text)), _cut(shown(one.draft_text))) for one in listed]
    wide = max(len("token"), *(len(token) for token, *_ in rows))
    middle = max(len("target"), *(len(text) for _, text, _ in rows))
    show("differing tokens:")
    for token, text, own in (("token", "target", "draft"), *rows):
        show(f"  {token:>{wide}}  {text:{middle}}  {own}")
    if report.num_differing > len(listed):
        show(f"  and {report.num_differing - len(listed):,} more; --json lists them all")


def _cut(text: str) -> str:
    return text if len(text) <= 30 else f'{text[:28]}…"'


def _print_json(report: PairReport, paths: list[Path], facts: list[ModelFacts]) -> None:
    differing: Any = report.differences
    if report.num_differing > len(report.differences):
        from edge_spec.models.comparison import token_differences
        from edge_spec.models.facts import target_ids_of
        from edge_spec.models.header import read_header

        target, draft = (read_header(path) for path in paths)
        differing = list(token_differences(target.vocab, draft.vocab, target_ids_of(draft)))
    print_json(
        {
            "schema_version": 1,
            "pairs": report.pairs,
            "verdict": report.verdict,
            "reasons": report.reasons,
            "notes": report.notes,
            "masked": report.masked,
            "differing": differing,
            **{
                role: {"file": path, "rollback": model.rollback, "facts": model}
                for role, path, model in zip(("target", "draft"), paths, facts, strict=True)
            },
        }
    )
