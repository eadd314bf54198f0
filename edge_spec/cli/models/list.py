"""`edge-spec models list`: what is on this machine, and what can be had."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from edge_spec.cli.output import print_json, say, show
from edge_spec.cli.paragraph import show_wrapped, width
from edge_spec.sizes import count_text, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from edge_spec.models.catalogue import Entry, PairEntry
    from edge_spec.models.inventory import FoundModel

_HEADING = ["name", "architecture", "params", "quant", "size", "vocab", "licence"]
_MAX_LICENCE = 12


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="Every model and pair of the catalogue, described.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, all of them in it.")
def command(everything: bool, as_json: bool) -> None:
    """The models on this machine, the pairs, and how many models can be had besides.

    Looks into our store, the Hugging Face cache, LM Studio, Ollama and llama.cpp's cache, and
    writes to none of them. Every model is used by the name that is shown here; models with the
    same `vocab` have the same vocabulary.
    """
    from edge_spec.models import store
    from edge_spec.models.catalogue import catalogue
    from edge_spec.models.inventory import found_models

    models = found_models()
    here = {model.name for model in models if model.place == "store"}
    offered = [entry for entry in catalogue().models.values() if entry.name not in here]
    if as_json:
        print_json(
            {
                "schema_version": 1,
                "store": store.store_path(),
                "installed": [_record(model) for model in models],
                "available": [
                    {
                        "name": entry.name,
                        "size": entry.size,
                        "licence": entry.licence,
                        "description": entry.description,
                        "pitfall": entry.pitfall,
                    }
                    for entry in offered
                ],
                "pairs": {
                    pair.name: {"target": pair.target, "draft": pair.draft, "pitfall": pair.pitfall}
                    for pair in catalogue().pairs.values()
                },
            }
        )
        return
    if not any(model.place == "store" for model in models):
        show(f"There is no model in {store.store_path()} yet.")
    _show_models(models)
    for model in models:
        if model.problem:
            say(model.problem)
    pairs = list(catalogue().pairs.values())
    pairs.sort(key=lambda pair: not here.issuperset(pair.models))
    if everything:
        _describe(offered, pairs, here)
    else:
        _name_pairs(pairs, here)
        if offered:
            more = f"{len(offered)} more model{'s' if len(offered) > 1 else ''} can be had"
            show(f"{more}: edge-spec models list --all")


def _show_models(models: list[FoundModel]) -> None:
    """One line a model, or two where the names are too long for the terminal."""
    from edge_spec.models.store import store_path

    rows = {model.name: _row(model) for model in models}
    widths = [max(len(row[i]) for row in (_HEADING, *rows.values())) for i in range(len(_HEADING))]
    fits = sum(widths) + 2 * len(widths) <= width()
    recipes = {model.name: model.facts.forged for model in models if model.facts and model.facts.forged}
    for place, group in groupby(models, key=lambda model: model.place):
        show(f"{place}, {store_path()}:" if place == "store" else f"{place}:")
        for row in [_HEADING, *(rows[model.name] for model in group)]:
            name, *facts = row
            cells = "  ".join(cell.ljust(size) for cell, size in zip(facts, widths[1:], strict=True)).rstrip()
            if fits:
                show(f"  {name.ljust(widths[0])}  {cells}".rstrip())
            elif row is _HEADING:
                show(f"      {cells}")
            else:
                show(f"  {name}\n      {cells}")
            if row is not _HEADING and name in recipes:
                show_wrapped(f"forged {recipes[name]}", first=" " * 6, rest=" " * 8)


def _name_pairs(pairs: Iterable[PairEntry], here: set[str]) -> None:
    """The names alone, which fit a small screen."""
    names: dict[bool, list[str]] = {True: [], False: []}
    for pair in pairs:
        names[here.issuperset(pair.models)].append(pair.name)
    show("\nPairs, for --pair NAME:")
    for title, group in (("here", names[True]), ("to be had with edge-spec models pull NAME", names[False])):
        if group:
            show_wrapped(", ".join(group), first=f"  {title}: ", rest=" " * 4)


def _describe(offered: Sequence[Entry], pairs: Sequence[PairEntry], here: set[str]) -> None:
    """What `models pull` could fetch, and what every pair is made of."""
    if offered:
        show("\nTo be had with edge-spec models pull NAME:")
        _show_rows(
            ["name", "size", "licence", "description"],
            [
                [
                    entry.name,
                    size_text(entry.size) if entry.size else "?",
                    _cut(entry.licence),
                    entry.description,
                ]
                for entry in offered
            ],
        )
    show("\nPairs, for --pair NAME:")
    _show_rows(
        ["pair", "", "target + draft"],
        [
            [pair.name, "here" if here.issuperset(pair.models) else "", " + ".join(pair.models)]
            for pair in pairs
        ],
    )


def _show_rows(heading: list[str], rows: list[list[str]]) -> None:
    """Rows with their columns aligned, the last one wrapped in its own."""
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    for row in (heading, *rows):
        cells = "".join(f"{cell.ljust(size)}  " for cell, size in zip(row[:-1], widths, strict=False))
        show_wrapped(row[-1], first=f"  {cells}", rest=" " * (len(cells) + 2))


def _record(model: FoundModel) -> dict[str, Any]:
    facts, record = model.facts, model.record
    return {
        "name": model.name,
        "file": model.path,
        "place": model.place,
        "size": model.size,
        "kind": facts.kind if facts else None,
        "architecture": facts.architecture if facts else None,
        "parameters": facts.parameters if facts else None,
        "quantization": facts.quantization if facts else None,
        "vocabulary": facts.vocab.fingerprint if facts and facts.vocab.has_texts else None,
        "licence": model.licence,
        "source": record.source if record else None,
        "repo": record.repo if record else None,
        "commit": record.commit if record else None,
        "pulled": record.pulled if record else None,
        "forged": facts.forged if facts else None,
        "problem": model.problem,
    }


def _row(model: FoundModel) -> list[str]:
    facts = model.facts
    if facts is None or model.problem:
        return [model.name, "damaged", "", "", size_text(model.size), "", ""]
    return [
        model.name,
        facts.architecture if facts.kind == "model" else facts.kind,
        count_text(facts.parameters),
        facts.quantization,
        size_text(model.size),
        facts.vocab.fingerprint[:8] if facts.vocab.has_texts else "",
        _cut(model.licence or ""),
    ]


def _cut(licence: str) -> str:
    return licence if len(licence) <= _MAX_LICENCE else f"{licence[: _MAX_LICENCE - 1]}…"
