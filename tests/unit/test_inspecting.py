"""The alternatives that are told are the models' own, and telling them changes nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from edge_spec.config import Sampling
from edge_spec.drafters import ModelDrafter
from edge_spec.engine import Engine
from edge_spec.errors import SettingError
from edge_spec.events import Alternative, Event, Verified
from edge_spec.inspecting import Inspector, best_alternatives
from edge_spec.planner import FixedPlanner
from edge_spec.sampling import SamplerChain
from edge_spec.target import ModelTarget
from edge_spec.testing import TableCache, TableModel
from edge_spec.types import Slot, Timers
from edge_spec.verify import make_coupling

P = TableModel(12, seed=1)
Q = TableModel(12, seed=2).blend(P, 0.7)
SAMPLING = Sampling(temperature=0.5, top_k=4, repeat_penalty=1.3)


def softmax(row: np.ndarray) -> np.ndarray:
    powers = np.exp(row.astype(np.float64) - float(row.max()))
    return powers / powers.sum()


@pytest.mark.parametrize("num_vocab", [3, 100, 49_152, 151_936])
def test_alternatives_are_the_largest_of_the_softmax_of_all_logits(num_vocab: int) -> None:
    row = (4 * np.random.default_rng(num_vocab).standard_normal(num_vocab)).astype(np.float32)
    before = row.copy()
    best = best_alternatives(row, 5)
    probs = softmax(row)
    order = np.argsort(-probs, kind="stable")[:5]
    assert [one.token for one in best] == order.tolist()
    assert [one.prob for one in best] == pytest.approx(probs[order], rel=1e-5)
    assert (row == before).all()


def test_tokens_without_mass_are_no_alternatives_and_ties_go_to_the_lowest_ids() -> None:
    row = np.array([-np.inf, 2, 1, 2, -np.inf], np.float32)
    whole = 2 + np.exp(-1)
    assert best_alternatives(row, 5) == (
        Alternative(1, pytest.approx(1 / whole)),
        Alternative(3, pytest.approx(1 / whole)),
        Alternative(2, pytest.approx(np.exp(-1) / whole)),
    )
    assert [one.token for one in best_alternatives(row, 1)] == [1]


class Draft:
    """Plans as told, round by round."""

    state, reason, predicted_tokens_per_second = "on", "", None

    def __init__(self, *lengths: int) -> None:
        self._plans = [FixedPlanner(length) for length in lengths]

    def observe(self, *_):
        return ()

    def plan(self, *arguments):
        return (self._plans.pop(0) if len(self._plans) > 1 else self._plans[0]).plan(*arguments)


def run(inspect: int, coupling: str, *lengths: int) -> tuple[Slot, list[tuple[Event, tuple]]]:
    """The events of a text, each Verified with what the inspector then says."""
    slot = Slot(
        0, [1, 2, 3], 3, 30, make_coupling(coupling, 7, 0), SamplerChain(SAMPLING), SamplerChain(SAMPLING),
        lambda tokens: None,
    )  # fmt: skip
    inspector = Inspector(slot, inspect) if inspect else None
    timers = Timers()
    target = ModelTarget(TableCache(P), timers)
    drafter = ModelDrafter(TableCache(Q), P.num_vocab, timers)
    found = []
    for event in Engine(target, drafter, Draft(*lengths), timers).generate([slot]):
        rows = inspector.rows(event.verdict) if inspector and isinstance(event, Verified) else ()
        found.append((event, rows))
    return slot, found


@pytest.mark.parametrize("coupling", ["shared", "rejection"])
def test_text_and_verdicts_are_the_same_whether_inspected_or_not(coupling: str) -> None:
    plain, watched = run(0, coupling, 3), run(5, coupling, 3)
    assert watched[0].tokens == plain[0].tokens
    verdicts = [[e.verdict for e, _ in found if isinstance(e, Verified)] for _, found in (plain, watched)]
    assert verdicts[0] == verdicts[1]
    fates = {fate for verdict in verdicts[0] for fate in verdict.fates}
    assert len(fates) == 3  # accepted, rejected and discarded ones were among them


def test_each_emitted_token_has_the_target_s_row_and_the_draft_s_where_it_guessed() -> None:
    slot, found = run(4, "shared", 3, 3, 3, 0, 3, 0)
    history = slot.tokens[:3]
    asked = 0
    for event, rows in found:
        if not isinstance(event, Verified):
            continue
        assert [row.depth for row in rows] == list(range(len(event.verdict.tokens)))
        for row, token in zip(rows, event.verdict.tokens, strict=True):
            assert row.target == best_alternatives(P.logits(history), 4)
            guessed = row.depth < len(event.proposal)
            assert row.draft == (best_alternatives(Q.logits(history), 4) if guessed else ())
            asked += guessed
            history.append(token)
    assert history == slot.tokens and asked > 3


@pytest.mark.parametrize("num", [-1, 101])
def test_a_silly_number_of_alternatives_is_refused(num: int) -> None:
    with pytest.raises(SettingError, match=f"inspect is {num}, but it must be from 0"):
        Inspector(dataclasses.replace(run(0, "shared", 0)[0]), num)
