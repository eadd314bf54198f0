"""`edge-spec models list`: what is here, and what can be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edge_spec.cli.output import print_json, say, show, size_text, table

if TYPE_CHECKING:
    from edge_spec.models.catalogue import Catalogue
    from edge_spec.models.store import StoredModel


@click.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> None:
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
        [entry.name, size_text(entry.size) if entry.size else "the hub's", entry.licence, entry.description]
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
