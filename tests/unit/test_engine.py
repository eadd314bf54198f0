"""The round over table models: every drafter, K and ending, without a GGUF."""

from __future__ import annotations

import itertools
import math

import pytest

from edge_spec.cancel import Cancel
from edge_spec.config import Sampling
from edge_spec.drafters import ModelDrafter, NgramDrafter, NoDrafter
from edge_spec.engine import Engine
from edge_spec.events import Drafted, Finished, Prefilled, Started, Verified
from edge_spec.planner import FixedPlanner
from edge_spec.sampling import SamplerChain
from edge_spec.target import ModelTarget
from edge_spec.testing import TableCache, TableModel
from edge_spec.types import Fate, Slot, Timers
from edge_spec.verify import make_coupling

P = TableModel(12, seed=1)
Q = TableModel(12, seed=2).blend(P, 0.7)
GREEDY, WARM = Sampling(temperature=0), Sampling(temperature=0.9, top_k=8, top_p=0.97, min_p=0.01)


def slot(
    prompt, *, seq=0, max_tokens=40, sampling=GREEDY, seed=7, eog=(), coupling="shared", reproducible=False
):
    def cut(tokens):
        return next(((i + 1, "eog") for i, token in enumerate(tokens) if token in eog), None)

    return Slot(
        seq, list(prompt), len(prompt), max_tokens, make_coupling(coupling, seed, seq),
        SamplerChain(sampling), SamplerChain(sampling), cut, reproducible,
    )  # fmt: skip


class Rig:
    """A target and a draft table with their caches, kept over several generations."""

    def __init__(self, draft=Q, *, replays=False, draft_replays=False, cancel=None, **sizes):
        self.timers, self.cancel = Timers(), cancel or Cancel()
        self.target_cache = TableCache(P, replays=replays, cancel=self.cancel, **sizes)
        self.draft_cache = TableCache(draft or P, replays=draft_replays, cancel=self.cancel, **sizes)
        self.target = ModelTarget(self.target_cache, self.timers)
        self.drafter = ModelDrafter(self.draft_cache, P.num_vocab, self.timers) if draft else NoDrafter()

    def run(self, *slots, k=3, draft_min=0):
        engine = Engine(self.target, self.drafter, FixedPlanner(k, draft_min), self.timers)
        return list(engine.generate(slots))


def text(events, index=0):
    return [t for e in events if isinstance(e, Verified) and e.slot == index for t in e.verdict.tokens]


def finished(events, index=0):
    return next(e for e in events if isinstance(e, Finished) and e.slot == index)


PLAIN = {
    sampling: text(Rig(None).run(slot([1, 2, 3], sampling=sampling), k=0)) for sampling in (GREEDY, WARM)
}


@pytest.mark.parametrize("replays, draft_replays", [(a, b) for a in (False, True) for b in (False, True)])
@pytest.mark.parametrize("k", [1, 2, 3, 7])
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "shared"])
def test_text_with_a_draft_equals_plain_text(k, sampling, replays, draft_replays):
    rig = Rig(replays=replays, draft_replays=draft_replays)
    events = rig.run(slot([1, 2, 3], sampling=sampling), k=k)
    assert text(events) == PLAIN[sampling]
    assert finished(events).reason == "length"
    assert finished(events).stats.completion_tokens == 40


@pytest.mark.parametrize("k", [1, 2, 3, 7])
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "shared"])
def test_text_with_copies_of_itself_equals_plain_text(k, sampling):
    prompt = [1, 2, 3, 4, 5] * 4
    plain = text(Rig(None).run(slot(prompt, sampling=sampling, max_tokens=120), k=0))
    rig = Rig(None)
    rig.drafter = NgramDrafter(rig.timers)
    events = rig.run(slot(prompt, sampling=sampling, max_tokens=120), k=k)
    assert text(events) == plain
    stats = finished(events).stats
    assert k in {len(e.proposal) for e in events if isinstance(e, Drafted)}
    assert stats.accepted > 0 and (sampling == GREEDY or stats.rejected > 0)


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "shared"])
def test_a_reproducible_text_does_not_depend_on_k_where_a_single_row_is_computed_otherwise(sampling):
    def run(k, **options):
        return text(Rig(steady_rows=2).run(slot([1, 2, 3], sampling=sampling, **options), k=k))

    assert run(0) != PLAIN[sampling], "the rig computes a single row otherwise"
    for k in (0, 1, 3):
        assert run(k, reproducible=True) == PLAIN[sampling]


