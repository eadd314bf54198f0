"""Draft exactly as much as pays: rows chosen on the measured staircase, zero rows included.

Plain decoding is the round of zero drafted rows; what pays less is not done. See `length` for how
a draft is valued, and docs/architecture.md for the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from edge_spec.events import Notice, RoundTimings
from edge_spec.planner.knowledge import MAX_DRAFT_STEPS, WINDOWS, Knowledge, match_class
from edge_spec.planner.length import Choice, DraftRun, best_length, expected_tokens, needed_acceptance
from edge_spec.planner.round_costs import RoundCosts
from edge_spec.stats import SpeculationState
from edge_spec.types import Budget, Coupling, Fate, Outlook, Proposal, Slot, Verdict

MAX_COPIED = 32
"""The most tokens that an n-gram drafter copies in a round."""

_RATE_WEIGHT = 0.1
_PROBE_SHARE = 0.02
"""How much of the decoding time may go to finding out whether drafting pays again."""

_PROBE_TEXT_SHARE = 0.04
"""How much of a text's own decoding so far one probe in it may take: a short text is no place for it."""

_MOST_LATE = 4.0

_PROBE_LENGTH = 3
"""A probe is as long as it takes to see more than one position."""

_HOPEFUL = 0.95
"""Where not even this acceptance would pay, there is nothing to find out."""

_LOOK_EVERY = 8
"""Where drafting did not pay, and nothing is drafted that could teach otherwise, one need not look often."""

_FIRST_PROBE_TOKENS = 16
_LONGEST_PAUSE_TOKENS = 1024
_OFF_AFTER_TOKENS = 12


_NOTHING = Choice()


@dataclass(frozen=True, slots=True)
class _Reading:
    """What a draft model has to read before it drafts: see `Budget.window`.

    `once_s` are the seconds beyond a draft step's; `factor` is what the acceptance of a draft that
    reads so much is, as a share of that of one that reads everything.
    """

    window: int | None
    once_s: float
    factor: float


@dataclass(slots=True)
class _Round:
    """What was decided for a slot, to be learned from when its verdict comes."""

    budget: Budget
    choice: Choice = _NOTHING
    run: DraftRun | None = None
    probe: bool = False
    window: int | None = None
    """The one that the draft reads the text with."""


class _Choosing:
    """What sampling takes for each drafted token, in seconds, beyond what a plain round's takes."""

    def __init__(self) -> None:
        self.each_s = 0.0
        self._plain_s: float | None = None

    def observe(self, seconds: float, num_slots: int, num_drafted: int) -> None:
        """A round of `num_slots` texts with so many drafted tokens in all took so long to sample."""
        if num_drafted == 0:
            plain_s = seconds / num_slots
            known = plain_s if self._plain_s is None else self._plain_s
            self._plain_s = known + _RATE_WEIGHT * (plain_s - known)
        elif self._plain_s is None:
            self._learn(seconds / (num_slots + num_drafted))
        else:
            self._learn(max(0.0, seconds - num_slots * self._plain_s) / num_drafted)

    def _learn(self, seconds: float) -> None:
        self.each_s += _RATE_WEIGHT * (seconds - self.each_s)


