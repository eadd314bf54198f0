#!/usr/bin/env python3
"""A step's time and the acceptance of several drafts for one target, in one alternating run.

    scripts/bench_forge.py --target T.gguf --draft D.gguf --draft D-forged.gguf --prompts prompts.jsonl

The target answers the prompts, plainly and with the usual sampler settings; every draft then drafts
one token before each token of those answers, as it does in a run: a trimmed one spells what it lacks.
(But it always draws, where a run takes the likeliest token if that is accepted more often.) Give prompts
that the drafts were not forged with. Steps are one-row decodes, the drafts in turn, so that a machine
that drifts slows all of them alike; the first draft is what the others are compared with.
With --answers they are written once and read again for the next drafts.
Acceptance is how probable it is that the drafted token is accepted, sum min(p, q) if it is drawn; greedy,
how often it is the target's likeliest; rows, what the draft decoded for a token, 1 unless it spells; the
interval is a bootstrap over prompts of the difference from the first draft. All means are over tokens.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import contextlib
import json
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench import machine

from edge_spec.api import LoadedModel, token_map
from edge_spec.cancel import Cancel
from edge_spec.config import ModelSettings
from edge_spec.drafters import ModelDrafter
from edge_spec.drafters.token_map import TokenMap
from edge_spec.errors import EdgeSpecError, SettingError
from edge_spec.forge.gain import best_gain
from edge_spec.forge.measure import row_times, step_times
from edge_spec.forge.samples import SAMPLING, Sample, generate_samples, read_prompts
from edge_spec.models.header import read_header
from edge_spec.models.pairing import check_pair, raise_if_incompatible
from edge_spec.models.resolve import resolve_model
from edge_spec.sampling import SamplerChain, likeliest
from edge_spec.types import NO_PROPOSAL, Budget, Dist, Fate, KVCache, Slot, Timers, Verdict
from edge_spec.verify import make_coupling, overlap

CONTEXT = 2048
SLOTS = 8
BOOTSTRAPS = 2000


@dataclass(frozen=True)
class Result:
    """One draft's figures; `by_prompt` has the acceptance on each prompt's answer."""

    file: str
    bytes: int
    step_ms: float
    sampled: float
    greedy: float
    rows: float
    speedup: float
    draft_max: int
    by_prompt: list[float]


def load(path: Path, slots: int, threads: int | None) -> LoadedModel:
    settings = ModelSettings(path, context_size=CONTEXT, num_slots=slots, threads=threads)
    return LoadedModel(settings, read_header(path), Cancel(), lambda _fraction: None)


def write_answers(path: Path, sha256: str, samples: Sequence[Sample]) -> None:
    """JSONL: the target's hash, then an answer a line, each distribution as its ids and probabilities."""
    lines: list[object] = [{"target_sha256": sha256}]
    lines += [
        {
            "prompt_ids": sample.prompt_ids,
            "token_ids": sample.token_ids,
            "dists": [[dist.ids.tolist(), dist.probs.tolist()] for dist in sample.dists],
        }
        for sample in samples
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def read_answers(path: Path, sha256: str) -> list[Sample]:
    """What `write_answers` wrote; what was likely and not written is not in it. Raises SettingError."""
    head, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    if head != {"target_sha256": sha256}:
        raise SettingError(f"The answers in {path} are another target's: name another file.")
    return [
        Sample(
            tuple(line["prompt_ids"]),
            tuple(line["token_ids"]),
            tuple(Dist(np.array(ids, np.int64), np.array(probs)) for ids, probs in line["dists"]),
            np.zeros(0, np.float32),
        )
        for line in lines
    ]


@dataclass(frozen=True)
class Drafted:
    """What a draft did on one answer, means over its tokens: accepted (the probability), the target's
    likeliest (the share), rows decoded."""

    sampled: float
    greedy: float
    rows: float


def draft_along(
    cache: KVCache, tokens: TokenMap | None, num_target: int, sample: Sample, sampler: SamplerChain
) -> Drafted:
    """Draft one token before each of the answer's, and go on with the answer's."""
    num_rows = 1  # the one that reading the prompt ends with

    def count(rows: int, _cells: int, _seconds: float) -> None:
        nonlocal num_rows
        num_rows += rows

    drafter = ModelDrafter(cache, num_target, Timers(), tokens, count)
    coupling = make_coupling("rejection", 0, 0)
    prompt = list(sample.prompt_ids)
    slot = Slot(0, prompt, len(prompt), len(sample.token_ids), coupling, sampler, sampler, lambda _: None)
    drafter.begin(slot)
    accepted: list[float] = []
    likeliest_ones: list[bool] = []
    for token, p in zip(sample.token_ids, sample.dists, strict=True):
        proposal = NO_PROPOSAL
        while not len(proposal):
            known = drafter.num_cached(slot)
            (proposal,) = drafter.propose([slot], [Budget(1, 1)])
            if drafter.num_cached(slot) == known:
                break  # it read nothing, so it would propose nothing again
        shared, same = 0.0, False
        if len(proposal):
            q = proposal.dists[0]
            shared = p.prob(proposal.tokens[0]) if q is None else overlap(p, q)
            same = likeliest(p) == (proposal.tokens[0] if q is None else likeliest(q))
        accepted.append(shared)
        likeliest_ones.append(same)
        # The text goes on with the answer's token; what the draft has decoded of it stays.
        if proposal.tokens == (token,):
            verdict = Verdict((token,), (0,), (Fate.ACCEPTED,), "accepted", (None,))
        else:
            fates = (Fate.REJECTED,) * len(proposal)
            verdict = Verdict((token,), (), fates, "residual", (None,) * len(proposal))
        drafter.observe([slot], [verdict])
        slot.tokens.append(token)
    return Drafted(statistics.fmean(accepted), statistics.fmean(likeliest_ones), num_rows / len(accepted))


def weighted(values: Sequence[float], counts: Sequence[int]) -> float:
    """The mean over all tokens of all answers, from each answer's own mean and number of tokens."""
    return statistics.fmean(values, counts)


def interval(
    base: Sequence[float], other: Sequence[float], counts: Sequence[int], seed: int
) -> tuple[float, float]:
    """95% of the difference of the `weighted` means when the prompts are drawn again."""
    rng = random.Random(seed)
    answers = [(b - a, count) for a, b, count in zip(base, other, counts, strict=True)]
    draws = (rng.choices(answers, k=len(answers)) for _ in range(BOOTSTRAPS))
    means = sorted(weighted(*zip(*draw, strict=True)) for draw in draws)
    return means[int(0.025 * BOOTSTRAPS)], means[int(0.975 * BOOTSTRAPS)]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Step time and acceptance of several drafts, in turn.")
    add = parser.add_argument
    add("--target", required=True)
    add("--draft", action="append", required=True, help="again for another; the first is the base")
    add("--prompts", type=Path, required=True, help="JSONL with messages, or a prompt, a line")
    add("--limit", type=int, help="only so many prompts, evenly spread over the file")
    add("--max-tokens", type=int, default=64, help="of each answer")
    add("--answers", type=Path, help="keep the answers in this file, or take them from it if it is there")
    add("--steps", type=int, default=100, help="timed steps of each draft")
    add("--rows", type=int, default=9, help="the target is timed with 1 to so many rows, 2 at least")
    add("--threads", type=int)
    add("--seed", type=int, default=1, help="of the bootstrap")
    add("--json", type=Path, help="write the record to this file")
    options = parser.parse_args()
    if options.rows < 2:
        parser.error("--rows must be 2 or more: with one row nothing can be verified.")
    return options


def main() -> None:
    options = parse_arguments()
    prompts = read_prompts(options.prompts)
    if options.limit is not None and options.limit < len(prompts):
        prompts = [prompts[i * len(prompts) // options.limit] for i in range(options.limit)]
    target_path = resolve_model(options.target)
    paths = [resolve_model(draft) for draft in options.draft]
    header = read_header(target_path)
    reports = [check_pair(header, read_header(path)) for path in paths]
    for report in reports:
        raise_if_incompatible(report)
    with contextlib.ExitStack() as loaded:
        target = load(target_path, SLOTS, options.threads)
        loaded.callback(target.close)
        target_s = row_times(target.cache, options.rows, 5)
        answers: Path | None = options.answers
        if answers is not None and answers.exists():
            samples = read_answers(answers, target.sha256)
        else:
            samples = generate_samples(
                target, prompts, options.max_tokens, lambda done, of: say(f"answered {done} of {of}")
            )
            if answers is not None:
                write_answers(answers, target.sha256, samples)
        drafts = []
        for path, report in zip(paths, reports, strict=True):
            model = load(path, 1, options.threads)
            loaded.callback(model.close)
            mapped = token_map(report, target.model, model.header, model.model)
            drafts.append((model.cache, mapped))
        steps_s = step_times([cache for cache, _ in drafts], options.steps)
        counts = [len(sample.token_ids) for sample in samples]
        sampler = SamplerChain(SAMPLING)
        results = []
        for path, (cache, mapped), step_s in zip(paths, drafts, steps_s, strict=True):
            found = [draft_along(cache, mapped, target.model.num_vocab, one, sampler) for one in samples]
            sampled = weighted([one.sampled for one in found], counts)
            rows = weighted([one.rows for one in found], counts)
            gain = best_gain(sampled, step_s * rows, target_s)
            results.append(
                Result(
                    file=path.name,
                    bytes=path.stat().st_size,
                    step_ms=step_s * 1e3,
                    sampled=sampled,
                    greedy=weighted([one.greedy for one in found], counts),
                    rows=rows,
                    speedup=gain.speedup,
                    draft_max=gain.length,
                    by_prompt=[one.sampled for one in found],
                )
            )
            say(f"read by {path.name}")
    print(table(results, counts, options.seed))
    times = ", ".join(f"{seconds * 1e3:.1f}" for seconds in target_s)
    print(f"\nThe target's time for 1, 2, ... rows in ms: {times}")
    if options.json:
        record: dict[str, Any] = {
            "target": machine.file_record(target_path),
            "drafts": [asdict(result) for result in results],
            "target_ms": [seconds * 1e3 for seconds in target_s],
            "positions": sum(counts),
            "tokens_by_prompt": counts,
            "machine": machine.machine(),
            "settings": {
                "max_tokens": options.max_tokens,
                "steps": options.steps,
                "threads": options.threads,
                "prompts": len(samples),
                "seed": options.seed,
            },
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def table(results: Sequence[Result], counts: Sequence[int], seed: int) -> str:
    """Markdown, the first draft as the base; `counts` has the tokens of each prompt's answer."""
    base = results[0]
    lines = [
        f"| draft | MB | ms a step | faster | acceptance ({sum(counts)} tokens) | difference, 95% "
        "| greedy | rows | expected | K |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for result in results:
        low, high = interval(base.by_prompt, result.by_prompt, counts, seed)
        change = f"{result.sampled - base.sampled:+.3f} ({low:+.3f} to {high:+.3f})"
        cells = (
            result.file,
            f"{result.bytes / 1e6:.0f}",
            f"{result.step_ms:.2f}",
            f"{base.step_ms / result.step_ms:.2f}x",
            f"{result.sampled:.3f}",
            "" if result is base else change,
            f"{result.greedy:.3f}",
            f"{result.rows:.2f}",
            f"{result.speedup:.2f}x",
            str(result.draft_max),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main()
    except EdgeSpecError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
