#!/usr/bin/env python3
"""Tokens a round: our drawn draft against llama.cpp's sample-and-match, same K and prompts, no clock.

    scripts/bench_yield.py --target T.gguf --draft D.gguf --prompts prompts.jsonl --json yield.json

llama.cpp lets the target draw its token and accepts the draft's likeliest one iff it is the same. Our
rejection coupling does just that with a draft temperature of 0: a deterministic token x is accepted
with probability p(x). So both ways run in this engine, `drawn` with the target's own settings for the
draft and `argmax` with temperature 0, each seed of a prompt in a slot of its own. Reported is drawn
over argmax: by category the ratio of sums over prompts and seeds, then their geometric mean; intervals
draw the prompts again. `expected` is the same from the acceptance probabilities of what was judged,
which has the same mean and less noise. The record is written after every prompt; --resume goes on.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import machine, record
from bench.measure import Clock
from bench.plan import FORMAT, PROMPTS, choose_prompts
from bench.requirements import Judgement, judge
from bench.samples import BenchError, Prompt
from bench.yields import Case, Yield, Yields, ratio_of, total

import edge_spec
from edge_spec.errors import EdgeSpecError
from edge_spec.events import Verified
from edge_spec.models.resolve import resolve_model

WAYS = {"drawn": None, "argmax": 0.0}
"""What is compared, and each one's draft temperature; None is the target's."""

MEANS = {("1-untruncated", 3): 1.10, ("1-untruncated", 7): 1.15, ("0.8", 3): 1.04, ("0.8", 7): 1.04}
EACH = 0.98

Key = tuple[str, int, str, str]
"""Case, K, prompt id, way."""


def parse_arguments() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    def words(text: str) -> list[str]:
        return [part for part in text.split(",") if part]

    parser = argparse.ArgumentParser(description="Tokens a round: drawn drafts against sample-and-match.")
    add = parser.add_argument
    add("--target", required=True, help="path or store name")
    add("--draft", required=True)
    add("--prompts", type=Path, default=PROMPTS, help=f"{FORMAT} (default: some of ours)")
    add("--categories", type=words, default=[], help="such as code,edit (default: all)")
    add("--per-category", type=int, default=2, help="prompts of each, by the hash of their ids; 0 is all")
    add("--cases", type=words, default=["1-untruncated", "0.8"], help="temperatures (default: these two)")
    add("--k", type=numbers, default=[3, 7], help="draft lengths, such as 3,7")
    add("--seeds", type=int, default=5, help="texts a prompt")
    add("--max-tokens", type=int, default=64, help="of each text")
    add("--ctx-size", type=int, default=2048, help="of each text")
    add("--threads", type=int)
    add("--seed", type=int, default=1, help="of sampling and of the bootstrap")
    add("--json", type=Path, help="write the record to this file")
    add("--resume", action="store_true", help="go on with the record in the --json file")
    add("--require", action="store_true", help="print whether each cell meets its line; exit code 1 if not")
    options = parser.parse_args()
    if options.resume and options.json is None:
        parser.error("--resume goes on with the file that --json names; name it")
    if options.seeds < 1 or options.per_category < 0 or min(options.k) < 1:
        parser.error("--seeds and --k must be 1 or more, and --per-category not below 0")
    return options


def measure(
    pair: edge_spec.Pair, prompt: Prompt, case: Case, k: int, way: str, options: argparse.Namespace
) -> list[Yield]:
    """What each seed's text yielded."""
    found = [Yield() for _ in range(options.seeds)]
    decoding = edge_spec.Decoding(
        max_tokens=options.max_tokens,
        draft_max=k,
        draft_temperature=WAYS[way],
        seed=options.seed,
        coupling="rejection",
    )
    ids = pair.encode(prompt.messages)
    for event in pair.generate_many([ids] * options.seeds, sampling=case.sampling, decoding=decoding):
        if isinstance(event, Verified):
            found[event.slot].count(event.proposal, event.verdict, k)
    return found


def gathered(samples: dict[Key, list[Yield]], prompts: Sequence[Prompt], case: str, k: int) -> Yields:
    """What is known of one case and K, by category."""
    yields: dict[str, list[tuple[Yield, Yield]]] = {}
    for prompt in prompts:
        both = [samples.get((case, k, prompt.id, way)) for way in WAYS]
        if both[0] is not None and both[1] is not None:
            yields.setdefault(prompt.category, []).append((total(both[0]), total(both[1])))
    return yields


