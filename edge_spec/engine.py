"""The round: propose, score, verify, commit, observe; for every slot at once.

There is one loop. Plain decoding is the empty proposal, a chain is a thin tree, reading a
prompt is a long `pending`, and a chat is one slot. See docs/architecture.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edge_spec.errors import Cancelled
from edge_spec.events import Drafted, Event, Finished, Prefilled, RoundTimings, Started, Verified
from edge_spec.planner import Planner
from edge_spec.stats import Stats
from edge_spec.tree import path
from edge_spec.types import (
    Budget,
    Dist,
    Drafter,
    FinishReason,
    Logits,
    Proposal,
    Slot,
    Target,
    Timers,
    Verdict,
)
from edge_spec.verify import cut


@dataclass(slots=True, eq=False)
class _Text:
    """A slot with what is counted about it, and its index among the texts that were given."""

    index: int
    slot: Slot
    stats: Stats

    @property
    def reading(self) -> bool:
        return self.slot.num_emitted == 0


class Engine:
    """Generates the texts of several slots with one target and one drafter.

    `timers` is the one that the target and the drafter add to. Closing the generator early is
    safe at any point: the caches know what they hold.
    """

    def __init__(self, target: Target, drafter: Drafter, planner: Planner, timers: Timers) -> None:
        self._target = target
        self._drafter = drafter
        self._planner = planner
        self._timers = timers

    def generate(self, slots: Sequence[Slot]) -> Iterator[Event]:
        """Run rounds until every slot has ended; the slots' tokens grow as events say."""
        self._timers_at_start = self._timers.copy()
        self._started = time.perf_counter()
        for event in self._rounds(slots):
            left = time.perf_counter()
            yield event
            self._started += time.perf_counter() - left  # the consumer's time is not ours

    def _rounds(self, slots: Sequence[Slot]) -> Iterator[Event]:
        active: list[_Text] = []
        for index, slot in enumerate(slots):
            text = _Text(index, slot, Stats(prompt_tokens=slot.num_prompt))
            text.stats.cached_tokens = self._target.begin(slot)
            text.stats.draft_cached_tokens = self._drafter.begin(slot)
            active.append(text)
            yield Started(index, tuple(slot.tokens), text.stats.cached_tokens, text.stats.draft_cached_tokens)
        while active:
            try:
                yield from self._round(active)
            except Cancelled:
                for text in active:
                    yield self._finish(text, "cancelled")
                return
            for text in active:
                if text.slot.finish is not None:
                    yield self._finish(text, text.slot.finish)
            active = [text for text in active if text.slot.finish is None]

    def _round(self, texts: Sequence[_Text]) -> Iterator[Event]:
        before, begun = self._timers.copy(), time.perf_counter() - self._started
        slots = [text.slot for text in texts]
        budgets = self._plan(slots)
        num_read = [self._drafter.num_cached(slot) for slot in slots]
        proposals = self._drafter.propose(slots, budgets)
        yield from self._tell_drafted(texts, proposals, num_read)

        scores = self._target.score(slots, proposals, budgets)
        scored = time.perf_counter()
        verdicts = [
            None if rows is None else self._judge(slot, proposal, rows)
            for slot, proposal, rows in zip(slots, proposals, scores.rows, strict=True)
        ]
        self._timers.sample_s += time.perf_counter() - scored
        self._target.commit(slots, verdicts)
        self._drafter.observe(slots, verdicts)

        spent = self._timers - before
        timings = RoundTimings(
            draft_s=spent.draft_s + spent.draft_prefill_s,
            verify_s=spent.verify_s + spent.prefill_s,
            sample_s=spent.sample_s,
            wall_s=time.perf_counter() - self._started - begun,
        )
        yield from self._planner.observe(slots, proposals, verdicts, timings)
        for text, proposal, verdict in zip(texts, proposals, verdicts, strict=True):
            if text.reading:
                yield self._tell_prefilled(text)
            if verdict is not None:
                self._emit(text, proposal, verdict)
                yield Verified(text.index, proposal, verdict, timings)

    def _plan(self, slots: Sequence[Slot]) -> list[Budget]:
        num_pending = [self._target.num_pending(slot) for slot in slots]
        num_allowed = [
            # A text gets its first token before anything is spent on drafting.
            0 if slot.num_emitted == 0 else max(0, min(self._room(slot) - 1, self._target.max_drafted))
            for slot in slots
        ]
        num_rows = self._target.batch_size
        return self._planner.plan(slots, num_pending, num_allowed, num_rows, self._drafter.outlook)

    def _room(self, slot: Slot) -> int:
        """How many more tokens the slot may emit."""
        return min(slot.max_tokens - slot.num_emitted, self._target.context_size - len(slot.tokens))

    def _judge(self, slot: Slot, proposal: Proposal, rows: Logits) -> Verdict:
        """Verify a proposal and cut the verdict where the text ends."""
        history = slot.tokens
        if len(proposal):
            history = list(slot.tokens)

        def target(node: int) -> Dist:
            if node >= 0:
                history[len(slot.tokens) :] = [proposal.tokens[i] for i in path(proposal.parents, node)]
            return slot.target_sampler(rows[node + 1], history)

        verdict = slot.coupling.verify(proposal, target, len(slot.tokens))
        room = self._room(slot)
        ending = slot.cut(verdict.tokens)
        if ending is not None and ending[0] <= room:
            return cut(verdict, *ending)
        if len(verdict.tokens) >= room:
            return cut(verdict, room, "length" if slot.max_tokens - slot.num_emitted == room else "context")
        return verdict

    def _emit(self, text: _Text, proposal: Proposal, verdict: Verdict) -> None:
        if text.reading:
            text.stats.time_to_first_token_s = time.perf_counter() - self._started
            read_s = self._timers.draft_prefill_s - self._timers_at_start.draft_prefill_s
            text.stats.draft_read_first_s = read_s
        text.slot.tokens.extend(verdict.tokens)
        text.slot.finish = verdict.finish
        text.stats.add(proposal, verdict)

    def _tell_drafted(
        self, texts: Sequence[_Text], proposals: Sequence[Proposal], num_read: Sequence[int]
    ) -> Iterator[Event]:
        for text, proposal, before in zip(texts, proposals, num_read, strict=True):
            total = text.slot.num_prompt
            if before < total and (now := self._drafter.num_cached(text.slot)) > before:
                cached = text.stats.draft_cached_tokens
                yield Prefilled(text.index, "draft", min(now, total), total, cached)
            if len(proposal):
                yield Drafted(text.index, proposal)

    def _tell_prefilled(self, text: _Text) -> Prefilled:
        slot = text.slot
        done = min(len(slot.tokens) - self._target.num_pending(slot), slot.num_prompt)
        return Prefilled(text.index, "target", done, slot.num_prompt, text.stats.cached_tokens)

    def _finish(self, text: _Text, reason: FinishReason) -> Finished:
        text.slot.finish = reason
        stats = text.stats
        stats.timers = self._timers - self._timers_at_start
        stats.wall_s = time.perf_counter() - self._started
        planner = self._planner
        stats.state, stats.reason = planner.state, planner.reason
        stats.predicted_tokens_per_second = planner.predicted_tokens_per_second
        return Finished(text.index, reason, stats)
