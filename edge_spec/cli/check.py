"""`edge-spec check TARGET DRAFT`: would they pair?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_spec.cli.output import print_json, show
from edge_spec.cli.paragraph import show_wrapped
from edge_spec.errors import IncompatiblePairError, ModelError
from edge_spec.sizes import count_text, size_text

if TYPE_CHECKING:
    from edge_spec.models.facts import ModelFacts
    from edge_spec.models.memory import MemoryPlan, Saving
    from edge_spec.models.pairing import PairReport
    from edge_spec.settings import Settings

MAX_LISTED = 8
"""How many differing tokens are printed; --json has them all."""


@click.command("check")
@click.argument("target")
@click.argument("draft")
@click.option("-c", "--ctx-size", metavar="N", help="Plan memory for a context of N tokens.")
@click.option("-ctk", "--cache-type-k", metavar="TYPE", help="... for cached keys of TYPE: f16, q8_0, ...")
@click.option("-ctv", "--cache-type-v", metavar="TYPE", help="... for cached values of TYPE.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, every differing token in it.")
@click.pass_context
def command(
    ctx: click.Context,
    target: str,
    draft: str,
    ctx_size: str | None,
    cache_type_k: str | None,
    cache_type_v: str | None,
    as_json: bool,
) -> None:
    """Can DRAFT draft for TARGET, and if not, why? And how much memory do they take?

    Both are GGUF files or names of models; only their headers are read. Of models that are not
    here the catalogue knows some that do not pair. Exits with 0 when they pair and 3 when they do
    not. Settings that are not given here are those of the settings files.
    """
    from edge_spec.models import facts_cache
    from edge_spec.models.catalogue import catalogue
    from edge_spec.models.pairing import check_files
    from edge_spec.models.resolve import is_missing, resolve_model
    from edge_spec.settings import resolve

    flags = {"ctx-size": ctx_size, "cache-type-k": cache_type_k, "cache-type-v": cache_type_v}
    settings = resolve(flags)

    if any(map(is_missing, (target, draft))) and (reason := catalogue().refusal(target, draft)):
        raise IncompatiblePairError(f"{draft} cannot draft for {target}: {reason}")
    paths = [resolve_model(ref) for ref in (target, draft)]
    facts = [facts_cache.facts(path) for path in paths]
    report = check_files(*paths)
    memory = _Memory.of(paths, settings) if report.pairs else None
    if as_json:
        _print_json(report, paths, facts, memory)
    else:
        for role, model in zip(("target", "draft"), facts, strict=True):
            _show_model(role, model)
        _show_report(report)
        if memory is not None:
            from edge_spec.cli.memory_table import show_plan

            show("")
            show_plan(memory.plan, memory.savings)
    if not report.pairs:
        ctx.exit(ModelError.exit_code)


@dataclass(frozen=True, slots=True)
class _Memory:
    """What the pair takes with these settings, and what would lower it."""

    plan: MemoryPlan
    savings: Sequence[Saving]

    @classmethod
    def of(cls, paths: Sequence[Path], settings: Settings) -> _Memory:
        from edge_spec.host import PairSpec
        from edge_spec.models.library import memory_requests
        from edge_spec.models.memory import plan_memory, savings, this_machine

        target, draft = map(str, paths)
        requests = memory_requests(PairSpec(target, draft, settings.load_options()))
        machine = this_machine()
        plan = plan_memory(requests, machine)
        return cls(plan, savings(requests, machine) if plan.verdict != "fits" else ())


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


def _print_json(
    report: PairReport, paths: list[Path], facts: list[ModelFacts], memory: _Memory | None
) -> None:
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
            "memory": memory,
            **{
                role: {"file": path, "rollback": model.rollback, "facts": model}
                for role, path, model in zip(("target", "draft"), paths, facts, strict=True)
            },
        }
    )
