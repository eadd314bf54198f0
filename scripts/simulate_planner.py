#!/usr/bin/env python3
"""What would the planner do on a machine with this staircase? Real texts, pretended seconds.

    scripts/simulate_planner.py record --target T.gguf --draft D.gguf --prompts prompts.jsonl --out texts.json
    scripts/simulate_planner.py replay texts.json --machine machine.json

`record` lets the target answer each prompt (greedily, or with a seed) and the draft model guess at
every position of the answer, with what it would go on to guess where it is wrong. With the seed's
noise shared, both are functions of the tokens before them, so any way of drafting can be replayed
from that: `replay` runs the real engine, drafters and planner on caches that know those tokens and
take the seconds that a staircase says. Nothing is noisy there, so a change of the planner by one
per cent shows, also for a machine that is not at hand. What it cannot show is a machine whose
speed moves; scripts/bench_peers.py measures that.

The machine file: {"target": {"1": ms, "2": ms, ...}, "draft": {...}} for decodes of so many rows.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import json
import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from bench.plan import choose_prompts

import edge_spec
from edge_spec.config import GREEDY, Decoding, Sampling
from edge_spec.drafters import Cascade, ModelDrafter, NgramDrafter
from edge_spec.engine import Engine
from edge_spec.events import Finished, Notice
from edge_spec.planner import FixedPlanner
from edge_spec.planner.auto import AutoPlanner
from edge_spec.planner.costs import RowCosts
from edge_spec.planner.knowledge import Knowledge
from edge_spec.sampling import SamplerChain, top_gap
from edge_spec.stats import Stats
from edge_spec.target import ModelTarget
from edge_spec.types import Logits, Rows, Slot, Timers
from edge_spec.verify import make_coupling

BRANCH = 8
"""How many tokens the draft goes on for after a wrong one."""


@dataclass(frozen=True)
class Text:
    """One prompt, its answer, and the draft's guesses.

    `guesses[i]` is what the draft says at answer position i: the token and the gap between its two
    best logits; `branches[i]` the same for the tokens after a wrong one.
    """

    id: str
    category: str
    prompt: list[int]
    answer: list[int]
    guesses: list[tuple[int, float]]
    branches: dict[int, list[tuple[int, float]]]


# -- recording


def record(options: argparse.Namespace) -> None:
    lines = options.prompts.read_text(encoding="utf-8").splitlines()
    prompts = choose_prompts(lines, options.categories, options.per_category)
    sampling = Sampling(temperature=options.temp)
    decoding = Decoding(max_tokens=options.max_tokens, draft_max=0, seed=options.seed, reproducible=False)
    texts = []
    with edge_spec.load_pair(options.target, options.draft, threads=options.threads) as pair:
        for number, prompt in enumerate(prompts, 1):
            ids = pair.encode(prompt.messages)
            answer = pair.answer(ids, sampling=sampling, decoding=decoding)
            text = guess(pair, prompt, ids, list(answer.token_ids), sampling, options.seed)
            texts.append(text.__dict__)
            right = sum(token == said for token, (said, _) in zip(text.answer, text.guesses, strict=True))
            print(
                f"{number}/{len(prompts)} {prompt.id}: {len(text.answer)} tokens, {right} guessed",
                file=sys.stderr,
            )
            options.out.write_text(json.dumps(texts))


def guess(
    pair: edge_spec.Pair, prompt: Any, ids: list[int], answer: list[int], sampling: Sampling, seed: int
) -> Text:
    assert pair.draft is not None
    cache, sampler = pair.draft.cache, SamplerChain(sampling)
    coupling = make_coupling("shared", seed, 0)
    vocab = min(cache.num_vocab, pair.target.cache.num_vocab)

    def said(row: Logits, before: list[int]) -> tuple[int, float]:
        row = row[:vocab]
        return coupling.draw(sampler(row, before), len(before)), round(top_gap(row), 3)

    held = cache.sync(0, ids)
    while held < len(ids):
        chunk = ids[held : held + cache.batch_size]
        rows = cache.append([Rows(0, chunk, len(chunk) - 1)])
        held += len(chunk)
    guesses, branches, tokens = [], {}, list(ids)
    for place, token in enumerate(answer):
        guesses.append(said(rows[-1], tokens))
        if guesses[-1][0] != token and place + 1 < len(answer):
            branch: list[tuple[int, float]] = []
            wrong = [*tokens, guesses[-1][0]]
            while len(branch) < BRANCH:
                rows = cache.append([Rows(0, wrong[-1:], 0)])
                branch.append(said(rows[-1], wrong))
                wrong.append(branch[-1][0])
            branches[place] = branch
            cache.rollback(0, len(tokens))
        tokens.append(token)
        rows = cache.append([Rows(0, [token], 0)])
    return Text(prompt.id, prompt.category, ids, answer, guesses, branches)


# -- replaying


class Replayed:
    """A KV cache that knows one text; implements `types.KVCache` in pretended seconds."""

    context_size = 1 << 20
    batch_size = 512
    max_drafted = 63
    steady_rows = 1

    def __init__(self, text: Text, costs: RowCosts, *, drafts: bool) -> None:
        self._text, self._costs, self._drafts = text, costs, drafts
        self.skipped: Callable[[], int] = int
        self._held: list[int] = []
        self.busy_s = 0.0
        self.num_vocab = 1 + max(
            *text.prompt, *text.answer, *(token for token, _ in text.guesses),
            *(token for branch in text.branches.values() for token, _ in branch), 1,
        )  # fmt: skip
        self._row = np.full(self.num_vocab, -1e9, np.float32)

    def length(self, seq: int) -> int:
        return len(self._held)

    def sync(self, seq: int, tokens: Sequence[int]) -> int:
        common = 0
        for a, b in zip(self._held, tokens[:-1], strict=False):
            if a != b:
                break
            common += 1
        return self.rollback(seq, common)

    def rollback(self, seq: int, length: int) -> int:
        del self._held[length:]
        return len(self._held)

    def mark(self, seq: int) -> None:
        pass

    def clear(self) -> None:
        self._held.clear()

    def append(self, parts: Sequence[Rows], min_rows: int = 1) -> Logits:
        (part,) = parts
        rows = []
        for index, token in enumerate(part.tokens):
            self._held.append(token)
            if index >= part.wanted_from:
                rows.append(self._logits())
        self.busy_s += self._costs(len(part.tokens), len(self._held))
        return np.array(rows, np.float32).reshape(len(rows), self.num_vocab)

    def _logits(self) -> Logits:
        token, gap = self._say(len(self._held) + self.skipped() - len(self._text.prompt))
        row = self._row.copy()
        row[0 if token else 1] = 0.0
        row[token] = max(gap, 1e-3)
        return row

    def _say(self, place: int) -> tuple[int, float]:
        """What the model says at a place of the answer, after what is held."""
        text = self._text
        if place < 0 or place >= len(text.answer):
            return 0, 0.0
        said = self._held[max(0, len(self._held) - place) :] if place else []
        begun = place - len(said)  # a window may begin within the answer
        wrong = next((i for i, a in enumerate(said, begun) if a != text.answer[i]), None)
        if not self._drafts:
            return (text.answer[place], 9.0) if wrong is None else (0, 0.0)
        if wrong is None:
            return text.guesses[place]
        branch, behind = text.branches.get(wrong, []), place - wrong - 1
        return branch[behind] if behind < len(branch) else (0, 0.0)


def renumbered(raw: dict[str, Any]) -> Text:
    """The text with its tokens numbered from 0, which keeps rows short."""
    numbers: dict[int, int] = {}

    def number(token: int) -> int:
        return numbers.setdefault(token, len(numbers))

    return Text(
        raw["id"],
        raw["category"],
        [number(token) for token in raw["prompt"]],
        [number(token) for token in raw["answer"]],
        [(number(token), gap) for token, gap in raw["guesses"]],
        {int(i): [(number(token), gap) for token, gap in branch] for i, branch in raw["branches"].items()},
    )


@dataclass(frozen=True)
class Machine:
    """Seconds of both models' decodes by rows."""

    target: dict[int, float]
    draft: dict[int, float]

    @classmethod
    def read(cls, path: Path) -> Machine:
        raw = json.loads(path.read_text())
        return cls(*({int(n): ms / 1e3 for n, ms in raw[name].items()} for name in ("target", "draft")))


