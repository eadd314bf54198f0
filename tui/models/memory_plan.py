"""Whether models fit in memory and on disk, in words."""

from __future__ import annotations

import shutil
from pathlib import Path

from edge_spec import PairEstimate, size_text


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


def disk_words(num_bytes: int, folder: Path) -> str:
    """What a download needs, what the disk of `folder` has free, and whether that is enough."""
    if num_bytes == 0:
        return "Download: nothing, it is all here."
    free = _free_bytes(folder)
    words = f"Download: {size_text(num_bytes)} into {folder}, where {size_text(free)} are free"
    if free > num_bytes:
        return f"{words}: enough."
    return f"{words}: too little. Make room, or set EDGE_SPEC_MODELS to a folder on another disk."


def _free_bytes(folder: Path) -> int:
    """Free space where `folder` is, or will be once it is made."""
    for place in (folder, *folder.parents):
        try:
            return shutil.disk_usage(place).free
        except OSError:
            continue
    return 0
