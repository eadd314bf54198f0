"""Draft what followed the same words earlier in the text; costs no model and no memory to speak of.

Prompt lookup (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding), with the longest and
then the newest occurrence found in constant time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from edge_spec.drafters.suffixes import Match, SuffixIndex
from edge_spec.types import NO_PROPOSAL, Budget, Outlook, Proposal, Slot, Timers, Verdict


class NgramDrafter:
    """Proposes the continuation of an earlier occurrence of the text's end; implements `types.Drafter`.

    Occurrences of fewer than `min_match` tokens are not used. Every node is deterministic. Keeps
    one index a sequence, which follows edits of the text.
    """

    name = "ngram"

    def __init__(self, timers: Timers, min_match: int = 2) -> None:
        self._timers = timers
        self._min_match = min_match
        self._indices: dict[int, SuffixIndex] = {}

    def begin(self, slot: Slot) -> int:
        """Index the prompt; nothing counts as cached, since no model reads it."""
        started = time.perf_counter()
        self._indices.setdefault(slot.seq, SuffixIndex()).sync(slot.tokens)
        self._timers.draft_s += time.perf_counter() - started
        return 0

    def num_cached(self, slot: Slot) -> int:
        return 0

    def outlook(self, slot: Slot) -> Outlook:
        started = time.perf_counter()
        match = self._match(slot)
        self._timers.draft_s += time.perf_counter() - started
        return Outlook(match_length=match.length if match else 0)

    def propose(self, slots: Sequence[Slot], budgets: Sequence[Budget]) -> list[Proposal]:
        started = time.perf_counter()
        proposals = [self._propose(slot, budget.drafted) for slot, budget in zip(slots, budgets, strict=True)]
        self._timers.draft_s += time.perf_counter() - started
        return proposals

    def observe(self, slots: Sequence[Slot], verdicts: Sequence[Verdict | None]) -> None:
        """What was emitted is indexed before the next proposal."""

    def _match(self, slot: Slot) -> Match | None:
        index = self._indices[slot.seq]
        index.extend(slot.tokens[len(index) :])
        match = index.match()
        return match if match is not None and match.length >= self._min_match else None

    def _propose(self, slot: Slot, count: int) -> Proposal:
        match = self._match(slot) if count else None
        if match is None:
            return NO_PROPOSAL
        tokens = self._indices[slot.seq].continuation(match, count)
        return Proposal.chain(tokens, [None] * count, self.name)
