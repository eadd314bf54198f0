#!/usr/bin/env python3
"""Does speculation change the text? Greedy and seeded text for K = 0, 3 and 7, prompt by prompt.

    scripts/check_exact.py --target T.gguf --draft D.gguf --prompts prompts.jsonl [--json OUT]

Every arm of a prompt starts from the same cached prompt. Where a drafted text differs from the
plain one, both are decoded again from an empty cache with the widths that each run had, without
drafter or engine; the difference is excused only when both choices come out again and the gap
between the two tokens (in logits, the seed's noise included) is at most twice the largest
difference between the two rows, which means that llama.cpp's logits, not edge-spec, differ between
those widths (docs/architecture.md).
The exit code is 1 when a difference is not excused.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import dataclasses
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from bench.plan import FORMAT, PROMPTS, read_prompts

import edge_spec
from edge_spec.events import Started, Verified
from edge_spec.sampling import SamplerChain, noise
from edge_spec.types import Dist, Logits, Rows
from edge_spec.verify import make_coupling


@dataclasses.dataclass(frozen=True)
class Run:
    """One arm's text: the prompt, what was emitted, and the rounds that emitted it.

    `min_rows` is the fewest rows that its rounds decoded.
    """

    prompt: tuple[int, ...]
    rounds: tuple[Verified, ...]
    min_rows: int = 1

    @property
    def tokens(self) -> list[int]:
        return [token for event in self.rounds for token in event.verdict.tokens]


def generate(pair: edge_spec.Pair, prompt: list[int], arm: dict[str, Any], max_tokens: int, k: int) -> Run:
    decoding = edge_spec.Decoding(
        max_tokens=max_tokens, draft_max=k, seed=arm["seed"], reproducible=arm["reproducible"]
    )
    prompt_ids: tuple[int, ...] = ()
    rounds: list[Verified] = []
    for event in pair.generate(prompt, sampling=arm["sampling"], decoding=decoding):
        match event:
            case Started(prompt_ids=ids):
                prompt_ids = ids
            case Verified():
                rounds.append(event)
    return Run(prompt_ids, tuple(rounds), pair.target.cache.steady_rows if arm["reproducible"] else 1)


def row_at(pair: edge_spec.Pair, run: Run, position: int) -> Logits:
    """The logits that judged emitted token `position`, decoded again with the run's own widths."""
    cache = pair.target.cache
    cache.clear()
    text = list(run.prompt)
    for start in range(0, len(text), cache.batch_size):  # as `main` has it read, once for all arms
        part = text[start : start + cache.batch_size]
        cache.append([Rows(0, part, len(part))])
    cache.rollback(0, len(text) - 1)
    emitted = 0
    for event in run.rounds:
        rows = cache.append([Rows(0, [*text[cache.length(0) :], *event.proposal.tokens], 0)], run.min_rows)
        rows = rows[-(1 + len(event.proposal)) :]
        if emitted + len(event.verdict.tokens) > position:
            row: Logits = rows[position - emitted].copy()
            return row
        cache.rollback(0, len(text) + event.verdict.num_accepted)
        text += event.verdict.tokens
        emitted += len(event.verdict.tokens)
    raise AssertionError("the position lies beyond the text")


