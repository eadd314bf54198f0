"""The planner that decides by measured costs, the n-gram drafter, and both in the engine."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from edge_spec.config import GREEDY, Sampling
from edge_spec.drafters import Cascade, ModelDrafter, NgramDrafter
from edge_spec.engine import Engine
from edge_spec.events import Drafted, Finished, Notice, Verified
from edge_spec.planner import calibration
from edge_spec.planner.acceptance import AcceptanceRates
from edge_spec.planner.auto import AutoPlanner, acceptance
from edge_spec.planner.costs import RowCosts
from edge_spec.planner.knowledge import Knowledge, match_class
from edge_spec.planner.length import DraftRun, best_length
from edge_spec.planner.measuring import Staircase, measure
from edge_spec.planner.round_costs import RoundCosts
from edge_spec.sampling import SamplerChain, top_gap
from edge_spec.target import ModelTarget
from edge_spec.testing import TableCache, TableModel
from edge_spec.types import Budget, Dist, Fate, Outlook, Proposal, Slot, Timers, Verdict
from edge_spec.verify import make_coupling

P = TableModel(12, seed=1)
STAIRS = {1: 1.0, 2: 1.6, 3: 2.0, 4: 1.6, 5: 2.4, 8: 2.6, 16: 5.0, 32: 10.0}
WARM = Sampling(temperature=0.9, top_k=8, top_p=0.97, min_p=0.01)


class TimedCache(TableCache):
    """A table whose decodes take what a staircase says, in pretended seconds."""

    def __init__(self, model, stairs, **options):
        super().__init__(model, **options)
        self.stairs = RowCosts(stairs)
        self.slow = 1.0

    def append(self, parts, min_rows=1):
        rows = super().append(parts, min_rows)
        self.busy_s += self.slow * self.stairs(sum(len(part.tokens) for part in parts))
        return rows


def rig(draft, *, step=0.1, knowledge=None, timers=None, replays=False, num_slots=1, windows=None, **options):
    timers = timers or Timers()
    target = TimedCache(P, STAIRS, context_size=4096, replays=replays, num_slots=num_slots)
    drafts = None
    if draft:
        drafts = TimedCache(draft, {1: step, 32: 32 * step}, context_size=4096, num_slots=num_slots)
    knowledge = knowledge or Knowledge(
        RowCosts(STAIRS), RowCosts({1: step, 32: 32 * step}) if draft else None
    )
    model = None
    if drafts is not None:
        model = ModelDrafter(drafts, P.num_vocab, timers, on_decode=knowledge.draft.observe, windows=windows)
    planner = AutoPlanner(knowledge, **options)
    engine = Engine(
        ModelTarget(target, timers, knowledge.verify.observe), Cascade(NgramDrafter(timers), model), planner,
        timers,
    )  # fmt: skip
    return engine, planner, target, drafts


def slot(prompt=(1, 2, 3), *, seq=0, max_tokens=200, sampling=GREEDY, coupling="shared", seed=7):
    chain = SamplerChain(sampling)
    return Slot(
        seq,
        list(prompt),
        len(prompt),
        max_tokens,
        make_coupling(coupling, seed, seq),
        chain,
        chain,
        lambda _t: None,
    )


def text(events):
    return [token for e in events if isinstance(e, Verified) for token in e.verdict.tokens]


# -- costs


def test_a_width_between_two_that_were_measured_is_interpolated_and_one_beyond_scaled():
    costs = RowCosts({1: 1.0, 4: 2.5, 8: 2.0})
    assert [costs(n) for n in (1, 2, 4, 6, 8, 16)] == [1.0, 1.5, 2.5, 2.25, 2.0, 4.0]


def test_a_machine_that_halves_its_speed_is_believed_within_twenty_decodes():
    costs = RowCosts(STAIRS)
    for _ in range(20):
        costs.observe(4, 100, 2 * STAIRS[4])
    assert costs(4) == pytest.approx(2 * STAIRS[4], rel=0.1)
    assert costs(1) == pytest.approx(2.0, rel=0.1), "the other widths are slower, too"


def test_a_width_that_always_takes_longer_than_thought_is_learned_alone():
    costs = RowCosts(STAIRS)
    for _ in range(400):
        costs.observe(1, 100, STAIRS[1])
        costs.observe(8, 100, 2 * STAIRS[8])
    assert costs(8) / costs(1) == pytest.approx(2 * STAIRS[8], rel=0.1)


def test_costs_are_measured_by_decoding_every_width():
    cache = TimedCache(P, STAIRS)
    stair = Staircase(cache, (1, 2, 4, 8))
    shares = list(measure([stair]))
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] < 1
    assert stair.seconds == pytest.approx({n: STAIRS[n] for n in (1, 2, 4, 8)})
    assert cache.length(0) == 0


def test_one_slow_decode_is_passed_over_however_slow_the_machine_is():
    cache, draft = TimedCache(P, STAIRS), TimedCache(P, STAIRS)
    late = {3: 9.0, 12: 9.0}  # by the number of the decode: one of width 1 among the first two turns
    counted = iter(range(1000))

    class Spiky(TimedCache):
        def append(self, parts, min_rows=1):
            self.slow = late.get(next(counted), 1.0)
            return super().append(parts, min_rows)

    cache = Spiky(P, STAIRS)
    stairs = [Staircase(cache, (1, 2, 4, 8)), Staircase(draft, (1, 8), wanted=False)]
    list(measure(stairs, budget_s=0.0))
    assert stairs[0].seconds[1] == pytest.approx(STAIRS[1])
    assert {width: len(times) for width, times in stairs[0].times.items()} == {1: 3, 2: 3, 4: 3, 8: 1}
    assert {width: len(times) for width, times in stairs[1].times.items()} == {1: 3, 8: 1}
    assert cache.length(0) == draft.length(0) == 0


def test_a_width_that_was_only_guessed_at_says_nothing_of_the_machine():
    costs = RowCosts({1: 1.0, 32: 4.0})
    costs.observe(512, 100, 6.0)  # a tenth of what 32 rows would have made one think
    assert costs(1) == 1.0 and costs(512) == pytest.approx(6.0)
    for _ in range(20):
        costs.observe(512, 100, 12.0)
    assert costs(1) == pytest.approx(2.0, rel=0.1)


def test_costs_that_nobody_observes_follow_those_of_the_same_machine():
    target, draft = RowCosts(STAIRS), RowCosts(STAIRS)
    for _ in range(40):
        target.observe(1, 100, 3 * STAIRS[1])
        draft.observe(1, 100, 3 * STAIRS[1])
    for _ in range(40):
        target.observe(1, 100, STAIRS[1])
    assert draft(1) > 2 * target(1)
    for _ in range(1000):
        draft.follow(target)
    assert draft(1) == pytest.approx(target(1), rel=0.15)


def test_a_longer_context_is_no_drift():
    costs = RowCosts(STAIRS)
    for _ in range(400):
        costs.observe(1, 3000, 1.5 * STAIRS[1])
    assert not costs.has_drifted and costs(1, 3000) == pytest.approx(1.5 * STAIRS[1], rel=0.05)


# -- choosing


def test_the_best_length_looks_beyond_a_stair_that_does_not_pay():
    extra = {1: 0.9, 2: 1.4, 3: 0.8}
    best = best_length(lambda _i: 0.7, extra.__getitem__, 1.0, 3)
    assert (best.length, best.tokens) == (3, pytest.approx(0.7 + 0.49 + 0.343))
    assert best_length(lambda _i: 0.3, extra.__getitem__, 1.0, 3).length == 0


def test_rates_follow_what_was_judged_and_start_from_their_prior():
    rates = AcceptanceRates([0.2, 0.8])
    assert [rates(0), rates(1), rates(7)] == pytest.approx([0.2, 0.8, 0.8])
    for _ in range(200):
        rates.observe(0, accepted=True)
    assert rates(0) > 0.94
    restored = AcceptanceRates([0.2, 0.8])
    restored.restore(rates.state())
    assert 0.9 < restored(0) < rates(0) and restored(1) == pytest.approx(0.8)


def test_a_text_is_easier_or_harder_in_all_classes_alike_and_the_next_begins_from_the_average():
    rates = AcceptanceRates([0.5, 0.8], start=-0.5)
    assert rates(1) < 0.75, "begins below the average"
    for _ in range(10):
        rates.observe(0, accepted=1.0)
    assert rates(1) > 0.77, "nothing of this class was judged"
    rates.begin_text()
    assert rates(1) < 0.75


def test_costs_have_drifted_only_when_it_lasts():
    costs = RowCosts(STAIRS)
    for _ in range(200):
        costs.observe(4, 100, 1.05 * STAIRS[4])
    for _ in range(3):
        costs.observe(4, 100, 2 * STAIRS[4])
    assert not costs.has_drifted
    for _ in range(60):
        costs.observe(4, 100, 1.3 * STAIRS[4])
    assert costs.has_drifted


def test_small_widths_are_looked_up_as_the_cells_say_after_any_correction():
    costs = RowCosts({1: 1.0, 4: 2.5, 8: 2.0})
    for rows, cells, seconds in [(1, 0, 1.2), (4, 0, 2.0), (6, 0, 3.0), (4, 3000, 4.0), (2, 900, 1.0)] * 5:
        costs.observe(rows, cells, seconds)
        for depth in range(5):
            assert costs._tables[depth][1:] == pytest.approx(costs._table(depth)[1:])


def test_decodes_wider_than_the_table_leave_the_small_widths_alone():
    costs = RowCosts({1: 1.0, 32: 32.0})
    before = [costs(rows, 600) for rows in range(1, 200)]
    costs.observe(150, 600, 150.0)
    costs.observe(180, 600, 180.0)
    assert [costs(rows, 600) for rows in range(1, 200)] == pytest.approx(before)


def test_every_match_is_judged_whether_it_was_drafted_or_not():
    judged = []
    ngram = NgramDrafter(Timers(), on_judged=lambda *what: judged.append(what))
    cache = TableCache(TableModel(12, seed=1, order=1), context_size=4096)
    engine = Engine(ModelTarget(cache, Timers()), Cascade(ngram, None), _Never(), Timers())
    list(engine.generate([slot(max_tokens=60)]))
    assert sum(right for _, _, right in judged) > 30, "single tokens soon go in a circle"


def test_a_model_that_is_left_out_for_what_it_would_have_to_read_is_not_blamed_for_its_acceptance():
    prompt = np.random.default_rng(0).integers(0, 12, 3000).tolist()
    engine, planner, *_ = rig(P, step=0.25)
    events = list(engine.generate([slot(prompt, max_tokens=40, sampling=WARM)]))
    told = [event.text for event in events if isinstance(event, Notice)]
    assert planner.state == "auto-off"
    assert len(told) == 1 and "reading 30" in told[0] and "would cost more than it brings" in told[0]


def test_a_short_text_is_no_place_for_a_probe():
    poor = TableModel(12, seed=99).blend(P, -1.0)
    knowledge = Knowledge(RowCosts(STAIRS), RowCosts({1: 0.05, 32: 1.6}))
    knowledge.decode_s = 1e6  # much time was spent, so that there is a budget
    for place in [*range(16)] * 40:
        knowledge.positions.observe(place, 0.1)
    engine, _, _, drafts = rig(poor, step=0.05, knowledge=knowledge)
    list(engine.generate([slot(max_tokens=40)]))
    assert not drafts.decodes
    engine, _, _, drafts = rig(poor, step=0.05, knowledge=knowledge)
    list(engine.generate([slot(max_tokens=400)]))
    assert drafts.decodes


def off(knowledge, **options):
    """A planner for which drafting does not pay, at a text where it may look whether it does by now."""
    for index in range(16):
        for _ in range(200):
            knowledge.positions.observe(index, 0.0)
            knowledge.gaps.observe(index, 0.0)
    knowledge.decode_s = 1e6
    planner = AutoPlanner(knowledge, **options)
    planner._decode_s, planner._tokens_since_probe = 1e6, 1000
    return planner


def writing(seq, length=500):
    """A slot that has written its first tokens."""
    text = slot([1] * length, seq=seq)
    text.tokens.extend([1, 2, 3])
    return text


def test_one_probe_at_a_time_is_paid_for():
    planner = off(Knowledge(RowCosts(STAIRS), RowCosts({1: 0.1, 32: 3.2})))
    slots = [writing(seq) for seq in range(4)]
    budgets = planner.plan(slots, [1] * 4, [20] * 4, 512, lambda _slot: Outlook(draft_lag=1))
    assert [budget.drafted > 0 for budget in budgets] == [True, False, False, False]


@pytest.mark.parametrize(("decode_s", "window"), [(1e6, None), (500.0, 64)])
def test_a_probe_reads_on_where_that_can_be_paid_and_forgets_nothing(decode_s, window):
    planner = off(Knowledge(RowCosts(STAIRS), RowCosts({1: 0.1, 32: 3.2})))
    planner.knowledge.decode_s = planner._decode_s = decode_s
    (budget,) = planner.plan([writing(0)], [1], [20], 512, lambda _slot: Outlook(draft_lag=400))
    assert (budget.source, budget.window) == ("draft", window)


def test_what_probes_cost_long_ago_is_forgotten_and_so_is_what_was_gained():
    knowledge = Knowledge(RowCosts(STAIRS), None)
    knowledge.decode_s, knowledge.probe_s = 1e6, 5e4
    knowledge.decoded(60.0)
    assert knowledge.probe_s / knowledge.decode_s == pytest.approx(0.05, rel=1e-3)
    for _ in range(100):
        knowledge.decoded(60.0)
    assert knowledge.decode_s < 2000 and knowledge.probe_s < 100


def test_the_rate_of_eight_texts_is_not_expected_of_one():
    planner = AutoPlanner(Knowledge(RowCosts({1: 1.0, 16: 1.0}), RowCosts({1: 0.1, 32: 3.2})))
    planner._rho, planner._num_slots = 8.0, 8
    planner.plan([writing(0)], [1], [20], 512, lambda _slot: Outlook(draft_lag=1))
    assert planner._rho == pytest.approx(1.0)


def test_tokens_that_are_dear_to_choose_are_not_drafted():
    """Rows and steps cost next to nothing here, sampling as much as a decode."""
    planner = AutoPlanner(Knowledge(RowCosts({1: 1.0, 32: 1.1}), RowCosts({1: 0.01, 32: 0.32})))

    def drafted():
        (budget,) = planner.plan([writing(0)], [1], [20], 512, lambda _slot: Outlook(draft_lag=1))
        return budget.drafted

    assert drafted()
    for _ in range(40):
        planner._choosing.observe(0.8, 1, 0)
        planner._choosing.observe(0.8 + 3 * 0.9, 1, 3)
    assert planner._choosing.each_s == pytest.approx(0.9, rel=0.05)
    planner._rounds_until_look = 0
    assert not drafted()


def test_a_judged_token_counts_as_likely_as_it_was():
    q = Dist(np.array([3, 5]), np.array([0.8, 0.2]))
    proposal = Proposal.chain([3, 5, 7, 8], [q, q, None, None], "draft")
    fates = (Fate.ACCEPTED, Fate.ACCEPTED, Fate.REJECTED, Fate.DISCARDED)
    verdict = Verdict((3, 5, 1), (0, 1), fates, "residual", (0.2, 0.5, 0.3, None))
    rejection, shared = (make_coupling(name, 7, 0) for name in ("rejection", "shared"))
    assert [acceptance(rejection, proposal, verdict, i) for i in range(3)] == pytest.approx([0.25, 1.0, 0.3])
    assert [acceptance(shared, proposal, verdict, i) for i in range(3)] == pytest.approx([1.0, 1.0, 0.3])


def test_what_was_expected_of_the_rounds_is_told():
    seconds, planner, events = run_seconds(P, 0.05)
    stats = next(e for e in events if isinstance(e, Finished)).stats
    assert stats.predicted_tokens_per_second == planner.predicted_tokens_per_second
    assert stats.predicted_tokens_per_second == pytest.approx(400 / seconds, rel=0.15)


def test_the_gap_is_between_the_two_best_logits():
    row = np.full(3000, -5, np.float32)
    row[[7, 2999]] = 3.0, 4.5
    assert top_gap(row) == 1.5


# -- in the engine


@pytest.mark.parametrize("weight", [0.0, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "shared"])
def test_text_is_the_plain_text_whatever_the_planner_does(sampling, weight):
    draft = TableModel(12, seed=2).blend(P, weight)
    plain = Engine(
        ModelTarget(TableCache(P, context_size=4096), Timers()),
        Cascade(NgramDrafter(Timers()), None),
        _Never(),
        Timers(),
    )
    expected = text(plain.generate([slot(sampling=sampling)]))
    assert len(expected) == 200
    for model in (draft, None):
        assert text(rig(model)[0].generate([slot(sampling=sampling)])) == expected


class _Never:
    state, reason, predicted_tokens_per_second = "off", "", None

    def plan(self, slots, num_pending, num_allowed, num_rows, outlook):
        from edge_spec.types import Budget

        return [Budget(pending, 0) for pending in num_pending]

    def observe(self, *_):
        return ()


def run_seconds(draft, step, max_tokens=400, sampling=WARM):
    engine, planner, target, drafts = rig(draft, step=step)
    events = list(engine.generate([slot(max_tokens=max_tokens, sampling=sampling)]))
    return target.busy_s + drafts.busy_s, planner, events


def test_a_draft_that_never_agrees_costs_next_to_nothing():
    seconds, planner, events = run_seconds(TableModel(12, seed=99).blend(P, -1.0), 0.3)
    assert planner.state == "auto-off"
    assert seconds < 1.06 * 400
    told = [e.text for e in events if isinstance(e, Notice)]
    assert len(told) == 1 and "off: needs" in told[0] and "acceptance here, has" in told[0]


def test_a_draft_that_always_agrees_is_used_up_to_the_best_stair():
    seconds, planner, events = run_seconds(P, 0.05)
    assert planner.state == "on"
    assert seconds < 0.47 * 400, "3 drafted for 0.15, 4 rows for 1.6: 0.44 a token at best"
    assert not [e for e in events if isinstance(e, Notice)]


@pytest.mark.parametrize("weight", [0.5, 0.9])
def test_memory_that_reads_again_after_a_rejection_is_drafted_for_only_where_that_pays(weight):
    draft = TableModel(12, seed=2).blend(P, weight)
    knowledge = Knowledge(RowCosts(STAIRS), RowCosts({1: 0.1, 32: 3.2}))
    for _ in range(2):
        engine, _, target, drafts = rig(draft, knowledge=knowledge, replays=True)
        events = list(engine.generate([slot(max_tokens=400, sampling=WARM)]))
    stats = next(e for e in events if isinstance(e, Finished)).stats
    assert knowledge.replayed > 0.05
    assert target.busy_s + drafts.busy_s < 1.05 * 400
    measured = 400 / (target.busy_s + drafts.busy_s)
    assert stats.predicted_tokens_per_second == pytest.approx(measured, rel=0.2)


def test_memory_that_can_be_trimmed_reads_nothing_again():
    engine, planner, *_ = rig(TableModel(12, seed=2).blend(P, 0.6))
    list(engine.generate([slot(sampling=WARM)]))
    assert planner.knowledge.replayed == 0.0


def test_no_draft_is_shorter_than_the_least_one_that_was_asked_for():
    draft = TableModel(12, seed=2).blend(P, 0.8)
    for prompt in ((1, 2, 3), (4, 5) * 20):
        engine, *_ = rig(draft, draft_min=4, draft_max=8)
        events = list(engine.generate([slot(prompt, max_tokens=300, sampling=WARM)]))
        lengths = [len(e.proposal) for e in events if isinstance(e, Drafted)]
        assert lengths and min(lengths) >= 4 and max(lengths) <= 8


def test_slots_share_what_a_decode_costs():
    """Two slots of four rows would be eight rows here: what pays for one does not pay for several."""
    flat = {1: 1.0, 4: 1.0, 5: 4.0, 8: 6.0, 16: 12.0}
    draft = TableModel(12, seed=2).blend(P, 0.95)

    def run(num_slots, max_drafted):
        target = TimedCache(P, flat, context_size=4096, num_slots=3)
        drafts = TimedCache(draft, {1: 0.02, 32: 0.64}, context_size=4096, num_slots=3)
        target.max_drafted = max_drafted
        timers, knowledge = Timers(), Knowledge(RowCosts(flat), RowCosts({1: 0.02, 32: 0.64}))
        model = ModelDrafter(drafts, P.num_vocab, timers)
        planner = AutoPlanner(knowledge)
        engine = Engine(
            ModelTarget(target, timers), Cascade(NgramDrafter(timers), model), planner, timers
        )  # fmt: skip
        texts = [slot((1, 2, i), seq=i, max_tokens=150, sampling=WARM) for i in range(num_slots)]
        events = list(engine.generate(texts))
        drafted = sum(len(event.proposal) for event in events if isinstance(event, Drafted))
        return target.busy_s + drafts.busy_s, drafted

    (alone_s, drafted), (plain_s, none) = run(1, 16), run(1, 0)
    assert drafted > 100 and none == 0
    assert alone_s < 0.6 * plain_s
    assert run(3, 16)[0] < 1.02 * run(3, 0)[0]


def test_a_draft_that_reads_a_window_goes_on_from_it_in_the_next_text():
    knowledge = Knowledge(RowCosts(STAIRS), RowCosts({1: 0.05, 32: 1.6}))
    windows: dict = {}
    engine, _, _, drafts = rig(P, step=0.05, knowledge=knowledge, windows=windows)
    first = slot(np.random.default_rng(0).integers(0, 12, 3000).tolist(), max_tokens=60, sampling=WARM)
    list(engine.generate([first]))
    assert windows[0].size < 3000
    held = drafts.length(0)
    timers = Timers()
    again = ModelDrafter(drafts, P.num_vocab, timers, windows=windows)
    then = slot([*first.tokens, 1, 2, 3])
    again.begin(then)
    assert drafts.length(0) > held - 5
    assert again.outlook(then).draft_lag < 10
    assert again.outlook(then).window == windows[0].size


def test_what_a_window_reads_again_is_no_reading_of_the_prompt():
    timers, windows = Timers(), {}
    drafts = TimedCache(P, {1: 0.1, 512: 51.2}, context_size=4096, batch_size=512)
    drafter = ModelDrafter(drafts, P.num_vocab, timers, windows=windows)
    text = slot(np.random.default_rng(0).integers(0, 12, 400).tolist())
    drafter.begin(text)
    drafter.propose([text], [Budget(1, 2, "draft")])
    assert timers.draft_prefill_s == pytest.approx(40.0) and timers.draft_s == pytest.approx(0.1)
    text.tokens.extend([1] * 150)
    drafter.propose([text], [Budget(1, 2, "draft", window=64)])
    assert timers.draft_prefill_s == pytest.approx(40.0)
    assert timers.draft_s == pytest.approx(0.1 + 6.4 + 0.1)


def test_a_copy_goes_on_behind_a_draft_where_that_pays_and_the_text_is_indexed_as_before():
    ngram, text = NgramDrafter(Timers()), slot((5, 6, 7, 8, 9, 1, 2, 5))
    ngram.begin(text)
    drafted = Proposal.chain([6, 7], [None, None], "draft")
    asked = []
    longer = ngram.go_on(text, drafted, lambda length, contested: asked.append((length, contested)) or 2)
    assert (longer.tokens, longer.source, asked) == ((6, 7, 8, 9), "draft", [(3, False)])
    assert ngram.go_on(text, drafted, lambda *_: 0) is drafted
    assert ngram.go_on(text, Proposal.chain([11], [None], "draft"), lambda *_: 4).tokens == (11,)
    assert ngram.outlook(text) == ngram.outlook(slot(text.tokens)) == Outlook()
    assert ngram.go_on(text, drafted, lambda *_: 2).tokens == (6, 7, 8, 9)


def test_long_copies_follow_short_drafts_where_rows_are_cheap():
    """A target that repeats itself, rows that cost nearly nothing, a draft whose steps do."""
    model, timers = TableModel(12, seed=1, order=1), Timers()
    flat = {1: 1.0, 2: 1.01, 32: 1.3}
    knowledge = Knowledge(RowCosts(flat), RowCosts({1: 0.3, 32: 9.6}))
    for length in range(2, 40):
        for _ in range(9):
            knowledge.matches.observe(match_class(length), 1.0)
    run = DraftRun(RoundCosts(knowledge, 100), 16, 32, 1.0, classes=[3, 3], survival=0.9)
    assert run.copies(8, False) > 8
    dear = Knowledge(RowCosts({1: 1.0, 32: 20.0}), knowledge.draft)
    assert replace(run, costs=RoundCosts(dear, 100)).copies(2, True) == 0
    target = TimedCache(model, flat, context_size=4096)
    drafts = TimedCache(model, {1: 0.3, 32: 9.6}, context_size=4096)
    cascade = Cascade(NgramDrafter(timers), ModelDrafter(drafts, 12, timers))
    engine = Engine(ModelTarget(target, timers), cascade, AutoPlanner(knowledge), timers)
    events = list(engine.generate([slot(max_tokens=200)]))
    mixed = [e.proposal for e in events if isinstance(e, Drafted) and e.proposal.source == "draft"]
    assert max(len(proposal) for proposal in mixed) > 4


def test_text_that_repeats_itself_is_copied_without_a_model():
    model = TableModel(12, seed=1, order=1)
    timers = Timers()
    knowledge = Knowledge(RowCosts(STAIRS), None)
    target = TimedCache(model, STAIRS, context_size=4096)
    engine = Engine(
        ModelTarget(target, timers, knowledge.verify.observe), Cascade(NgramDrafter(timers), None),
        AutoPlanner(knowledge), timers,
    )  # fmt: skip
    events = list(engine.generate([slot(max_tokens=300)]))
    stats = next(e for e in events if isinstance(e, Finished)).stats
    assert stats.completion_tokens == 300
    assert target.busy_s < 0.5 * 300, "a greedy walk over single tokens soon goes in a circle"
    assert {e.proposal.source for e in events if isinstance(e, Drafted)} == {"ngram"}


def test_what_was_learned_is_dropped_without_a_word_when_the_model_s_file_is_gone(tmp_path):
    path = tmp_path / "gone.gguf"
    gone = SimpleNamespace(path=path, header=SimpleNamespace(files=(path,)), settings=None)
    calibration.keep(Knowledge(RowCosts(STAIRS), None), gone, None)
    assert calibration.recall(gone, None) is None
