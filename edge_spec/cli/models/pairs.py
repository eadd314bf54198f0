"""`edge-spec models pairs`: which models on this machine pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from edge_spec.cli.output import print_json, show
from edge_spec.cli.paragraph import show_wrapped, width
from edge_spec.terminal import harmless

if TYPE_CHECKING:
    from edge_spec.models.inventory import FoundPair


@click.command("pairs")
@click.option("--all", "everything", is_flag=True, help="Also those that do not pair, each with the reason.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(everything: bool, as_json: bool) -> None:
    """Every pair of models on this machine that can be used, best first.

    Best are pairs without masked tokens, then those whose draft reads the fewest bytes a token
    against the target's, by halves, then those whose types give the same logits at every width.
    How fast a pair is here has to be measured.
    """
    from edge_spec.models.inventory import RANKING, found_models, found_pairs

    pairs = found_pairs(found_models())
    usable = [pair for pair in pairs if pair.report.pairs and not pair.report.draft_free]
    others = [pair for pair in pairs if not pair.report.pairs or pair.report.draft_free]
    if as_json:
        listed = pairs if everything else usable
        print_json({"schema_version": 1, "ranking": RANKING, "pairs": [_record(pair) for pair in listed]})
        return
    if usable:
        show_wrapped(f"{RANKING} Shown is that share.")
        for number, pair in enumerate(usable, 1):
            _show_pair(f"{number:>3}  {pair.share:>4.0%}  ", pair)
    else:
        show_wrapped(
            "No two models on this machine pair; `edge-spec models pull starter` gets two that do, and a "
            "drafter without a model goes with every target."
        )
    if everything and others:
        show("\nNot to be used together:")
        for pair in others:
            show_wrapped(f"{pair.target.name} <- {pair.draft.name}: {_reason(pair)}", first="- ", rest="  ")
    elif others:
        show_wrapped(f"{len(others)} more do not pair or would not pay; --all says why.")


def _show_pair(head: str, pair: FoundPair) -> None:
    """Target and draft on one line where they fit, else on two."""
    masked = f" ({len(pair.report.masked):,} masked)" if pair.report.masked else ""
    target, draft = harmless(pair.target.name), f"<- {harmless(pair.draft.name)}{masked}"
    line = f"{head}{target} {draft}"
    show(line if len(line) <= width() else f"{head}{target}\n{' ' * len(head)}{draft}")


def _reason(pair: FoundPair) -> str:
    if pair.report.reasons:
        return pair.report.reasons[0]
    return f"the draft reads {pair.share:.0%} of the target's bytes a token, so it cannot pay."


def _record(pair: FoundPair) -> dict[str, Any]:
    report = pair.report
    return {
        "target": {"name": pair.target.name, "file": pair.target.path, "place": pair.target.place},
        "draft": {"name": pair.draft.name, "file": pair.draft.path, "place": pair.draft.place},
        "verdict": report.verdict,
        "usable": report.pairs and not report.draft_free,
        "bytes_share": pair.share,
        "masked": report.masked,
        "reasons": report.reasons,
        "notes": report.notes,
    }
