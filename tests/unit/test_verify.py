"""Which drafted tokens are accepted, what replaces them, and what a cut leaves; all literal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import edge_spec.verify
from edge_spec.sampling import all_ids, one_hot
from edge_spec.types import NO_PROPOSAL, Coupling, Dist, Fate, Proposal, Verdict
from edge_spec.verify import (
    COUPLINGS,
    RejectionCoupling,
    SharedCoupling,
    cut,
    make_coupling,
    residual,
    without,
)

A, R, D = Fate.ACCEPTED, Fate.REJECTED, Fate.DISCARDED


def dist(**probs: float) -> Dist:
    """dist(t3=0.5, t8=0.5): sparse, ids ascending."""
    return Dist(np.array([int(name[1:]) for name in probs], np.int64), np.array(list(probs.values())))


class Script:
    """A generator that gives the numbers it was told, and no more."""

    def __init__(self, *numbers: float) -> None:
        self.left = list(numbers)

    def random(self) -> float:
        return self.left.pop(0)


def rejection(*numbers: float) -> RejectionCoupling:
    script: Any = Script(*numbers)
    return RejectionCoupling(script)


class Rows:
    """p by row, and which rows were asked for."""

    def __init__(self, *rows: Dist) -> None:
        self._rows = rows
        self.asked: list[int] = []

    def __call__(self, node: int) -> Dist:
        self.asked.append(node)
        return self._rows[node + 1]


P = dist(t1=0.5, t2=0.3, t3=0.2)
Q = dist(t1=0.25, t2=0.75)


# --- rejection --------------------------------------------------------------------------------


def test_nothing_drafted_is_a_plain_draw() -> None:
    rows = Rows(P)
    assert rejection(0.6).verify(NO_PROPOSAL, rows, 9) == Verdict((2,), (), (), "plain", ())
    assert rows.asked == [-1]


def test_all_accepted_gives_a_bonus_token_from_the_last_row() -> None:
    rows = Rows(P, P, dist(t5=0.5, t6=0.5))
    # t1: 0.99 * 0.25 < 0.5; t2: 0.39 * 0.75 < 0.3; bonus: 0.5 is t6's.
    verdict = rejection(0.99, 0.39, 0.5).verify(Proposal.chain((1, 2), (Q, Q), "x"), rows, 0)
    assert verdict == Verdict((1, 2, 6), (0, 1), (A, A), "bonus", (0.5, 0.3))
    assert rows.asked == [-1, 0, 1]


def test_the_first_rejection_discards_what_follows_and_asks_for_no_further_row() -> None:
    rows = Rows(P, P, P)
    # 0.41 * 0.75 >= 0.3. The residual is t1: 0.25, t3: 0.2, whose parts are 5/9 and 4/9.
    verdict = rejection(0.41, 0.55).verify(Proposal.chain((2, 1), (Q, Q), "x"), rows, 0)
    assert verdict == Verdict((1,), (), (R, D), "residual", (0.3, None))
    assert rows.asked == [-1]
    assert rejection(0.41, 0.56).verify(Proposal.chain((2, 1), (Q, Q), "x"), Rows(P), 0).tokens == (3,)


def test_a_rejection_after_an_acceptance_keeps_the_accepted_token() -> None:
    verdict = rejection(0.0, 0.41, 0.0).verify(Proposal.chain((1, 2, 1), (Q, Q, Q), "x"), Rows(P, P, P, P), 0)
    assert verdict == Verdict((1, 1), (0,), (A, R, D), "residual", (0.5, 0.3, None))


@pytest.mark.parametrize("q", [None, dist(t7=1.0), dist(t1=0.5, t7=0.5)])
def test_a_token_of_probability_zero_is_never_accepted(q: Dist | None) -> None:
    verdict = rejection(0.0, 0.0).verify(Proposal.chain((7,), (q,), "x"), Rows(P, P), 0)
    assert verdict.fates == (R,)
    assert verdict.target_probs == (0.0,)
    assert verdict.tokens != (7,)


def test_a_zero_inside_a_dense_p_is_never_accepted() -> None:
    p = Dist(all_ids(3), np.array([0.5, 0.0, 0.5]))
    assert rejection(0.0, 0.0).verify(Proposal.chain((1,), (None,), "x"), Rows(p, p), 0).tokens == (0,)


def test_the_largest_number_below_one_accepts_when_p_equals_q() -> None:
    last = np.nextafter(1.0, 0.0)
    verdict = rejection(last, 0.0).verify(Proposal.chain((2,), (P,), "x"), Rows(P, one_hot(4)), 0)
    assert verdict.tokens == (2, 4)


def test_a_deterministic_node_is_accepted_with_probability_p_and_else_removed() -> None:
    draft = Proposal.chain((1,), (None,), "ngram")
    assert rejection(0.49, 0.0).verify(draft, Rows(P, P), 0).fates == (A,)
    # p without t1 is t2: 0.6, t3: 0.4.
    assert rejection(0.5, 0.59).verify(draft, Rows(P, P), 0).tokens == (2,)
    assert rejection(0.5, 0.61).verify(draft, Rows(P, P), 0).tokens == (3,)


def test_at_temperature_zero_exactly_the_argmax_is_accepted() -> None:
    p, q = one_hot(4), dist(t4=0.1, t5=0.9)
    assert rejection(0.99, 0.99).verify(Proposal.chain((4,), (q,), "x"), Rows(p, one_hot(8)), 0).tokens == (
        4,
        8,
    )
    verdict = rejection(0.0, 0.99).verify(Proposal.chain((5,), (q,), "x"), Rows(p, p), 0)
    assert verdict == Verdict((4,), (), (R,), "residual", (0.0,))


def test_siblings_are_judged_in_order_each_against_what_the_earlier_ones_left() -> None:
    # t2 is refused as above and leaves t1: 5/9, t3: 4/9. t3, drawn from Q2, is judged by 4/9.
    q2 = dist(t1=0.2, t3=0.8)
    tree = Proposal((2, 3, 1), (-1, -1, 1), (Q, q2, None))
    rows = Rows(P, P, P, P)
    verdict = rejection(0.41, 0.55, 0.6, 0.0).verify(tree, rows, 0)  # 0.55 * 0.8 < 4/9
    assert verdict == Verdict((3, 2), (1,), (R, A, R), "residual", (0.3, 0.2, 0.5))
    assert rows.asked == [-1, 1]
    # 0.56 * 0.8 >= 4/9, and the residual of the residual is t1 alone.
    verdict = rejection(0.41, 0.56, 0.99).verify(tree, Rows(P), 0)
    assert verdict == Verdict((1,), (), (R, R, D), "residual", (0.3, 0.2, None))


def test_siblings_after_the_accepted_one_are_discarded() -> None:
    tree = Proposal((1, 2, 3), (-1, -1, 0), (None, None, None))
    verdict = rejection(0.0, 0.0, 0.0).verify(tree, Rows(P, P, P, one_hot(9)), 0)
    assert verdict == Verdict((1, 3, 9), (0, 2), (A, D, A), "bonus", (0.5, None, 0.2))


def test_the_same_token_twice_among_siblings_is_not_accepted_the_second_time() -> None:
    tree = Proposal((1, 1), (-1, -1), (None, None))
    verdict = rejection(0.5, 0.0, 0.0).verify(tree, Rows(P), 0)
    assert verdict == Verdict((2,), (), (R, R), "residual", (0.5, 0.5))


def test_when_rounding_leaves_no_residual_p_stands() -> None:
    # Refused only because the script gives 1.0, which no generator does.
    verdict = rejection(1.0, 0.6).verify(Proposal.chain((2,), (P,), "x"), Rows(P), 0)
    assert verdict == Verdict((2,), (), (R,), "residual", (0.3,))
    alone = dist(t4=1.0)
    verdict = rejection(1.0, 0.6).verify(Proposal.chain((4,), (None,), "x"), Rows(alone), 0)
    assert verdict.tokens == (4,)


def test_a_certain_target_takes_no_random_number() -> None:
    verdict = rejection().verify(Proposal.chain((4, 5), (None, P), "x"), Rows(one_hot(4), one_hot(1)), 0)
    assert verdict == Verdict((4, 1), (0,), (A, R), "residual", (1.0, 0.0))


def test_a_malformed_tree_is_refused() -> None:
    with pytest.raises(ValueError, match=r"parents\[1\] is 3"):
        rejection().verify(Proposal((1, 2), (-1, 3), (None, None)), Rows(P), 0)


# --- shared -----------------------------------------------------------------------------------


@pytest.fixture
def likes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[int]], SharedCoupling]:
    """likes([5, 2]): noise that puts token 5 first at position 10 and token 2 at position 11."""

    def make(winners: Sequence[int]) -> SharedCoupling:
        monkeypatch.setattr(
            edge_spec.verify,
            "noise",
            lambda seed, key, position, ids: np.where(ids == winners[position - 10], 100.0, 0.0),
        )
        return SharedCoupling(seed=0, key=0)

    return make


def test_shared_accepts_exactly_the_tokens_the_noise_chose(
    likes: Callable[[Sequence[int]], SharedCoupling],
) -> None:
    chain = Proposal.chain((3, 2, 1), (Q, Q, None), "x")
    verdict = likes([3, 2, 3]).verify(chain, Rows(P, P, P, P), 10)
    assert verdict == Verdict((3, 2, 3), (0, 1), (A, A, R), "residual", (0.2, 0.3, 0.5))
    verdict = likes([3, 2, 1, 1]).verify(chain, Rows(P, P, P, P), 10)
    assert verdict == Verdict((3, 2, 1, 1), (0, 1, 2), (A, A, A), "bonus", (0.2, 0.3, 0.5))
    rows = Rows(P, P, P, P)
    assert likes([1]).verify(chain, rows, 10) == Verdict((1,), (), (R, D, D), "residual", (0.2, None, None))
    assert rows.asked == [-1]
    assert likes([2]).verify(NO_PROPOSAL, Rows(P), 10) == Verdict((2,), (), (), "plain", ())


def test_shared_rejects_siblings_before_the_match_and_discards_those_after(
    likes: Callable[[Sequence[int]], SharedCoupling],
) -> None:
    tree = Proposal((1, 2, 3, 2), (-1, -1, -1, 1), (None, None, None, None))
    verdict = likes([2, 1]).verify(tree, Rows(P, P, P, P, P), 10)
    assert verdict == Verdict((2, 1), (1,), (R, A, D, R), "residual", (0.5, 0.3, None, 0.3))


def test_shared_draws_at_a_position_what_it_verifies_there() -> None:
    coupling = SharedCoupling(seed=5, key=6)
    for position in range(200):
        drafted = coupling.draw(P, position)
        verdict = coupling.verify(Proposal.chain((drafted,), (P,), "x"), Rows(P, P), position)
        assert verdict.tokens == (drafted, coupling.draw(P, position + 1))


# --- the table --------------------------------------------------------------------------------


def drawn(coupling: Coupling) -> list[int]:
    return [coupling.draw(P, position) for position in range(200)]


@pytest.mark.parametrize("name", COUPLINGS)
def test_couplings_by_name_repeat_for_a_seed_and_differ_between_slots_and_without_one(name: Any) -> None:
    first = drawn(make_coupling(name, seed=1, key=0))
    assert make_coupling(name, seed=1, key=0).name == name
    assert drawn(make_coupling(name, seed=1, key=0)) == first
    assert drawn(make_coupling(name, seed=1, key=1)) != first
    assert drawn(make_coupling(name, seed=2, key=0)) != first
    assert drawn(make_coupling(name, seed=None, key=0)) != drawn(make_coupling(name, seed=None, key=0))


# --- residuals --------------------------------------------------------------------------------


def dense(*probs: float) -> Dist:
    return Dist(all_ids(len(probs)), np.array(probs))


@pytest.mark.parametrize(
    ("p", "q", "ids", "probs"),
    [
        (dist(t1=0.5, t2=0.3, t3=0.2), dist(t1=0.25, t2=0.75), [1, 3], [5 / 9, 4 / 9]),
        (dist(t1=0.5, t9=0.5), dist(t3=0.5, t5=0.25, t7=0.25), [1, 9], [0.5, 0.5]),
        (dist(t4=0.5, t9=0.5), dist(t0=0.1, t4=0.4, t5=0.1, t9=0.1, t20=0.3), [4, 9], [0.2, 0.8]),
        (one_hot(4), dist(t4=0.5, t5=0.5), [4], [1.0]),
        (dist(t1=0.5, t2=0.5), one_hot(2), [1], [1.0]),
        (dense(0.5, 0.25, 0.25), dense(0.25, 0.5, 0.25), [0, 1, 2], [1.0, 0.0, 0.0]),
        (dense(0.5, 0.25, 0.25), dense(0.25, 0.75), [0, 1, 2], [0.5, 0.0, 0.5]),
        (dense(0.5, 0.5), dense(0.25, 0.25, 0.5), [0, 1], [0.5, 0.5]),
        (dense(0.5, 0.25, 0.25), dist(t1=0.25, t2=0.125, t7=0.625), [0, 1, 2], [0.8, 0.0, 0.2]),
        (dist(t1=0.5, t7=0.5), dense(0.25, 0.375, 0.375), [1, 7], [0.2, 0.8]),
    ],
    ids=[
        "sparse", "disjoint", "q longer", "p one-hot", "q one-hot", "dense", "q's vocabulary smaller",
        "q's vocabulary larger", "dense p, sparse q", "sparse p, dense q",
    ],
)  # fmt: skip
def test_the_residual_is_what_q_leaves_of_p_by_token_id(
    p: Dist, q: Dist, ids: list[int], probs: list[float]
) -> None:
    before = p.probs.copy(), q.probs.copy()
    rest = residual(p, q)
    assert rest is not None
    assert rest.ids.tolist() == ids
    assert rest.probs == pytest.approx(probs, abs=1e-15)
    assert (p.probs == before[0]).all()
    assert (q.probs == before[1]).all()


def test_nothing_is_left_where_q_covers_p() -> None:
    assert residual(P, P) is None
    assert residual(dense(0.5, 0.5), dense(0.5, 0.5)) is None
    assert without(one_hot(3), 3) is None


def test_without_removes_the_token_and_normalises() -> None:
    rest = without(P, 1)
    assert rest is not None
    assert rest.ids.tolist() == [2, 3]
    assert rest.probs == pytest.approx([0.6, 0.4])
    assert without(P, 7) is P
    assert without(P, 0) is P
    rest = without(dense(0.5, 0.25, 0.25), 1)
    assert rest is not None
    assert rest.ids.tolist() == [0, 1, 2]
    assert rest.probs == pytest.approx([2 / 3, 0.0, 1 / 3])
    assert P.probs.tolist() == [0.5, 0.3, 0.2]


# --- cut --------------------------------------------------------------------------------------

#   context ─┬─ 0 (refused)
#            ├─ 1 (accepted) ─┬─ 3 (refused)
#            └─ 2             └─ 4 (accepted) ─── 5 (refused), then a residual token
TREE = Verdict((11, 14, 99), (1, 4), (R, A, D, R, A, R), "residual", (0.1, 0.2, None, 0.3, 0.4, 0.5))


def test_a_cut_keeps_the_fates_of_what_was_judged_for_a_kept_token() -> None:
    assert cut(TREE, 1, "stop") == Verdict(
        (11,), (1,), (R, A, D, D, D, D), "accepted", (0.1, 0.2, None, None, None, None), "stop"
    )
    assert cut(TREE, 2, "eog") == Verdict(
        (11, 14), (1, 4), (R, A, D, R, A, D), "accepted", (0.1, 0.2, None, 0.3, 0.4, None), "eog"
    )


def test_a_cut_after_the_last_token_only_sets_the_reason() -> None:
    assert cut(TREE, 3, "length") == Verdict(
        TREE.tokens, TREE.path, TREE.fates, "residual", TREE.target_probs, "length"
    )
    plain = Verdict((5,), (), (), "plain", ())
    assert cut(plain, 1, "context") == Verdict((5,), (), (), "plain", (), "context")


def test_a_cut_of_the_bonus_leaves_the_accepted_path() -> None:
    bonus = Verdict((1, 2, 3), (0, 1), (A, A), "bonus", (0.5, 0.5))
    assert cut(bonus, 2, "eog") == Verdict((1, 2), (0, 1), (A, A), "accepted", (0.5, 0.5), "eog")
    assert cut(bonus, 3, "eog").origins == ("accepted", "accepted", "bonus")
    assert cut(bonus, 2, "eog").origins == ("accepted", "accepted")


def test_cutting_twice_is_cutting_once() -> None:
    assert cut(cut(TREE, 2, "stop"), 1, "length") == cut(TREE, 1, "length")


@pytest.mark.parametrize("num", [0, -1, 4])
def test_a_cut_keeps_at_least_one_token_and_no_more_than_there_are(num: int) -> None:
    with pytest.raises(ValueError, match=f"cannot keep {num} of 3 tokens"):
        cut(TREE, num, "stop")


@pytest.mark.parametrize("num", [1, 2, 3])
def test_drafted_is_accepted_plus_rejected_plus_discarded_after_a_cut(num: int) -> None:
    verdict = cut(TREE, num, "stop")
    assert sum(verdict.count(fate) for fate in Fate) == 6
    assert verdict.count(A) == verdict.num_accepted == len(verdict.path)
    assert len(verdict.origins) == len(verdict.tokens) == num