def run(text: Text, machine: Machine, arm: str, knowledge: Knowledge) -> tuple[Stats, list[Notice]]:
    """One answer by an arm: plain, kN, ngram or auto."""
    timers = Timers()
    target = Replayed(text, RowCosts(machine.target), drafts=False)
    draft = Replayed(text, RowCosts(machine.draft), drafts=True)
    ngram = NgramDrafter(timers)
    if arm == "auto":
        assert knowledge.draft is not None
        planner = AutoPlanner(knowledge)
        ngram = NgramDrafter(timers, on_judged=planner.judged_copy)
        model = ModelDrafter(draft, target.num_vocab, timers, None, knowledge.draft.observe)
        draft.skipped = lambda: model.num_skipped(0)
        engine = Engine(
            ModelTarget(target, timers, knowledge.verify.observe),
            Cascade(ngram, model),
            planner,
            timers,
        )
    elif arm == "ngram":
        engine = Engine(ModelTarget(target, timers), ngram, FixedPlanner(7), timers)
    else:
        length = 0 if arm == "plain" else int(arm[1:])
        drafter = ModelDrafter(draft, target.num_vocab, timers)
        engine = Engine(ModelTarget(target, timers), drafter, FixedPlanner(length), timers)
    chain = SamplerChain(GREEDY)
    slot = Slot(
        0, list(text.prompt), len(text.prompt), len(text.answer), make_coupling("shared", 1, 0), chain, chain,
        lambda _tokens: None,
    )  # fmt: skip
    notices = []
    for event in engine.generate([slot]):
        if isinstance(event, Notice):
            notices.append(event)
        if isinstance(event, Finished):
            if slot.tokens != text.prompt + text.answer:
                raise AssertionError(f"{arm} changed the text of {text.id}")
            return event.stats, notices
    raise AssertionError("a generation ended without a Finished event")


