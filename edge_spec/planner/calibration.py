"""What was measured and learned of a pair on this machine, kept between starts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from edge_spec.planner.costs import RowCosts, measure
from edge_spec.planner.knowledge import Knowledge
from edge_spec.versions import versions
from edge_spec.whole_file import write_whole

if TYPE_CHECKING:
    from edge_spec.api import LoadedModel

FORMAT = 2
DRAFT_WIDTHS = (1, 2, 3, 4, 5, 8, 16, 32)


def calibrate(target: LoadedModel, draft: LoadedModel | None) -> Knowledge:
    """Measure what decodes of both models cost; empties their caches. Takes seconds. Raises Cancelled."""
    verify = RowCosts(measure(target.cache))
    drafting = None if draft is None else RowCosts(measure(draft.cache, DRAFT_WIDTHS, wanted=False))
    return Knowledge(verify, drafting)


def recall(target: LoadedModel, draft: LoadedModel | None) -> Knowledge | None:
    """What is kept of this pair with these settings on this machine, or None."""
    try:
        kept = json.loads(_file(target, draft).read_text("utf-8"))
        if kept["format"] != FORMAT:
            return None
        drafting = None if draft is None else RowCosts(_widths(kept["draft"]))
        knowledge = Knowledge(RowCosts(_widths(kept["verify"])), drafting)
        knowledge.restore(kept["learned"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # nothing is kept, or something else is: it is measured anew
    return knowledge


def keep(knowledge: Knowledge, target: LoadedModel, draft: LoadedModel | None) -> None:
    """Keep it for the next start; quietly does nothing where that is not possible."""
    state = {
        "format": FORMAT,
        "verify": knowledge.verify.measured,
        "draft": None if knowledge.draft is None else knowledge.draft.measured,
        "learned": knowledge.state(),
    }
    with contextlib.suppress(OSError):
        # A model's file may have been removed meanwhile.
        write_whole(_file(target, draft), json.dumps(state).encode())


def _widths(raw: Mapping[str, float]) -> dict[int, float]:
    found = {int(width): float(seconds) for width, seconds in raw.items()}
    if not found or min(found.values()) <= 0:
        raise ValueError
    return found


def _file(target: LoadedModel, draft: LoadedModel | None) -> Path:
    """A name of its own for everything that the times depend on."""
    models = [_facts(target), None if draft is None else _facts(draft)]
    facts = [models, versions(), platform.node(), platform.machine(), os.cpu_count()]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
    return platformdirs.user_cache_path("edge-spec") / "measured" / f"{digest[:32]}.json"


def _facts(model: LoadedModel) -> list[Any]:
    state, settings = model.path.stat(), model.settings
    return [
        model.path.name, state.st_size, state.st_mtime_ns, settings.context_size, settings.threads,
        settings.threads_batch, settings.gpu_layers, settings.device, settings.kv_type_k,
        settings.kv_type_v, settings.flash_attention, settings.num_slots,
    ]  # fmt: skip
