"""A draft model drafts a chain, drawing each token from its own distribution.

Leviathan et al. 2023 (arXiv:2211.17192), algorithm 1, the draft half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from edge_spec.sampling import top_gap
from edge_spec.types import (
    NO_PROPOSAL,
    Budget,
    Dist,
    KVCache,
    Logits,
    Outlook,
    Proposal,
    Rows,
    Slot,
    Timers,
    Verdict,
)


class _Chain:
    """A proposal in the making: what was drafted for one slot so far."""

    def __init__(self, slot: Slot, length: int, more: Callable[[float], int] | None) -> None:
        self.slot = slot
        self.length = length
        self._more = more
        self.history = list(slot.tokens)
        self.tokens: list[int] = []
        self.dists: list[Dist | None] = []

    @property
    def full(self) -> bool:
        return len(self.tokens) == self.length

    def extend(self, logits: Logits) -> None:
        """Draw the next token from the draft's own distribution, if it is worth drafting."""
        if self._more is not None:
            self.length = len(self.tokens) + self._more(top_gap(logits))
            if self.full:
                return
        dist = self.slot.draft_sampler(logits, self.history)
        token = self.slot.coupling.draw(dist, len(self.history))
        # With one candidate nothing was drawn: that node is deterministic, its q one-hot.
        self.dists.append(dist if dist.only is None else None)
        self.tokens.append(token)
        self.history.append(token)


class ModelDrafter:
    """A draft model behind its own KV cache; implements `types.Drafter`.

    Logits are cut to the target's `num_vocab`, so an id that the target lacks can never be
    proposed; for a text that holds an id that the draft lacks, nothing is. A long prompt is
    read a batch a round, while the target decodes plainly.
    """

    name = "draft"

    def __init__(
        self,
        cache: KVCache,
        num_vocab: int,
        timers: Timers,
        on_decode: Callable[[int, int, float], None] | None = None,
    ) -> None:
        self._cache = cache
        self._num_vocab = num_vocab
        self._timers = timers
        self._on_decode = on_decode

    def begin(self, slot: Slot) -> int:
        return self._cache.sync(slot.seq, slot.tokens)

    def num_cached(self, slot: Slot) -> int:
        return self._cache.length(slot.seq)

    def outlook(self, slot: Slot) -> Outlook:
        if not self._can_read(slot):
            return Outlook()
        return Outlook(draft_lag=max(1, len(slot.tokens) - self._cache.length(slot.seq)))

    def propose(self, slots: Sequence[Slot], budgets: Sequence[Budget]) -> list[Proposal]:
        chains = [
            _Chain(slot, budget.drafted if self._can_read(slot) else 0, budget.more)
            for slot, budget in zip(slots, budgets, strict=True)
        ]
        drafting = self._catch_up([chain for chain in chains if chain.length > 0])
        while drafting:
            drafting = self._step(drafting)
        return [
            Proposal.chain(chain.tokens, chain.dists, self.name) if chain.tokens else NO_PROPOSAL
            for chain in chains
        ]

    def observe(self, slots: Sequence[Slot], verdicts: Sequence[Verdict | None]) -> None:
        for slot, verdict in zip(slots, verdicts, strict=True):
            if verdict is not None:
                # The last drafted token was never decoded, so this may be one token short.
                self._cache.rollback(slot.seq, len(slot.tokens) + verdict.num_accepted)

    def _can_read(self, slot: Slot) -> bool:
        if len(slot.tokens) > self._cache.context_size:
            return False
        return self._cache.num_vocab >= self._num_vocab or max(slot.tokens) < self._cache.num_vocab

    def _catch_up(self, chains: Sequence[_Chain]) -> list[_Chain]:
        """Decode what the cache lacks; return the chains that have their first token drawn."""
        if not chains:
            return []
        share = self._cache.batch_size // len(chains)
        parts: list[Rows] = []
        ready: list[_Chain] = []
        reading = False
        for chain in chains:
            slot = chain.slot
            cached = self._cache.sync(slot.seq, slot.tokens)
            reading = reading or cached < slot.num_prompt
            missing = slot.tokens[cached : cached + share]
            complete = cached + len(missing) == len(slot.tokens)
            parts.append(Rows(slot.seq, missing, len(missing) - complete))
            if complete:
                ready.append(chain)
        rows = self._decode(parts, reading=reading)
        for chain in ready:
            self._cache.mark(chain.slot.seq)
        return self._extend(ready, rows)

    def _step(self, chains: Sequence[_Chain]) -> list[_Chain]:
        """Decode every chain's last token and draw its next; return those not full yet."""
        rows = self._decode([Rows(chain.slot.seq, chain.tokens[-1:], 0) for chain in chains], reading=False)
        return self._extend(chains, rows)

    def _extend(self, chains: Sequence[_Chain], rows: Logits) -> list[_Chain]:
        started = time.perf_counter()
        for chain, row in zip(chains, rows, strict=True):
            chain.extend(row[: self._num_vocab])
        self._timers.sample_s += time.perf_counter() - started
        return [chain for chain in chains if not chain.full]

    def _decode(self, parts: Sequence[Rows], *, reading: bool) -> Logits:
        busy_s = self._cache.busy_s
        try:
            rows = self._cache.append(parts)
        finally:
            spent = self._cache.busy_s - busy_s
            if reading:
                self._timers.draft_prefill_s += spent
            else:
                self._timers.draft_s += spent
        if self._on_decode is not None and not reading:
            num_cells = max(self._cache.length(part.seq) for part in parts)
            self._on_decode(sum(len(part.tokens) for part in parts), num_cells, spent)
        return rows