def decode_s(stats: Stats) -> float:
    return stats.timers.draft_s + stats.timers.verify_s


def wall_s(stats: Stats) -> float:
    return decode_s(stats) + stats.timers.prefill_s + stats.timers.draft_prefill_s


def replay(options: argparse.Namespace) -> None:
    texts = [renumbered(raw) for raw in json.loads(options.texts.read_text())]
    fixed = ["plain", *(f"k{k}" for k in options.k), "ngram"]
    for path in options.machine:
        machine = Machine.read(path)
        nothing = Knowledge(RowCosts(machine.target), RowCosts(machine.draft))
        before = {text.id: {arm: run(text, machine, arm, nothing)[0] for arm in fixed} for text in texts}
        table: dict[str, dict[str, list[float]]] = {text.category: {} for text in texts}
        for order in range(options.orders):
            knowledge = Knowledge(RowCosts(machine.target), RowCosts(machine.draft))
            for text in random.Random(order).sample(texts, len(texts)) if order else texts:
                stats, notices = run(text, machine, "auto", knowledge)
                knowledge.answered(stats.completion_tokens)
                plain = before[text.id]["plain"]
                if options.verbose:
                    for notice in notices:
                        print(f"  {text.id}: {notice.text}")
                    print(
                        f"  {text.id}: {stats.prompt_tokens} + {stats.completion_tokens} tokens, "
                        f"{stats.rounds} rounds, {stats.accepted} of {stats.drafted} accepted, "
                        f"decoding {decode_s(plain) / decode_s(stats):.3f}x, "
                        f"wall {wall_s(plain) / wall_s(stats):.3f}x, "
                        f"the draft read {stats.timers.draft_prefill_s:.2f} s"
                    )
                found = table[text.category]
                for arm in fixed[1:]:
                    found.setdefault(arm, []).append(decode_s(plain) / decode_s(before[text.id][arm]))
                found.setdefault("auto", []).append(decode_s(plain) / decode_s(stats))
                found.setdefault("wall", []).append(wall_s(plain) / wall_s(stats))
        show(path.stem, table)


def mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def show(name: str, table: dict[str, dict[str, list[float]]]) -> None:
    arms = list(next(iter(table.values())))
    print(f"\n{name:16}" + "".join(f"{arm:>10}" for arm in arms) + "  auto/best fixed")
    over = []
    for category, by_arm in table.items():
        means = {arm: mean(by_arm[arm]) for arm in arms}
        fixed = max([1.0, *(m for arm, m in means.items() if arm[0] == "k")])
        over.append(means["auto"] / fixed)
        print(f"{category:16}" + "".join(f"{means[arm]:10.3f}" for arm in arms) + f"{over[-1]:10.3f}")
    every = [mean([mean(by_arm[arm]) for by_arm in table.values()]) for arm in arms]
    print(f"{'all':16}" + "".join(f"{ratio:10.3f}" for ratio in every) + f"{mean(over):10.3f}")


def main() -> None:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description="Replay recorded texts on a machine's staircase.")
    commands = parser.add_subparsers(dest="command", required=True)
    new = commands.add_parser("record", help="answer prompts and note what the draft guesses")
    new.add_argument("--target", required=True)
    new.add_argument("--draft", required=True)
    new.add_argument("--prompts", type=Path, required=True)
    new.add_argument("--categories", type=lambda text: text.split(","), default=[])
    new.add_argument("--per-category", type=int, default=2)
    new.add_argument("--max-tokens", type=int, default=128)
    new.add_argument("--temp", type=float, default=0.0)
    new.add_argument("--seed", type=int, default=1)
    new.add_argument("--threads", type=int)
    new.add_argument("--out", type=Path, required=True)
    old = commands.add_parser("replay", help="compare plain, fixed K, n-gram and auto")
    old.add_argument("texts", type=Path)
    old.add_argument("--machine", type=Path, action="append", required=True)
    old.add_argument("--k", type=numbers, default=[1, 2, 3, 4, 5, 7])
    old.add_argument("--orders", type=int, default=1, help="orders of the texts, each with nothing learned")
    old.add_argument("--verbose", action="store_true", help="print what the planner says")
    options = parser.parse_args()
    (record if options.command == "record" else replay)(options)


if __name__ == "__main__":
    main()
