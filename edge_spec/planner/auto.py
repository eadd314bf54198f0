"""Draft exactly as much as pays: rows chosen on the measured staircase, zero rows included.

Plain decoding is the round of zero drafted rows; what pays less is not done. See `length` for how
a draft is valued, and docs/architecture.md for the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from edge_spec.events import Notice, RoundTimings
from edge_spec.planner.knowledge import MAX_DRAFT_STEPS, WINDOWS, Knowledge, match_class
from edge_spec.planner.length import Choice, DraftRun, best_length, draft_extra_s, needed_acceptance
from edge_spec.stats import SpeculationState
from edge_spec.types import Budget, Fate, Outlook, Proposal, Slot, Verdict

MAX_COPIED = 32
"""The most tokens that an n-gram drafter copies in a round."""

_RATE_WEIGHT = 0.1
_PROBE_SHARE = 0.02
"""How much of the decoding time may go to finding out whether drafting pays again."""

_PROBE_TEXT_SHARE = 0.04
"""How much of a text's own decoding so far one probe in it may take: a short text is no place for it."""

_PROBE_LENGTH = 3
"""A probe is as long as it takes to see more than one position."""

_HOPEFUL = 0.95
"""Where not even this acceptance would pay, there is nothing to find out."""

_LOOK_EVERY = 8
"""Where drafting did not pay, and nothing is drafted that could teach otherwise, one need not look often."""

_FIRST_PROBE_TOKENS = 16
_LONGEST_PAUSE_TOKENS = 1024
_OFF_AFTER_TOKENS = 12


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

    plain_s: float
    expected_s: float
    expected_tokens: float
    draft: DraftRun | None = None
    probe: bool = False


