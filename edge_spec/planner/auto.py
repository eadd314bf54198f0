"""Draft exactly as much as pays: rows chosen on the measured staircase, zero rows included.

Each round adds tokens and takes time. With rho tokens a second as what this machine makes on
average, a round is worth its expected tokens less rho times its seconds, and the best round is the
one that is worth most (the average-reward criterion of renewal theory: maximising it each round
maximises tokens a second). Plain decoding is the round of zero drafted rows; what pays less is not
done. Formulas: Leviathan et al. 2023 (arXiv:2211.17192), section 3.3, with measured costs.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from edge_spec.events import Notice, RoundTimings
from edge_spec.planner.acceptance import AcceptanceRates
from edge_spec.planner.costs import RowCosts
from edge_spec.stats import SpeculationState
from edge_spec.types import Budget, Fate, Outlook, Proposal, Slot, Verdict

MAX_DRAFT_STEPS = 16
"""The most tokens that a draft model drafts in a round."""

MAX_COPIED = 32
"""The most tokens that an n-gram drafter copies in a round."""

GAP_EDGES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Upper edges of the classes of confidence: the draft's best logit less its second best."""

MATCH_EDGES = (3, 4, 5, 6, 8, 10, 13, 17, 25, 33)
"""Upper edges of the classes of match length, in tokens."""

_GAP_PRIORS = (0.40, 0.45, 0.50, 0.58, 0.65, 0.74, 0.83, 0.90, 0.95, 0.98)
_MATCH_PRIORS = (0.25, 0.40, 0.50, 0.58, 0.65, 0.72, 0.78, 0.84, 0.88, 0.91, 0.94)
_POSITION_PRIORS = (0.70,) * MAX_DRAFT_STEPS

_RATE_WEIGHT = 0.1
_PROBE_SHARE = 0.02
"""How much of the decoding time may go to finding out whether drafting pays again."""

_FIRST_PROBE_TOKENS = 16
_LONGEST_PAUSE_TOKENS = 1024
_HORIZON_TOKENS = 256
"""How long an answer is thought to go on, at most, when reading a prompt is to be repaid."""

_OFF_AFTER_TOKENS = 12


@dataclass(slots=True)
class Knowledge:
    """What was learned of one pair on this machine; outlives a text.

    `verify` and `draft` are the costs of the target's and the draft's decodes, `draft` None
    without a draft model. `positions`, `gaps` and `matches` are acceptance by place in a draft,
    by the draft's confidence, and by the length of an n-gram match.
    """

    verify: RowCosts
    draft: RowCosts | None
    positions: AcceptanceRates = field(default_factory=lambda: AcceptanceRates(_POSITION_PRIORS))
    gaps: AcceptanceRates = field(default_factory=lambda: AcceptanceRates(_GAP_PRIORS))
    matches: AcceptanceRates = field(default_factory=lambda: AcceptanceRates(_MATCH_PRIORS))


@dataclass(frozen=True, slots=True)
class _Choice:
    """A draft of `length` tokens is worth `gain` tokens more than none; it makes `tokens` more."""

    length: int = 0
    gain: float = 0.0
    tokens: float = 0.0


def best_length(
    rates: Callable[[int], float], extra_s: Callable[[int], float], rho: float, most: int
) -> _Choice:
    """The draft length in 0..most that is worth most.

    `rates(i)` is the acceptance of drafted token i (from 0) given those before it, `extra_s(m)`
    what a round with m drafted tokens takes beyond a plain one, in seconds, `rho` tokens a second.
    All lengths are looked at: on a staircase a longer draft may pay where a shorter does not.
    """
    best = _Choice()
    survival, tokens = 1.0, 0.0
    for length in range(1, most + 1):
        survival *= rates(length - 1)
        tokens += survival
        gain = tokens - rho * extra_s(length)
        if gain > best.gain:
            best = _Choice(length, gain, tokens)
        if survival < 0.02:
            break
    return best


