"""The one table of drafters: of what each is made, and the planner that says how much it drafts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from edge_spec.config import Decoding, DrafterName
from edge_spec.drafters.cascade import Cascade
from edge_spec.drafters.draft_model import ModelDrafter, Window
from edge_spec.drafters.draw import DrawChoice
from edge_spec.drafters.ngram import NgramDrafter
from edge_spec.drafters.none import NoDrafter
from edge_spec.drafters.token_map import TokenMap
from edge_spec.engine import Engine
from edge_spec.planner import FixedPlanner
from edge_spec.planner.auto import AutoPlanner
from edge_spec.planner.knowledge import Knowledge
from edge_spec.target import ModelTarget
from edge_spec.types import Timers

if TYPE_CHECKING:
    from edge_spec.api import LoadedModel


@dataclass(frozen=True, slots=True)
class Parts:
    """What engines are made of: the loaded models, and what is kept from one text to the next."""

    target: LoadedModel
    draft: LoadedModel | None
    token_map: TokenMap | None
    draw_choice: DrawChoice = field(default_factory=DrawChoice)
    windows: dict[int, Window] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of one engine, and what is known here of costs.

    `steady_rows` is the least width of a decode whose logits do not depend on it.
    """

    decoding: Decoding
    knowledge: Knowledge | None
    steady_rows: int
    timers: Timers = field(default_factory=Timers)


def make_engine(parts: Parts, wanted: Wanted) -> Engine:
    """The engine with the drafter that was asked for; one that decodes plainly where K is 0."""
    if not wanted.decoding.draft_max:
        return _plain(parts, wanted, "draft length 0 was asked for")
    return MAKERS[wanted.decoding.drafter](parts, wanted)


def _auto(parts: Parts, wanted: Wanted) -> Engine:
    decoding, knowledge, timers = wanted.decoding, wanted.knowledge, wanted.timers
    if knowledge is None:
        return _plain(parts, wanted, "what drafting costs here was not measured")
    knowledge.verify.least_rows = wanted.steady_rows
    model = None
    if parts.draft is not None and knowledge.draft is not None:
        model = ModelDrafter(
            parts.draft.cache, parts.target.model.num_vocab, timers, parts.token_map,
            knowledge.draft.observe, _choice(parts, decoding), parts.windows,
        )  # fmt: skip
    planner = AutoPlanner(knowledge, draft_max=decoding.draft_max, draft_min=decoding.draft_min)
    target = ModelTarget(parts.target.cache, timers, knowledge.verify.observe)
    ngram = NgramDrafter(timers, on_judged=planner.judged_copy)
    return Engine(target, Cascade(ngram, model), planner, timers)


def _draft(parts: Parts, wanted: Wanted) -> Engine:
    decoding, timers = wanted.decoding, wanted.timers
    if parts.draft is None:
        return _plain(parts, wanted, "there is no draft model")
    parts.windows.clear()  # a draft of fixed length reads everything
    drafter = ModelDrafter(
        parts.draft.cache, parts.target.model.num_vocab, timers, parts.token_map,
        choice=_choice(parts, decoding),
    )  # fmt: skip
    planner = FixedPlanner(decoding.draft_max, decoding.draft_min)
    return Engine(ModelTarget(parts.target.cache, timers), drafter, planner, timers)


def _ngram(parts: Parts, wanted: Wanted) -> Engine:
    decoding, timers = wanted.decoding, wanted.timers
    planner = FixedPlanner(decoding.draft_max, decoding.draft_min)
    return Engine(ModelTarget(parts.target.cache, timers), NgramDrafter(timers), planner, timers)


MAKERS: Final[Mapping[DrafterName, Callable[[Parts, Wanted], Engine]]] = {
    "auto": _auto,
    "draft": _draft,
    "ngram": _ngram,
}


def _plain(parts: Parts, wanted: Wanted, why: str) -> Engine:
    parts.windows.clear()
    target = ModelTarget(parts.target.cache, wanted.timers)
    return Engine(target, NoDrafter(), FixedPlanner(0, reason_off=why), wanted.timers)


def _choice(parts: Parts, decoding: Decoding) -> DrawChoice | None:
    """How the draft draws is learned, unless somebody has said at which temperature."""
    return parts.draw_choice if decoding.draft_temperature is None else None
