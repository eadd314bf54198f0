"""Several drafters, of which each round uses the one that the planner names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edge_spec.drafters.draft_model import ModelDrafter
from edge_spec.drafters.ngram import NgramDrafter
from edge_spec.types import NO_PROPOSAL, Budget, Outlook, Proposal, Slot, Verdict


class Cascade:
    """An n-gram drafter and perhaps a draft model; implements `types.Drafter`.

    Whose turn it is stands in `Budget.source`; behind a model's draft, a copy may go on.
    """

    name = "auto"

    def __init__(self, ngram: NgramDrafter, model: ModelDrafter | None) -> None:
        self._ngram = ngram
        self._model = model

    def begin(self, slot: Slot) -> int:
        self._ngram.begin(slot)
        return 0 if self._model is None else self._model.begin(slot)

    def num_cached(self, slot: Slot) -> int:
        return 0 if self._model is None else self._model.num_cached(slot)

    def outlook(self, slot: Slot) -> Outlook:
        copied = self._ngram.outlook(slot)
        if self._model is None:
            return copied
        drafted = self._model.outlook(slot)
        return replace(copied, draft_lag=drafted.draft_lag, window=drafted.window)

    def propose(self, slots: Sequence[Slot], budgets: Sequence[Budget]) -> list[Proposal]:
        proposals = [NO_PROPOSAL] * len(slots)
        for drafter in (self._ngram, self._model):
            turns = [i for i, budget in enumerate(budgets) if drafter and budget.source == drafter.name]
            if drafter is not None and turns:
                made = drafter.propose([slots[i] for i in turns], [budgets[i] for i in turns])
                for i, proposal in zip(turns, made, strict=True):
                    proposals[i] = proposal
        for i, (slot, budget) in enumerate(zip(slots, budgets, strict=True)):
            if budget.copies is not None and len(proposals[i]):
                proposals[i] = self._ngram.go_on(slot, proposals[i], budget.copies)
        return proposals

    def observe(self, slots: Sequence[Slot], verdicts: Sequence[Verdict | None]) -> None:
        self._ngram.observe(slots, verdicts)
        if self._model is not None:
            self._model.observe(slots, verdicts)