def summarise(
    samples: dict[Key, list[Yield]], prompts: Sequence[Prompt], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """A row for each case, K and category, and one over all categories."""
    rows = []
    for name in options.cases:
        for k in options.k:
            yields = gathered(samples, prompts, name, k)
            cells: dict[str, Yields] = {category: {category: found} for category, found in yields.items()}
            for category, cell in {**cells, "all": yields}.items():
                ratio = ratio_of(cell, options.seed)
                expected = ratio_of(cell, options.seed, expected=True)
                if ratio is None or expected is None:
                    continue
                sums = [total([pair[i] for pairs in cell.values() for pair in pairs]) for i in (0, 1)]
                rows.append(
                    {
                        "case": name,
                        "k": k,
                        "category": category,
                        "ratio": ratio.ratio,
                        "low": ratio.low,
                        "high": ratio.high,
                        "expected_ratio": expected.ratio,
                        "expected_low": expected.low,
                        "expected_high": expected.high,
                        "prompts": ratio.prompts,
                        "tokens_per_round": {
                            way: one.tokens / one.rounds for way, one in zip(WAYS, sums, strict=True)
                        },
                        "rounds": {way: one.rounds for way, one in zip(WAYS, sums, strict=True)},
                    }
                )
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| case | K | category | drawn / argmax | 95% | expected | 95% | drawn | argmax | rounds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        each, rounds = row["tokens_per_round"], row["rounds"]
        cells = (
            row["case"],
            str(row["k"]),
            row["category"],
            f"{row['ratio']:.3f}",
            f"{row['low']:.3f} to {row['high']:.3f}",
            f"{row['expected_ratio']:.3f}",
            f"{row['expected_low']:.3f} to {row['expected_high']:.3f}",
            f"{each['drawn']:.2f}",
            f"{each['argmax']:.2f}",
            f"{rounds['drawn']} and {rounds['argmax']}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def judgements(rows: Sequence[dict[str, Any]]) -> list[Judgement]:
    """Every row against its line: the emitted tokens count, not the expected ones."""
    found = []
    for row in rows:
        is_mean = row["category"] == "all"
        line = MEANS.get((row["case"], row["k"])) if is_mean else EACH
        if line is not None:
            name = f"T={row['case']}, K={row['k']}, {'mean' if is_mean else row['category']}"
            found.append(judge(name, line, row["ratio"], row["low"], row["high"]))
    return found


def new_record(options: argparse.Namespace, prompts: Sequence[Prompt]) -> dict[str, Any]:
    """What is known before anything is measured."""
    return {
        "schema_version": record.SCHEMA_VERSION,
        "kind": "yield",
        "settings": {
            "cases": options.cases,
            "k": options.k,
            "seeds": options.seeds,
            "max_tokens": options.max_tokens,
            "context_size": options.ctx_size,
            "seed": options.seed,
            "target": machine.file_record(resolve_model(options.target)),
            "draft": machine.file_record(resolve_model(options.draft)),
            "prompts_sha256": hashlib.sha256(options.prompts.read_bytes()).hexdigest(),
            "prompts": [prompt.id for prompt in prompts],
        },
        "machine": machine.machine(),
        "versions": machine.engine_versions(),
        "sessions": [machine.commit()],
    }


def go_on_with(path: Path, new: dict[str, Any]) -> dict[Key, list[Yield]]:
    """The samples of the record at `path`, whose sessions go into `new`."""
    old = record.read(path)
    if old.get("settings") != json.loads(json.dumps(new["settings"])):
        raise BenchError(f"{path} was measured with other settings, models or prompts; name another file.")
    new["sessions"] = [*old["sessions"], *new["sessions"]]
    return {
        (entry["case"], entry["k"], entry["prompt"], entry["way"]): [Yield(**one) for one in entry["seeds"]]
        for entry in old["samples"]
    }


def main() -> None:
    options = parse_arguments()
    if options.json is not None and options.json.exists() and not options.resume:
        raise BenchError(f"{options.json} exists: --resume goes on with it, or name another file.")
    cases = [Case.of(name) for name in options.cases]
    lines = options.prompts.read_text(encoding="utf-8").splitlines()
    prompts = choose_prompts(lines, options.categories, options.per_category or None)
    new = new_record(options, prompts)
    samples: dict[Key, list[Yield]] = {}
    if options.resume and options.json.exists():
        samples = go_on_with(options.json, new)

    def save() -> None:
        new["samples"] = [
            {
                "case": case,
                "k": k,
                "prompt": prompt,
                "way": way,
                "seeds": [asdict(one) for one in found],
            }
            for (case, k, prompt, way), found in samples.items()
        ]
        if options.json is not None:
            record.write(options.json, new)

    # Prompt by prompt, so that an interrupted run has something of every case.
    to_do = [
        (prompt, case, k, way) for prompt in prompts for case in cases for k in options.k for way in WAYS
        if (case.name, k, prompt.id, way) not in samples
    ]  # fmt: skip
    say(f"{len(to_do) * options.seeds} texts of {options.max_tokens} tokens, {options.seeds} at a time")
    if to_do:
        pair = edge_spec.load_pair(
            options.target, options.draft, context_size=options.ctx_size, threads=options.threads,
            num_slots=options.seeds,
        )  # fmt: skip
        with pair:
            clock = Clock(len(to_do))
            for prompt, case, k, way in to_do:
                samples[case.name, k, prompt.id, way] = measure(pair, prompt, case, k, way, options)
                save()
                say(f"{clock.visited()}  {prompt.id} T={case.name} K={k} {way}")
    new["summary"] = summarise(samples, prompts, options)
    save()
    print(table(new["summary"]))
    if options.require:
        judged = judgements(new["summary"])
        print("\n" + "\n".join(map(str, judged)))
        if not all(one.met for one in judged):
            sys.exit(1)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except (BenchError, EdgeSpecError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        say("Interrupted; with --json, --resume goes on with the next text.")
        sys.exit(130)