@dataclass(slots=True)
class _Draft:
    """A draft model's chain while it is drawn; called before each draw. See `Budget.more`."""

    knowledge: Knowledge
    num_cells: int
    most: int
    rho: float
    classes: list[int] = field(default_factory=list)
    survival: float = 1.0
    least: int = 0

    def __call__(self, gap: float) -> int:
        done = len(self.classes)
        kind = bisect.bisect(GAP_EDGES, gap)
        knowledge = self.knowledge
        assert knowledge.draft is not None, "only a draft model asks"
        here, step_s = knowledge.gaps(kind), knowledge.draft(1, self.num_cells)
        base_s = knowledge.verify(1 + done, self.num_cells)

        def rate(index: int) -> float:
            return self.survival * here if index == 0 else knowledge.positions(done + index)

        def extra_s(length: int) -> float:
            rows_s = knowledge.verify(1 + done + length, self.num_cells)
            return (length - 1) * step_s + rows_s - base_s

        more = best_length(rate, extra_s, self.rho, self.most - done).length
        more = max(more, min(self.least - done, self.most - done))
        if more:
            self.classes.append(kind)
            self.survival *= here
        return more


@dataclass(slots=True)
class _Round:
    """What was decided for a slot, to be learned from when its verdict comes."""

    match_length: int
    draft: _Draft | None
    probe: bool
    plain_s: float


