"""How a measurement is reckoned, shown, and held against its lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench import ratios, report, requirements
from bench.measure import Run, decode_speed, wall_speed
from bench.ratios import Estimate
from bench.report import ALL, AUTO, FIXED_K, LLAMA_CPP, Row
from bench.samples import Prompt, Sample, Setting

A = Prompt("a", "code", ())
B = Prompt("b", "code", ())
C = Prompt("c", "chat", ())
SETTING = Setting(Path("t.gguf"), Path("d.gguf"), 8, 0.0, 512, 2, seed=1)


def sample(speed: float, **others: Any) -> Sample:
    """One that decoded at `speed` tokens a second, and took as long again for the prompt."""
    return Sample(**{"decode_tokens": 8, "decode_s": 8 / speed, "wall_tokens": 8, "wall_s": 16 / speed,
                     "prompt_tokens": 5, **others})  # fmt: skip


def run_of(arms: dict[str, dict[str, list[Sample]]], prompts: list[Prompt]) -> Run:
    """A run whose arms gave these samples to each prompt, one a repetition."""
    run = Run(SETTING, list(arms), prompts)
    for arm, of in arms.items():
        for prompt, found in of.items():
            for repetition, one in enumerate(found):
                run.visits.setdefault((repetition, prompt), {})[arm] = one
    return run


def speeds(arms: dict[str, dict[str, float]], prompts: list[Prompt]) -> Run:
    return run_of({arm: {p: [sample(v)] for p, v in of.items()} for arm, of in arms.items()}, prompts)


# -- ratios


def test_the_centre_is_the_geometric_mean_over_prompts_of_medians_over_visits() -> None:
    assert ratios.centre([[1.0, 2.0, 90.0], [8.0, 8.0]]) == pytest.approx(4.0)
    assert ratios.centre([[1.0, 2.0]]) == pytest.approx(1.5)


def test_each_category_weighs_the_same_in_the_mean() -> None:
    assert ratios.mean_centre([[[1.0]] * 7, [[4.0]]]) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("categories", "low", "high"),
    [
        ([[[2.0, 2.0], [2.0, 2.0]]], 2.0, 2.0),
        # One prompt: visits are drawn again. Both extremes have probability 1/4.
        ([[[1.0, 4.0]]], 1.0, 4.0),
        # One visit: prompts are drawn again. Both extremes have probability 1/4.
        ([[[1.0], [4.0]]], 1.0, 4.0),
        # 4^(j/8) with j binomial(8, 1/2): P(j = 0) = 0.004 < 0.025 < P(j <= 1) = 0.035.
        ([[[1.0]] * 4 + [[4.0]] * 4], 2**0.25, 2**1.75),
        # Categories are not drawn again, so a mean over one prompt of each is certain.
        ([[[1.0]], [[4.0]]], 2.0, 2.0),
        # A prompt with fewer visits than another is drawn from those it has, even counts halved.
        ([[[3.0]], [[2.0, 2.0, 2.0, 2.0]]], 6**0.5, 6**0.5),
        ([[[3.0], [3.0, 3.0]]], 3.0, 3.0),
    ],
)
def test_the_interval_holds_the_middle_95_percent_of_redrawn_centres(
    categories: list[list[list[float]]], low: float, high: float
) -> None:
    assert ratios.interval(categories, seed=1) == pytest.approx((low, high))


def test_the_redrawn_centres_are_those_that_a_plain_loop_finds() -> None:
    data = [[1.0, 1.3, 0.7], [2.0, 2.5], [1.1, 0.9, 1.6]]
    rng = np.random.default_rng(5)
    redrawn = [
        ratios.centre([rng.choice(r, len(r)).tolist() for r in (data[i] for i in rng.integers(3, size=3))])
        for _ in range(4000)
    ]
    found = np.exp(ratios._redrawn_logs(data, np.random.default_rng(6)))
    for quantile in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert np.quantile(found, quantile) == pytest.approx(np.quantile(redrawn, quantile), rel=0.05)


def test_the_interval_depends_on_its_seed_alone() -> None:
    data = [[[1.0 + 0.01 * (7 * i % 11), 1.2 + 0.01 * (5 * i % 13)] for i in range(9)]]
    assert ratios.interval(data, 3) == ratios.interval(data, 3)
    assert ratios.interval(data, 3) != ratios.interval(data, 4)


def test_an_estimate_leaves_out_prompts_without_a_ratio_but_no_category() -> None:
    assert ratios.estimate([[[2.0], []]], 1) == Estimate(2.0, 2.0, 2.0, prompts=1, pairs=1)
    assert ratios.estimate([[[2.0]], [[]]], 1) is None
    assert ratios.estimate([], 1) is None


# -- what a run is summed up to


def test_neighbours_are_divided_visit_by_visit() -> None:
    run = run_of(
        {
            "ours-plain": {"a": [sample(6), sample(8)], "b": [sample(9)], "c": [sample(5)]},
            "bench": {"a": [sample(3), sample(2)], "b": [sample(3, wall_s=None)], "c": [sample(5)]},
        },
        [A, B, C],
    )
    over = ("ours-plain", "bench")
    assert run.ratios(over, "code", decode_speed) == [[2.0, 4.0], [3.0]]
    assert run.ratios(over, "chat", decode_speed) == [[1.0]]
    assert run.ratios(over, "code", wall_speed) == [[2.0, 4.0], []]


def test_an_answer_of_one_token_has_no_speed_and_is_told_of() -> None:
    run = run_of({"ours-plain": {"a": [sample(6)]}, "y": {"a": [sample(3, decode_tokens=0)]}}, [A])
    assert run.ratios(("y", "ours-plain"), "code", decode_speed) == [[]]
    assert report.warnings(run) == ["y ended 1 answers after one token, which have no speed and are left out"]
    assert report.summarise(run) == []


def test_every_arm_is_compared_with_plain_decoding_and_with_its_peer() -> None:
    assert report.comparisons(["ours-plain", "ours-auto", "ours-k3", "bench", "simple-k3"]) == [
        ("ours-auto", "ours-plain"), ("ours-k3", "ours-plain"), ("bench", "ours-plain"),
        ("simple-k3", "ours-plain"), ("ours-k3", "simple-k3"),
    ]  # fmt: skip
    assert report.comparisons(["ours-k3", "bench"]) == []


def test_a_summary_has_a_row_a_category_and_one_over_all() -> None:
    run = run_of(
        {
            "ours-plain": {"a": [sample(2)], "c": [sample(2), sample(2)]},
            "ours-k3": {"a": [sample(4, wall_s=2.0)], "c": [sample(2), sample(2)]},
        },
        [A, C],
    )
    decode, wall = Estimate(2.0, 2.0, 2.0, 1, 1), Estimate(4.0, 4.0, 4.0, 1, 1)
    one = Estimate(1.0, 1.0, 1.0, 1, 2)
    first, second, mean = report.summarise(run)
    assert first == Row("ours-k3", "ours-plain", "code", decode, wall)
    assert second == Row("ours-k3", "ours-plain", "chat", one, one)
    assert (mean.category, mean.decode) == (
        ALL,
        Estimate(pytest.approx(2**0.5), *[pytest.approx(2**0.5)] * 2, 2, 3),
    )
    assert report.row_record(first) == {
        "over": ["ours-k3", "ours-plain"], "category": "code", "decode_ratio": 2.0, "decode_low": 2.0,
        "decode_high": 2.0, "wall_ratio": 4.0, "wall_low": 4.0, "wall_high": 4.0, "prompts": 1, "pairs": 1,
    }  # fmt: skip


FIVE = {
    "ours-plain": {"a": 4.0, "c": 4.0},
    "ours-auto": {"a": 8.0, "c": 3.6},
    "ours-k3": {"a": 6.0, "c": 2.0},
    "ours-k7": {"a": 10.0, "c": 1.0},
    "simple-k3": {"a": 5.0, "c": 2.0},
    "bench": {"a": 4.0, "c": 4.5},
}


def test_auto_is_held_against_the_best_of_each_category_plain_being_the_k_of_0() -> None:
    rows = {(row.over, row.category): row for row in report.summarise_best(speeds(FIVE, [A, C]))}
    found = {place: (row.decode_best, row.decode and row.decode.ratio) for place, row in rows.items()}
    assert found == {
        (FIXED_K, "code"): ("ours-k7", pytest.approx(0.8)),
        (FIXED_K, "chat"): ("ours-plain", pytest.approx(0.9)),
        (FIXED_K, ALL): (None, pytest.approx(0.72**0.5)),
        ("best drafting K", "code"): ("ours-k7", pytest.approx(0.8)),
        ("best drafting K", "chat"): ("ours-k3", pytest.approx(1.8)),
        ("best drafting K", ALL): (None, pytest.approx(1.44**0.5)),
        (LLAMA_CPP, "code"): ("simple-k3", pytest.approx(1.6)),
        (LLAMA_CPP, "chat"): ("bench", pytest.approx(0.8)),
        (LLAMA_CPP, ALL): (None, pytest.approx(1.28**0.5)),
    }


def test_the_best_by_wall_time_is_chosen_by_wall_time() -> None:
    run = speeds(FIVE, [A, C])
    run.visits[0, "c"]["bench"] = sample(4.5, wall_s=None)
    rows = {(row.over, row.category): row for row in report.summarise_best(run)}
    row = rows[LLAMA_CPP, "chat"]
    assert (row.decode_best, row.wall_best) == ("bench", "simple-k3")
    assert row.wall == Estimate(pytest.approx(1.8), pytest.approx(1.8), pytest.approx(1.8), 1, 1)


def test_without_auto_nothing_is_held_against_the_best() -> None:
    arms = {name: of for name, of in FIVE.items() if name != AUTO}
    assert report.summarise_best(speeds(arms, [A, C])) == []


def test_an_arm_is_described_by_its_median_speed_and_its_totals() -> None:
    found = [
        sample(2, drafted=6, accepted=3, rounds=4, outside_s=0.4, agreement=1.0),
        sample(4, drafted=4, accepted=2, rounds=4, outside_s=0.4, agreement=0.5),
        sample(8, drafted=0, accepted=0, rounds=4, outside_s=0.4),
    ]
    run = run_of({"ours-k3": {"a": found}, "bench": {"a": [sample(3)]}, "simple-k3": {}}, [A])
    assert report.describe_arms(run) == [
        {"arm": "ours-k3", "tokens_per_second": 4.0, "drafted": 10, "accepted": 5, "draft_yield": 0.5,
         "mean_acceptance_length": 2.0, "outside_llama_cpp": pytest.approx(0.2), "text_agreement": 0.75},
        {"arm": "bench", "tokens_per_second": 3.0, "drafted": 0, "accepted": 0, "draft_yield": None,
         "mean_acceptance_length": None, "outside_llama_cpp": None, "text_agreement": None},
    ]  # fmt: skip


def test_arms_that_read_prompts_of_different_lengths_are_warned_of() -> None:
    run = run_of({"x": {"a": [sample(1)]}, "y": {"a": [sample(1, prompt_tokens=6)]}}, [A])
    assert report.warnings(run) == ["a: the arms read prompts of different lengths: {'x': 5, 'y': 6}"]


def test_peers_of_another_version_and_a_change_of_commit_are_warned_of() -> None:
    arms = ["ours-plain", "lookup", "bench"]
    assert report.peer_warnings({"llama-cpp-python": "1.2", "peers": {"version": "1.2"}}, arms) == []
    assert report.peer_warnings({"llama-cpp-python": "1.2", "peers": None}, arms[:2]) == []
    for peers in ({"version": "1.3"}, None):
        (told,) = report.peer_warnings({"llama-cpp-python": "1.2", "peers": peers}, arms)
        assert told.startswith("The peers have no record of being built from our engine's version")
    assert report.commit_warnings([{"commit": "a"}, {"commit": "a"}]) == []
    assert report.commit_warnings([{"commit": "a"}, {"commit": "b"}]) == [
        "The run was gone on with at another commit: 2 of them took part."
    ]


# -- what it is held against


def cell(arm: str, over: str, category: str, high: float, wall_high: float | None = 9.0) -> dict[str, Any]:
    row = Row(arm, over, category, Estimate(high - 0.02, high - 0.04, high, 1, 1), None)
    wall = None if wall_high is None else wall_high
    return report.row_record(row) | {"wall_ratio": wall, "wall_low": wall, "wall_high": wall}


def test_a_cell_fails_when_its_upper_bound_lies_below_the_line() -> None:
    rows = [
        cell(AUTO, "ours-plain", "code", 0.98),
        cell(AUTO, "ours-plain", "chat", 0.979, wall_high=0.95),
        cell(AUTO, FIXED_K, "code", 1.0),
        cell(AUTO, FIXED_K, "chat", 0.94),
        cell(AUTO, FIXED_K, ALL, 1.04),
        cell(AUTO, LLAMA_CPP, "code", 2.0),
        cell(AUTO, LLAMA_CPP, ALL, 1.15),
    ]
    judged = [str(one) for one in requirements.judge_run(rows, list(FIVE), ["code", "chat"])]
    assert judged == [
        "PASS ours-auto / ours-plain, decode, code: 0.960 (0.940 to 0.980), at least 0.98 wanted",
        "FAIL ours-auto / ours-plain, decode, chat: 0.959 (0.939 to 0.979), at least 0.98 wanted",
        "PASS ours-auto / ours-plain, wall, code: 9.000 (9.000 to 9.000), at least 0.96 wanted",
        "FAIL ours-auto / ours-plain, wall, chat: 0.950 (0.950 to 0.950), at least 0.96 wanted",
        "PASS ours-auto / best fixed K, decode, code: 0.980 (0.960 to 1.000), at least 0.95 wanted",
        "FAIL ours-auto / best fixed K, decode, chat: 0.920 (0.900 to 0.940), at least 0.95 wanted",
        "FAIL ours-auto / best fixed K, decode, mean: 1.020 (1.000 to 1.040), at least 1.05 wanted",
        "PASS ours-auto / best llama.cpp arm, decode, code: 1.980 (1.960 to 2.000), at least 0.98 wanted",
        "NONE ours-auto / best llama.cpp arm, decode, chat: not measured, at least 0.98 wanted",
        "PASS ours-auto / best llama.cpp arm, decode, mean: 1.130 (1.110 to 1.150), at least 1.15 wanted",
    ]


def test_of_a_single_category_the_mean_is_that_category() -> None:
    rows = [report.row_record(row) for row in report.summarise_best(speeds(FIVE, [A]))]
    judged = [str(one) for one in requirements.judge_run(rows, list(FIVE), ["code"])]
    assert (
        "FAIL ours-auto / best fixed K, decode, mean: 0.800 (0.800 to 0.800), at least 1.05 wanted" in judged
    )
    assert sum(line.startswith("NONE") for line in judged) == 2, "auto over plain was not among the rows"


@pytest.mark.parametrize(
    ("arms", "held_against"),
    [
        (["ours-plain", AUTO], {"ours-plain"}),  # plain decoding alone is no choice of a length
        (["ours-plain", AUTO, "ours-k3"], {"ours-plain", FIXED_K}),
        ([AUTO, "ours-k3"], {FIXED_K}),
        ([AUTO, "ours-plain", "simple-k3"], {"ours-plain", LLAMA_CPP}),
        ([AUTO], set()),
        (["ours-plain", "ours-k3", "bench"], set()),
    ],
)
def test_only_what_took_part_is_held_against(arms: list[str], held_against: set[str]) -> None:
    run = speeds({arm: {"a": 2.0} for arm in arms}, [A])
    rows = [report.row_record(row) for row in [*report.summarise(run), *report.summarise_best(run)]]
    judged = list(requirements.judge_run(rows, arms, ["code"]))
    assert {one.text.partition(" / ")[2].partition(", ")[0] for one in judged} == held_against
    assert all(one.met is not None for one in judged)


def test_lines_are_met_when_there_are_some_and_every_cell_meets_its_own() -> None:
    cells = {met: requirements.Judgement("", met) for met in (True, False, None)}
    assert requirements.all_met([cells[True], cells[True]])
    for unmet in ([], [cells[True], cells[False]], [cells[True], cells[None]]):
        assert not requirements.all_met(unmet)


def test_the_report_shows_both_ratios_with_their_intervals_and_which_was_best() -> None:
    run = speeds(FIVE, [A, C])
    told = {
        "target": {"file": "t.gguf"}, "draft": {"file": "d.gguf"}, "temperature": 0.8,
        "summary": [report.row_record(row) for row in report.summarise(run)],
        "best": [report.row_record(row) for row in report.summarise_best(run)],
        "arms_alone": report.describe_arms(run), "warnings": ["something"],
    }  # fmt: skip
    settings = {"threads": 2, "max_tokens": 96, "context_size": 4096, "pairs": 3, "peer_p_min": "0.00"}
    lines = report.markdown(
        {"machine": {"cpu": "c", "cores": 2}, "settings": settings, "runs": [told],
         "versions": {"llama-cpp-python": "1.2"}, "warnings": []}
    ).splitlines()  # fmt: skip
    assert "**t.gguf** drafted by d.gguf, temperature 0.8" in lines
    shown = (
        "| ours-auto / best fixed K | code | 0.800 (ours-k7) | 0.800 to 0.800 | 0.800 (ours-k7) "
        "| 0.800 to 0.800 | 1 on 1 prompts |"
    )
    assert shown in lines
    assert lines[-1] == "Warning: something"
