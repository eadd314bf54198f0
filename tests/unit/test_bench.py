"""The measuring scripts without a model: what they choose, in which order, and how they reckon."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import bench_peers
import check_exact
import numpy as np
import pytest
from bench_peers import BenchError, Prompt, Run, Sample, Setting

import edge_spec
from edge_spec.events import RoundTimings, Verified
from edge_spec.types import NO_PROPOSAL, Fate, Proposal, Rows, Verdict

A = Prompt("a", "code", ())
B = Prompt("b", "code", ())
C = Prompt("c", "chat", ())
SETTING = Setting(Path("t.gguf"), Path("d.gguf"), 8, 0.0, 512, 2, seed=1)


def line(id: str, category: str) -> str:
    return json.dumps({"id": id, "category": category, "messages": [{"role": "user", "content": id}]})


def sample(speed: float, **others: Any) -> Sample:
    """One that decoded at `speed` tokens a second, and took as long again for the prompt."""
    return Sample(**{"decode_tokens": 8, "decode_s": 8 / speed, "wall_tokens": 8, "wall_s": 16 / speed,
                     "prompt_tokens": 5, **others})  # fmt: skip


def run_of(arms: dict[str, dict[str, list[Sample]]], prompts: list[Prompt]) -> Run:
    samples = {(arm, prompt): found for arm, of in arms.items() for prompt, found in of.items()}
    return Run(SETTING, list(arms), prompts, samples)


# -- what is run


def test_the_prompts_of_a_category_are_those_whose_ids_hash_lowest() -> None:
    # By sha256 of the id, the order is d f c b e a.
    lines = [line(id, "code") for id in "abc"] + ["", " \n"] + [line(id, "chat") for id in "def"]
    chosen = bench_peers.choose_prompts(lines, ["chat", "code"], 2)
    assert [(prompt.id, prompt.category) for prompt in chosen] == [
        ("d", "chat"), ("f", "chat"), ("c", "code"), ("b", "code"),
    ]  # fmt: skip
    assert chosen[0].messages == ({"role": "user", "content": "d"},)


def test_without_categories_all_are_taken_in_the_files_order() -> None:
    lines = [line("a", "code"), line("d", "chat"), line("b", "code")]
    assert [p.id for p in bench_peers.choose_prompts(lines, [], 9)] == ["b", "a", "d"]


def test_a_category_that_has_no_prompts_is_named_with_those_there_are() -> None:
    with pytest.raises(BenchError, match=r"^There are no prompts of edit; there are code, chat\.$"):
        bench_peers.choose_prompts([line("a", "code"), line("b", "chat")], ["code", "edit"], 1)


def test_arms_turn_round_with_every_repetition_and_prompts_rotate() -> None:
    order = [(repetition, p.id, arm) for repetition, p, arm in bench_peers.schedule([A, B], ["x", "y"], 3)]
    assert order == [
        (0, "a", "x"), (0, "a", "y"), (0, "b", "x"), (0, "b", "y"),
        (1, "b", "y"), (1, "b", "x"), (1, "a", "y"), (1, "a", "x"),
        (2, "a", "x"), (2, "a", "y"), (2, "b", "x"), (2, "b", "y"),
    ]  # fmt: skip


def test_drafting_arms_are_made_once_for_every_k_and_only_with_a_draft() -> None:
    wanted = ["ours-plain", "ours", "bench", "simple"]
    assert bench_peers.arm_names(wanted, [3, 7], has_draft=True) == [
        "ours-plain", "ours-k3", "ours-k7", "bench", "simple-k3", "simple-k7",
    ]  # fmt: skip
    assert bench_peers.arm_names(wanted, [3, 7], has_draft=False) == ["ours-plain", "bench"]


def test_an_unknown_arm_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no arm 'fast': choose from ours-plain, ours-steady, ours,"):
        bench_peers.make_arm("fast", None, SETTING, tmp_path)  # type: ignore[arg-type]


def test_every_arm_runs_in_the_schedules_order_and_is_kept_by_prompt() -> None:
    class Scripted:
        def __init__(self, name: str) -> None:
            self.name = name

        def run(self, prompt: Prompt, repetition: int) -> Sample:
            return sample(1 + repetition + (10 if self.name == "y" else 0))

    run = Run(SETTING, ["x", "y"], [A, B])
    run.measure({name: Scripted(name) for name in ("x", "y")}, 2)
    assert run.order == [
        (0, "a", "x"), (0, "a", "y"), (0, "b", "x"), (0, "b", "y"),
        (1, "b", "y"), (1, "b", "x"), (1, "a", "y"), (1, "a", "x"),
    ]  # fmt: skip
    assert [s.decode_speed for s in run.samples["x", "b"]] == [1, 2]
    assert [s.decode_speed for s in run.samples["y", "a"]] == [11, 12]


def test_as_many_drafts_as_targets_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "bench --target t --target u --draft d --prompts p.jsonl"
    monkeypatch.setattr(sys, "argv", words.split())
    with pytest.raises(SystemExit) as stopped:
        bench_peers.parse_arguments()
    assert stopped.value.code == 2
    assert "give as many --draft as --target, or none" in capsys.readouterr().err


# -- what the peers say

SIMPLE_LOG = """\
0.00.411.230 I llama_context: n_ctx         = 4096
0.01.902.114 I encoded   37 tokens in    0.512 seconds, speed:   72.266 t/s
0.01.902.121 I decoded   65 tokens in    8.125 seconds, speed:    8.000 t/s
0.01.902.123 I
0.01.902.124 I n_draft   = 7
0.01.902.124 I n_predict = 65
0.01.902.125 I n_drafted = 105
0.01.902.125 I n_accept  = 48
0.01.902.126 I accept    = 45.714%
0.01.902.126 I
0.01.902.127 I draft:
"""
PROMPT = "<|im_start|>user\nWrite f.<|im_end|>\n<|im_start|>assistant\n"


def test_llama_speculative_simples_report_is_read() -> None:
    output = f"\n\n{PROMPT}def f():\n    pass\n\n"
    assert bench_peers.parse_simple(output, SIMPLE_LOG, PROMPT) == Sample(
        decode_tokens=65,
        decode_s=8.125,
        wall_tokens=65,
        wall_s=8.637,
        prompt_tokens=37,
        drafted=105,
        accepted=48,
        rounds=17,
        text="def f():\n    pass\n\n",
    )


def test_without_the_prompt_in_its_output_a_peers_text_is_unknown() -> None:
    assert bench_peers.parse_simple("something else", SIMPLE_LOG, PROMPT).text is None


@pytest.mark.parametrize("lost", ["encoded", "decoded", "n_drafted", "n_accept "])
def test_a_report_that_lacks_a_line_is_shown_and_refused(lost: str) -> None:
    log = "".join(part for part in SIMPLE_LOG.splitlines(keepends=True) if lost not in part)
    with pytest.raises(BenchError) as caught:
        bench_peers.parse_simple(PROMPT, log, PROMPT)
    said = str(caught.value)
    assert said.startswith(f"llama-speculative-simple did not print '{lost.strip()}")
    assert said.endswith("accept    = 45.714%\n0.01.902.126 I\n0.01.902.127 I draft:\n")


def test_a_peer_does_not_see_llama_cpps_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LLAMA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LLAMA_ARG_THREADS", "64")
    monkeypatch.setenv("LLAMA_OTHER", "kept")
    code = "import os, sys; print([n for n in os.environ if n.startswith('LLAMA_')]); sys.stderr.write('log')"
    assert bench_peers._run_peer(Path(sys.executable), "-c", code) == ("['LLAMA_OTHER']\n", "log")


def test_a_peer_that_fails_is_quoted() -> None:
    program = Path(sys.executable)
    with pytest.raises(BenchError) as caught:
        bench_peers._run_peer(program, "-c", "import sys; print('loading'); sys.exit('no memory')")
    assert str(caught.value) == f"{program.name} failed with exit code 1:\nloading\nno memory\n"


def test_a_peer_that_was_not_built_is_refused_with_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"run scripts/build_peers\.py first\.$"):
        bench_peers._run_peer(tmp_path / "llama-bench")


# -- what is reported


def test_the_centre_is_the_geometric_mean_over_prompts_of_medians_over_repetitions() -> None:
    assert bench_peers.centre([[1.0, 2.0, 90.0], [8.0, 8.0]]) == pytest.approx(4.0)
    assert bench_peers.centre([[0.5], [2.0]]) == pytest.approx(1.0)
    assert bench_peers.centre([[1.0, 2.0]]) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("ratios", "low", "high"),
    [
        ([[2.0, 2.0], [2.0, 2.0]], 2.0, 2.0),
        # One prompt: repetitions are drawn again. Both extremes have probability 1/4.
        ([[1.0, 4.0]], 1.0, 4.0),
        # One repetition: prompts are drawn again. Both extremes have probability 1/4.
        ([[1.0], [4.0]], 1.0, 4.0),
        # 4^(j/8) with j binomial(8, 1/2): P(j = 0) = 0.004 < 0.025 < P(j <= 1) = 0.035.
        ([[1.0]] * 4 + [[4.0]] * 4, 2**0.25, 2**1.75),
    ],
)
def test_the_interval_holds_the_middle_95_percent_of_redrawn_centres(
    ratios: list[list[float]], low: float, high: float
) -> None:
    assert bench_peers.interval(ratios, seed=1) == pytest.approx((low, high))


def test_the_interval_depends_on_its_seed_alone() -> None:
    ratios = [[1.0 + 0.01 * (7 * i % 11), 1.2 + 0.01 * (5 * i % 13)] for i in range(9)]
    assert bench_peers.interval(ratios, 3) == bench_peers.interval(ratios, 3)
    assert bench_peers.interval(ratios, 3) != bench_peers.interval(ratios, 4)


def test_neighbours_are_divided_repetition_by_repetition() -> None:
    run = run_of(
        {
            "ours-plain": {"a": [sample(6), sample(8)], "b": [sample(9)], "c": [sample(5), sample(7)]},
            "bench": {"a": [sample(3), sample(2)], "b": [sample(3)], "c": [sample(5)]},
        },
        [A, B, C],
    )
    over = ("ours-plain", "bench")
    # c was interrupted before its second neighbour.
    assert run.ratios(over, None, lambda s: s.decode_speed) == [[2.0, 4.0], [3.0], [1.0]]
    assert run.ratios(over, "code", lambda s: s.decode_speed) == [[2.0, 4.0], [3.0]]


def test_each_arm_is_compared_with_its_peer_and_with_plain_decoding() -> None:
    run = Run(SETTING, ["ours-plain", "ours-k3", "bench", "simple-k3"], [A])
    assert run.comparisons() == [
        ("ours-plain", "bench"), ("ours-k3", "simple-k3"), ("ours-k3", "ours-plain"), ("simple-k3", "bench"),
    ]  # fmt: skip
    assert Run(SETTING, ["ours-plain", "ours-k3"], [A]).comparisons() == [("ours-k3", "ours-plain")]


def test_a_summary_has_a_row_a_category_and_one_over_all() -> None:
    slow, fast = sample(2, wall_s=8.0), sample(4, wall_s=4.0)
    run = run_of(
        {"ours-plain": {"a": [slow], "c": [slow, slow]}, "ours-k3": {"a": [fast], "c": [slow, slow]}}, [A, C]
    )
    shared = {"over": ["ours-k3", "ours-plain"]}
    root = pytest.approx(2**0.5)
    assert bench_peers.summarise(run) == [
        {**shared, "category": "code", "decode_ratio": 2.0, "decode_low": 2.0, "decode_high": 2.0,
         "wall_ratio": 2.0, "prompts": 1, "pairs": 1},
        {**shared, "category": "chat", "decode_ratio": 1.0, "decode_low": 1.0, "decode_high": 1.0,
         "wall_ratio": 1.0, "prompts": 1, "pairs": 2},
        {**shared, "category": "all", "decode_ratio": root, "decode_low": 1.0, "decode_high": 2.0,
         "wall_ratio": root, "prompts": 2, "pairs": 3},
    ]  # fmt: skip


def test_llama_bench_has_no_wall_ratio_as_it_reads_no_prompt() -> None:
    run = run_of({"ours-plain": {"a": [sample(4)]}, "bench": {"a": [sample(8)]}}, [A])
    (row,) = bench_peers.summarise(run)
    assert (row["decode_ratio"], row["wall_ratio"]) == (0.5, None)


def test_an_arm_is_described_by_its_median_speed_and_its_totals() -> None:
    found = [
        sample(2, drafted=6, accepted=3, rounds=4, outside_s=0.4),
        sample(4, drafted=4, accepted=2, rounds=4, outside_s=0.4),
        sample(8, drafted=0, accepted=0, rounds=4, outside_s=0.4),
    ]
    run = run_of({"ours-k3": {"a": found}, "bench": {"a": [sample(3)]}, "simple-k3": {}}, [A])
    assert bench_peers.describe_arms(run) == [
        {"arm": "ours-k3", "tokens_per_second": 4.0, "drafted": 10, "accepted": 5, "draft_yield": 0.5,
         "mean_acceptance_length": 2.0, "outside_llama_cpp": pytest.approx(0.2)},
        {"arm": "bench", "tokens_per_second": 3.0, "drafted": 0, "accepted": 0, "draft_yield": None,
         "mean_acceptance_length": None, "outside_llama_cpp": None},
    ]  # fmt: skip


def test_text_agreement_is_the_share_that_begins_alike() -> None:
    run = run_of(
        {
            "ours-plain": {"a": [sample(1, text="abcdef")], "c": [sample(1, text="same more")]},
            "ours-k3": {"a": [sample(1, text="abcxyz")], "c": [sample(1, text="same")]},
            "simple-k3": {"a": [sample(1, text="abcdefghi")], "c": [sample(1, text="same\n\n")]},
            "bench": {"a": [sample(1)], "c": [sample(1)]},
        },
        [A, C],
    )
    assert bench_peers.text_agreement(run) == {"ours-k3": 0.75, "simple-k3": 1.0}


def test_arms_that_read_prompts_of_different_lengths_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bench_peers.importlib.metadata, "version", lambda name: {"llama-cpp-python": "1.2"}[name]
    )
    run = run_of(
        {"x": {"a": [sample(1)], "b": [sample(1)]}, "y": {"a": [sample(1, prompt_tokens=6)]}}, [A, B]
    )
    (tmp_path / "build.json").write_text('{"version": "1.2"}')
    lengths = "a: the arms read prompts of different lengths: {'x': 5, 'y': 6}"
    assert bench_peers.warnings(run, tmp_path) == [lengths]
    (tmp_path / "build.json").write_text('{"version": "1.3"}')
    told = "The peers have no record of being built from our engine's version (scripts/build_peers.py)."
    assert bench_peers.warnings(run, tmp_path) == [lengths, told]


# -- check_exact: whether a difference of texts is excused

TIMINGS = RoundTimings(0.0, 0.0, 0.0, 0.0)
DRAFTED = Verified(
    0,
    Proposal.chain((20, 21), (None, None), "draft"),
    Verdict((20, 9), (0,), (Fate.ACCEPTED, Fate.REJECTED), "residual", (1.0, 0.0)),
    TIMINGS,
)


def plain(*tokens: int) -> tuple[Verified, ...]:
    return tuple(Verified(0, NO_PROPOSAL, Verdict((t,), (), (), "plain", ()), TIMINGS) for t in tokens)


class Tape:
    """A cache of four rows a batch that keeps what it is told; a row's logits are its token.

    Its memory stops `short` tokens before the length that it is asked to go back to.
    """

    batch_size = 4

    def __init__(self, short: int = 0) -> None:
        self.short = short
        self.target = self.cache = self  # stands for the pair, too
        self.tokens: list[int] = [99]
        self.told: list[object] = []
        self.min_rows: list[int] = []

    def clear(self) -> None:
        self.told.append("clear")
        self.tokens.clear()

    def length(self, seq: int) -> int:
        return len(self.tokens)

    def rollback(self, seq: int, length: int) -> None:
        self.told.append(length)
        del self.tokens[length - self.short :]

    def append(self, parts: list[Rows], min_rows: int = 1) -> np.ndarray:
        (part,) = parts
        self.told.append(list(part.tokens))
        self.min_rows.append(min_rows)
        self.tokens += part.tokens
        return np.array([[token] for token in part.tokens[part.wanted_from :]], dtype=np.float32)


@pytest.mark.parametrize(
    ("position", "row", "rounds"),
    [
        (0, 6, [[6, 20, 21]]),
        (1, 20, [[6, 20, 21]]),
        (2, 9, [[6, 20, 21], 7, [9]]),
        (3, 8, [[6, 20, 21], 7, [9], 8, [8]]),
    ],
)
def test_a_row_is_decoded_again_with_the_widths_that_its_run_had(
    position: int, row: int, rounds: list[object]
) -> None:
    tape = Tape()
    run = check_exact.Run((1, 2, 3, 4, 5, 6), (DRAFTED, *plain(8, 7)), min_rows=2)
    assert run.tokens == [20, 9, 8, 7]
    assert check_exact.row_at(tape, run, position).tolist() == [row]  # type: ignore[arg-type]
    assert tape.told == ["clear", [1, 2, 3, 4], [5, 6], 5, *rounds]
    assert set(tape.min_rows[2:]) == {2}, "the run's own rounds, the reading of the prompt left out"


def test_rows_of_tokens_that_a_short_rollback_dropped_are_passed_over() -> None:
    tape = Tape(short=1)
    run = check_exact.Run((1, 2, 3, 4, 5, 6), (DRAFTED,))
    assert check_exact.row_at(tape, run, 1).tolist() == [20]  # type: ignore[arg-type]
    assert tape.told == ["clear", [1, 2, 3, 4], [5, 6], 5, [5, 6, 20, 21]]


@pytest.mark.parametrize(
    ("drafted_row", "largest", "excused"),
    [([0.0, 0.0, 1.0, 1.5], 0.75, True), ([0.0, 0.0, 1.25, 0.75], 0.25, False)],
)
def test_a_difference_is_excused_only_when_both_choices_come_out_again(
    monkeypatch: pytest.MonkeyPatch, drafted_row: list[float], largest: float, excused: bool
) -> None:
    one, two = check_exact.Run((5, 6), plain(1, 2, 0)), check_exact.Run((5, 6), plain(1, 3, 0))
    rows = {id(one): [0.0, 0.0, 1.0, 0.75], id(two): drafted_row}
    monkeypatch.setattr(
        check_exact, "row_at", lambda pair, run, position: np.array(rows[id(run)], dtype=np.float32)
    )
    arm = {"sampling": edge_spec.Sampling(temperature=0), "seed": None}
    assert check_exact.explain(None, one, two, arm) == {  # type: ignore[arg-type]
        "position": 1,
        "cells": 3,
        "tokens": [2, 3],
        "gap": 0.25,
        "largest_logit_difference": largest,
        "at_truncation_edge": False,
        "excused": excused,
    }


def test_a_seeded_difference_is_measured_with_its_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise decides between two equal logits, so a small movement can turn only a small gap."""
    one, two = check_exact.Run((5, 6), plain(1, 2, 0)), check_exact.Run((5, 6), plain(1, 3, 0))
    monkeypatch.setattr(check_exact, "noise", lambda seed, key, position, ids: np.array([0.5, 0.125]))
    rows = {id(one): [0.0, 0.0, 1.0, 1.0], id(two): [0.0, 0.0, 1.0, 1.25]}
    monkeypatch.setattr(
        check_exact, "row_at", lambda pair, run, position: np.array(rows[id(run)], dtype=np.float32)
    )
    arm = {"sampling": edge_spec.Sampling(temperature=2.0, top_k=0), "seed": 3}
    told = check_exact.explain(None, one, two, arm)  # type: ignore[arg-type]
    assert (told["gap"], told["largest_logit_difference"], told["at_truncation_edge"]) == (0.75, 0.25, False)
    assert told["excused"] is False


def test_a_token_kept_at_one_width_only_is_at_the_edge_of_truncation(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = check_exact.Run((5, 6), plain(1, 2, 0)), check_exact.Run((5, 6), plain(1, 3, 0))
    rows = {id(one): [0.0, 0.0, 1.0, 0.75], id(two): [0.0, 0.0, 1.0, 1.25]}
    monkeypatch.setattr(
        check_exact, "row_at", lambda pair, run, position: np.array(rows[id(run)], dtype=np.float32)
    )
    arm = {"sampling": edge_spec.Sampling(temperature=1.0, top_k=1), "seed": 3}
    told = check_exact.explain(None, one, two, arm)  # type: ignore[arg-type]
    assert (told["at_truncation_edge"], told["excused"]) == (True, True)


def test_a_text_that_only_ends_early_is_never_excused() -> None:
    one, two = check_exact.Run((5,), plain(1, 2)), check_exact.Run((5,), plain(1))
    told = {"position": 1, "excused": False, "why": "one text is a prefix of the other"}
    assert check_exact.explain(None, one, two, {}) == told  # type: ignore[arg-type]
