"""`edge-spec check TARGET DRAFT`: can they pair, and if not, why; reads headers only."""

from __future__ import annotations

import click

from edge_spec.cli.output import print_json, show, size_text
from edge_spec.errors import ModelError


@click.command("check")
@click.argument("target")
@click.argument("draft")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(ctx: click.Context, target: str, draft: str, as_json: bool) -> None:
    """Can DRAFT draft for TARGET, and if not, why?

    Both are GGUF files or catalogue names; only their headers are read. Exits with 0 when they
    pair and 3 when they do not.
    """
    from edge_spec.models import store
    from edge_spec.models.header import read_header
    from edge_spec.models.pairing import check_pair

    headers = [read_header(store.resolve(ref)) for ref in (target, draft)]
    report = check_pair(*headers)
    if as_json:
        print_json(
            {
                "schema_version": 1,
                "pairs": report.pairs,
                "reasons": report.reasons,
                "notes": report.notes,
                "difference": report.difference,
                **{
                    role: {
                        "file": header.path,
                        "name": header.name,
                        "architecture": header.architecture,
                        "quantization": header.quantization,
                        "parameters": header.num_parameters,
                        "vocab_size": header.vocab.size,
                    }
                    for role, header in zip(("target", "draft"), headers, strict=True)
                },
            }
        )
    else:
        for role, header in zip(("target", "draft"), headers, strict=True):
            show(
                f"{role + ':':8}{header.name} ({header.architecture}, {header.quantization}, "
                f"{size_text(header.size)}, {header.vocab.size:,} tokens)"
            )
        show(f"verdict: {report.verdict}")
        for sentence in (*report.reasons, *report.notes):
            show(f"- {sentence}")
    if not report.pairs:
        ctx.exit(ModelError.exit_code)
