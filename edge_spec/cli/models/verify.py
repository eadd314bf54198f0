"""`edge-spec models verify`: are the bytes in the store still the ones that were pulled?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edge_spec.cli.output import print_json, say, show
from edge_spec.errors import ModelError

if TYPE_CHECKING:
    from edge_spec.models.upkeep import Verdict


@click.command("verify")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr.")
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], as_json: bool, quiet: bool) -> None:
    """Read models of the store again and compare every file with its sha256; all without NAME.

    Exits with 3 when one is damaged. A file that was not pulled has no sha256 to compare with.
    """
    from edge_spec.cli.progress import StatusLine
    from edge_spec.models import upkeep

    status = StatusLine(quiet=quiet)
    verdicts = []
    for verdict in upkeep.verify(
        upkeep.find(names),
        lambda name, done, total: status.show(f"{name}: {done / total:.0%} read"),
    ):
        status.clear()
        verdicts.append(verdict)
        if not as_json:
            _show(verdict)
    if as_json:
        print_json({"schema_version": 1, "models": [_fields(verdict) for verdict in verdicts]})
    elif not verdicts:
        say("There is no model in the store.")
    if any(verdict.state in ("damaged", "incomplete") for verdict in verdicts):
        ctx.exit(ModelError.exit_code)


_WORDS = {
    "whole": "whole",
    "damaged": "DAMAGED",
    "incomplete": "INCOMPLETE",
    "unknown": "not known: it was not pulled, so there is no sha256 to compare with",
}


def _show(verdict: Verdict) -> None:
    record = verdict.model.record
    origin = ""
    if record is not None:
        commit = f" at {record.commit[:12]}" if record.commit else ""
        origin = f" ({record.repo or record.source}{commit}, {record.pulled})"
    show(f"{verdict.model.name}: {_WORDS[verdict.state]}{origin}")
    for problem in verdict.problems:
        show(f"  {problem}")
    if verdict.state in ("damaged", "incomplete") and (record is not None or verdict.model.catalogue_name):
        show(f"  `edge-spec models pull {verdict.model.name}` brings it again.")


def _fields(verdict: Verdict) -> dict[str, Any]:
    record = verdict.model.record
    return {
        "name": verdict.model.name,
        "state": verdict.state,
        "problems": verdict.problems,
        "files": verdict.model.files,
        "source": record.source if record else None,
        "repo": record.repo if record else None,
        "commit": record.commit if record else None,
        "pulled": record.pulled if record else None,
    }
