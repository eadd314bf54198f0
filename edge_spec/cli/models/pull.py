"""`edge-spec models pull`: fetch models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edge_spec.cli.output import show
from edge_spec.sizes import size_text

if TYPE_CHECKING:
    from pathlib import Path

    from edge_spec.models.sources import PullPlan
    from edge_spec.models.wanted import Wanted


@click.command("pull")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--revision", metavar="REV", help="Branch, tag or commit of the hub's repositories. [main]")
@click.option("--dry-run", is_flag=True, help="Say what would be fetched, and fetch nothing.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
def command(names: tuple[str, ...], revision: str | None, dry_run: bool, quiet: bool) -> None:
    """Fetch models into the store; what an interrupted pull has fetched is kept and used.

    NAME is a model or pair of the catalogue, user/repo[:QUANT] on the Hugging Face hub, or
    file:PATH. Without QUANT, Q4_K_M is taken, or the only model that there is.

    \b
    edge-spec models pull starter
    edge-spec models pull Qwen/Qwen3-8B-GGUF:Q8_0
    edge-spec models pull file:~/Downloads/model.gguf
    """
    from edge_spec.cli.progress import fetch_planned
    from edge_spec.models.sources import plan_pull

    plan = plan_pull(names, revision=revision)
    if dry_run:
        _foretell(plan)
        return
    for wanted, path in zip(plan.wanted, fetch_planned(plan, quiet=quiet), strict=True):
        show(f"{wanted.name} is at {path}")


def _foretell(plan: PullPlan) -> None:
    """The files of a plan that are not here yet, and whether the disk has room for them."""
    from edge_spec.models.job import disk_usage

    missing = [wanted for wanted in plan.wanted if not _is_here(wanted, plan.folder)]
    for wanted in plan.wanted:
        for note in wanted.notes:
            show(note)
        if wanted not in missing:
            show(f"{wanted.name} is here already.")
            continue
        commit = f" at {wanted.commit[:12]}" if wanted.commit else ""
        licence = f", licence {wanted.licence}" if wanted.licence else ""
        show(f"{wanted.name}: {size_text(wanted.size)} from {wanted.source}{commit}{licence}")
        for file in wanted.files:
            show(f"  {file.file}  {size_text(file.size)}  sha256 {file.sha256}")
    if not missing:
        return
    free = disk_usage(plan.folder).free
    show(f"{size_text(plan.num_bytes)} to fetch; {size_text(free)} free in {plan.folder}.")


def _is_here(wanted: Wanted, folder: Path) -> bool:
    """As far as sizes on disk tell."""
    paths = [(folder / file.file, file.size) for file in wanted.files]
    return all(path.is_file() and path.stat().st_size == size for path, size in paths)
