"""A draft model drafts a chain, drawing each token from its own distribution.

Leviathan et al. 2023 (arXiv:2211.17192), algorithm 1, the draft half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_spec.drafters.chain import Chain
from edge_spec.drafters.draw import DrawChoice, DrawWatch
from edge_spec.drafters.token_map import TokenMap, Translation
from edge_spec.types import (
    Budget,
    KVCache,
    Logits,
    Outlook,
    Proposal,
    Rows,
    Slot,
    Timers,
    Verdict,
)

SINK_TOKENS = 4
"""A window keeps the text's first tokens too, which attention leans on wherever it has nothing to look
for (Xiao et al. 2023, arXiv:2309.17453); a BOS token is among them."""


@dataclass(frozen=True, slots=True)
class Window:
    """A text that is read from its token `start` on; the last `size` of them when that began."""

    start: int
    size: int


class ModelDrafter:
    """A draft model behind its own KV cache; implements `types.Drafter`.

    Logits are cut to the target's `num_vocab`, so an id that the target lacks can never be
    proposed; for a text that holds an id that the draft lacks, nothing is. With a `token_map`
    the cache holds the text in the draft's own tokens, and proposals are in the target's; see `chain`. A long
    prompt is read a batch a round, while the target decodes plainly; with `Budget.window` only its
    end is read; `windows`, by sequence, may outlive this object as the cache does.
    `on_decode(rows, cells, seconds)` hears of each decode that was no reading. With a `choice` it
    takes its likeliest token wherever that is accepted more often than one drawn.
    """

    name = "draft"

    def __init__(
        self,
        cache: KVCache,
        num_vocab: int,
        timers: Timers,
        token_map: TokenMap | None = None,
        on_decode: Callable[[int, int, float], None] | None = None,
        choice: DrawChoice | None = None,
        windows: dict[int, Window] | None = None,
    ) -> None:
        self._cache = cache
        self._choice = choice
        self._watches: dict[int, DrawWatch] = {}
        self._num_vocab = num_vocab
        self._timers = timers
        self._on_decode = on_decode
        self._map = token_map
        self._translations: dict[int, Translation] = {}
        self._windows = {} if windows is None else windows
        self._num_read: dict[int, int] = {}
        """The most tokens of a slot's text that were read so far: what is read again is no prompt."""

    def begin(self, slot: Slot) -> int:
        if self._choice is not None:
            self._watches[slot.seq] = DrawWatch(slot, self._choice)
        kept = self._sync(slot)
        if slot.seq in self._windows and kept <= SINK_TOKENS:  # another text
            del self._windows[slot.seq]
            self._sync(slot)
        self._num_read[slot.seq] = self.num_cached(slot)
        return self._num_read[slot.seq]

    def _sync(self, slot: Slot) -> int:
        ids = self._read(slot)
        if ids:
            return self._cache.sync(slot.seq, ids)
        return self._cache.rollback(slot.seq, 0)  # nothing of the text can be spelled

    def num_cached(self, slot: Slot) -> int:
        """How many of the slot's tokens are read, or passed over by a window."""
        length = self._cache.length(slot.seq)
        if self._map is not None:
            self._read(slot)
            length = self._translations[slot.seq].num_covered(length)
        return length + self.num_skipped(slot.seq) if length > SINK_TOKENS else length

    def num_skipped(self, seq: int) -> int:
        """How many tokens of the text a window passes over."""
        window = self._windows.get(seq)
        return 0 if window is None else window.start - SINK_TOKENS

    def outlook(self, slot: Slot) -> Outlook:
        if not self._room(slot):
            return Outlook()
        window = self._windows.get(slot.seq)
        lag = max(1, len(self._read(slot)) - self._cache.length(slot.seq))
        return Outlook(draft_lag=lag, window=None if window is None else window.size)

    def propose(self, slots: Sequence[Slot], budgets: Sequence[Budget]) -> list[Proposal]:
        for slot, budget in zip(slots, budgets, strict=True):
            if budget.window is not None:
                self._open(slot, budget.window)
        chains = [self._begin_chain(slot, budget) for slot, budget in zip(slots, budgets, strict=True)]
        drafting = self._catch_up([chain for chain in chains if not chain.full])
        while drafting:
            drafting = self._step(drafting)
        return [chain.proposal(self.name) for chain in chains]

    def _begin_chain(self, slot: Slot, budget: Budget) -> Chain:
        room = self._room(slot)
        return Chain(
            slot, min(budget.drafted, room), room, budget.more,
            self._watches.get(slot.seq), self._translations.get(slot.seq),
        )  # fmt: skip

    def observe(self, slots: Sequence[Slot], verdicts: Sequence[Verdict | None]) -> None:
        for slot, verdict in zip(slots, verdicts, strict=True):
            if verdict is not None:
                if slot.seq in self._watches:
                    started = time.perf_counter()
                    self._watches[slot.seq].judge(slot, verdict)
                    self._timers.sample_s += time.perf_counter() - started
                # The last drafted token was never decoded, so this may be one token short.
                length = len(self._read(slot)) + self._num_read_as(slot, verdict)
                self._cache.rollback(slot.seq, length)

    def _num_read_as(self, slot: Slot, verdict: Verdict) -> int:
        """How many draft tokens the accepted ones are."""
        if self._map is None:
            return verdict.num_accepted
        return self._translations[slot.seq].length_of(verdict.tokens[: verdict.num_accepted])

    def _read(self, slot: Slot) -> Sequence[int]:
        """The slot's text as the draft reads it."""
        window = self._windows.get(slot.seq)
        tokens: Sequence[int] = slot.tokens
        if window is not None:
            tokens = [*tokens[:SINK_TOKENS], *tokens[window.start :]]
        if self._map is None:
            return tokens
        if slot.seq not in self._translations:
            self._translations[slot.seq] = Translation(self._map)
        return self._translations[slot.seq].follow(tokens)

    def _open(self, slot: Slot, size: int) -> None:
        """From now on the text is read from its last `size` tokens on."""
        start = len(slot.tokens) - size
        if start > SINK_TOKENS:
            self._windows[slot.seq] = Window(start, size)
        else:
            self._windows.pop(slot.seq, None)

    def _room(self, slot: Slot) -> int:
        """How many tokens can be drafted; the last of them is never decoded."""
        ids = self._read(slot)
        if not ids:
            return 0
        num_vocab = self._cache.num_vocab
        if self._map is None and num_vocab < self._num_vocab and max(ids) >= num_vocab:
            return 0
        return max(0, self._cache.context_size - len(ids) + 1)

    def _catch_up(self, chains: Sequence[Chain]) -> list[Chain]:
        """Decode what the cache lacks; return the chains that have their first token drawn."""
        if not chains:
            return []
        share = self._cache.batch_size // len(chains)
        parts: list[Rows] = []
        ready: list[Chain] = []
        reading = False
        for chain in chains:
            slot = chain.slot
            ids = self._read(slot)
            cached = self._cache.sync(slot.seq, ids)
            reading = reading or self._num_read.get(slot.seq, 0) < slot.num_prompt
            missing = ids[cached : cached + share]
            complete = cached + len(missing) == len(ids)
            parts.append(Rows(slot.seq, missing, len(missing) - complete))
            if complete:
                ready.append(chain)
        rows = self._decode(parts, reading=reading)
        for slot in (chain.slot for chain in chains):
            self._num_read[slot.seq] = max(self._num_read.get(slot.seq, 0), self.num_cached(slot))
        for chain in ready:
            self._cache.mark(chain.slot.seq)
        return self._extend(ready, rows)

    def _step(self, chains: Sequence[Chain]) -> list[Chain]:
        """Decode every chain's last token and choose its next; return those not full yet."""
        rows = self._decode([Rows(chain.slot.seq, [chain.next_id], 0) for chain in chains], reading=False)
        return self._extend(chains, rows)

    def _extend(self, chains: Sequence[Chain], rows: Logits) -> list[Chain]:
        started = time.perf_counter()
        for chain, row in zip(chains, rows, strict=True):
            chain.extend(row[: self._num_vocab] if self._map is None else self._map.row(row))
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
