"""Whether models fit in memory and on disk, in words and as a small table."""

from __future__ import annotations

from pathlib import Path

import edge_spec
from edge_spec import PairEstimate, PairSpec, disk_usage, size_text

_COLUMNS = ("weights", "KV cache", "work", "in all")
_WIDTH = 10


def memory_words(estimate: PairEstimate) -> str:
    """What a pair needs and what is free; advice where that is not enough."""
    if not estimate.fits:
        return f"Memory: it does not fit. {estimate.advice}"
    needed = estimate.mapped + estimate.private
    return (
        f"Memory: at least {size_text(needed)} needed ({size_text(estimate.mapped)} weights, "
        f"{size_text(estimate.private)} for work), {size_text(estimate.available)} of "
        f"{size_text(estimate.total)} free: it fits."
    )


def pair_words(spec: PairSpec) -> str:
    """`memory_words` of a pair, whose files are read. Raises EdgeSpecError for one that cannot be used."""
    return memory_words(edge_spec.estimate_pair(spec))


def memory_table(estimate: PairEstimate) -> str:
    """The same with a line for each model, and what to lower where it does not fit."""
    plan = estimate.plan
    if plan is None:
        return memory_words(estimate)
    caches = [
        model.total("KV cache") + model.total("state") + model.total("checkpoints") for model in plan.models
    ]
    if not all(caches):  # not here yet: only the file's size is known
        return memory_words(estimate)
    lines = ["memory".ljust(_WIDTH) + "".join(name.rjust(_WIDTH) for name in _COLUMNS)]
    for model, cache in zip(plan.models, caches, strict=True):
        weights = model.mapped + model.total("weights") + model.total("repacked")
        whole = model.mapped + model.total()
        amounts = (weights, cache, whole - weights - cache, whole)
        lines.append(model.role.ljust(_WIDTH) + "".join(size_text(n).rjust(_WIDTH) for n in amounts))
    sign, verdict = {
        "fits": ("✓", "it fits"),
        "tight": ("!", "it probably does not fit"),
        "too small": ("✗", "it cannot fit"),
    }[plan.verdict]
    lines.append(
        f"{sign} {size_text(plan.needed)} needed with the program, {size_text(estimate.available)} of "
        f"{size_text(estimate.total)} free: {verdict}."
    )
    for device in plan.machine.devices:
        planned = size_text(plan.on_device(device.name))
        lines.append(f"  On {device.name}: {planned} planned, {size_text(device.free_bytes)} free.")
    for saving in estimate.savings:
        enough = ": then it fits" if saving.fits else ""
        lines.append(f"  {saving.change} saves {size_text(saving.num_bytes)}{enough}")
    return "\n".join(lines)


def disk_words(num_bytes: int, folder: Path) -> str:
    """What a download needs, what the disk of `folder` has free, and whether that is enough."""
    if num_bytes == 0:
        return "Download: nothing, it is all here."
    free = disk_usage(folder).free
    words = f"Download: {size_text(num_bytes)} into {folder}, where {size_text(free)} are free"
    if free > num_bytes:
        return f"{words}: enough."
    return f"{words}: too little. Make room, or set EDGE_SPEC_MODELS to a folder on another disk."
