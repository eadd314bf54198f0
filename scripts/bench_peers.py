#!/usr/bin/env python3
"""Compare edge-spec with llama.cpp's own programs: same files, prompts and settings, one run.

    scripts/build_peers.py
    scripts/bench_peers.py --target T.gguf --draft D.gguf --prompts prompts.jsonl --json record.json
    scripts/bench_peers.py ... --json record.json --resume --require

Machines drift within minutes, so only neighbours are compared: on one prompt all arms run one
after another, in an order that turns round with every repetition, and what is reported is the
ratio of neighbours: the median over repetitions, the geometric mean over prompts, and a
bootstrap interval over both. scripts/bench/arms.py lists the arms; give them with --arms.

As it stands, two prompts of every category are answered with 96 tokens, three times, which is
meant to stay under an hour and a half for one pair and temperature on two cores; --full takes all
prompts five times. The record is written after every prompt, and --resume goes on with it.

Decode speed leaves out what the peers leave out of theirs: loading, and both models' reading
of the prompt. Ours is the tokens after the first over the time after the first, less the
draft's prefill; `wall` is all of it, prompt included, loading not.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import contextlib
import hashlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import build_peers
from bench import arms, machine, measure, plan, programs, record, report, requirements
from bench.ours import Ours, calibrate_anew
from bench.plan import FORMAT, PROMPTS
from bench.samples import BenchError, Prompt, Setting

import edge_spec
from edge_spec.errors import EdgeSpecError
from edge_spec.models.resolve import resolve_model

PER_CATEGORY, REPETITIONS = 2, 3
FULL_REPETITIONS = 5


def parse_arguments() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    def temperatures(text: str) -> list[float]:
        return [float(part) for part in text.split(",")]

    def words(text: str) -> list[str]:
        return [part for part in text.split(",") if part]

    parser = argparse.ArgumentParser(
        description="Compare edge-spec with llama.cpp's own programs: paired, alternating, one run."
    )
    add = parser.add_argument
    add("--target", action="append", required=True, help="path or store name; again for another pair")
    add("--draft", action="append", default=[], help="the draft of the target at the same place")
    add("--prompts", type=Path, default=PROMPTS, help=f"{FORMAT} (default: some of ours)")
    add("--categories", type=words, default=[], help="such as code,edit (default: all)")
    add("--per-category", type=int, help="prompts of each, chosen by the hash of their ids (default: 2)")
    add("--pairs", type=int, help="repetitions, each with the arms' order turned round (default: 3)")
    add("--full", action="store_true", help="all prompts and five repetitions, unless told otherwise")
    add("--k", type=numbers, default=[3, 7], help="draft lengths, such as 3,7,15")
    add("--max-tokens", type=int, default=96)
    add("--temp", type=temperatures, default=[0.0], help="one or more, such as 0,0.8,1; each its own table")
    add("--ctx-size", type=int, default=4096)
    add("--threads", type=int, help="for every arm (default: the physical cores)")
    add("--reproducible", choices=["on", "off"], default="on", help="of our drafting arms, as in `run`")
    add("--seed", type=int, default=1, help="of sampling and of the bootstrap")
    add("--peers", type=Path, help="folder that scripts/build_peers.py filled")
    add("--arms", type=words, default=list(arms.STANDARD), help="such as ours-plain,ours-auto,simple, or all")
    add("--json", type=Path, help="write the record, with every raw sample, to this file")
    add("--resume", action="store_true", help="go on with the record in the --json file")
    add("--require", action="store_true", help="print whether each cell meets its line; exit code 1 if not")
    options = parser.parse_args()
    if options.draft and len(options.draft) != len(options.target):
        parser.error("give as many --draft as --target, or none")
    if options.resume and options.json is None:
        parser.error("--resume goes on with the file that --json names; name it")
    options.pairs = options.pairs or (FULL_REPETITIONS if options.full else REPETITIONS)
    if options.per_category is None and not options.full:
        options.per_category = PER_CATEGORY
    if options.pairs < 1 or (options.per_category or 1) < 1:
        parser.error("--pairs and --per-category must be 1 or more")
    return options


def make_runs(options: argparse.Namespace, prompts: list[Prompt], threads: int) -> list[measure.Run]:
    """A run for every pair and temperature, nothing measured yet."""
    drafts = options.draft or [None] * len(options.target)
    names = arms.arm_names(options.arms, options.k, bool(options.draft))
    return [
        measure.Run(
            Setting(
                resolve_model(target),
                resolve_model(draft) if draft else None,
                options.max_tokens,
                temperature,
                options.ctx_size,
                threads,
                options.seed,
                options.reproducible == "on",
            ),
            names,
            prompts,
        )
        for target, draft in zip(options.target, drafts, strict=True)
        for temperature in options.temp
    ]


def new_record(
    options: argparse.Namespace, runs: Sequence[measure.Run], peers: Path, threads: int
) -> dict[str, Any]:
    """What is known before anything is measured."""
    return {
        "schema_version": record.SCHEMA_VERSION,
        "settings": {
            "max_tokens": options.max_tokens,
            "context_size": options.ctx_size,
            "threads": threads,
            "seed": options.seed,
            "reproducible": options.reproducible == "on",
            "pairs": options.pairs,
            "peer_batch": programs.PEER_BATCH,
            "peer_p_min": programs.p_min(build_peers.program(peers, "llama-speculative-simple")),
        },
        "machine": machine.machine(),
        "versions": machine.versions(peers),
        "sessions": [{"started": time.strftime("%Y-%m-%dT%H:%M:%S%z"), **machine.commit()}],
        "prompts": {
            "sha256": hashlib.sha256(options.prompts.read_bytes()).hexdigest(),
            "ids": [prompt.id for prompt in runs[0].prompts],
        },
        "runs": [
            {
                "target": machine.file_record(run.setting.target),
                "draft": machine.file_record(run.setting.draft),
                "temperature": run.setting.temperature,
                "arms": run.arms,
                "samples": [],
            }
            for run in runs
        ],
    }


def go_on_with(path: Path, new: dict[str, Any], runs: Sequence[measure.Run]) -> None:
    """Take what the record at `path` has into `runs`, and its sessions into `new`."""
    old = record.read(path)
    record.check_same(path, old, new)
    new["sessions"] = [*old["sessions"], *new["sessions"]]
    for run, found in zip(runs, old["runs"], strict=True):
        record.restore(run, found["samples"])


def measure_pair(
    runs: Sequence[measure.Run], peers: Path, options: argparse.Namespace, clock: measure.Clock
) -> Any:
    """Make the missing visits of one pair's runs, one for each temperature; yields after each visit."""
    setting = runs[0].setting
    if not any(run.missing(options.pairs) for run in runs):
        return
    pair = edge_spec.load_pair(
        setting.target, setting.draft, context_size=setting.context_size, threads=setting.threads
    )
    with pair, contextlib.closing(arms.Arms(pair, peers, runs[0].prompts)) as made:
        if report.AUTO in runs[0].arms and not any(run.visits for run in runs):
            calibrate_anew(pair)
        for run in runs:
            found = {name: made.make(name, run.setting) for name in run.arms}
            if not run.missing(options.pairs):
                continue
            for arm in found.values():
                if isinstance(arm, Ours):
                    arm.run(run.prompts[0], 0)  # the peers warm up by themselves, before they measure
            clock.start()
            for _ in run.measure(found, options.pairs, say):
                yield