def test_only_a_reproducible_text_pays_for_padding_and_only_where_it_helps():
    def widths(steady_rows, reproducible):
        rig = Rig(None, steady_rows=steady_rows)
        rig.run(slot([1, 2, 3], max_tokens=4, reproducible=reproducible), k=0)
        return [rows for rows, _ in rig.target_cache.decodes]

    assert widths(2, reproducible=True) == [3, 2, 2, 2]
    assert widths(2, reproducible=False) == widths(1, reproducible=True) == [3, 1, 1, 1]


def test_a_draft_whose_tokens_are_all_forbidden_drafts_nothing():
    masked = slot([1, 2, 3])
    nothing = tuple((token, -math.inf) for token in range(12))
    masked.draft_sampler = SamplerChain(Sampling(temperature=0, logit_bias=nothing))
    events = Rig().run(masked, k=4)
    assert (text(events), finished(events).stats.drafted) == (PLAIN[GREEDY], 0)


def test_a_draft_that_is_the_target_is_always_accepted():
    stats = finished(Rig(P).run(slot([1, 2, 3]), k=4)).stats
    assert (stats.rejected, stats.discarded, stats.accepted) == (0, 0, stats.drafted)
    assert stats.acceptance_rate == stats.draft_yield == 1.0
    # 1 from the prompt, then 7 rounds of 4 + 1, then 4 left: 3 drafted + 1.
    assert (stats.rounds, stats.drafted, stats.mean_acceptance_length) == (9, 31, 40 / 9)


def test_drafted_is_accepted_plus_rejected_plus_discarded():
    stats = finished(Rig().run(slot([1, 2, 3], sampling=WARM), k=5)).stats
    assert stats.drafted == stats.accepted + stats.rejected + stats.discarded > 0
    assert stats.rejected > 0
    assert stats.accepted == sum(stats.accepted_by_position)
    assert stats.accepted + stats.rejected == sum(stats.judged_by_position)


@pytest.mark.parametrize("replays", [False, True])
def test_after_a_round_both_caches_hold_the_prefix_and_the_accepted_tokens(replays):
    rig = Rig(replays=replays)
    one = slot([1, 2, 3])
    engine = Engine(rig.target, rig.drafter, FixedPlanner(5), rig.timers)
    for event in engine.generate([one]):
        if isinstance(event, Verified) and len(event.proposal) and not event.verdict.finish:
            known = len(one.tokens) - 1
            assert list(rig.draft_cache.tokens(0)) == one.tokens[: rig.draft_cache.length(0)]
            assert list(rig.target_cache.tokens(0)) == one.tokens[: rig.target_cache.length(0)]
            if not replays:
                assert rig.target_cache.length(0) == known
                assert rig.draft_cache.length(0) == known - (event.verdict.origin == "bonus")


@pytest.mark.parametrize("at", range(1, 14))
@pytest.mark.parametrize("k", [0, 3, 5])
def test_text_ends_with_the_end_of_generation_token_wherever_in_a_draft_it_stands(at, k):
    eog = PLAIN[GREEDY][at - 1]
    end = PLAIN[GREEDY].index(eog) + 1
    events = Rig(P if k else None).run(slot([1, 2, 3], eog={eog}), k=k)
    assert text(events) == PLAIN[GREEDY][:end]
    stats = finished(events).stats
    assert finished(events).reason == "eog"
    assert stats.drafted == stats.accepted + stats.rejected + stats.discarded


@pytest.mark.parametrize("max_tokens", range(1, 12))
@pytest.mark.parametrize("k", [0, 3, 5])
def test_never_more_than_max_tokens(max_tokens, k):
    events = Rig(P if k else None).run(slot([1, 2, 3], max_tokens=max_tokens), k=k)
    assert text(events) == PLAIN[GREEDY][:max_tokens]
    assert finished(events).reason == "length"


