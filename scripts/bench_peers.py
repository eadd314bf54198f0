#!/usr/bin/env python3
"""Compare edge-spec with llama.cpp's own programs: same files, prompts and settings, one run.

    scripts/build_peers.py
    scripts/bench_peers.py --target T.gguf --draft D.gguf --prompts prompts.jsonl \\
        --categories code,edit --per-category 2 --k 3,7 --pairs 5 --json record.json

Machines drift within minutes, so only neighbours are compared: all arms run one after another
on one prompt, in an order that turns round with every repetition, and what is reported is the
ratio of neighbours: the median over repetitions, the geometric mean over prompts, and a
bootstrap interval over both. Arms:

    ours-plain, ours-kK       this checkout, in this process; models loaded once, caches cleared
                              and nothing reused before every prompt
    ours-steady               plain, with the second row that --reproducible decodes for some models
    bench                     llama-bench: plain decoding without sampling, at the prompt's depth
    simple-kK                 llama-speculative-simple with the same K and prompt text

Decode speed leaves out what the peers leave out of theirs: loading, and both models' reading
of the prompt. Ours is the tokens after the first over the time after the first, less the
draft's prefill; `wall` is all of it, prompt included, loading not.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import _bootstrap
import build_peers

if TYPE_CHECKING:
    from edge_spec import Pair

SCHEMA_VERSION = 1
BOOTSTRAPS = 2000
PEER_BATCH = 2048  # llama.cpp's default; llama-speculative-simple refuses longer prompts


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: its text by the target's chat template is the same for every arm."""

    id: str
    category: str
    messages: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer by one arm. `decode_tokens` were made in `decode_s`; `text` is None for llama-bench.

    `outside_s` is decoding time that was not spent in llama.cpp; None where nobody measures it.
    """

    decode_tokens: int
    decode_s: float
    wall_tokens: int
    wall_s: float
    prompt_tokens: int
    drafted: int = 0
    accepted: int = 0
    rounds: int = 0
    outside_s: float | None = None
    text: str | None = None

    @property
    def decode_speed(self) -> float:
        return self.decode_tokens / self.decode_s

    @property
    def wall_speed(self) -> float:
        return self.wall_tokens / self.wall_s


class Arm(Protocol):
    """One way to answer a prompt."""

    name: str

    def run(self, prompt: Prompt, repetition: int) -> Sample: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What all arms share."""

    target: Path
    draft: Path | None
    max_tokens: int
    temperature: float
    context_size: int
    threads: int
    seed: int


@dataclass(slots=True)
class Ours:
    """This checkout in this process, drafting at most `k` tokens a round (0: plain)."""

    name: str
    pair: Pair
    setting: Setting
    k: int
    reproducible: bool = True

    def run(self, prompt: Prompt, repetition: int) -> Sample:
        from edge_spec import Decoding, Sampling

        s = self.setting
        decoding = Decoding(
            max_tokens=s.max_tokens,
            draft_max=self.k,
            seed=s.seed + repetition,
            coupling="rejection",
            reproducible=self.reproducible,
        )
        answer = self.pair.answer(
            prompt.messages,
            sampling=Sampling(temperature=s.temperature),
            decoding=decoding,
            reuse_cache=False,
        )
        stats = answer.stats
        if stats.completion_tokens < 2:
            raise BenchError(f"{self.name} ended {prompt.id} after one token, so it has no decode speed.")
        timers = stats.timers
        return Sample(
            decode_tokens=stats.completion_tokens - 1,
            decode_s=stats.decode_s,
            wall_tokens=stats.completion_tokens,
            wall_s=stats.wall_s,
            prompt_tokens=stats.prompt_tokens,
            drafted=stats.drafted,
            accepted=stats.accepted,
            rounds=stats.rounds,
            outside_s=timers.sample_s + stats.rest_s,
            text=answer.text,
        )


