"""What was measured and learned of a pair on this machine, kept between starts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from edge_spec.planner.costs import RowCosts, measure
from edge_spec.planner.knowledge import Knowledge
from edge_spec.versions import versions
from edge_spec.whole_file import write_whole

if TYPE_CHECKING:
    from edge_spec.api import LoadedModel

FORMAT = 4
_BUDGET_S = 6.0
DRAFT_WIDTHS = (1, 2, 3, 4, 5, 8, 16, 32)


def calibrate(target: LoadedModel, draft: LoadedModel | None) -> Knowledge:
    """Measure what decodes of both models cost; empties their caches. Takes seconds. Raises Cancelled."""
    verify = RowCosts(measure(target.cache, budget_s=_BUDGET_S))
    if draft is None:
        return Knowledge(verify, None)
    drafting = RowCosts(measure(draft.cache, DRAFT_WIDTHS, wanted=False, budget_s=_BUDGET_S))
    return Knowledge(verify, drafting)


def recall(target: LoadedModel, draft: LoadedModel | None) -> tuple[Knowledge, bool] | None:
    """What is kept of this pair with these settings on this machine, or None.

    And whether its costs are to be measured again, see `RowCosts.has_drifted`.
    """
    try:
        kept = json.loads(_file(target, draft).read_text("utf-8"))
        if kept["format"] != FORMAT:
            return None
        drafting = None if draft is None else RowCosts(_widths(kept["draft"]))
        knowledge = Knowledge(RowCosts(_widths(kept["verify"])), drafting)
        knowledge.restore(kept["learned"])
        drifted = bool(kept["drifted"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # nothing is kept, or something else is: it is measured anew
    return knowledge, drifted


def keep(knowledge: Knowledge, target: LoadedModel, draft: LoadedModel | None) -> None:
    """Keep it for the next start; quietly does nothing where that is not possible."""
    state = {
        "format": FORMAT,
        "target": target.path.stem,
        "draft_model": None if draft is None else draft.path.stem,
        "verify": knowledge.verify.measured,
        "draft": None if knowledge.draft is None else knowledge.draft.measured,
        "drifted": any(costs.has_drifted for costs in (knowledge.verify, knowledge.draft) if costs),
        "learned": knowledge.state(),
    }
    with contextlib.suppress(OSError):
        # A model's file may have been removed meanwhile.
        write_whole(_file(target, draft), json.dumps(state).encode())


@dataclass(frozen=True, slots=True)
class Kept:
    """What a pair's decodes cost when they were last kept: seconds by rows. `when` is a POSIX time."""

    target: str
    draft: str | None
    verify_s: Mapping[int, float]
    draft_s: Mapping[int, float] | None
    when: float


def kept_pairs() -> list[Kept]:
    """Everything that is kept on this machine, the newest first; what cannot be read is passed over."""
    found = []
    for path in _folder().glob("*.json"):
        try:
            raw = json.loads(path.read_text("utf-8"))
            if raw["format"] == FORMAT:
                name = raw["draft_model"]
                draft_s = None if raw["draft"] is None else _widths(raw["draft"])
                widths = _widths(raw["verify"])
                found.append(
                    Kept(
                        str(raw["target"]),
                        None if name is None else str(name),
                        widths,
                        draft_s,
                        path.stat().st_mtime,
                    )
                )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            continue
    return sorted(found, key=lambda kept: -kept.when)


def _widths(raw: Mapping[str, float]) -> dict[int, float]:
    found = {int(width): float(seconds) for width, seconds in raw.items()}
    if not found or min(found.values()) <= 0:
        raise ValueError
    return found


def _file(target: LoadedModel, draft: LoadedModel | None) -> Path:
    """A name of its own for everything that the times depend on."""
    from edge_spec.llama import abi

    models = [_facts(target), None if draft is None else _facts(draft)]
    facts = [models, versions(), abi.build(), platform.node(), platform.machine()]
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
    return _folder() / f"{digest[:32]}.json"


def _folder() -> Path:
    return platformdirs.user_cache_path("edge-spec") / "measured"


def _facts(model: LoadedModel) -> list[Any]:
    from edge_spec.llama.model import default_threads

    settings = model.settings
    parts = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in model.header.files]
    threads = settings.threads or default_threads()
    return [
        parts, settings.context_size, threads, settings.threads_batch or threads, settings.gpu_layers,
        settings.device, settings.kv_type_k, settings.kv_type_v, settings.flash_attention,
        settings.num_slots, settings.load_mode,
    ]  # fmt: skip
