"""No drafter: every proposal is empty, which is plain decoding."""

from __future__ import annotations

from collections.abc import Sequence

from edge_spec.types import NO_PROPOSAL, Budget, Outlook, Proposal, Slot, Verdict


class NoDrafter:
    """Proposes nothing; implements `types.Drafter`."""

    name = "none"

    def begin(self, slot: Slot) -> int:
        return 0

    def num_cached(self, slot: Slot) -> int:
        return 0

    def outlook(self, slot: Slot) -> Outlook:
        return Outlook()

    def propose(self, slots: Sequence[Slot], budgets: Sequence[Budget]) -> list[Proposal]:
        return [NO_PROPOSAL] * len(slots)

    def observe(self, slots: Sequence[Slot], verdicts: Sequence[Verdict | None]) -> None:
        pass