def explain(pair: edge_spec.Pair, plain: Run, drafted: Run, arm: dict[str, Any]) -> dict[str, Any]:
    """Where two runs part, what each width says there, and whether that excuses the difference."""
    pairs = zip(plain.tokens, drafted.tokens, strict=False)
    position = next(
        (i for i, (a, b) in enumerate(pairs) if a != b), min(len(plain.tokens), len(drafted.tokens))
    )
    if position >= min(len(plain.tokens), len(drafted.tokens)):
        return {"position": position, "excused": False, "why": "one text is a prefix of the other"}
    history = [*plain.prompt, *plain.tokens[:position]]
    chain = SamplerChain(arm["sampling"])
    rows = [row_at(pair, run, position) for run in (plain, drafted)]
    dists: list[Dist] = [chain(row, history) for row in rows]
    seed = arm["seed"] or 0
    chosen = [make_coupling("shared", seed, 0).draw(dist, len(history)) for dist in dists]
    x, y = plain.tokens[position], drafted.tokens[position]
    temperature = arm["sampling"].temperature
    largest = float(np.abs(rows[0] - rows[1]).max())
    gap = float(rows[0][x] - rows[0][y])
    if temperature > 0:
        # The draw compares logits / T plus noise, so that is where the two tokens nearly tie.
        gumbels = noise(seed, 0, len(history), np.array([x, y]))
        gap += temperature * float(gumbels[0] - gumbels[1])
    inside = [all(dist.prob(token) > 0 for token in (x, y)) for dist in dists]
    return {
        "position": position,
        "cells": len(history),
        "tokens": [x, y],
        "gap": round(abs(gap), 4),
        "largest_logit_difference": round(largest, 4),
        # Where a truncation sampler keeps one of the two at one width only, its edge is the tie.
        "at_truncation_edge": temperature > 0 and not all(inside),
        "excused": chosen == [x, y] and (abs(gap) <= 2 * largest or not all(inside)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft", required=True)
    parser.add_argument("--prompts", type=Path, default=PROMPTS, help=f"{FORMAT} (default: some of ours)")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--k", default="3,7")
    parser.add_argument("--ids", help="only the prompts with these ids, comma-separated")
    parser.add_argument("--limit", type=int, help="only the first N prompts")
    parser.add_argument(
        "--threads", type=int, help="results do not depend on it; two runs share a machine best with one each"
    )
    parser.add_argument(
        "--reproducible", choices=("on", "off"), default="on", help="off: plain rows are decoded alone"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    lengths = [int(k) for k in options.k.split(",")]
    prompts = read_prompts(options.prompts.read_text(encoding="utf-8").splitlines())
    # In an arbitrary but fixed order, so that a part of them holds every category.
    prompts.sort(key=lambda item: hashlib.sha256(item.id.encode()).digest())
    if options.ids:
        prompts = [item for item in prompts if item.id in options.ids.split(",")]
    prompts = prompts[: options.limit]
    steady = options.reproducible == "on"
    arms: dict[str, dict[str, Any]] = {
        "greedy": {"sampling": edge_spec.Sampling(temperature=0), "seed": None, "reproducible": steady},
        "seeded": {"sampling": edge_spec.Sampling(), "seed": 20, "reproducible": steady},
    }
    different: list[dict[str, Any]] = []
    compared = 0
    with edge_spec.load_pair(
        options.target, options.draft, context_size=4096, threads=options.threads
    ) as pair:
        for done, item in enumerate(prompts, 1):
            ids = pair.encode(item.messages)
            pair.target.cache.clear()  # every prompt is read whole, once, with the same widths
            generate(pair, ids, arms["greedy"], 1, 0)
            for name, arm in arms.items():
                runs = {k: generate(pair, ids, arm, options.max_tokens, k) for k in (0, *lengths)}
                for k in lengths:
                    compared += 1
                    if runs[k].tokens != runs[0].tokens:
                        reason = explain(pair, runs[0], runs[k], arm)
                        different.append({"id": item.id, "arm": name, "k": k, **reason})
                        print(json.dumps(different[-1]), flush=True)
                        pair.target.cache.clear()
                        generate(pair, ids, arms["greedy"], 1, 0)
            print(
                f"{done}/{len(prompts)} {item.id}: {len(ids)} prompt tokens, "
                f"{compared} texts compared, {len(different)} different so far",
                file=sys.stderr,
                flush=True,
            )
        steady_rows = pair.target.cache.steady_rows
        names = [pair.target.path.name, pair.draft.path.name if pair.draft else None]
    num_prompts = len({(d["id"]) for d in different})
    summary = {
        "pair": names,
        "reproducible": options.reproducible,
        "steady_rows": steady_rows,
        "prompts": len(prompts),
        "texts_compared": compared,
        "texts_different": len(different),
        "prompts_different": num_prompts,
        "below_512_cells": sum(d.get("cells", 0) < 512 for d in different),
        "not_excused": sum(not d["excused"] for d in different),
    }
    print(json.dumps(summary))
    if options.json:
        options.json.write_text(json.dumps({"summary": summary, "different": different}, indent=1))
    return 1 if summary["not_excused"] else 0


if __name__ == "__main__":
    sys.exit(main())
