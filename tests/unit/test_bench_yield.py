"""Tokens a round: what counts, how both ways are compared, and what they are held against."""

from __future__ import annotations

import math
from typing import Any

import bench_yield
import numpy as np
import pytest
from bench.samples import BenchError, Prompt
from bench.yields import Case, Yield, expected_tokens, ratio_of, total

import edge_spec
from edge_spec.types import Dist, Fate, Proposal, Verdict

Q = Dist(np.array([7, 8]), np.array([0.8, 0.2]))
DRAFTED = Proposal.chain((7, 8, 7), (Q, Q, None), "draft")


def verdict(tokens: tuple[int, ...], probs: tuple[float | None, ...], **others: Any) -> Verdict:
    accepted = len(tokens) - 1
    fates = (Fate.ACCEPTED,) * accepted + (Fate.REJECTED,) + (Fate.DISCARDED,) * (2 - accepted)
    return Verdict(tokens, tuple(range(accepted)), fates, "residual", probs, **others)


def test_a_round_counts_when_all_k_were_drafted() -> None:
    found = Yield()
    found.count(DRAFTED, verdict((7, 9), (0.4, 0.1, None)), 4)
    assert found == Yield()
    found.count(DRAFTED, verdict((7, 9), (0.4, 0.1, None)), 3)
    assert (found.rounds, found.tokens, found.expected) == (1, 2, pytest.approx(2.0))


def test_expected_tokens_are_one_and_the_acceptance_probabilities_of_what_was_judged() -> None:
    # min(1, 0.4 / 0.8) and min(1, 0.1 / 0.2).
    assert expected_tokens(DRAFTED, verdict((7, 9), (0.4, 0.1, None))) == pytest.approx(2.0)
    # min(1, 0.9 / 0.8), min(1, 0.1 / 0.2), and p itself of a token that was not drawn.
    assert expected_tokens(DRAFTED, verdict((7, 8, 9), (0.9, 0.1, 0.3))) == pytest.approx(2.8)
    cut = verdict((7, 9), (0.4, 0.1, None), finish="eog")
    assert expected_tokens(DRAFTED, cut) == 2.0


def test_a_ratio_is_of_sums_in_a_category_and_a_geometric_mean_over_categories() -> None:
    # 30/10 over 20/10 is 1.5 although the prompts' own ratios are 2 and 1.
    code = [(Yield(5, 20, 15.0), Yield(5, 10, 10.0)), (Yield(5, 10, 5.0), Yield(5, 10, 10.0))]
    chat = [(Yield(4, 12, 8.0), Yield(8, 24, 16.0))]
    found = ratio_of({"code": code, "chat": chat}, seed=1)
    assert found is not None
    assert found.ratio == pytest.approx(math.sqrt(1.5))
    assert (found.low, found.high) == pytest.approx((1.0, math.sqrt(2.0)))
    assert (found.prompts, found.pairs) == (3, 32)
    expected = ratio_of({"code": code}, seed=1, expected=True)
    assert expected is not None
    assert expected.ratio == pytest.approx(1.0)


def test_texts_without_a_whole_draft_are_left_out_and_a_category_of_them_is_none() -> None:
    empty = (Yield(0, 0, 0.0), Yield(4, 8, 8.0))
    kept = ratio_of({"code": [empty, (Yield(2, 4, 4.0), Yield(2, 2, 2.0))]}, seed=1)
    assert kept is not None
    assert kept.ratio == pytest.approx(2.0)
    assert ratio_of({"code": [empty]}, seed=1) is None
    assert ratio_of({}, seed=1) is None


def test_a_case_names_its_temperature_and_truncation() -> None:
    assert Case.of("0.8").sampling == edge_spec.Sampling(temperature=0.8)
    assert Case.of("1-untruncated").sampling == edge_spec.Sampling(1.0, top_k=0, top_p=1.0, min_p=0.0)
    for name, told in (("hot", "is no case"), ("0", "both ways are the same"), ("0-untruncated", "the same")):
        with pytest.raises(BenchError, match=told):
            Case.of(name)


def test_the_seeds_of_a_prompt_are_added_and_paired_by_way() -> None:
    prompts = [Prompt("a", "code", ()), Prompt("b", "chat", ())]
    samples = {
        ("0.8", 3, "a", "drawn"): [Yield(1, 3, 3.0), Yield(2, 6, 5.0)],
        ("0.8", 3, "a", "argmax"): [Yield(1, 2, 2.0), Yield(2, 4, 4.0)],
        ("0.8", 3, "b", "drawn"): [Yield(1, 3, 3.0)],  # interrupted before its argmax
    }
    assert bench_yield.gathered(samples, prompts, "0.8", 3) == {
        "code": [(Yield(3, 9, 8.0), Yield(3, 6, 6.0))]
    }
    assert total([]) == Yield()


def test_each_row_is_held_against_its_line_by_its_upper_bound() -> None:
    def row(case: str, k: int, category: str, high: float) -> dict[str, Any]:
        return {"case": case, "k": k, "category": category, "ratio": high, "low": high, "high": high}

    rows = [
        row("1-untruncated", 3, "code", 0.97), row("1-untruncated", 3, "all", 1.10),
        row("1-untruncated", 7, "all", 1.149), row("0.8", 3, "all", 1.04), row("0.5", 3, "all", 0.5),
    ]  # fmt: skip
    assert [str(one) for one in bench_yield.judgements(rows)] == [
        "FAIL T=1-untruncated, K=3, code: 0.970 (0.970 to 0.970), at least 0.98 wanted",
        "PASS T=1-untruncated, K=3, mean: 1.100 (1.100 to 1.100), at least 1.1 wanted",
        "FAIL T=1-untruncated, K=7, mean: 1.149 (1.149 to 1.149), at least 1.15 wanted",
        "PASS T=0.8, K=3, mean: 1.040 (1.040 to 1.040), at least 1.04 wanted",
    ]
