"""Whatever is drafted, from whatever q, the output has exactly the target's law.

Rejection: the full law of three tokens over several rounds, enumerated (see law.py), equals
the product of the target's own probabilities to 1e-12. Shared: for every noise and every
draft the text is the plain text, and the noise makes the plain text an exact draw.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import edge_spec.verify
from edge_spec.config import Sampling
from edge_spec.drafters import DrawChoice, ModelDrafter, TokenMap
from edge_spec.sampling import SamplerChain, draw, draw_shared, noise, uniforms
from edge_spec.testing import TableCache, TableModel
from edge_spec.types import NO_PROPOSAL, Budget, Coupling, Dist, Proposal, Slot, Timers
from edge_spec.verify import SharedCoupling, cut
from tests.property.law import (
    Context,
    Draft,
    Table,
    chain,
    deviation,
    drafter,
    nodes_before,
    outcomes,
    output_law,
    plain_law,
    speculative_round,
    table,
)

LENGTH = 3
EXACT = 1e-12
MODES = ("drawn", "fresh", "best", "fixed")

TREES = {
    "two siblings": (-1, -1),
    "three siblings": (-1, -1, -1),
    "two siblings, two below each": (-1, -1, 0, 0, 1, 1),
    "a chain with a late sibling": (-1, 0, 0),
    "a chain beside a sibling": (-1, 0, 1, -1),
}


def check_law(target: Table, draft: Draft, length: int = LENGTH) -> None:
    law = output_law(speculative_round(target, draft), length)
    assert sum(law.values()) == pytest.approx(1.0, abs=EXACT)
    assert deviation(law, plain_law(target, length)) < EXACT


def random_table(seed: int, num_vocab: int, zeros: float = 0.3) -> Table:
    rng = np.random.default_rng(seed)
    rows = rng.random((7, num_vocab)) ** 2
    rows[rng.random(rows.shape) < zeros] = 0.0
    rows[np.arange(7), rng.integers(0, num_vocab, 7)] += 0.2
    return table(rows.tolist())


# --- the harness itself -----------------------------------------------------------------------


def test_the_enumeration_gives_a_draw_its_exact_probabilities() -> None:
    dist = Dist(np.array([2, 5, 7]), np.array([0.125, 0.625, 0.25]))
    assert sorted(outcomes(lambda rng: draw(dist, rng))) == [(2, 0.125), (5, 0.625), (7, 0.25)]


def test_the_enumeration_multiplies_independent_numbers_and_intersects_one_number_used_twice() -> None:
    def two(rng: np.random.Generator) -> tuple[bool, bool]:
        return bool(rng.random() * 1.0 < 0.25), bool(rng.random() * 1.0 < 0.5)

    def one(rng: np.random.Generator) -> tuple[bool, bool]:
        u = rng.random()
        return bool(u * 1.0 < 0.25), bool(u * 1.0 < 0.5)

    assert dict(outcomes(two)) == {
        (True, True): 0.125, (True, False): 0.125, (False, True): 0.375, (False, False): 0.375,
    }  # fmt: skip
    assert dict(outcomes(one)) == {(True, True): 0.25, (False, True): 0.25, (False, False): 0.5}


# --- rejection --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num", [0, 1, 2, 3])
@pytest.mark.parametrize("num_vocab", [3, 5])
def test_a_chain_leaves_the_law_alone(num_vocab: int, num: int, mode: str) -> None:
    for seed in range(3):
        check_law(random_table(seed, num_vocab), chain(num, mode, random_table(seed + 100, num_vocab)))


@pytest.mark.parametrize("modes", list(itertools.product(("drawn", "best"), repeat=3)), ids="-".join)
def test_a_chain_of_drawn_and_deterministic_nodes_leaves_the_law_alone(modes: Sequence[str]) -> None:
    check_law(random_table(1, 4), drafter((-1, 0, 1), modes, random_table(2, 4)))


@pytest.mark.parametrize("mode", [*MODES, "mixed"])
@pytest.mark.parametrize("parents", TREES.values(), ids=TREES.keys())
def test_a_tree_leaves_the_law_alone(parents: Sequence[int], mode: str) -> None:
    modes = [MODES[i % 4] if mode == "mixed" else mode for i in range(len(parents))]
    for seed in range(2):
        check_law(random_table(seed, 3), drafter(parents, modes, random_table(seed + 100, 3)))


@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=2)), ids="-".join)
def test_any_two_kinds_of_siblings_leave_the_law_alone(modes: Sequence[str]) -> None:
    check_law(random_table(3, 4), drafter((-1, -1), modes, random_table(4, 4)))


def test_a_draft_with_the_targets_own_law_is_always_accepted() -> None:
    same = random_table(5, 4)
    law = output_law(speculative_round(same, chain(LENGTH, "drawn", same)), LENGTH)
    assert deviation(law, plain_law(same, LENGTH)) < EXACT
    round_ = speculative_round(same, chain(LENGTH, "drawn", same))
    lengths = {len(tokens) for tokens, _ in outcomes(lambda rng: round_(rng, ()))}
    assert lengths == {4}


def test_a_draft_that_shares_no_token_with_the_target_is_never_accepted() -> None:
    target, draft = table([[0.5, 0.5, 0, 0]]), table([[0, 0, 0.25, 0.75]])
    check_law(target, chain(2, "drawn", draft))
    tokens = {
        tuple(t) for t, _ in outcomes(lambda r: speculative_round(target, chain(2, "drawn", draft))(r, ()))
    }
    assert tokens == {(0,), (1,)}


weights = st.integers(0, 6)


@st.composite
def tables(draw_: st.DrawFn) -> tuple[Table, Table]:
    """p and q of 2 to 4 tokens, zeros included; one time in five they are the same."""
    num_vocab = draw_(st.integers(2, 4))
    rows = st.lists(
        st.lists(weights, min_size=num_vocab, max_size=num_vocab).filter(any), min_size=1, max_size=4
    )
    p_rows = draw_(rows)
    q_rows = p_rows if draw_(st.integers(0, 4)) == 0 else draw_(rows)
    return table(p_rows, dense=draw_(st.booleans())), table(q_rows, dense=draw_(st.booleans()))


@st.composite
def shapes(draw_: st.DrawFn) -> tuple[list[int], list[str]]:
    """A tree of at most four nodes and a mode for each."""
    num = draw_(st.integers(1, 4))
    return [draw_(st.integers(-1, i - 1)) for i in range(num)], [
        draw_(st.sampled_from(MODES)) for _ in range(num)
    ]


@settings(max_examples=60, deadline=None)
@given(tables(), shapes())
def test_any_tree_over_any_tables_leaves_the_law_alone(
    p_and_q: tuple[Table, Table], shape: tuple[list[int], list[str]]
) -> None:
    target, q = p_and_q
    parents, modes = shape
    check_law(target, drafter(parents, modes, q))


@settings(max_examples=20, deadline=None)
@given(tables(), shapes(), st.integers(1, 3))
def test_cutting_a_verdict_leaves_the_law_of_what_is_kept_alone(
    p_and_q: tuple[Table, Table], shape: tuple[list[int], list[str]], most: int
) -> None:
    target, q = p_and_q
    draft = drafter(*shape, q)

    def round_(rng: np.random.Generator, context: Context) -> Sequence[int]:
        coupling = edge_spec.verify.RejectionCoupling(rng)
        proposal = draft(context, coupling)
        verdict = coupling.verify(
            proposal, lambda i: target(context + nodes_before(proposal, i)), len(context)
        )
        return cut(verdict, min(most, len(verdict.tokens)), "length").tokens

    assert deviation(output_law(round_, LENGTH), plain_law(target, LENGTH)) < EXACT


SAMPLINGS = {
    "plain": Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0),
    "default": Sampling(),
    "top-k 2": Sampling(temperature=1.0, top_k=2, top_p=1.0, min_p=0.0),
    "top-p 0.7": Sampling(temperature=1.0, top_k=0, top_p=0.7, min_p=0.0),
    "min-p 0.3": Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.3),
    "hot": Sampling(temperature=1.7, top_k=4, top_p=0.9, min_p=0.1),
    "greedy": Sampling(temperature=0.0),
    "penalties": Sampling(
        temperature=0.9, top_k=0, top_p=1.0, min_p=0.0,
        repeat_penalty=1.5, frequency_penalty=0.4, presence_penalty=0.3, penalty_last_n=2,
    ),
    "penalties, greedy": Sampling(temperature=0.0, frequency_penalty=2.0, penalty_last_n=-1),
    "penalties, truncated": Sampling(top_k=3, top_p=0.8, repeat_penalty=2.0, penalty_last_n=-1),
    "bias": Sampling(top_k=3, logit_bias=((0, 1.5), (2, -2.0), (3, float("-inf")))),
}  # fmt: skip


def sampled_table(sampling: Sampling, seed: int, num_vocab: int) -> Table:
    """What the sampler chain makes of random logits, the history being the context."""
    sampler = SamplerChain(sampling)

    @functools.cache
    def rows(context: Context) -> Dist:
        logits = np.random.default_rng([seed, *context]).normal(0.0, 1.5, num_vocab).astype(np.float32)
        return sampler(logits, context)

    return rows


@pytest.mark.parametrize("q_name", SAMPLINGS)
@pytest.mark.parametrize("p_name", SAMPLINGS)
def test_every_sampler_setting_of_target_and_draft_leaves_the_law_alone(p_name: str, q_name: str) -> None:
    num_vocab = 4
    target = sampled_table(SAMPLINGS[p_name], 1, num_vocab)
    q = sampled_table(SAMPLINGS[q_name], 2, num_vocab)
    check_law(target, chain(2, "drawn", q))
    check_law(target, drafter((-1, -1, 0), ("fresh", "fresh", "best"), q))


# --- shared -----------------------------------------------------------------------------------


def ranks_as_noise(orders: Sequence[Sequence[int]]) -> Callable[[int, int, int, np.ndarray], np.ndarray]:
    """Noise that at each position ranks the tokens in a given order, whatever their odds."""
    table_ = [1000.0 * np.array(order) for order in orders]
    return lambda seed, key, position, ids: table_[position % len(table_)][ids]


def shared_text(target: Table, draft: Draft, length: int) -> Context:
    coupling: Coupling = SharedCoupling(seed=0, key=0)
    context: Context = ()
    while len(context) < length:
        proposal = draft(context, coupling)
        verdict = coupling.verify(
            proposal,
            lambda i, context=context, proposal=proposal: target(context + nodes_before(proposal, i)),
            len(context),
        )
        context += verdict.tokens
    return context[:length]


def fixed_draft(parents: Sequence[int], tokens: Sequence[int]) -> Draft:
    proposal = Proposal(tuple(tokens), tuple(parents), (None,) * len(tokens))
    return lambda context, coupling: proposal


def test_shared_text_is_the_plain_text_for_every_noise_and_every_drafted_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, q = random_table(7, 3), random_table(8, 3)
    orders = list(itertools.permutations(range(3)))
    drafts = [fixed_draft((-1, 0), tokens) for tokens in itertools.product(range(3), repeat=2)]
    drafts += [chain(num, mode, q) for num in (1, 2, 3) for mode in ("drawn", "best")]
    for noises in itertools.product(orders, repeat=LENGTH):
        monkeypatch.setattr(edge_spec.verify, "noise", ranks_as_noise(noises))
        plain = shared_text(target, lambda context, coupling: NO_PROPOSAL, LENGTH)
        winners: Context = ()
        for order in noises:
            dist = target(winners)
            winners += (max(dist.ids.tolist(), key=order.__getitem__),)
        assert plain == winners
        assert all(shared_text(target, draft, LENGTH) == plain for draft in drafts)


@settings(max_examples=100, deadline=None)
@given(tables(), shapes(), st.integers(0, 2**64 - 1), st.integers(0, 9))
def test_shared_text_is_the_plain_text_for_any_tree_tables_and_seed(
    p_and_q: tuple[Table, Table], shape: tuple[list[int], list[str]], seed: int, key: int
) -> None:
    target, q = p_and_q
    coupling = SharedCoupling(seed, key)
    draft = drafter(*shape, q)
    plain: Context = ()
    while len(plain) < 6:
        plain += (draw_shared(target(plain), noise(seed, key, len(plain), target(plain).ids)),)
    context: Context = ()
    while len(context) < 6:
        proposal = draft(context, coupling)
        known = context
        verdict = coupling.verify(
            proposal,
            lambda i, known=known, proposal=proposal: target(known + nodes_before(proposal, i)),
            len(known),
        )
        context += verdict.tokens
    assert context[:6] == plain


def p_value_of_uniformity(sample: np.ndarray) -> float:
    return float(stats.kstest(sample, "uniform").pvalue)


IDS = np.arange(40_000)


@pytest.mark.parametrize(
    ("what", "sample"),
    [
        ("over ids", lambda: uniforms(1, 2, 3, IDS)),
        ("over ids, zero words", lambda: uniforms(0, 0, 0, IDS)),
        ("over positions", lambda: np.array([uniforms(1, 2, i, IDS[7:8])[0] for i in range(10_000)])),
        ("over keys", lambda: np.array([uniforms(1, i, 3, IDS[7:8])[0] for i in range(10_000)])),
        ("over seeds", lambda: np.array([uniforms(i, 2, 3, IDS[7:8])[0] for i in range(10_000)])),
    ],
)
def test_hashed_numbers_are_uniform(what: str, sample: Callable[[], np.ndarray]) -> None:
    values = sample()
    assert p_value_of_uniformity(values) > 1e-3
    # The low bits too: 2^20 u modulo 1.
    assert p_value_of_uniformity(np.modf(values * 2.0**20)[0]) > 1e-3


@pytest.mark.parametrize(
    "other",
    [(1, 2, 4), (1, 3, 3), (2, 2, 3), (2, 1, 3), (3, 2, 1), (1 + 2**63, 2, 3)],
    ids=["position", "key", "seed", "seed and key swapped", "seed and position swapped", "high bit"],
)
def test_numbers_of_different_words_are_independent(other: tuple[int, int, int]) -> None:
    a, b = uniforms(1, 2, 3, IDS), uniforms(*other, IDS)
    counts = np.histogram2d(a, b, bins=16, range=[[0, 1], [0, 1]])[0]
    assert stats.chisquare(counts.ravel()).pvalue > 1e-3
    assert not set(a.tolist()) & set(b.tolist())


def test_numbers_of_neighbouring_ids_are_independent() -> None:
    u = uniforms(5, 6, 7, IDS)
    for lag in (1, 2, 64):
        counts = np.histogram2d(u[:-lag:2], u[lag::2], bins=16, range=[[0, 1], [0, 1]])[0]
        assert stats.chisquare(counts.ravel()).pvalue > 1e-3


def test_noise_is_gumbel() -> None:
    assert stats.kstest(noise(1, 2, 3, IDS), "gumbel_r").pvalue > 1e-3


def test_shared_draws_have_the_law_p_and_consecutive_ones_are_independent() -> None:
    p = Dist(np.array([3, 4, 90, 150_000]), np.array([0.5, 0.3, 0.15, 0.05]))
    coupling = SharedCoupling(seed=11, key=4)
    index = p.ids.searchsorted([coupling.draw(p, position) for position in range(20_001)])
    pairs = np.zeros((4, 4))
    np.add.at(pairs, (index[:-1], index[1:]), 1)
    expected = 20_000 * np.outer(p.probs, p.probs)
    assert stats.chisquare(pairs.ravel(), expected.ravel()).pvalue > 1e-3


def test_shared_draws_of_two_distributions_agree_at_least_as_often_as_promised() -> None:
    # (1 - TV) / (1 + TV) = 0.6 / 1.4 for the two below.
    p = Dist(np.arange(3), np.array([0.6, 0.3, 0.1]))
    q = Dist(np.arange(3), np.array([0.2, 0.5, 0.3]))
    coupling = SharedCoupling(seed=12, key=0)
    agree = np.mean([coupling.draw(p, i) == coupling.draw(q, i) for i in range(5_000)])
    assert agree > 0.6 / 1.4


# --- a draft with another vocabulary ----------------------------------------------------------


@pytest.mark.parametrize("untruncated", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize("masked", [(), (2,)], ids=["trimmed", "trimmed and masked"])
@pytest.mark.parametrize("num", [1, 3])
def test_a_draft_with_a_trimmed_vocabulary_leaves_the_law_alone(
    num: int, masked: tuple[int, ...], untruncated: bool
) -> None:
    target_ids = (0, 2, 3)
    pieces = [b"a", b"b", b"c", b"d", b"e"]
    mapped = TokenMap(5, target_ids, pieces.__getitem__, lambda: [pieces[i] for i in target_ids], masked)
    rows = np.random.default_rng(9).normal(size=(7, 3)).astype(np.float32)
    sampler = SamplerChain(Sampling(temperature=1.0, top_k=0 if untruncated else 2, top_p=1.0, min_p=0.0))

    def q(context: Context) -> Dist:
        read = [own for token in context for own in mapped.spell(token)]
        return sampler(mapped.row(rows[(len(read) + sum(read)) % 7]), context)

    target = random_table(num, 5)
    check_law(target, chain(num, "drawn", q))
    round_ = speculative_round(target, chain(num, "drawn", q))
    accepted = {token for tokens, _ in outcomes(lambda rng: round_(rng, ())) for token in tokens[:-1]}
    assert accepted <= set(target_ids) - set(masked)


@pytest.mark.parametrize("top_k", [0, 2], ids=["dense", "sparse"])
@pytest.mark.parametrize("num", [1, 3])
def test_tokens_that_a_draft_spells_leave_the_law_alone(num: int, top_k: int) -> None:
    pieces = [b"a", b"b", b"c", b"ab", b"ca"]
    mapped = TokenMap(5, (0, 1, 2), pieces.__getitem__, lambda: pieces[:3])
    sampler = SamplerChain(Sampling(temperature=1.0, top_k=top_k, top_p=1.0, min_p=0.0))
    proposed: set[int] = set()

    def draft(model: TableModel, context: Context, coupling: Coupling) -> Proposal:
        slot = Slot(0, [3, 4, *context], 2, 9, coupling, sampler, sampler, lambda _tokens: None)
        own = ModelDrafter(TableCache(model), 5, Timers(), mapped)
        own.begin(slot)
        (proposal,) = own.propose([slot], [Budget(1, num, "draft")])
        proposed.update(proposal.tokens)
        return proposal

    for seed in range(5):
        check_law(random_table(seed, 5), functools.partial(draft, TableModel(3, seed, sharpness=1.0)))
    assert proposed >= {0, 1, 2, 3}


# --- a draft that draws or takes its likeliest token, as it learned to --------------------------


@pytest.mark.parametrize("top_k", [0, 2], ids=["dense", "sparse"])
@pytest.mark.parametrize("num", [1, 3])
def test_a_draft_that_draws_only_where_that_pays_leaves_the_law_alone(num: int, top_k: int) -> None:
    learned = DrawChoice()
    for percent in range(35, 100, 10):
        q = Dist(np.arange(4), np.array([percent, *[(100 - percent) / 3] * 3]) / 100)
        certain = Dist(np.array([0]), np.array([1.0]))
        for _ in range(20):
            if percent < 60:
                learned.observe(q, q, agreement=1.0)
            else:
                learned.observe(q, certain, agreement=percent / 100)
    sampler = SamplerChain(Sampling(temperature=1.0, top_k=top_k, top_p=1.0, min_p=0.0))
    drawn: set[tuple[bool, ...]] = set()

    def draft(model: TableModel, context: Context, coupling: Coupling) -> Proposal:
        slot = Slot(0, [2, 3, *context], 2, 9, coupling, sampler, sampler, lambda _tokens: None)
        own = ModelDrafter(TableCache(model), 4, Timers(), choice=copy.deepcopy(learned))
        own.begin(slot)
        (proposal,) = own.propose([slot], [Budget(1, num, "draft")])
        drawn.add(tuple(q is not None for q in proposal.dists))
        return proposal

    for seed in range(3):
        check_law(random_table(seed, 4), functools.partial(draft, TableModel(4, seed, sharpness=1.0)))
    assert {(True,), (False,)} == {nodes[:1] for nodes in drawn}
    assert num == 1 or {(True, False), (False, True)} <= {nodes[:2] for nodes in drawn}, "both in one chain"
