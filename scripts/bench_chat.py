#!/usr/bin/env python3
"""What the chat costs: the same answers from `edge-spec run` and from `edge-spec chat`, in turn.

    scripts/bench_chat.py --target T.gguf [--draft D.gguf] --prompts prompts.jsonl [--pairs 5]

Both arms start a new process for every prompt, so nothing is cached, and answer at temperature 0.
The chat runs in a pseudo-terminal of 120 columns and 36 lines with a data folder of its own; a
prompt is typed into it, and the finished answer's numbers are read from its conversations. The
share of a core is the CPU time of the chat's own process, the one with the interface and its end
of the pipe, from the prompt to the end of the answer.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import contextlib
import hashlib
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from _chat_terminal import chat

from edge_spec.models.store import store_path

COMMAND = [sys.executable, "-m", "edge_spec.cli"]
PATIENCE_S = 600


@dataclass(frozen=True)
class Sample:
    """One answer: tokens a second while decoding, and the interface's share of a core."""

    tokens_per_second: float
    text: str
    share_of_a_core: float = 0.0


def through_run(arguments: Sequence[str], prompt: str) -> Sample:
    """The answer of `edge-spec run`."""
    command = [*COMMAND, "run", *arguments, "--json", "--quiet", prompt]
    done = subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    result = json.loads(done.stdout)
    return Sample(result["stats"]["tokens_per_second"], result["text"])


def through_chat(arguments: Sequence[str], prompt: str) -> Sample:
    """The answer of `edge-spec chat`, typed into a terminal."""
    with tempfile.TemporaryDirectory() as name, chat(arguments, Path(name), store_path()) as terminal:
        process, path = terminal.process, terminal.conversations
        _wait_until(path.exists, "the chat did not start")
        _wait_for_engine(process)
        terminal.paste(prompt)
        terminal.type(b"\r")
        _wait_until(lambda: bool(_answers(path)), "the prompt was not sent")
        cpu, begun = process.cpu_times(), time.perf_counter()
        _wait_until(lambda: _answers(path)[-1][1] is not None, "the answer did not end", every_s=0.25)
        spent, wall_s = process.cpu_times(), time.perf_counter() - begun
        text, stats = _answers(path)[-1]
        assert stats is not None
        used_s = spent.user + spent.system - cpu.user - cpu.system
        return Sample(stats["tokens_per_second"], text, used_s / wall_s)


def _wait_for_engine(process: psutil.Process) -> None:
    """The engine's process, once it has loaded: it then waits, and uses no CPU."""
    _wait_until(lambda: bool(process.children(recursive=True)), "the engine did not start")
    engine: psutil.Process = process.children(recursive=True)[-1]
    quiet = 0
    while quiet < 3:
        quiet = quiet + 1 if engine.cpu_percent(0.5) < 2 else 0


def _answers(path: Path) -> list[tuple[str, dict[str, float] | None]]:
    """The texts of the answers so far, each with its numbers once it has ended."""
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        rows = db.execute("SELECT text, stats FROM messages WHERE role = 'assistant' ORDER BY id").fetchall()
    return [(text, None if stats is None else json.loads(stats)) for text, stats in rows]


def _wait_until(ready: Callable[[], bool], complaint: str, every_s: float = 0.05) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not ready():
        if time.monotonic() > deadline:
            sys.exit(f"bench_chat: {complaint} within {PATIENCE_S} seconds.")
        time.sleep(every_s)


def prompts_of(path: Path, count: int) -> list[str]:
    """The last user message of `count` prompts, taken in an order fixed by the hash of their ids."""
    items = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    items.sort(key=lambda item: hashlib.sha256(str(item["id"]).encode()).digest())
    return [item["messages"][-1]["content"] for item in items[:count]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", required=True)
    parser.add_argument("--draft")
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=5, help="prompts, each answered once by either arm")
    parser.add_argument("--k", default="3")
    parser.add_argument("--max-tokens", default="128")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    arguments = ["-m", options.target, "-k", options.k, "-n", options.max_tokens, "--temp", "0"]
    arguments += ["-md", options.draft] if options.draft else []
    samples: list[tuple[Sample, Sample]] = []
    for number, prompt in enumerate(prompts_of(options.prompts, options.pairs)):
        if number % 2:
            chat = through_chat(arguments, prompt)
            run = through_run(arguments, prompt)
        else:
            run = through_run(arguments, prompt)
            chat = through_chat(arguments, prompt)
        samples.append((run, chat))
        print(
            f"{number + 1}/{options.pairs} run {run.tokens_per_second:.2f} tokens/s, "
            f"chat {chat.tokens_per_second:.2f}, interface {chat.share_of_a_core:.1%} of a core"
            + ("" if run.text == chat.text else ", the texts differ"),
            file=sys.stderr,
            flush=True,
        )
    summary = {
        "chat_over_run": statistics.median(
            chat.tokens_per_second / run.tokens_per_second for run, chat in samples
        ),
        "share_of_a_core": statistics.median(chat.share_of_a_core for _, chat in samples),
        "texts_equal": sum(run.text == chat.text for run, chat in samples),
        "pairs": len(samples),
    }
    print(json.dumps(summary))
    if options.json:
        record = {"summary": summary, "samples": [[asdict(arm) for arm in pair] for pair in samples]}
        options.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