@dataclass(slots=True)
class LlamaBench:
    """Plain decoding of as many tokens at the same depth, by llama-bench (which does not sample)."""

    name: str
    program: Path
    setting: Setting
    count: Callable[[Prompt], int]

    def run(self, prompt: Prompt, repetition: int) -> Sample:
        s, depth = self.setting, self.count(prompt)
        output = _run_peer(
            self.program,
            "-m", str(s.target), "-p", "0", "-n", str(s.max_tokens), "-d", str(depth),
            "-t", str(s.threads), "-r", "1", "-o", "json",
        )[0]  # fmt: skip
        (result,) = json.loads(output)
        seconds = result["samples_ns"][0] / 1e9
        # Its time has no prompt in it, so it has no wall time to compare; decode stands in.
        return Sample(s.max_tokens, seconds, s.max_tokens, seconds, depth)


@dataclass(slots=True)
class SpeculativeSimple:
    """llama-speculative-simple, drafting `k` tokens a round with the prompt as rendered text."""

    name: str
    program: Path
    setting: Setting
    render: Callable[[Prompt], str]
    k: int

    def run(self, prompt: Prompt, repetition: int) -> Sample:
        s, text = self.setting, self.render(prompt)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "prompt.txt"
            # -bf, as -f drops a last newline, and --no-escape, or it would rewrite \n in code.
            file.write_bytes(text.encode())
            output, log = _run_peer(
                self.program,
                "-m", str(s.target), "-md", str(s.draft), "--spec-type", "draft-simple",
                "--spec-draft-n-max", str(self.k), "--spec-draft-n-min", "0",
                "-bf", str(file), "--no-escape", "-n", str(s.max_tokens), "-c", str(s.context_size),
                "-b", str(PEER_BATCH), "-t", str(s.threads), "-td", str(s.threads),
                "--temp", str(s.temperature), "--seed", str(s.seed + repetition), "--log-colors", "off",
            )  # fmt: skip
        return parse_simple(output, log, text)


class BenchError(Exception):
    """A peer failed, or said something that is not understood."""


def parse_simple(output: str, log: str, prompt: str) -> Sample:
    """What llama-speculative-simple reported. Its accept is accepted / drafted."""

    def find(pattern: str) -> tuple[str, ...]:
        found = re.search(pattern, log)
        if found is None:
            raise BenchError(f"llama-speculative-simple did not print {pattern!r}:\n{log[-2000:]}")
        return found.groups()

    encoded, encode_s = find(r"encoded +(\d+) tokens in +([\d.]+) seconds")
    decoded, decode_s = find(r"decoded +(\d+) tokens in +([\d.]+) seconds")
    (drafted,), (accepted,) = find(r"n_drafted += (\d+)"), find(r"n_accept +=? *(\d+)")
    num_decoded, num_accepted = int(decoded), int(accepted)
    _, shown, text = output.partition(prompt)
    return Sample(
        decode_tokens=num_decoded,
        decode_s=float(decode_s),
        wall_tokens=num_decoded,
        wall_s=float(encode_s) + float(decode_s),
        prompt_tokens=int(encoded),
        drafted=int(drafted),
        accepted=num_accepted,
        rounds=num_decoded - num_accepted,  # a round emits what it accepted, and one token more
        text=text if shown else None,
    )