@pytest.mark.parametrize("size", range(4, 14))
@pytest.mark.parametrize("k", [0, 3, 5])
def test_a_full_context_ends_the_text_cleanly(size, k):
    rig = Rig(P if k else None, context_size=size)
    events = rig.run(slot([1, 2, 3]), k=k)
    assert text(events) == PLAIN[GREEDY][: size - 3]
    assert finished(events).reason == "context"


def test_draft_min_forbids_shorter_drafts():
    events = Rig(P).run(slot([1, 2, 3], max_tokens=6), k=4, draft_min=4)
    assert {len(e.proposal) for e in events if isinstance(e, Drafted)} == {4}
    events = Rig(P).run(slot([1, 2, 3], max_tokens=5), k=4, draft_min=4)
    assert not any(isinstance(e, Drafted) for e in events)


def test_first_token_comes_before_any_drafting():
    kinds = [type(event) for event in Rig().run(slot([1, 2, 3]))]
    assert kinds[:4] == [Started, Prefilled, Verified, Prefilled]
    assert kinds[4] is Drafted


def test_a_long_prompt_is_read_in_batches_by_both_models():
    prompt = [i % 12 for i in range(50)]
    events = Rig(batch_size=16).run(slot(prompt, max_tokens=20))
    read = {
        model: [e.done for e in events if isinstance(e, Prefilled) and e.model == model]
        for model in ("target", "draft")
    }
    assert read == {"target": [16, 32, 48, 50], "draft": [16, 32, 48, 50]}
    assert text(events) == text(Rig(None, batch_size=64).run(slot(prompt, max_tokens=20), k=0))


def test_second_turn_reads_only_what_is_new():
    rig = Rig()
    first = slot([1, 2, 3], max_tokens=10)
    rig.run(first)
    events = rig.run(slot([*first.tokens, 4, 5, 6], max_tokens=10))
    started = next(e for e in events if isinstance(e, Started))
    assert started.cached >= 12
    assert started.draft_cached >= 11


@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "shared"])
def test_six_slots_at_once_give_each_the_text_it_gives_alone(k, sampling):
    prompts = [[i, 2 * i % 12, 3] * (i + 1) for i in range(6)]
    rig = Rig(Q if k else None, num_slots=6)
    together = rig.run(
        *(slot(p, seq=i, sampling=sampling, max_tokens=20 + i) for i, p in enumerate(prompts)), k=k
    )
    for i, prompt in enumerate(prompts):
        lone = Rig(Q, num_slots=6).run(slot(prompt, seq=i, sampling=sampling, max_tokens=20 + i), k=3)
        assert text(together, i) == text(lone)


@pytest.mark.parametrize("when", range(1, 20))
def test_cancel_anywhere_keeps_a_usable_prefix(when):
    cancel, seen = Cancel(), itertools.count(1)

    def on_append(_parts):
        if next(seen) == when:
            cancel.set()

    rig = Rig(cancel=cancel, batch_size=2, on_append=on_append)
    one = slot([1, 2, 3, 4, 5])
    events = rig.run(one)
    assert finished(events).reason == "cancelled"
    cancel.clear()
    rest = slot(one.tokens, max_tokens=10)
    events = rig.run(rest)
    again = Rig(None).run(slot(one.tokens, max_tokens=10), k=0)
    assert text(events) == text(again)


def test_closing_the_generator_early_leaves_the_caches_usable():
    rig = Rig()
    engine = Engine(rig.target, rig.drafter, FixedPlanner(3), rig.timers)
    events = engine.generate([slot([1, 2, 3])])
    while not isinstance(next(events), Drafted):
        pass
    events.close()
    assert text(rig.run(slot([1, 2, 3]))) == PLAIN[GREEDY]


def test_fates_say_what_became_of_every_drafted_token():
    for event in Rig().run(slot([1, 2, 3], sampling=WARM), k=5):
        if isinstance(event, Verified) and len(event.proposal) and event.verdict.finish is None:
            accepted = event.verdict.num_accepted
            rejected = [Fate.REJECTED] if accepted < 5 else []
            expected = [Fate.ACCEPTED] * accepted + rejected
            expected += [Fate.DISCARDED] * (len(event.proposal) - len(expected))
            if len(event.proposal) == 5:
                assert list(event.verdict.fates) == expected
