"""`edge-spec models quantize`: write a model with weights of another type."""

from __future__ import annotations

import os

import click

from edge_spec.cli.output import show
from edge_spec.errors import OutputError
from edge_spec.paths import user_path
from edge_spec.sizes import size_text


@click.command("quantize")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.argument("kind", metavar="TYPE")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def command(source: str, output: str, kind: str, force: bool, quiet: bool) -> None:
    """Write model IN to file OUT with weights of TYPE: Q4_0, Q8_0, BF16, ...

    A draft is often faster as Q4_0 than as published, a target cheaper to verify with as BF16.
    A model in several parts becomes one file.
    """
    from edge_spec.cli.progress import StatusLine
    from edge_spec.models.quantize import quantize
    from edge_spec.models.resolve import resolve_model

    path, model = user_path(output), resolve_model(source)
    if os.path.exists(path) and not force:
        raise OutputError(f"{path} exists already; --force replaces it.")
    status = StatusLine(quiet=quiet)
    try:
        quantize(
            model, path, kind, progress=lambda done, total: status.show(f"{kind}: {done} of {total} tensors")
        )
    finally:
        status.clear()
    show(f"{path} has {size_text(path.stat().st_size)}.")
