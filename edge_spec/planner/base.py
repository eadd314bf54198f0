"""How many rows each slot may use in a round, and from which drafter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from edge_spec.events import Notice, RoundTimings
from edge_spec.stats import SpeculationState
from edge_spec.types import Budget, Outlook, Proposal, Slot, Verdict


class Planner(Protocol):
    """Chooses the rows of a round; `state` and `reason` say whether it drafts, and why."""

    @property
    def state(self) -> SpeculationState: ...

    @property
    def reason(self) -> str: ...

    @property
    def predicted_tokens_per_second(self) -> float | None:
        """What the rounds so far were expected to make; None where nothing is expected."""
        ...

    def plan(
        self,
        slots: Sequence[Slot],
        num_pending: Sequence[int],
        num_allowed: Sequence[int],
        num_rows: int,
        outlook: Callable[[Slot], Outlook],
    ) -> list[Budget]:
        """One budget a slot, `num_rows` rows in all at most.

        `num_pending[i]` tokens of slot i are known but not cached; `num_allowed[i]` is the
        most that may be drafted for it now. `outlook` asks the drafter what it could do for a
        slot, which costs something, so it is asked only where the answer counts.
        """
        ...

    def observe(
        self,
        slots: Sequence[Slot],
        proposals: Sequence[Proposal],
        verdicts: Sequence[Verdict | None],
        timings: RoundTimings,
    ) -> Sequence[Notice]:
        """Learn from a round; returns what a user should know of it.

        Called before the slots' tokens grow.
        """
        ...
