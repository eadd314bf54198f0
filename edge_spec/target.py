"""The target model: one decode for all slots' rows, then keep what was accepted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edge_spec.errors import EngineError
from edge_spec.types import Budget, KVCache, Logits, Proposal, Rows, Scores, Slot, Timers, Verdict


class ModelTarget:
    """A model behind a KV cache whose distribution the output has; implements `types.Target`.

    `on_decode(rows, cells, seconds)` hears of each decode that was no reading, with the longest
    sequence's cells after it.

    Proposals must be chains: a tree needs a sequence id a leaf, and no drafter grows one yet.
    """

    def __init__(
        self, cache: KVCache, timers: Timers, on_decode: Callable[[int, int, float], None] | None = None
    ) -> None:
        self._cache = cache
        self._timers = timers
        self._on_decode = on_decode

    @property
    def context_size(self) -> int:
        return self._cache.context_size

    @property
    def batch_size(self) -> int:
        return self._cache.batch_size

    @property
    def max_drafted(self) -> int:
        return self._cache.max_drafted

    def begin(self, slot: Slot) -> int:
        return self._cache.sync(slot.seq, slot.tokens)

    def num_pending(self, slot: Slot) -> int:
        return len(slot.tokens) - self._cache.length(slot.seq)

    def score(
        self, slots: Sequence[Slot], proposals: Sequence[Proposal], budgets: Sequence[Budget]
    ) -> Scores:
        parts: list[Rows] = []
        num_wanted: list[int] = []
        prefilling = False
        busy_s = self._cache.busy_s
        for slot, proposal, budget in zip(slots, proposals, budgets, strict=True):
            if not proposal.is_chain:
                raise EngineError(f"the {proposal.source} drafter proposed a tree; the target takes chains.")
            cached = self._cache.length(slot.seq)
            pending = slot.tokens[cached : cached + budget.pending]
            prefilling = prefilling or cached < slot.num_prompt
            if cached + len(pending) == len(slot.tokens):
                if len(proposal):
                    self._cache.mark(slot.seq)
                parts.append(Rows(slot.seq, [*pending, *proposal.tokens], len(pending) - 1))
                num_wanted.append(1 + len(proposal))
            else:
                parts.append(Rows(slot.seq, pending, len(pending)))
                num_wanted.append(0)
        try:
            steady = any(slot.reproducible for slot in slots)
            logits = self._cache.append(parts, self._cache.steady_rows if steady else 1)
        finally:
            spent = self._cache.busy_s - busy_s
            if prefilling:
                self._timers.prefill_s += spent
            else:
                self._timers.verify_s += spent
        if self._on_decode is not None and not prefilling:
            num_cells = max(self._cache.length(slot.seq) for slot in slots)
            self._on_decode(sum(len(part.tokens) for part in parts), num_cells, spent)
        rows: list[Logits | None] = []
        first = 0
        for wanted in num_wanted:
            rows.append(logits[first : first + wanted] if wanted else None)
            first += wanted
        return Scores(tuple(rows))

    def commit(self, slots: Sequence[Slot], verdicts: Sequence[Verdict | None]) -> None:
        busy_s = self._cache.busy_s
        for slot, verdict in zip(slots, verdicts, strict=True):
            if verdict is not None:
                self._cache.rollback(slot.seq, len(slot.tokens) + verdict.num_accepted)
        self._timers.verify_s += self._cache.busy_s - busy_s