class AutoPlanner:
    """Chooses drafter and rows by measured costs and observed acceptance; implements `Planner`."""

    def __init__(self, knowledge: Knowledge, *, draft_max: int = MAX_COPIED, draft_min: int = 0) -> None:
        self.knowledge = knowledge
        self.state: SpeculationState = "on"
        self._draft_max = draft_max
        self._draft_min = draft_min
        self._rho = 0.0
        self._rounds: dict[int, _Round] = {}
        self._decode_s = 0.0
        self._probe_s = 0.0
        self._tokens_since_pay = 0
        self._tokens_since_probe = 0
        self._pause_tokens = _FIRST_PROBE_TOKENS

    @property
    def reason(self) -> str:
        """What the draft model needs to pay here, and what it has."""
        if self.knowledge.draft is None or not self._decode_s:
            return "nothing was judged yet"
        is_off = self.state == "auto-off"
        needed, has = self.needed_acceptance(), self.knowledge.positions(0)
        verb = "needs" if is_off else "pays above"
        return f"{'off' if is_off else 'on'}: {verb} {needed:.0%} acceptance here, has {has:.0%}"

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
        knowledge, cells = self.knowledge, len(slot.tokens)
        plain_s = knowledge.verify(1, cells)
        rho = max(self._rho, 1 / plain_s)
        copied = self._copying(outlook, most, cells, rho)
        drafted = self._drafting(slot, outlook, min(most, MAX_DRAFT_STEPS), cells, rho)
        probe = False
        if copied.length == drafted.length == 0 and outlook.draft_lag is not None and self._may_probe():
            drafted, probe = _Choice(min(most, max(1, self._draft_min or 3))), True
        if copied.gain >= drafted.gain and copied.length:
            self._rounds[slot.seq] = _Round(outlook.match_length, None, False, plain_s)
            return Budget(1, copied.length, "ngram")
        if drafted.length:
            # A probe is as long as it takes to see more than one position.
            run = _Draft(
                knowledge,
                cells,
                min(most, MAX_DRAFT_STEPS),
                rho,
                least=drafted.length if probe else self._draft_min,
            )
            self._rounds[slot.seq] = _Round(0, run, probe, plain_s)
            return Budget(1, run.most, "draft", run)
        self._rounds[slot.seq] = _Round(0, None, False, plain_s)
        return Budget(1, 0)

    def _copying(self, outlook: Outlook, most: int, cells: int, rho: float) -> _Choice:
        if not outlook.match_length:
            return _Choice()
        knowledge = self.knowledge
        plain_s = knowledge.verify(1, cells)
        return best_length(
            lambda i: knowledge.matches(match_class(outlook.match_length + i)),
            lambda m: knowledge.verify(1 + m, cells) - plain_s,
            rho,
            min(most, MAX_COPIED),
        )

    def _drafting(self, slot: Slot, outlook: Outlook, most: int, cells: int, rho: float) -> _Choice:
        if outlook.draft_lag is None or self.knowledge.draft is None:
            return _Choice()
        extra_s = self._draft_extra_s(cells)
        best = best_length(self.knowledge.positions, extra_s, rho, most)
        # What the draft must read once is repaid over the rest of the text.
        once_s = self.knowledge.draft(outlook.draft_lag, cells) - self.knowledge.draft(1, cells)
        left = min(_HORIZON_TOKENS, slot.max_tokens - slot.num_emitted)
        share = min(1.0, (1 + best.tokens) / max(1, left))
        return best if best.gain > rho * once_s * share else _Choice()

    def _draft_extra_s(self, cells: int) -> Callable[[int], float]:
        """What a round takes beyond a plain one, in seconds, by the tokens that the model drafts in it."""
        knowledge = self.knowledge
        assert knowledge.draft is not None
        step_s, plain_s = knowledge.draft(1, cells), knowledge.verify(1, cells)
        return lambda length: length * step_s + knowledge.verify(1 + length, cells) - plain_s

    def _may_probe(self) -> bool:
        return (
            self._tokens_since_probe >= self._pause_tokens and self._probe_s <= _PROBE_SHARE * self._decode_s
        )

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
                self._learn(planned, proposal, verdict, seconds / len(slots))
        return self._changes()

    def _learn(self, planned: _Round, proposal: Proposal, verdict: Verdict, seconds: float) -> None:
        knowledge = self.knowledge
        self._decode_s += seconds
        for index, fate in enumerate(verdict.fates):
            if fate is Fate.DISCARDED:
                break
            accepted = fate is Fate.ACCEPTED
            if planned.draft is not None:
                knowledge.positions.observe(index, accepted)
                knowledge.gaps.observe(planned.draft.classes[index], accepted)
            else:
                knowledge.matches.observe(match_class(planned.match_length + index), accepted)
        emitted = len(verdict.tokens)
        rate = emitted / seconds
        self._rho = rate if self._rho == 0 else self._rho + _RATE_WEIGHT * (rate - self._rho)
        self._tokens_since_pay += emitted
        self._tokens_since_probe += emitted
        if planned.draft is None:
            return
        self._tokens_since_probe = 0
        if planned.probe:
            self._probe_s += max(0.0, seconds - emitted * planned.plain_s)
            self._pause_tokens = min(2 * self._pause_tokens, _LONGEST_PAUSE_TOKENS)
        else:
            self._tokens_since_pay = 0
            self._pause_tokens = _FIRST_PROBE_TOKENS

    def _changes(self) -> list[Notice]:
        if self.knowledge.draft is None:
            return []
        off = self._tokens_since_pay >= _OFF_AFTER_TOKENS
        state: SpeculationState = "auto-off" if off else "on"
        if state == self.state:
            return []
        self.state = state
        return [Notice("info", f"Drafting with the model is {self.reason}.")]

    def needed_acceptance(self, num_cells: int = 0) -> float:
        """The acceptance, the same at every position, from which on the draft model pays; 1.0: never."""
        extra_s, rho = self._draft_extra_s(num_cells), 1 / self.knowledge.verify(1, num_cells)
        low, high = 0.0, 1.0
        for _ in range(12):
            middle = (low + high) / 2
            if best_length(functools.partial(_same, middle), extra_s, rho, MAX_DRAFT_STEPS).length:
                high = middle
            else:
                low = middle
        return high


def _same(rate: float, _index: int) -> float:
    return rate


def match_class(length: int) -> int:
    """The class of a match of so many tokens."""
    return bisect.bisect(MATCH_EDGES, length)
