"""The exact-law harness catches samplers that are wrong in the ways people get them wrong.

Each control breaks one thing in an otherwise unchanged loop and must move the law by more than
1e-3, a billion times what the honest loop is allowed. The same tables pass when nothing is broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import edge_spec.verify
from edge_spec.config import Sampling
from edge_spec.sampling import SamplerChain, noise
from edge_spec.types import Coupling, Dist, Proposal
from edge_spec.verify import RejectionCoupling, SharedCoupling
from tests.property.law import (
    Context,
    Draft,
    StuckRng,
    Table,
    chain,
    deviation,
    drafter,
    nodes_before,
    output_law,
    plain_law,
    speculative_round,
    table,
)

LENGTH = 3
CAUGHT = 1e-3
EXACT = 1e-12

P = table([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
Q = table([[0.2, 0.5, 0.3], [0.4, 0.1, 0.5], [0.6, 0.3, 0.1]])


def off(round_: Any, target: Table = P) -> float:
    return deviation(output_law(round_, LENGTH), plain_law(target, LENGTH))


@pytest.mark.parametrize("mode", ["drawn", "fresh", "best", "fixed"])
def test_the_honest_loop_passes_on_these_tables(mode: str) -> None:
    assert off(speculative_round(P, chain(2, mode, Q))) < EXACT
    assert off(speculative_round(P, drafter((-1, -1, 0), [mode] * 3, Q))) < EXACT


@pytest.mark.parametrize(("name", "mode"), [("residual", "drawn"), ("without", "best")])
def test_drawing_p_on_rejection_is_caught(monkeypatch: pytest.MonkeyPatch, name: str, mode: str) -> None:
    monkeypatch.setattr(edge_spec.verify, name, lambda p, q_or_token: p)
    assert off(speculative_round(P, chain(2, mode, Q))) > CAUGHT


def test_using_the_drafts_number_to_judge_it_is_caught() -> None:
    honest = speculative_round(P, chain(1, "drawn", Q))
    assert off(lambda rng, context: honest(StuckRng(rng), context)) > CAUGHT


@pytest.mark.parametrize("mode", ["drawn", "best"])
def test_using_the_judges_number_to_draw_the_residual_is_caught(mode: str) -> None:
    draft = chain(1, mode, Q)

    def round_(rng: Any, context: Context) -> Sequence[int]:
        proposal = draft(context, RejectionCoupling(rng))
        stuck: Any = StuckRng(rng)
        judge = RejectionCoupling(stuck)
        return judge.verify(
            proposal, lambda node: P(context + nodes_before(proposal, node)), len(context)
        ).tokens

    assert off(round_) > CAUGHT


def test_dropping_a_token_after_drawing_it_because_it_was_unlikely_is_caught() -> None:
    honest = chain(2, "drawn", Q)

    def draft(context: Context, coupling: Coupling) -> Proposal:
        proposal = honest(context, coupling)
        kept = 0
        for token, dist in zip(proposal.tokens, proposal.dists, strict=True):
            if dist is None or dist.prob(token) < 0.35:
                break
            kept += 1
        return Proposal.chain(proposal.tokens[:kept], proposal.dists[:kept], "drops")

    assert off(speculative_round(P, draft)) > CAUGHT


def test_joining_drawn_tokens_because_they_spell_another_one_is_caught() -> None:
    honest = chain(2, "drawn", Q)

    def draft(context: Context, coupling: Coupling) -> Proposal:
        proposal = honest(context, coupling)
        return Proposal.chain([2], [None], "joins") if proposal.tokens[:2] == (0, 1) else proposal

    assert off(speculative_round(P, draft)) > CAUGHT


def test_stopping_before_a_draw_because_it_will_be_unsure_passes() -> None:
    def draft(context: Context, coupling: Coupling) -> Proposal:
        tokens: list[int] = []
        dists: list[Dist | None] = []
        while len(tokens) < 2:
            q = Q((*context, *tokens))
            if q.probs.max() < 0.55:
                break
            tokens.append(coupling.draw(q, len(context) + len(tokens)))
            dists.append(q)
        return Proposal.chain(tokens, dists, "stops")

    assert off(speculative_round(P, draft)) < EXACT


def sampled(sampling: Sampling, seed: int) -> Table:
    sampler = SamplerChain(sampling)

    def rows(context: Context) -> Dist:
        logits = np.random.default_rng([seed, *context]).normal(0.0, 1.0, 4).astype(np.float32)
        return sampler(logits, context)

    return rows


RAW = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
TRUNCATED = Sampling(temperature=1.0, top_k=2, top_p=1.0, min_p=0.0)


def test_judging_by_the_raw_p_where_the_user_asked_for_a_truncated_one_is_caught() -> None:
    draft = chain(2, "drawn", sampled(TRUNCATED, 2))
    assert off(speculative_round(sampled(RAW, 1), draft), sampled(TRUNCATED, 1)) > CAUGHT
    assert off(speculative_round(sampled(TRUNCATED, 1), draft), sampled(TRUNCATED, 1)) < EXACT


@pytest.mark.parametrize(("drawn_from", "claimed"), [(TRUNCATED, RAW), (RAW, TRUNCATED)])
def test_claiming_another_q_than_was_drawn_from_is_caught(drawn_from: Sampling, claimed: Sampling) -> None:
    honest, other = chain(1, "drawn", sampled(drawn_from, 2)), sampled(claimed, 2)

    def draft(context: Context, coupling: Coupling) -> Proposal:
        return Proposal.chain(honest(context, coupling).tokens, (other(context),), "claims")

    assert off(speculative_round(sampled(RAW, 1), draft), sampled(RAW, 1)) > CAUGHT


@pytest.mark.parametrize("mode", ["drawn", "best"])
def test_judging_by_the_row_before_is_caught(mode: str) -> None:
    draft = chain(2, mode, Q)

    def round_(rng: Any, context: Context) -> Sequence[int]:
        coupling = RejectionCoupling(rng)
        proposal = draft(context, coupling)
        return coupling.verify(
            proposal, lambda node: P(context + nodes_before(proposal, max(node - 1, -1))), len(context)
        ).tokens

    assert off(round_) > CAUGHT


@pytest.mark.parametrize("parents", [(-1,), (-1, 0), (-1, -1)], ids=str)
def test_saying_drawn_of_an_argmax_is_caught(parents: Sequence[int]) -> None:
    honest = drafter(parents, ["best"] * len(parents), Q)

    def draft(context: Context, coupling: Coupling) -> Proposal:
        proposal = honest(context, coupling)
        dists = tuple(Q(context + nodes_before(proposal, parent)) for parent in proposal.parents)
        return Proposal(proposal.tokens, proposal.parents, dists, "claims")

    assert off(speculative_round(P, draft)) > CAUGHT


def test_saying_argmax_of_a_drawn_token_is_harmless() -> None:
    """A drawn token may be judged as if it had been chosen: that only accepts less often."""
    honest = chain(2, "drawn", Q)

    def draft(context: Context, coupling: Coupling) -> Proposal:
        tokens = honest(context, coupling).tokens
        return Proposal.chain(tokens, (None,) * len(tokens), "modest")

    assert off(speculative_round(P, draft)) < EXACT


def test_drawing_siblings_without_replacement_but_saying_with_is_caught() -> None:
    # Two tokens have p > q: were it one, the residual would be certain and any judge right.
    p, q = table([[0.4, 0.4, 0.1, 0.1]]), table([[0.3, 0.1, 0.2, 0.4]])
    honest = drafter((-1, -1), ("fresh", "fresh"), q)

    def draft(context: Context, coupling: Coupling) -> Proposal:
        proposal = honest(context, coupling)
        return Proposal(proposal.tokens, proposal.parents, (q(context),) * 2, "claims")

    assert off(speculative_round(p, draft), p) > CAUGHT
    assert off(speculative_round(p, honest), p) < EXACT


def test_judging_the_likelier_sibling_first_is_caught() -> None:
    """The order of judgement may not depend on what was drawn."""
    honest = drafter((-1, -1), ("drawn", "drawn"), Q)

    def draft(context: Context, coupling: Coupling) -> Proposal:
        proposal = honest(context, coupling)
        tokens = tuple(sorted(proposal.tokens, key=P(context).prob, reverse=True))
        return Proposal(tokens, proposal.parents, proposal.dists, "sorts")

    assert off(speculative_round(P, draft)) > CAUGHT


def test_counting_penalties_once_a_round_is_caught() -> None:
    sampling = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, frequency_penalty=1.0)
    sampler = SamplerChain(sampling)
    logits = np.array([1.0, 0.5, 0.0], np.float32)

    def target(context: Context) -> Dist:
        return sampler(logits, context)

    draft: Draft = chain(2, "drawn", Q)

    def round_(rng: Any, context: Context) -> Sequence[int]:
        coupling = RejectionCoupling(rng)
        proposal = draft(context, coupling)
        return coupling.verify(proposal, lambda node: target(context), len(context)).tokens

    assert off(round_, target) > CAUGHT
    assert off(speculative_round(target, draft), target) < EXACT


def test_noise_that_forgets_the_position_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each token alone has the law p then, but a text repeats itself: 0.38 is the sum of p squared."""
    p = Dist(np.arange(3), np.array([0.5, 0.3, 0.2]))

    def share_of_repeats() -> float:
        return float(
            np.mean([c.draw(p, 0) == c.draw(p, 1) for c in map(SharedCoupling, range(2_000), [0] * 2_000)])
        )

    assert share_of_repeats() == pytest.approx(0.38, abs=0.04)
    monkeypatch.setattr(edge_spec.verify, "noise", lambda seed, key, position, ids: noise(seed, key, 0, ids))
    assert share_of_repeats() == 1.0
