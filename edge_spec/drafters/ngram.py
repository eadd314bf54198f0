"""Draft what followed the same words earlier in the text; costs no model and no memory to speak of.

Prompt lookup (Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding), with the longest and
then the newest occurrence found in constant time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from edge_spec.drafters.suffixes import Match, SuffixIndex
from edge_spec.types import NO_PROPOSAL, Budget, Outlook, Proposal, Slot, Timers, Verdict


class NgramDrafter:
    """Proposes the continuation of an earlier occurrence of the text's end; implements `types.Drafter`.

    Occurrences of fewer than `min_match` tokens are not used. Every node is deterministic. Keeps
    one index a sequence, which follows edits of the text. `on_judged(length, contested,
    right)` hears of every token that a match of so many tokens foretold, drafted or not.
    """

    name = "ngram"

    def __init__(
        self, timers: Timers, min_match: int = 2, on_judged: Callable[[int, bool, bool], None] | None = None
    ) -> None:
        self._timers = timers
        self._min_match = min_match
        self._on_judged = on_judged
        self._indices: dict[int, SuffixIndex] = {}
        self._found: dict[int, tuple[int, Match | None]] = {}

    def begin(self, slot: Slot) -> int:
        """Index the prompt; nothing counts as cached, since no model reads it."""
        started = time.perf_counter()
        self._indices.setdefault(slot.seq, SuffixIndex()).sync(slot.tokens)
        self._found.pop(slot.seq, None)
        self._timers.draft_s += time.perf_counter() - started
        return 0

    def num_cached(self, slot: Slot) -> int:
        return 0

    def outlook(self, slot: Slot) -> Outlook:
        started = time.perf_counter()
        match = self._match(slot)
        self._timers.draft_s += time.perf_counter() - started
        return Outlook(match.length, contested=match.contested) if match else Outlook()

    def propose(self, slots: Sequence[Slot], budgets: Sequence[Budget]) -> list[Proposal]:
        started = time.perf_counter()
        proposals = [self._propose(slot, budget.drafted) for slot, budget in zip(slots, budgets, strict=True)]
        self._timers.draft_s += time.perf_counter() - started
        return proposals

    def go_on(self, slot: Slot, proposal: Proposal, copies: Callable[[int, bool], int]) -> Proposal:
        """The chain `proposal` with what followed the text that ends in it; see `Budget.copies`."""
        started = time.perf_counter()
        index = self._indices[slot.seq]
        self._match(slot)  # everything emitted is in the index now
        length = len(index)
        index.extend(proposal.tokens)
        match = index.match()
        copied: Sequence[int] = ()
        if match is not None and match.length >= self._min_match:
            copied = index.continuation(match, copies(match.length, match.contested))
        index.truncate(length)
        self._timers.draft_s += time.perf_counter() - started
        if not copied:
            return proposal
        dists = [*proposal.dists, *[None] * len(copied)]
        return Proposal.chain([*proposal.tokens, *copied], dists, proposal.source)

    def observe(self, slots: Sequence[Slot], verdicts: Sequence[Verdict | None]) -> None:
        """Tell whether the matches were right; what was emitted is indexed before the next proposal."""
        if self._on_judged is None:
            return
        for slot, verdict in zip(slots, verdicts, strict=True):
            match = None if verdict is None else self._match(slot)
            if match is None or verdict is None:
                continue
            foretold = self._indices[slot.seq].continuation(match, len(verdict.tokens))
            for place, (told, token) in enumerate(zip(foretold, verdict.tokens, strict=True)):
                self._on_judged(match.length + place, match.contested and place == 0, told == token)
                if told != token:
                    break

    def _match(self, slot: Slot) -> Match | None:
        """The match at the text's end; asked several times a round, found once."""
        index, length = self._indices[slot.seq], len(slot.tokens)
        known = self._found.get(slot.seq)
        if known is not None and known[0] == length:
            return known[1]
        index.extend(slot.tokens[len(index) :])
        match = index.match()
        if match is not None and match.length < self._min_match:
            match = None
        self._found[slot.seq] = length, match
        return match

    def _propose(self, slot: Slot, count: int) -> Proposal:
        match = self._match(slot) if count else None
        if match is None:
            return NO_PROPOSAL
        tokens = self._indices[slot.seq].continuation(match, count)
        return Proposal.chain(tokens, [None] * count, self.name)
