"""A draft length that somebody chose."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edge_spec.events import Notice, RoundTimings
from edge_spec.stats import SpeculationState
from edge_spec.types import Budget, Outlook, Proposal, Slot, Verdict


class FixedPlanner:
    """Drafts K tokens wherever K are allowed, fewer near an end, none below `draft_min`."""

    def __init__(self, draft_max: int, draft_min: int = 0, reason_off: str = "") -> None:
        self._draft_max = draft_max
        self._draft_min = draft_min
        self.state: SpeculationState = "on" if draft_max else "off"
        self.reason = f"fixed draft length {draft_max}" if draft_max else reason_off
        self.predicted_tokens_per_second: float | None = None

    def plan(
        self,
        slots: Sequence[Slot],
        num_pending: Sequence[int],
        num_allowed: Sequence[int],
        num_rows: int,
        outlook: Callable[[Slot], Outlook],
    ) -> list[Budget]:
        share = num_rows // len(num_pending)
        budgets = []
        for pending, allowed in zip(num_pending, num_allowed, strict=True):
            drafted = max(0, min(self._draft_max, allowed, share - pending))
            if drafted < self._draft_min:
                drafted = 0
            budgets.append(Budget(min(pending, share), drafted))
        return budgets

    def observe(
        self,
        slots: Sequence[Slot],
        proposals: Sequence[Proposal],
        verdicts: Sequence[Verdict | None],
        timings: RoundTimings,
    ) -> Sequence[Notice]:
        return ()
