"""`edge-spec models rm`: take models out of the store."""

from __future__ import annotations

import click

from edge_spec.cli.output import show
from edge_spec.sizes import size_text


@click.command("rm")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
def command(names: tuple[str, ...]) -> None:
    """Remove models from the store, and say what that frees.

    NAME is exact: as `models list` shows it, or a file's. Nothing outside the store is touched.
    Of a model whose pull was interrupted, what has been fetched is removed.
    """
    from edge_spec.models import upkeep

    plans = [upkeep.plan_removal(name) for name in dict.fromkeys(names)]  # all names are checked first
    for plan in plans:
        upkeep.remove(plan)
        what = [f"{len(plan.files)} files"] if len(plan.files) > 1 else []
        what += ["an interrupted pull"] if plan.leftovers else []
        shared = f"; {size_text(plan.shared)} stay on the disk, linked elsewhere" if plan.shared else ""
        inside = f" ({' and '.join(what)})" if what else ""
        show(f"{plan.name} is removed{inside}: {size_text(plan.freed)} freed{shared}.")