class AutoPlanner:
    """Chooses drafter and rows by measured costs and observed acceptance; implements `Planner`.

    Slots are planned one after the other: each knows the rows that are decoded without it.
    """

    def __init__(self, knowledge: Knowledge, *, draft_max: int = MAX_COPIED, draft_min: int = 0) -> None:
        self.knowledge = knowledge
        self.state: SpeculationState = "on"
        self._draft_max = draft_max
        self._draft_min = max(1, draft_min)
        self._rho = 0.0
        self._num_slots = 0
        self._decode_s = 0.0
        self._probe_s = 0.0
        self._choosing = _Choosing()
        self._rounds: dict[int, _Round] = {}
        self._base_s = 0.0
        self._num_drafted: dict[int, int] = {}
        self._tokens_since_pay = 0
        self._tokens_since_probe = 0
        self._pause_tokens = _FIRST_PROBE_TOKENS
        self._rounds_until_look = 0
        self._num_unread = 0
        self._foreseen_tokens = 0.0
        self._foreseen_s = 0.0
        knowledge.begin_text()

    @property
    def reason(self) -> str:
        """What the draft model needs to pay here, and what it has."""
        if self.knowledge.draft is None:
            return "without a draft model: what the text repeats"
        if not self._foreseen_s:
            return "nothing was judged yet"
        needed, has = needed_acceptance(self.knowledge), self.knowledge.positions(0)
        if needed is None:
            return "off: would not pay here even if every token were accepted"
        if self.state != "auto-off":
            return f"on: pays above {needed:.0%} acceptance here, has {has:.0%}"
        if has < needed:
            return f"off: needs {needed:.0%} acceptance here, has {has:.0%}"
        if self._num_unread > 1:
            return f"off: reading {self._num_unread} tokens first would cost more than it brings"
        return f"off: needs {needed:.0%} acceptance here, has {has:.0%} for a first token and less behind it"

    @property
    def predicted_tokens_per_second(self) -> float | None:
        """What the rounds so far were expected to make, before each of them."""
        return self._foreseen_tokens / self._foreseen_s if self._foreseen_s else None

    def plan(
        self,
        slots: Sequence[Slot],
        num_pending: Sequence[int],
        num_allowed: Sequence[int],
        num_rows: int,
        outlook: Callable[[Slot], Outlook],
    ) -> list[Budget]:
        share = num_rows // len(slots)
        read = [min(pending, share) for pending in num_pending]
        num_cells = max(len(slot.tokens) for slot in slots)
        costs = RoundCosts(self.knowledge, num_cells, sum(read), choosing_s=self._choosing.each_s)
        self._base_s = costs.base_s
        # Plain decoding makes one token a slot, and this much is sure to be had.
        plain = len(slots) / self.knowledge.verify(len(slots), costs.num_cells)
        if len(slots) != self._num_slots:  # the rate so far was that of another number of texts
            if self._num_slots:
                before = self._num_slots / self.knowledge.verify(self._num_slots, costs.num_cells)
                self._rho *= plain / before
            self._num_slots = len(slots)
        rho = max(self._rho, plain)
        self._rounds.clear()
        budgets = []
        for slot, pending, allowed in zip(slots, read, num_allowed, strict=True):
            most = min(self._draft_max, allowed, share - pending)
            if slot.num_emitted == 0:  # a prompt is read
                budgets.append(Budget(pending, 0))
                continue
            self._note_replay(slot, pending)
            if most >= self._draft_min:
                planned = self._choose(slot, outlook(slot), most, pending, costs, rho)
            else:
                planned = _Round(Budget(pending, 0))
            self._rounds[slot.seq] = planned
            budgets.append(planned.budget)
            with_model = planned.run is not None
            costs = replace(
                costs,
                num_rows=costs.num_rows + planned.choice.length,
                num_drafting=costs.num_drafting + with_model,
            )
        return budgets

    def _note_replay(self, slot: Slot, pending: int) -> None:
        """Memory that cannot be trimmed reads again what was accepted before a rejection."""
        num_drafted = self._num_drafted.pop(slot.seq, 0)
        if num_drafted and (pending > 1 or self.knowledge.replayed):
            self.knowledge.read_again(pending - 1, num_drafted)

    def _choose(
        self, slot: Slot, outlook: Outlook, most: int, pending: int, costs: RoundCosts, rho: float
    ) -> _Round:
        copied = self._copying(outlook, most, costs, rho)
        steps = min(most, MAX_DRAFT_STEPS)
        drafted, reading = self._drafting(slot, outlook, steps, costs, rho)
        if copied.length and copied.gain >= drafted.gain:
            return _Round(Budget(pending, copied.length, "ngram"), copied)
        probe = False
        if reading is None and outlook.draft_lag is not None:
            drafted, reading = self._probe(outlook, steps, costs)
            probe = reading is not None
        if reading is None:
            return _Round(Budget(pending, 0))
        least = drafted.length if probe else self._draft_min
        run = DraftRun(costs, steps, most, rho, least, forced=probe)
        budget = Budget(pending, steps, "draft", run, reading.window, run.copies)
        window = outlook.window if reading.window is None else reading.window
        return _Round(budget, drafted, run, probe, window)

    def _copying(self, outlook: Outlook, most: int, costs: RoundCosts, rho: float) -> Choice:
        if not outlook.match_length:
            return _NOTHING
        matches = self.knowledge.matches
        return best_length(
            lambda i: matches(match_class(outlook.match_length + i, outlook.contested and i == 0)),
            costs.verify_s,
            rho,
            min(most, MAX_COPIED),
            self._draft_min,
        )

    # -- drafting with the model

    def _drafting(
        self, slot: Slot, outlook: Outlook, most: int, costs: RoundCosts, rho: float
    ) -> tuple[Choice, _Reading | None]:
        """The best draft, and what is to be read for it; None when none pays."""
        nothing: tuple[Choice, _Reading | None] = _NOTHING, None
        if outlook.draft_lag is None or self.knowledge.draft is None:
            return nothing
        self._rounds_until_look -= 1
        if self._rounds_until_look > 0:
            return nothing
        positions, least = self.knowledge.positions, self._draft_min
        if best_length(positions, costs.draft_s, rho, most, least).length == 0:
            self._num_unread = 0
            self._rounds_until_look = _LOOK_EVERY
            return nothing
        left, best, most_won = self._tokens_left(slot), nothing, 0.0
        for reading in self._readings(outlook, costs):
            factor = reading.factor
            rates = positions if factor == 1 else partial(_scaled, positions, factor)
            choice = best_length(rates, costs.draft_s, rho, most, least)
            won = choice.gain * max(1.0, left / (1 + choice.tokens)) - rho * reading.once_s
            if won > most_won:
                best, most_won = (choice, reading), won
        self._num_unread = outlook.draft_lag if best is nothing else 0
        return best

    def _readings(self, outlook: Outlook, costs: RoundCosts) -> Iterator[_Reading]:
        """Ways to bring the draft to the text's end: going on, or anew with a window."""
        assert outlook.draft_lag is not None, "there is a draft model"
        rates, step_s = self.knowledge.windows, costs.read_s(1)

        def factor(window: int | None) -> float:
            return min(1.0, rates(_window_class(window)) / rates(0))

        yield _Reading(None, costs.read_s(outlook.draft_lag) - step_s, factor(outlook.window))
        for window in WINDOWS:
            if 2 * window > outlook.draft_lag:
                return
            yield _Reading(window, costs.read_s(window) - step_s, factor(window))

    def _tokens_left(self, slot: Slot) -> float:
        """How long the text is thought to go on."""
        typical, emitted = self.knowledge.typical_tokens, slot.num_emitted
        return min(slot.max_tokens - emitted, max(typical - emitted, typical / 2))

    def _probe(self, outlook: Outlook, most: int, costs: RoundCosts) -> tuple[Choice, _Reading | None]:
        """A short draft to see whether drafting pays by now, where that can be afforded."""
        knowledge = self.knowledge
        if self._tokens_since_probe < self._pause_tokens:
            return _NOTHING, None
        if any(planned.probe for planned in self._rounds.values()):
            return _NOTHING, None  # another slot's, of the same money
        length = min(most, max(_PROBE_LENGTH, self._draft_min))
        left_s = min(
            _PROBE_TEXT_SHARE * self._decode_s - self._probe_s,
            _PROBE_SHARE * knowledge.decode_s - knowledge.probe_s,
        )
        # The first one that can be paid: a window forgets what the draft has read.
        readings = (r for r in self._readings(outlook, costs) if r.once_s + costs.draft_s(length) <= left_s)
        reading = next(readings, None)
        if reading is None:
            return _NOTHING, None
        if not best_length(lambda _index: _HOPEFUL, costs.draft_s, 1 / costs.base_s, most).length:
            self._tokens_since_probe = 0
            return _NOTHING, None
        seconds = reading.once_s + costs.draft_s(length)
        return Choice(length, 0.0, expected_tokens(knowledge.positions, length), seconds), reading

    # -- learning

    def observe(
        self,
        slots: Sequence[Slot],
        proposals: Sequence[Proposal],
        verdicts: Sequence[Verdict | None],
        timings: RoundTimings,
    ) -> list[Notice]:
        """Learn from a round; returns what a user should know of it."""
        for slot, proposal, verdict in zip(slots, proposals, verdicts, strict=True):
            planned = self._rounds.get(slot.seq)
            if verdict is not None and planned is not None:
                self._num_drafted[slot.seq] = len(proposal)
                self._learn_rates(slot, planned, proposal, verdict)
        if len(self._rounds) == len(slots):  # no prompt was read in it
            emitted = sum(len(verdict.tokens) for verdict in verdicts if verdict is not None)
            seconds = timings.draft_s + timings.verify_s + timings.sample_s
            self._choosing.observe(timings.sample_s, len(slots), sum(len(proposal) for proposal in proposals))
            self._learn_time(emitted, seconds, len(slots))
        return self._changes()

    def _learn_time(self, emitted: int, seconds: float, num_slots: int) -> None:
        """A round of `num_slots` texts took so long and emitted so many tokens."""
        knowledge, rounds = self.knowledge, self._rounds.values()
        knowledge.decoded(seconds)
        self._decode_s += seconds
        # A draft that is still reading the prompt makes nothing.
        choices = [planned.choice for planned in rounds if planned.run is None or planned.run.asked]
        self._foreseen_tokens += num_slots + sum(choice.tokens for choice in choices)
        self._foreseen_s += self._base_s + sum(choice.extra_s for choice in choices)
        if knowledge.draft is not None and not any(planned.run for planned in rounds):
            knowledge.draft.follow(knowledge.verify)
        rate = emitted / seconds
        self._rho = rate if self._rho == 0 else self._rho + _RATE_WEIGHT * (rate - self._rho)
        self._tokens_since_pay += emitted
        self._tokens_since_probe += emitted
        if not any(planned.run for planned in rounds):
            return
        self._tokens_since_probe = 0
        if any(planned.probe for planned in rounds):
            # A stall of the machine in this round is not the probe's.
            seconds = min(seconds, _MOST_LATE * (self._base_s + sum(choice.extra_s for choice in choices)))
            lost_s = max(0.0, seconds - emitted * self._base_s / num_slots)
            self._probe_s += lost_s
            knowledge.probe_s += lost_s
            self._pause_tokens = min(2 * self._pause_tokens, _LONGEST_PAUSE_TOKENS)
        if any(planned.run and not planned.probe for planned in rounds):
            self._tokens_since_pay = 0
            self._pause_tokens = _FIRST_PROBE_TOKENS

    def _learn_rates(self, slot: Slot, planned: _Round, proposal: Proposal, verdict: Verdict) -> None:
        if planned.run is None:
            return
        knowledge = self.knowledge
        for index, fate in enumerate(verdict.fates):
            if fate is Fate.DISCARDED or index == len(planned.run.classes):  # the rest was copied
                break
            accepted = acceptance(slot.coupling, proposal, verdict, index)
            if index == 0:
                knowledge.windows.observe(_window_class(planned.window), accepted)
            knowledge.positions.observe(index, accepted)
            knowledge.gaps.observe(planned.run.classes[index], accepted)

    def judged_copy(self, length: int, contested: bool, right: bool) -> None:
        """What continued a match of `length` tokens would have been right or wrong."""
        self.knowledge.matches.observe(match_class(length, contested), right)

    def _changes(self) -> list[Notice]:
        if self.knowledge.draft is None:
            return []
        off = self._tokens_since_pay >= _OFF_AFTER_TOKENS
        state: SpeculationState = "auto-off" if off else "on"
        if state == self.state:
            return []
        self.state = state
        return [Notice("info", f"Drafting with the model is {self.reason}.")]


def acceptance(coupling: Coupling, proposal: Proposal, verdict: Verdict, index: int) -> float:
    """How likely the judged node was to be accepted, whichever way it went."""
    p, q = verdict.target_probs[index], proposal.dists[index]
    accepted = verdict.fates[index] is Fate.ACCEPTED
    if p is None:
        return float(accepted)
    return p if q is None else coupling.acceptance(p, q.prob(proposal.tokens[index]), accepted)


def _scaled(rates: Callable[[int], float], factor: float, index: int) -> float:
    return factor * rates(index)


def _window_class(window: int | None) -> int:
    """0 is a draft that has read everything."""
    return 0 if window is None else 1 + WINDOWS.index(window)
