"""A memory plan as a table for people, within 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from edge_spec.cli.output import show, table
from edge_spec.models.memory import MemoryPlan, Saving
from edge_spec.models.memory.placing import RAM
from edge_spec.models.memory.plan import PROGRAM_BYTES
from edge_spec.sizes import size_text

_ROWS = (
    ("weights", "weights"),
    ("repacked", "repacked copies"),
    ("KV cache", "KV cache"),
    ("state", "recurrent state"),
    ("checkpoints", "checkpoints"),
    ("logits", "logits"),
    ("compute", "computing"),
    ("vocabulary", "vocabulary"),
)
_VERDICTS = {"fits": "It fits.", "tight": "It probably does not fit.", "too small": "It cannot fit."}


def show_plan(plan: MemoryPlan, savings: Sequence[Saving] = ()) -> None:
    """Print where each model's bytes go, what is free, how the weights are loaded, and what to lower."""
    rows = [["memory", *(model.role for model in plan.models), "place"]]
    places = dict.fromkeys([RAM, *(device.name for device in plan.machine.devices)])
    for place in places:
        for what, label in _ROWS:
            amounts = [sum(p.num_bytes for p in model.parts if (p.what, p.place) == (what, place))
                       for model in plan.models]  # fmt: skip
            if any(amounts):
                rows.append([label, *map(_amount, amounts), place])
    rows.append(["weights, mapped", *(_amount(model.mapped) for model in plan.models), "file pages"])
    if plan.idle:
        rows.append(["mapped, not used", *(_amount(model.idle) for model in plan.models), "file pages"])
    table(rows)
    machine = plan.machine
    show("")
    _say(
        f"In all {size_text(plan.private)} of our own ({size_text(PROGRAM_BYTES)} for the program) and "
        f"{size_text(plan.mapped)} mapped; {size_text(machine.available)} of {size_text(machine.total)} "
        f"are free. {_VERDICTS[plan.verdict]}"
    )
    for device in machine.devices:
        planned, free = size_text(plan.on_device(device.name)), size_text(device.free_bytes)
        _say(f"{device.name}: {planned} planned, {free} of {size_text(device.total_bytes)} free.")
    for model in plan.models:
        _say(f"Load mode of the {model.role}: {model.load_mode} ({model.why}).")
    if savings:
        show("To lower it:")
    for saving in savings:
        enough = ", and then it fits" if saving.fits and plan.verdict != "fits" else ""
        _say(f"{size_text(saving.num_bytes):>8}  {saving.change}{enough}", " " * 10)


def _say(text: str, indent: str = "") -> None:
    show(textwrap.fill(text, 80, subsequent_indent=indent, drop_whitespace=True))


def _amount(num_bytes: int) -> str:
    return size_text(num_bytes) if num_bytes else "-"
