"""The measuring scripts without a model: what they choose, in which order, and what of it they keep."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import bench_peers
import check_exact
import numpy as np
import pytest
from bench import arms, measure, plan, record
from bench.measure import Run
from bench.samples import BenchError, Prompt, Sample, Setting

import edge_spec
from edge_spec.events import RoundTimings, Verified
from edge_spec.types import NO_PROPOSAL, Fate, Proposal, Rows, Verdict

A = Prompt("a", "code", ())
B = Prompt("b", "code", ())
SETTING = Setting(Path("t.gguf"), Path("d.gguf"), 8, 0.0, 512, 2, seed=1)


def line(id: str, category: str) -> str:
    return json.dumps({"id": id, "category": category, "messages": [{"role": "user", "content": id}]})


def sample(speed: float, **others: Any) -> Sample:
    """One that decoded at `speed` tokens a second, and took as long again for the prompt."""
    return Sample(**{"decode_tokens": 8, "decode_s": 8 / speed, "wall_tokens": 8, "wall_s": 16 / speed,
                     "prompt_tokens": 5, **others})  # fmt: skip


class Scripted:
    """An arm that decodes faster at every repetition, and says its name."""

    def __init__(self, name: str, speed: float) -> None:
        self.name = name
        self.speed = speed
        self.asked: list[tuple[int, str]] = []

    def run(self, prompt: Prompt, repetition: int) -> Sample:
        self.asked.append((repetition, prompt.id))
        return sample(self.speed + repetition, text=f"text of {self.name}")


# -- what is run


def test_the_prompts_of_a_category_are_those_whose_ids_hash_lowest() -> None:
    # By sha256 of the id, the order is d f c b e a.
    lines = [line(id, "code") for id in "abc"] + ["", " \n"] + [line(id, "chat") for id in "def"]
    chosen = plan.choose_prompts(lines, ["chat", "code"], 2)
    assert [(prompt.id, prompt.category) for prompt in chosen] == [
        ("d", "chat"), ("f", "chat"), ("c", "code"), ("b", "code"),
    ]  # fmt: skip
    assert chosen[0].messages == ({"role": "user", "content": "d"},)


def test_without_categories_all_are_taken_in_the_files_order() -> None:
    lines = [line("a", "code"), line("d", "chat"), line("b", "code")]
    assert [p.id for p in plan.choose_prompts(lines, [], None)] == ["b", "a", "d"]


def test_a_category_that_has_no_prompts_is_named_with_those_there_are() -> None:
    with pytest.raises(BenchError, match=r"^There are no prompts of edit; there are code, chat\.$"):
        plan.choose_prompts([line("a", "code"), line("b", "chat")], ["code", "edit"], 1)


def test_arms_turn_round_with_every_repetition_and_prompts_rotate() -> None:
    order = [
        (repetition, p.id, plan.turn(["x", "y"], repetition)) for repetition, p in plan.visits([A, B], 3)
    ]
    assert order == [
        (0, "a", ["x", "y"]), (0, "b", ["x", "y"]),
        (1, "b", ["y", "x"]), (1, "a", ["y", "x"]),
        (2, "a", ["x", "y"]), (2, "b", ["x", "y"]),
    ]  # fmt: skip


def test_groups_of_arms_are_unfolded_once_for_every_k_and_need_a_draft() -> None:
    wanted = ["ours-plain", "ours", "bench", "simple", "ours-k3", "server-k"]
    assert arms.arm_names(wanted, [3, 7], has_draft=True) == [
        "ours-plain", "ours-k3", "ours-k7", "bench", "simple-k3", "simple-k7", "server-k3", "server-k7",
    ]  # fmt: skip
    assert arms.arm_names(wanted[:4], [3, 7], has_draft=False) == ["ours-plain", "bench"]
    with pytest.raises(BenchError, match="arm server-k3 needs a draft"):
        arms.arm_names(["server-k3"], [3], has_draft=False)


def test_every_arm_that_a_group_stands_for_can_be_made(tmp_path: Path) -> None:
    prompts = [Prompt("a", "code", ({"role": "user", "content": "x"},))]

    class Encoding:
        def encode(self, messages: object) -> list[int]:
            return [1, 2, 3]

    made = arms.Arms(Encoding(), tmp_path, prompts)  # type: ignore[arg-type]
    names = [*arms.arm_names([*arms.STANDARD, "all"], [3, 7, 15], has_draft=True), "server-k7", "lookup-2-4"]
    assert [made.make(name, SETTING).name for name in names] == names
    assert len(names) == 22
    made.close()


@pytest.mark.parametrize("name", ["fast", "ours-k", "lookup-3", "simple-k3x"])
def test_an_unknown_arm_is_refused_with_the_known_ones(tmp_path: Path, name: str) -> None:
    made = arms.Arms(None, tmp_path, [])  # type: ignore[arg-type]
    with pytest.raises(BenchError, match=f"no arm '{name}': choose from ours-plain, ours-steady, ours-auto,"):
        made.make(name, SETTING)


def test_an_n_gram_mode_is_refused_with_too_few_sizes(tmp_path: Path) -> None:
    made = arms.Arms(None, tmp_path, [])  # type: ignore[arg-type]
    with pytest.raises(BenchError, match=r"ngram-mod has 3 sizes \(n-match, n-min, n-max\), not 2"):
        made.make("ngram-mod-3-7", SETTING)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--target t --target u --draft d", "give as many --draft as --target, or none"),
        ("--target t --resume", "--resume goes on with the file that --json names"),
        ("--target t --pairs -1", "--pairs and --per-category must be 1 or more"),
    ],
)
def test_a_command_line_that_means_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str, told: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--prompts", "p.jsonl", *words.split()])
    with pytest.raises(SystemExit) as stopped:
        bench_peers.parse_arguments()
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "pairs", "per_category"),
    [("", 3, 2), ("--full", 5, None), ("--full --pairs 2 --per-category 4", 2, 4)],
)
def test_full_is_all_prompts_and_five_repetitions_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, words: str, pairs: int, per_category: int | None
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--prompts", "p.jsonl", "--target", "t", *words.split()])
    options = bench_peers.parse_arguments()
    assert (options.pairs, options.per_category) == (pairs, per_category)


# -- how it goes on


def test_a_visit_counts_once_all_arms_have_answered_and_is_not_made_again() -> None:
    run = Run(SETTING, ["ours-plain", "y"], [A, B])
    found = {"ours-plain": Scripted("ours-plain", 1), "y": Scripted("y", 11)}
    told: list[str] = []
    visiting = run.measure(found, 2, told.append)
    next(visiting)
    assert [p.id for _, p in run.missing(2)] == ["b", "b", "a"]
    visiting.close()
    assert told == [
        "  a                        ours-plain              1.00 tokens/s",
        "  a                        y                      11.00 tokens/s",
    ]
    for _ in run.measure(found, 2, told.append):
        pass
    assert found["y"].asked == [(0, "a"), (0, "b"), (1, "b"), (1, "a")]
    assert [s.decode_speed for s in run.samples("y")] == [11, 11, 12, 12]
    assert run.missing(2) == []
    assert len(run.missing(3)) == 2, "a finished run can be gone on with for more repetitions"


def test_an_answer_keeps_its_texts_hash_and_how_far_it_is_the_plain_one() -> None:
    run = Run(SETTING, ["ours-plain", "y"], [A])
    for _ in run.measure({"ours-plain": Scripted("plain", 1), "y": Scripted("y", 2)}, 1, lambda _text: None):
        pass
    visit = run.visits[0, "a"]
    assert visit["y"].text is None
    assert visit["ours-plain"].text_sha256 == (hashlib.sha256(b"text of plain").hexdigest())
    assert (visit["ours-plain"].agreement, visit["y"].agreement) == (None, 8 / 9)


@pytest.mark.parametrize(
    ("a", "b", "share"),
    [
        ("abcdef", "abcxyz", 0.5),
        ("abcdef", "abcdefghi", 1.0),
        ("same more", "same\n\n", 1.0),
        ("a", "b", 0.0),
    ],
)
def test_agreement_is_the_share_of_the_shorter_text_that_begins_alike(a: str, b: str, share: float) -> None:
    assert measure.agreement(a, b) == share


def test_the_time_left_is_reckoned_from_the_visits_made() -> None:
    times = iter([0.0, 100.0, 110.0, 110.0, 130.0, 130.0])
    clock = measure.Clock(5, lambda: next(times))
    clock.start()  # at 100, after loading
    assert clock.visited() == "[visit 1 of 5] 40 s left"
    assert clock.visited() == "[visit 2 of 5] 45 s left"


@pytest.mark.parametrize(
    ("seconds", "text"), [(89, "89 s"), (90, "2 min"), (5340, "89 min"), (7500, "2 h 05 min")]
)
def test_a_duration_is_told_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert measure.minutes(seconds) == text


def test_the_plan_tells_how_many_answers_are_left() -> None:
    run = Run(SETTING, ["x", "y"], [A, B])
    whole = "16 answers: 2 x 2 prompts x 2 alternations x 2 arms (x, y)"
    assert measure.plan_text([run, Run(SETTING, ["x", "y"], [A, B])], 2) == whole
    run.visits[0, "a"] = {}
    assert measure.plan_text([run, Run(SETTING, ["x", "y"], [A, B])], 2) == f"{whole}; 14 of them are left"


# -- the record


def record_of(run: Run, **settings: Any) -> dict[str, Any]:
    return {
        "schema_version": record.SCHEMA_VERSION,
        "settings": {"threads": 2, "pairs": 3, **settings},
        "machine": {"cpu": "c", "cores": 2, "load_average_at_start": [0.1]},
        "versions": {"python": "3"},
        "prompts": {"sha256": "5", "ids": ["a", "b"]},
        "runs": [
            {"target": {"sha256": "t"}, "draft": None, "temperature": 0.0, "arms": run.arms,
             "samples": record.samples_record(run)},
        ],
    }  # fmt: skip


def test_a_record_is_gone_on_with_from_its_last_whole_visit(tmp_path: Path) -> None:
    run = Run(SETTING, ["ours-plain", "y"], [A, B])
    for _ in run.measure({"ours-plain": Scripted("plain", 1), "y": Scripted("y", 2)}, 1, lambda _text: None):
        pass
    path = tmp_path / "record.json"
    record.write(path, record_of(run))
    again = Run(SETTING, ["ours-plain", "y"], [A, B])
    kept = record.read(path)
    record.restore(again, kept["runs"][0]["samples"])
    assert again.visits == run.visits
    half = Run(SETTING, ["ours-plain", "y"], [A, B])
    record.restore(half, kept["runs"][0]["samples"][:-1])
    assert list(half.visits) == [(0, "a")]


def test_a_run_goes_on_only_with_the_same_settings_but_for_the_repetitions() -> None:
    run = Run(SETTING, ["x"], [A])
    old = json.loads(json.dumps(record_of(run)))
    record.check_same(Path("r.json"), old, record_of(run, pairs=5))
    with pytest.raises(BenchError, match=r"^r\.json was measured with other threads; name another file\.$"):
        record.check_same(Path("r.json"), old, record_of(run, threads=4))
    other = record_of(Run(SETTING, ["x", "z"], [A]))
    with pytest.raises(BenchError, match="other pairs, temperatures and arms;"):
        record.check_same(Path("r.json"), old, other)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "cannot be gone on with"),
        ("[]", "schema version None"),
        ('{"schema_version": 1}', "version 1, not 2"),
    ],
)
def test_a_file_that_is_no_such_record_is_refused(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(content)
    with pytest.raises(BenchError, match=told):
        record.read(path)


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


def test_prompts_need_neither_ids_nor_messages_and_ours_are_of_that_kind():
    messages = '{"messages": [{"role": "user", "content": "Hi"}]}'
    lines = ['{"category": "code", "prompt": "Sort."}', "", messages]
    assert [(p.id, p.category, p.messages[0]["content"]) for p in plan.read_prompts(lines)] == [
        ("code-1", "code", "Sort."),
        ("all-3", "all", "Hi"),
    ]
    ours = plan.read_prompts(plan.PROMPTS.read_text(encoding="utf-8").splitlines())
    assert len({prompt.id for prompt in ours}) == len(ours) > 10