def _run_peer(program: Path, *arguments: str) -> tuple[str, str]:
    """A peer's stdout and stderr. Raises BenchError with its last words when it fails."""
    # llama.cpp reads options from LLAMA_ARG_*, which would set one side only.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_ARG_")}
    try:
        done = subprocess.run(
            [str(program), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise BenchError(
            f"{program} cannot be started ({error}): run scripts/build_peers.py first."
        ) from None
    if done.returncode:
        tail = (done.stdout + done.stderr)[-2000:]
        raise BenchError(f"{program.name} failed with exit code {done.returncode}:\n{tail}")
    return done.stdout, done.stderr


# -- what is run


def choose_prompts(lines: Iterable[str], categories: Sequence[str], per_category: int) -> list[Prompt]:
    """The prompts of each category whose ids hash lowest: arbitrary, and the same everywhere."""
    found: dict[str, list[Prompt]] = {}
    for line in lines:
        if line.strip():
            entry = json.loads(line)
            prompt = Prompt(entry["id"], entry["category"], tuple(entry["messages"]))
            found.setdefault(prompt.category, []).append(prompt)
    missing = [category for category in categories if category not in found]
    if missing:
        raise BenchError(f"There are no prompts of {', '.join(missing)}; there are {', '.join(found)}.")
    return [
        prompt
        for category in categories or found
        for prompt in sorted(found[category], key=lambda p: hashlib.sha256(p.id.encode()).digest())[
            :per_category
        ]
    ]


def schedule(prompts: Sequence[Prompt], arms: Sequence[str], pairs: int) -> Iterator[tuple[int, Prompt, str]]:
    """(repetition, prompt, arm) in running order: prompts rotate, arms turn round (ABBA)."""
    for repetition in range(pairs):
        start = repetition % len(prompts)
        for prompt in (*prompts[start:], *prompts[:start]):
            for arm in arms if repetition % 2 == 0 else reversed(arms):
                yield repetition, prompt, arm


def arm_names(wanted: Sequence[str], ks: Sequence[int], has_draft: bool) -> list[str]:
    """`ours` and `simple` once for every K; those that need a draft only with one."""
    names: list[str] = []
    for name in wanted:
        if name in ("ours", "simple"):
            names += [f"{name}-k{k}" for k in ks] if has_draft else []
        else:
            names.append(name)
    return names


def make_arm(name: str, pair: Pair, setting: Setting, peers: Path) -> Arm:
    """The arm of that name."""

    def count(prompt: Prompt) -> int:
        return len(pair.encode(prompt.messages))

    def render(prompt: Prompt) -> str:
        return pair.render(prompt.messages)

    kind, _, k = name.partition("-k")
    match kind:
        case "ours-plain":  # as fast as plain decoding gets
            return Ours(name, pair, setting, 0, reproducible=False)
        case "ours-steady":
            return Ours(name, pair, setting, 0)
        case "ours":
            return Ours(name, pair, setting, int(k))
        case "bench":
            return LlamaBench(name, build_peers.program(peers, "llama-bench"), setting, count)
        case "simple":
            program = build_peers.program(peers, "llama-speculative-simple")
            return SpeculativeSimple(name, program, setting, render, int(k))
    arms = "ours-plain, ours-steady, ours, bench and simple"
    raise BenchError(f"There is no arm {name!r}: choose from {arms}.")


@dataclass(slots=True)
class Run:
    """All samples of one target and draft, keyed by (arm, prompt id), one a repetition."""

    setting: Setting
    arms: list[str]
    prompts: list[Prompt]
    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=dict)
    order: list[tuple[int, str, str]] = field(default_factory=list)

    def measure(self, arms: dict[str, Arm], pairs: int) -> None:
        plan = list(schedule(self.prompts, self.arms, pairs))
        for number, (repetition, prompt, name) in enumerate(plan, 1):
            sample = arms[name].run(prompt, repetition)
            self.samples.setdefault((name, prompt.id), []).append(sample)
            self.order.append((repetition, prompt.id, name))
            _say(f"[{number}/{len(plan)}] {prompt.id:16} {name:14} {sample.decode_speed:7.2f} tokens/s")

    def comparisons(self) -> list[tuple[str, str]]:
        """Which arm over which."""
        over = [("ours-plain", "bench"), ("ours-steady", "ours-plain")]
        for name in self.arms:
            if name.startswith("ours-k"):
                over += [(name, name.replace("ours", "simple")), (name, "ours-plain")]
            elif name.startswith("simple-k"):
                over.append((name, "bench"))
        return [(a, b) for a, b in over if a in self.arms and b in self.arms]

    def ratios(
        self, over: tuple[str, str], category: str | None, speed: Callable[[Sample], float]
    ) -> list[list[float]]:
        """One list a prompt: the ratio of each repetition's two neighbours."""
        a, b = over
        return [
            [
                speed(x) / speed(y)
                for x, y in zip(
                    self.samples.get((a, prompt.id), []),
                    self.samples.get((b, prompt.id), []),
                    strict=False,  # an interrupted run has one more of the first
                )
            ]
            for prompt in self.prompts
            if category in (None, prompt.category)
        ]


# -- what is reported


def centre(ratios: Sequence[Sequence[float]]) -> float:
    """The geometric mean over prompts of the median over repetitions."""
    return math.exp(statistics.fmean(math.log(statistics.median(r)) for r in ratios))


def interval(ratios: Sequence[Sequence[float]], seed: int) -> tuple[float, float]:
    """95% bootstrap interval of `centre`: prompts are drawn again, and repetitions within them."""
    rng = random.Random(seed)
    centres = sorted(
        centre([rng.choices(r, k=len(r)) for r in rng.choices(ratios, k=len(ratios))])
        for _ in range(BOOTSTRAPS)
    )
    return centres[int(0.025 * BOOTSTRAPS)], centres[int(0.975 * BOOTSTRAPS)]


def summarise(run: Run) -> list[dict[str, Any]]:
    """One row a comparison and category, then over all categories."""
    rows = []
    categories: list[str | None] = list(dict.fromkeys(prompt.category for prompt in run.prompts))
    for over in run.comparisons():
        for category in [*categories, None] if len(categories) > 1 else [None]:
            decode = [r for r in run.ratios(over, category, lambda s: s.decode_speed) if r]
            wall = [r for r in run.ratios(over, category, lambda s: s.wall_speed) if r]
            if not decode:
                continue
            low, high = interval(decode, run.setting.seed)
            rows.append(
                {
                    "over": list(over),
                    "category": category or "all",
                    "decode_ratio": centre(decode),
                    "decode_low": low,
                    "decode_high": high,
                    # llama-bench reads no prompt within its time.
                    "wall_ratio": None if "bench" in over else centre(wall),
                    "prompts": len(decode),
                    "pairs": sum(map(len, decode)),
                }
            )
    return rows


def describe_arms(run: Run) -> list[dict[str, Any]]:
    """Each arm on its own: median speed, what was drafted and accepted, time outside llama.cpp."""
    rows = []
    for name in run.arms:
        samples = [s for prompt in run.prompts for s in run.samples.get((name, prompt.id), [])]
        if not samples:
            continue
        drafted, rounds = sum(s.drafted for s in samples), sum(s.rounds for s in samples)
        outside = [s.outside_s / s.decode_s for s in samples if s.outside_s is not None]
        rows.append(
            {
                "arm": name,
                "tokens_per_second": statistics.median(s.decode_speed for s in samples),
                "drafted": drafted,
                "accepted": sum(s.accepted for s in samples),
                "draft_yield": sum(s.accepted for s in samples) / drafted if drafted else None,
                "mean_acceptance_length": sum(s.wall_tokens for s in samples) / rounds if rounds else None,
                "outside_llama_cpp": statistics.median(outside) if outside else None,
            }
        )
    return rows


def text_agreement(run: Run) -> dict[str, float]:
    """How much of each arm's first text ours-plain begins with, as a share; 1 is all of it.

    Less than 1 at temperature 0 is a near-tie that decode widths decided differently, or a bug.
    """
    shares = {}
    for name in run.arms:
        found = []
        for prompt in run.prompts:
            plain = run.samples.get(("ours-plain", prompt.id))
            other = run.samples.get((name, prompt.id))
            if name != "ours-plain" and plain and other and plain[0].text and other[0].text:
                a, b = plain[0].text, other[0].text
                shorter = max(1, min(len(a.rstrip()), len(b.rstrip())))
                found.append(min(1.0, _shared_length(a, b) / shorter))
        if found:
            shares[name] = statistics.fmean(found)
    return shares


def _shared_length(a: str, b: str) -> int:
    """How many characters two texts have in common at their beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def warnings(run: Run, peers: Path) -> list[str]:
    """What makes a comparison less than fair."""
    told = []
    for prompt in run.prompts:
        counts = {
            name: run.samples[name, prompt.id][0].prompt_tokens
            for name in run.arms
            if (name, prompt.id) in run.samples
        }
        if len(set(counts.values())) > 1:
            told.append(f"{prompt.id}: the arms read prompts of different lengths: {counts}")
    if build_peers.read_record(peers).get("version") != importlib.metadata.version("llama-cpp-python"):
        told.append(
            "The peers have no record of being built from our engine's version (scripts/build_peers.py)."
        )
    return told


def markdown(record: dict[str, Any]) -> str:
    """The record as tables for a person."""
    machine, settings = record["machine"], record["settings"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores; threads {settings['threads']}, "
        f"{settings['max_tokens']} tokens, temperature {settings['temperature']}, "
        f"context {settings['context_size']}; llama-cpp-python {record['versions']['llama-cpp-python']}; "
        f"{settings['pairs']} alternations; peers' p_min {settings['peer_p_min']}.",
    ]
    for run in record["runs"]:
        lines += [
            "",
            f"**{run['target']['file']}** drafted by {(run['draft'] or {}).get('file', 'nothing')}",
            "",
        ]
        lines += [
            "| ratio of decode speeds | category | ratio | 95% | wall | pairs |",
            "|---|---|---|---|---|---|",
        ]
        for row in run["summary"]:
            over = " / ".join(row["over"])
            spread = f"{row['decode_low']:.3f} to {row['decode_high']:.3f}"
            counted = f"{row['pairs']} on {row['prompts']} prompts"
            ratio, wall = f"{row['decode_ratio']:.3f}", _number(row["wall_ratio"], 3)
            lines.append(f"| {over} | {row['category']} | {ratio} | {spread} | {wall} | {counted} |")
        lines += ["", "| arm | tokens/s | drafted | draft yield | tokens a round | outside llama.cpp |"]
        lines.append("|---|---|---|---|---|---|")
        for arm in run["arms"]:
            outside = arm["outside_llama_cpp"]
            share = "" if outside is None else f"{outside:.2%}"
            yielded, length = _number(arm["draft_yield"], 3), _number(arm["mean_acceptance_length"], 2)
            speed = f"{arm['tokens_per_second']:.2f}"
            lines.append(f"| {arm['arm']} | {speed} | {arm['drafted']} | {yielded} | {length} | {share} |")
        if run["text_agreement"]:
            shares = ", ".join(f"{name} {share:.1%}" for name, share in run["text_agreement"].items())
            lines += ["", f"Text shared with ours-plain: {shares}."]
        lines += [f"Warning: {text}" for text in run["warnings"]]
    return "\n".join(lines)


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


# -- the record


def machine() -> dict[str, Any]:
    """Which computer this is, as far as a speed depends on it."""
    import psutil

    return {
        "cpu": _cpu_name(),
        "cores": psutil.cpu_count(logical=False),
        "logical_cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_average_at_start": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


def _cpu_name() -> str:
    if sys.platform == "darwin":
        asked = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        return asked.stdout.strip()
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor()


def versions(peers: Path) -> dict[str, Any]:
    """What was compared, down to the commit."""
    git = ["git", "-C", str(_bootstrap.ROOT)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=False)
    return {
        "commit": commit.stdout.strip() or None,
        "uncommitted_changes": bool(changed.stdout.strip()),
        "llama-cpp-python": importlib.metadata.version("llama-cpp-python"),
        "numpy": importlib.metadata.version("numpy"),
        "python": platform.python_version(),
        "peers": build_peers.read_record(peers) or None,
    }


def file_record(path: Path | None) -> dict[str, Any] | None:
    from edge_spec.models import store

    if path is None:
        return None
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": store.sha256_of(path)}


def run_record(run: Run, peers: Path) -> dict[str, Any]:
    """Everything about one pair; texts by hash, as some prompts' terms are their owners'."""
    samples = []
    seen: dict[tuple[str, str], int] = {}
    for repetition, prompt_id, name in run.order:
        index = seen.get((name, prompt_id), 0)
        seen[name, prompt_id] = index + 1
        sample = asdict(run.samples[name, prompt_id][index])
        text = sample.pop("text")
        sample["text_sha256"] = hashlib.sha256(text.encode()).hexdigest() if text is not None else None
        samples.append({"repetition": repetition, "prompt": prompt_id, "arm": name, **sample})
    return {
        "target": file_record(run.setting.target),
        "draft": file_record(run.setting.draft),
        "summary": summarise(run),
        "arms": describe_arms(run),
        "text_agreement": text_agreement(run) if run.setting.temperature == 0 else {},
        "warnings": warnings(run, peers),
        "samples": samples,
    }


def peer_p_min(peers: Path) -> str | None:
    """The draft probability below which the peer stops drafting; its default, which is not changed."""
    try:
        output, log = _run_peer(build_peers.program(peers, "llama-speculative-simple"), "--help")
    except BenchError:
        return None
    found = re.search(r"--spec-draft-p-min.*?\(default: ([\d.]+)\)", output + log, re.DOTALL)
    return found[1] if found else None


def parse_arguments() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    def words(text: str) -> list[str]:
        return [part for part in text.split(",") if part]

    parser = argparse.ArgumentParser(
        description="Compare edge-spec with llama.cpp's own programs: paired, alternating, one run."
    )
    add = parser.add_argument
    add("--target", action="append", required=True, help="path or store name; again for another pair")
    add("--draft", action="append", default=[], help="the draft of the target at the same place")
    add("--prompts", type=Path, required=True, help="JSONL with id, category and messages")
    add("--categories", type=words, default=[], help="such as code,edit (default: all)")
    add("--per-category", type=int, default=2, help="prompts of each, chosen by the hash of their ids")
    add("--k", type=numbers, default=[3, 7], help="draft lengths, such as 3,7")
    add("--max-tokens", type=int, default=128)
    add("--temp", type=float, default=0.0)
    add("--ctx-size", type=int, default=4096)
    add("--pairs", type=int, default=5, help="repetitions, each with the arms' order turned round")
    add("--threads", type=int, help="for every arm (default: the physical cores)")
    add("--seed", type=int, default=1, help="of sampling and of the bootstrap")
    add("--peers", type=Path, help="folder that scripts/build_peers.py filled")
    add("--arms", type=words, default=["ours-plain", "ours", "bench", "simple"])
    add("--json", type=Path, help="write the record, with every raw sample, to this file")
    options = parser.parse_args()
    if options.draft and len(options.draft) != len(options.target):
        parser.error("give as many --draft as --target, or none")
    if options.pairs < 1 or options.per_category < 1:
        parser.error("--pairs and --per-category must be 1 or more")
    return options


def main() -> None:
    options = parse_arguments()
    import edge_spec
    from edge_spec.models import store

    peers = (options.peers or build_peers.default_folder()).absolute()
    threads = options.threads or _physical_cores()
    drafts = options.draft or [None] * len(options.target)
    lines = options.prompts.read_text(encoding="utf-8").splitlines()
    prompts = choose_prompts(lines, options.categories, options.per_category)
    record: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "settings": {
            "max_tokens": options.max_tokens,
            "temperature": options.temp,
            "context_size": options.ctx_size,
            "threads": threads,
            "seed": options.seed,
            "k": options.k,
            "pairs": options.pairs,
            "peer_batch": PEER_BATCH,
            "peer_p_min": peer_p_min(peers),
        },
        "machine": machine(),
        "versions": versions(peers),
        "prompts": {
            "sha256": hashlib.sha256(options.prompts.read_bytes()).hexdigest(),
            "ids": [prompt.id for prompt in prompts],
        },
        "runs": [],
    }
    for target, draft in zip(options.target, drafts, strict=True):
        setting = Setting(
            store.resolve(target),
            store.resolve(draft) if draft else None,
            options.max_tokens,
            options.temp,
            options.ctx_size,
            threads,
            options.seed,
        )
        run = Run(setting, arm_names(options.arms, options.k, draft is not None), prompts)
        with edge_spec.load_pair(
            setting.target, setting.draft, context_size=options.ctx_size, threads=threads
        ) as pair:
            arms = {name: make_arm(name, pair, setting, peers) for name in run.arms}
            for arm in arms.values():
                if isinstance(arm, Ours):
                    arm.run(prompts[0], 0)  # the peers warm up by themselves, before they measure
            try:
                run.measure(arms, options.pairs)
            finally:
                # What an interrupted run measured is kept.
                record["runs"].append(run_record(run, peers))
                if options.json:
                    options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(markdown(record))


def _physical_cores() -> int:
    from edge_spec.llama.model import default_threads

    return default_threads()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    _bootstrap.enter()
    from edge_spec.errors import EdgeSpecError

    try:
        main()
    except (BenchError, EdgeSpecError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