class AutoPlanner:
    """Chooses drafter and rows by measured costs and observed acceptance; implements `Planner`."""

    def __init__(self, knowledge: Knowledge, *, draft_max: int = MAX_COPIED, draft_min: int = 0) -> None:
        self.knowledge = knowledge
        self.state: SpeculationState = "on"
        self._draft_max = draft_max
        self._draft_min = draft_min
        self._rho = 0.0
        self._decode_s = 0.0
        self._rounds: dict[int, _Round] = {}
        self._windows: dict[int, int] = {}
        self._tokens_since_pay = 0
        self._tokens_since_probe = 0
        self._pause_tokens = _FIRST_PROBE_TOKENS
        self._rounds_until_look = 0
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
        is_off = self.state == "auto-off"
        needed, has = needed_acceptance(self.knowledge), self.knowledge.positions(0)
        if needed is None:
            return "off: would not pay here even if every token were accepted"
        verb = "needs" if is_off else "pays above"
        return f"{'off' if is_off else 'on'}: {verb} {needed:.0%} acceptance here, has {has:.0%}"

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
        budgets = []
        for slot, pending, allowed in zip(slots, num_pending, num_allowed, strict=True):
            most = min(self._draft_max, allowed, share - pending)
            if pending > 1 or most < max(1, self._draft_min):
                self._rounds.pop(slot.seq, None)
                budgets.append(Budget(min(pending, share), 0))
            else:
                budgets.append(self._choose(slot, outlook(slot), most))
        return budgets

    def _choose(self, slot: Slot, outlook: Outlook, most: int) -> Budget:
        cells = len(slot.tokens)
        plain_s = self.knowledge.verify(1, cells)
        rho = max(self._rho, 1 / plain_s)
        copied = self._copying(outlook, most, cells, rho)
        steps = min(most, MAX_DRAFT_STEPS)
        drafted, reading = self._drafting(slot, outlook, steps, rho)
        if copied.length and copied.gain >= drafted.gain:
            self._note(slot, plain_s, copied)
            return Budget(1, copied.length, "ngram")
        probe = False
        if reading is None and outlook.draft_lag is not None:
            drafted, reading = self._probe(slot, outlook.draft_lag, steps)
            probe = reading is not None
        if reading is None:
            self._note(slot, plain_s, Choice())
            return Budget(1, 0)
        run = DraftRun(self.knowledge, cells, steps, rho, drafted.length if probe else self._draft_min)
        self._note(slot, plain_s, drafted, run, probe)
        if reading.window is not None:
            self._windows[slot.seq] = reading.window
        return Budget(1, run.most, "draft", run, reading.window)

    def _note(
        self, slot: Slot, plain_s: float, choice: Choice, run: DraftRun | None = None, probe: bool = False
    ) -> None:
        expected_s = plain_s + choice.extra_s
        self._rounds[slot.seq] = _Round(plain_s, expected_s, 1 + choice.tokens, run, probe)

    def _copying(self, outlook: Outlook, most: int, cells: int, rho: float) -> Choice:
        if not outlook.match_length:
            return Choice()
        knowledge = self.knowledge
        plain_s = knowledge.verify(1, cells)
        return best_length(
            lambda i: knowledge.matches(match_class(outlook.match_length + i, outlook.contested and i == 0)),
            lambda m: knowledge.verify(1 + m, cells) - plain_s,
            rho,
            min(most, MAX_COPIED),
        )

    # -- drafting with the model

    def _drafting(
        self, slot: Slot, outlook: Outlook, most: int, rho: float
    ) -> tuple[Choice, _Reading | None]:
        """The best draft, and what is to be read for it; None when none pays."""
        nothing: tuple[Choice, _Reading | None] = Choice(), None
        if outlook.draft_lag is None or self.knowledge.draft is None:
            return nothing
        self._rounds_until_look -= 1
        if self._rounds_until_look > 0:
            return nothing
        positions, extra_s = self.knowledge.positions, draft_extra_s(self.knowledge, len(slot.tokens))
        if best_length(positions, extra_s, rho, most).length == 0:
            self._rounds_until_look = _LOOK_EVERY
            return nothing
        left, best, most_won = self._tokens_left(slot), nothing, 0.0
        for reading in self._readings(slot, outlook.draft_lag):
            factor = reading.factor
            choice = best_length(
                positions if factor == 1 else lambda i, f=factor: f * positions(i),  # type: ignore[misc]
                extra_s,
                rho,
                most,
            )
            won = choice.gain * max(1.0, left / (1 + choice.tokens)) - rho * reading.once_s
            if won > most_won:
                best, most_won = (choice, reading), won
        return best

    def _readings(self, slot: Slot, lag: int) -> Iterator[_Reading]:
        """Ways to bring the draft to the text's end: going on, or anew with a window."""
        draft, rates, cells = self.knowledge.draft, self.knowledge.windows, len(slot.tokens)
        assert draft is not None
        step_s = draft(1, cells)

        def factor(window: int | None) -> float:
            return min(1.0, rates(_window_class(window)) / rates(0))

        yield _Reading(None, draft(lag, cells) - step_s, factor(self._windows.get(slot.seq)))
        for window in WINDOWS:
            if 2 * window > lag:
                return
            yield _Reading(window, draft(window, cells) - step_s, factor(window))

    def _tokens_left(self, slot: Slot) -> float:
        """How long the text is thought to go on."""
        typical, emitted = self.knowledge.typical_tokens, slot.num_emitted
        return min(slot.max_tokens - emitted, max(typical - emitted, typical / 2))

    def _probe(self, slot: Slot, lag: int, most: int) -> tuple[Choice, _Reading | None]:
        """A short draft to see whether drafting pays by now, where that can be afforded."""
        knowledge, cells = self.knowledge, len(slot.tokens)
        if self._tokens_since_probe < self._pause_tokens:
            return Choice(), None
        plain_s, extra_s = knowledge.verify(1, cells), draft_extra_s(knowledge, cells)
        length = min(most, max(_PROBE_LENGTH, self._draft_min))
        reading = min(self._readings(slot, lag), key=lambda reading: reading.once_s)
        cost_s = reading.once_s + extra_s(length)
        if cost_s > _PROBE_TEXT_SHARE * self._decode_s:
            return Choice(), None
        if knowledge.probe_s + cost_s > _PROBE_SHARE * knowledge.decode_s:
            return Choice(), None
        if not best_length(lambda _index: _HOPEFUL, extra_s, 1 / plain_s, most).length:
            self._tokens_since_probe = 0
            return Choice(), None
        survival, tokens = 1.0, 0.0
        for index in range(length):
            survival *= knowledge.positions(index)
            tokens += survival
        return Choice(length, 0.0, tokens, cost_s), reading

    # -- learning

    def observe(
        self,
        slots: Sequence[Slot],
        proposals: Sequence[Proposal],
        verdicts: Sequence[Verdict | None],
        timings: RoundTimings,
    ) -> list[Notice]:
        """Learn from a round; returns what a user should know of it."""
        seconds = timings.draft_s + timings.verify_s + timings.sample_s
        for slot, proposal, verdict in zip(slots, proposals, verdicts, strict=True):
            planned = self._rounds.pop(slot.seq, None)
            if verdict is not None and planned is not None:
                self._learn(slot, planned, proposal, verdict, seconds / len(slots))
        return self._changes()

    def _learn(
        self, slot: Slot, planned: _Round, proposal: Proposal, verdict: Verdict, seconds: float
    ) -> None:
        knowledge = self.knowledge
        emitted = len(verdict.tokens)
        knowledge.decode_s += seconds
        self._decode_s += seconds
        self._foreseen_tokens += planned.expected_tokens
        self._foreseen_s += planned.expected_s
        rate = emitted / seconds
        self._rho = rate if self._rho == 0 else self._rho + _RATE_WEIGHT * (rate - self._rho)
        self._tokens_since_pay += emitted
        self._tokens_since_probe += emitted
        if planned.draft is None:
            return
        window = self._windows.get(slot.seq)
        for index, fate in enumerate(verdict.fates):
            if fate is Fate.DISCARDED:
                break
            accepted = acceptance(proposal, verdict, index)
            if index == 0:
                knowledge.windows.observe(_window_class(window), accepted)
            knowledge.positions.observe(index, accepted)
            knowledge.gaps.observe(planned.draft.classes[index], accepted)
        self._tokens_since_probe = 0
        if planned.probe:
            knowledge.probe_s += max(0.0, seconds - emitted * planned.plain_s)
            self._pause_tokens = min(2 * self._pause_tokens, _LONGEST_PAUSE_TOKENS)
        else:
            self._tokens_since_pay = 0
            self._pause_tokens = _FIRST_PROBE_TOKENS

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


def acceptance(proposal: Proposal, verdict: Verdict, index: int) -> float:
    """How likely the judged node was to be accepted, whichever way it went: min(1, p / q).

    Its mean over what q may draw is sum min(p, q), of which acceptance itself is a noisier sample.
    """
    p, q = verdict.target_probs[index], proposal.dists[index]
    if p is None:
        return float(verdict.fates[index] is Fate.ACCEPTED)
    return p if q is None else min(1.0, p / q.prob(proposal.tokens[index]))


def _window_class(window: int | None) -> int:
    """0 is a draft that has read everything."""
    return 0 if window is None else 1 + WINDOWS.index(window)
