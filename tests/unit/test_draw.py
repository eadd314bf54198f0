"""Whether a draft draws or takes its likeliest token: learned by how sure it is, and exact either way."""

from __future__ import annotations

import numpy as np
import pytest

from edge_spec.config import Sampling
from edge_spec.drafters import DrawChoice, ModelDrafter, NoDrafter
from edge_spec.engine import Engine
from edge_spec.events import Drafted, Event, Verified
from edge_spec.planner import FixedPlanner
from edge_spec.sampling import SamplerChain, likeliest
from edge_spec.target import ModelTarget
from edge_spec.testing import TableCache, TableModel
from edge_spec.types import Dist, Proposal, Slot, Timers
from edge_spec.verify import make_coupling, overlap

WARM = Sampling(temperature=0.9, top_k=8, top_p=0.97, min_p=0.01)
P = TableModel(12, seed=1)


def dist(masses: dict[int, float]) -> Dist:
    ids = sorted(masses)
    return Dist(np.array(ids, np.int64), np.array([masses[i] for i in ids]))


def test_the_overlap_is_aligned_by_id_and_is_one_with_itself():
    p, q = dist({1: 0.5, 4: 0.3, 9: 0.2}), dist({0: 0.1, 4: 0.6, 9: 0.1, 20: 0.2})
    assert overlap(p, q) == overlap(q, p) == pytest.approx(0.3 + 0.1)
    assert overlap(p, p) == pytest.approx(1.0)
    assert overlap(p, dist({100: 0.5, 101: 0.5})) == 0.0
    assert likeliest(q) == 4


def test_it_draws_where_both_are_flat_and_takes_the_likeliest_where_the_target_is_sharper():
    choice = DrawChoice()
    flat = dist(dict.fromkeys(range(10), 0.1))
    unsure, sure = dist({1: 0.55, 2: 0.45}), dist({1: 0.95, 2: 0.05})
    for _ in range(20):
        choice.observe(flat, flat, overlap(flat, flat))
        choice.observe(unsure, sure, overlap(sure, unsure))
    assert not choice.takes_likeliest(flat)
    assert choice.takes_likeliest(unsure)
    drawn, top = choice.expected(unsure)
    assert drawn < 0.75 and top > 0.85


def test_places_where_the_target_is_certain_count_as_well():
    """There the likeliest token is right or wrong for sure, and a drawn one is not."""
    sharp = TableModel(12, seed=1, sharpness=9.0)  # nearly always one candidate is left
    draft = TableModel(12, seed=99, sharpness=0.5).blend(sharp, 0.3)
    choice = DrawChoice()
    untouched = list(choice._count)
    generate(draft, choice, "rejection", sharp)
    assert sum(choice._count) - sum(untouched) > 100


@pytest.mark.parametrize("coupling", ["rejection", "shared"])
def test_the_estimate_is_of_what_the_coupling_accepts(coupling: str):
    p, q = dist({1: 0.6, 2: 0.3, 3: 0.1}), dist({1: 0.2, 2: 0.5, 3: 0.3})
    made = make_coupling(coupling, 3, 0)
    estimate = np.mean([made.agreement(p, q, position) for position in range(4000)])
    judged = [
        made.verify(Proposal.chain([made.draw(q, at)], [q], "test"), lambda _node: p, at).num_accepted
        for at in range(4000)
    ]
    assert estimate == pytest.approx(np.mean(judged), abs=0.03)
    assert (coupling == "rejection") == (abs(estimate - 0.6) < 1e-9)


def generate(
    draft: TableModel | None, choice: DrawChoice | None, coupling: str, model: TableModel = P
) -> list[Event]:
    timers = Timers()
    target = ModelTarget(TableCache(model, context_size=4096), timers)
    drafter = NoDrafter()
    if draft is not None:
        drafter = ModelDrafter(TableCache(draft, context_size=4096), P.num_vocab, timers, choice=choice)
    chain = SamplerChain(WARM)
    slot = Slot(0, [1, 2, 3], 3, 400, make_coupling(coupling, 7, 0), chain, chain, lambda _tokens: None)
    return list(Engine(target, drafter, FixedPlanner(3), timers).generate([slot]))


def emitted(events: list[Event]) -> list[int]:
    return [token for e in events if isinstance(e, Verified) for token in e.verdict.tokens]


def accepted(events: list[Event]) -> float:
    verdicts = [e.verdict for e in events if isinstance(e, Verified) and e.verdict.fates]
    return sum(verdict.num_accepted for verdict in verdicts) / len(verdicts)


def test_what_was_not_drawn_is_told_to_be_so_and_the_seeded_text_stays():
    draft = TableModel(12, seed=99, sharpness=0.4).blend(P, 0.3)  # flatter than the target
    events = generate(draft, DrawChoice(), "shared")
    assert emitted(events) == emitted(generate(None, None, "shared"))
    drawn = [q is not None for e in events if isinstance(e, Drafted) for q in e.proposal.dists]
    assert any(drawn) and not all(drawn), "the choice is made place by place"


def test_it_is_accepted_more_often_than_always_drawing_where_the_draft_is_flatter():
    sharp = TableModel(12, seed=1, sharpness=6.0)
    draft = TableModel(12, seed=99, sharpness=0.3).blend(sharp, 0.2)
    always, chosen = (accepted(generate(draft, c, "rejection", sharp)) for c in (None, DrawChoice()))
    assert chosen > 1.1 * always
