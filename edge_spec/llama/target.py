"""The target model behind the Target protocol: one decode for all slots' rows."""

from __future__ import annotations

from collections.abc import Sequence

from edge_spec.errors import EngineError
from edge_spec.llama.cache import Cache, Rows
from edge_spec.types import Budget, Logits, Proposal, Scores, Slot, Timers, Verdict


class LlamaTarget:
    """A GGUF whose distribution the output has; implements `types.Target`.

    Proposals must be chains: trees need a sequence id a leaf, which no drafter here asks for.
    """

    def __init__(self, cache: Cache, timers: Timers) -> None:
        self.cache = cache
        self.timers = timers
        self.context_size = cache.context.context_size
        self.batch_size = cache.context.batch_size
        self.max_drafted = cache.context.num_outputs // cache.context.num_slots - 1

    def begin(self, slot: Slot) -> int:
        return self.cache.sync(slot.seq, slot.tokens)

    def num_pending(self, slot: Slot) -> int:
        return len(slot.tokens) - self.cache.length(slot.seq)

    def score(
        self, slots: Sequence[Slot], proposals: Sequence[Proposal], budgets: Sequence[Budget]
    ) -> Scores:
        parts: list[Rows] = []
        num_wanted: list[int] = []
        prefilling = False
        for slot, proposal, budget in zip(slots, proposals, budgets, strict=True):
            if not proposal.is_chain:
                raise EngineError(f"the {proposal.source} drafter proposed a tree, which is not supported yet.")
            cached = self.cache.length(slot.seq)
            pending = slot.tokens[cached : cached + budget.pending]
            prefilling = prefilling or cached + len(pending) <= slot.num_prompt
            if cached + len(pending) == len(slot.tokens):
                if len(proposal):
                    self.cache.mark(slot.seq)
                parts.append(Rows(slot.seq, [*pending, *proposal.tokens], len(pending) - 1))
                num_wanted.append(1 + len(proposal))
            else:
                parts.append(Rows(slot.seq, pending, len(pending)))
                num_wanted.append(0)
        busy = self.cache.context.busy_s
        try:
            logits = self.cache.append(parts)
        finally:
            spent = self.cache.context.busy_s - busy
            if prefilling:
                self.timers.prefill_s += spent
            else:
                self.timers.verify_s += spent
        rows: list[Logits | None] = []
        first = 0
        for wanted in num_wanted:
            rows.append(logits[first : first + wanted] if wanted else None)
            first += wanted
        return Scores(tuple(rows))

    def commit(self, slots: Sequence[Slot], verdicts: Sequence[Verdict | None]) -> None:
        for slot, verdict in zip(slots, verdicts, strict=True):
            if verdict is not None:
                self.cache.rollback(slot.seq, len(slot.tokens) + verdict.num_accepted)

    def clear(self) -> None:
        """Forget everything read, so that the next prompt starts cold."""
        self.cache.clear()
