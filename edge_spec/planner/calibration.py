"""What was measured and learned of a pair on this machine, kept between starts."""

from __future__ import annotations

import platform
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from edge_spec.planner.costs import RowCosts
from edge_spec.planner.knowledge import Knowledge
from edge_spec.planner.measuring import DRAFT_WIDTHS, Staircase, measure
from edge_spec.remembered import Remembered, file_facts
from edge_spec.versions import versions

if TYPE_CHECKING:
    from edge_spec.api import LoadedModel

FORMAT = 4
_MEASURED = Remembered("measured")
_BUDGET_S = 10.0


class Calibration:
    """Measures what decodes of both models cost, which takes seconds; what their caches held is lost."""

    def __init__(self, target: LoadedModel, draft: LoadedModel | None) -> None:
        self._verify = Staircase(target.cache)
        self._drafting = None if draft is None else Staircase(draft.cache, DRAFT_WIDTHS, wanted=False)

    def steps(self) -> Generator[float]:
        """Measure; yields what share of it is done. Raises Cancelled."""
        stairs = (self._verify, self._drafting)
        return measure([stair for stair in stairs if stair is not None], budget_s=_BUDGET_S)

    @property
    def knowledge(self) -> Knowledge:
        """What was found, with nothing learned from texts yet."""
        drafting = None if self._drafting is None else RowCosts(self._drafting.seconds)
        return Knowledge(RowCosts(self._verify.seconds), drafting)


def recall(target: LoadedModel, draft: LoadedModel | None) -> tuple[Knowledge, bool] | None:
    """What is kept of this pair with these settings on this machine, or None.

    And whether its costs are to be measured again, see `RowCosts.has_drifted`.
    """

    def understand(kept: Any) -> tuple[Knowledge, bool]:
        _check_format(kept)
        drafting = None if draft is None else RowCosts(_widths(kept["draft"]))
        knowledge = Knowledge(RowCosts(_widths(kept["verify"])), drafting)
        knowledge.restore(kept["learned"])
        return knowledge, bool(kept["drifted"])

    return _MEASURED.recall(partial(_facts, target, draft), understand)


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
    _MEASURED.keep(partial(_facts, target, draft), state)


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
    return sorted(_MEASURED.everything(_kept), key=lambda kept: -kept.when)


def _kept(raw: Any, when: float) -> Kept:
    _check_format(raw)
    name = raw["draft_model"]
    return Kept(
        str(raw["target"]),
        None if name is None else str(name),
        _widths(raw["verify"]),
        None if raw["draft"] is None else _widths(raw["draft"]),
        when,
    )


def _check_format(raw: Any) -> None:
    if raw["format"] != FORMAT:
        raise ValueError


def _widths(raw: Mapping[str, float]) -> dict[int, float]:
    found = {int(width): float(seconds) for width, seconds in raw.items()}
    if not found or min(found.values()) <= 0:
        raise ValueError
    return found


def _facts(target: LoadedModel, draft: LoadedModel | None) -> list[Any]:
    """Everything that the times depend on."""
    from edge_spec.llama import abi

    models = [_model_facts(target), None if draft is None else _model_facts(draft)]
    return [models, versions(), abi.build(), platform.node(), platform.machine()]


def _model_facts(model: LoadedModel) -> list[Any]:
    from edge_spec.llama.model import default_threads

    settings = model.settings
    parts = file_facts(model.header)
    threads = settings.threads or default_threads()
    return [
        parts, settings.context_size, threads, settings.threads_batch or threads, settings.gpu_layers,
        settings.device, settings.kv_type_k, settings.kv_type_v, settings.flash_attention,
        settings.num_slots, settings.load_mode,
    ]  # fmt: skip