def sum_up(new: dict[str, Any], runs: Sequence[measure.Run]) -> None:
    """Put into the record what its samples come to."""
    for run, told in zip(runs, new["runs"], strict=True):
        told["summary"] = [report.row_record(row) for row in report.summarise(run)]
        told["best"] = [report.row_record(row) for row in report.summarise_best(run)]
        told["arms_alone"] = report.describe_arms(run)
        told["warnings"] = report.warnings(run)
    new["warnings"] = report.peer_warnings(new["versions"], runs[0].arms) + report.commit_warnings(
        new["sessions"]
    )


def judgements(new: dict[str, Any], runs: Sequence[measure.Run]) -> list[requirements.Judgement]:
    """Every cell of every run against its line, said on the way."""
    found = []
    for run, told in zip(runs, new["runs"], strict=True):
        draft = (told["draft"] or {}).get("file", "nothing")
        print(f"\n{told['target']['file']} drafted by {draft}, temperature {told['temperature']:g}:")
        judged = list(requirements.judge_run([*told["summary"], *told["best"]], run.arms, run.categories))
        print("\n".join(map(str, judged)) or "Nothing can be judged: no line is about these arms.")
        found += judged
    return found


def main() -> None:
    options = parse_arguments()
    if options.json is not None and options.json.exists() and not options.resume:
        raise BenchError(f"{options.json} exists: --resume goes on with it, or name another file.")
    from edge_spec.llama.model import default_threads

    peers = (options.peers or build_peers.default_folder()).absolute()
    threads = options.threads or default_threads()
    lines = options.prompts.read_text(encoding="utf-8").splitlines()
    prompts = plan.choose_prompts(lines, options.categories, options.per_category)
    runs = make_runs(options, prompts, threads)
    new = new_record(options, runs, peers, threads)
    if options.resume and options.json.exists():
        go_on_with(options.json, new, runs)

    def save() -> None:
        for run, told in zip(runs, new["runs"], strict=True):
            told["samples"] = record.samples_record(run)
        if options.json is not None:
            record.write(options.json, new)

    say(measure.plan_text(runs, options.pairs))
    clock = measure.Clock(sum(len(run.missing(options.pairs)) for run in runs))
    num_temperatures = len(options.temp)
    for start in range(0, len(runs), num_temperatures):
        for _ in measure_pair(runs[start : start + num_temperatures], peers, options, clock):
            save()
            say(clock.visited())
    sum_up(new, runs)
    save()
    print(report.markdown(new))
    if options.require and not requirements.all_met(judgements(new, runs)):
        sys.exit(1)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except (BenchError, EdgeSpecError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        say("Interrupted; with --json, --resume goes on after the last whole prompt.")
        sys.exit(130)
