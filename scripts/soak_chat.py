#!/usr/bin/env python3
"""Random keys and prompts for half an hour: does the chat's memory stay flat, and its log empty?

    scripts/soak_chat.py [--model smollm2-135m] [--minutes 30] [--seed 1] [--json OUT]

The chat runs in a pseudo-terminal, with a store that holds this one model and folders of its own.
Every key is pressed but those that quit; prompts, slash commands, pastes of long and strange text
and new window sizes come between. The resident memory of the interface and of the engine is read
every ten seconds; "grown" is the median of the last fifth less that of the second fifth, in MB.
The exit code is 1 when the interface or the engine grew by more than 50 MB, the program ended, or
its log has a traceback.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from _chat_terminal import Terminal, chat

from edge_spec.models.resolve import resolve_model

LIMIT_MB = 50.0
SAMPLE_S = 10.0
KEYS = [
    *(b"\x1b[%d~" % n for n in (11, 12, 13, 14, 15, 17, 18, 19, 20, 21)),  # F1 to F10
    *(b"\x1b" + letter for letter in (b"", b"i", b"k", b"t", b"o", b"p", b"n", b"e", b"x", b"s", b"r", b"m")),
    *(b"\x1b[" + end for end in (b"A", b"B", b"C", b"D", b"H", b"F", b"5~", b"6~", b"1;5H", b"1;5F", b"Z")),
    *(bytes([ord(letter) & 31]) for letter in "aefghjklnorstuwyp"),
    b"\t", b"\r", b"\x7f", b" ",
]  # fmt: skip
PROMPTS = [
    "Tell me a short story.",
    "Count to thirty.",
    "Write a poem with emoji 🎉 \U0001f469\u200d\U0001f469\u200d\U0001f467 🇫🇷.",
    "日本語で答えてください。",
    "[bold red]markup[/] and \x1b[31mescapes",
    "مرحبا كيف حالك",
    "def f(x):\n    return x",
    "e" * 300,
]
COMMANDS = [
    *("/k 5", "/k 0", "/k -1", "/temp 1.2", "/temp 0", "/top-p 0.9", "/stats", "/regen", "/glyphs"),
    *("/system You are a pirate.", "/clear", "/theme textual-light", "/theme textual-dark"),
    *("//slash", "/nonsense"),
]
WORDS = ["one", "zwei", "три", "🙂", "\t"]


@dataclass
class Watch:
    """The memory of both processes over time, in MB."""

    interface: list[float] = field(default_factory=list)
    engine: list[float] = field(default_factory=list)

    def look(self, process: psutil.Process) -> None:
        self.interface.append(_megabytes(process))
        engines = process.children(recursive=True)
        if engines:
            self.engine.append(max(map(_megabytes, engines)))


def _megabytes(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss) / 1e6
    except psutil.NoSuchProcess:  # an engine that is being replaced
        return 0.0


def grown(values: list[float]) -> float:
    """MB from the second fifth, when everything has been used once, to the last."""
    fifth = len(values) // 5
    return statistics.median(values[-fifth:]) - statistics.median(values[fifth : 2 * fifth]) if fifth else 0.0


def act(terminal: Terminal, rng: random.Random) -> None:
    """One thing that a user may do."""
    match rng.randrange(10):
        case 0 | 1:
            terminal.paste(rng.choice(PROMPTS))
            terminal.type(b"\r")
            time.sleep(rng.uniform(0, 8))
        case 2:
            terminal.type(b"\x1b")
            time.sleep(0.3)
            terminal.type(rng.choice(COMMANDS).encode() + b"\r")
        case 3:
            terminal.resize(rng.choice([20, 40, 80, 100, 120, 200]), rng.choice([6, 10, 24, 36, 60]))
        case 4:
            terminal.paste(
                " ".join(rng.choices(["one", "zwei", "три", "🙂", "\t", "\n"], k=rng.choice([10, 3000])))
            )
        case _:
            for _ in range(rng.randrange(1, 6)):
                terminal.type(rng.choice(KEYS))
                time.sleep(rng.uniform(0, 0.2))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rng, watch, num_acts = random.Random(options.seed), Watch(), 0
    path = resolve_model(options.model)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "models").mkdir()
        (folder / "models" / path.name).symlink_to(path)
        # Only this model: a random key must not fetch another.
        os.environ.update(PIP_NO_INDEX="1", PIP_FIND_LINKS="", HF_HUB_OFFLINE="1")
        arguments = ["-m", str(path), "-md", str(path), "-c", "2048", "-n", "256"]
        with chat(arguments, folder, folder / "models") as terminal:
            time.sleep(5)
            begun = last = time.monotonic()
            while time.monotonic() - begun < 60 * options.minutes and terminal.process.is_running():
                if terminal.process.status() == psutil.STATUS_ZOMBIE:
                    break
                act(terminal, rng)
                num_acts += 1
                if time.monotonic() - last > SAMPLE_S:
                    last = time.monotonic()
                    watch.look(terminal.process)
            minutes = (time.monotonic() - begun) / 60
            alive = terminal.process.is_running() and terminal.process.status() != psutil.STATUS_ZOMBIE
        log = terminal.log.read_text(encoding="utf-8") if terminal.log.exists() else ""
    summary = {
        "minutes": round(minutes, 1),
        "actions": num_acts,
        "alive": alive,
        "tracebacks": log.count("Traceback"),
        "interface_mb": round(watch.interface[-1]) if watch.interface else None,
        "engine_mb": round(watch.engine[-1]) if watch.engine else None,
        "interface_grown_mb": round(grown(watch.interface), 1),
        "engine_grown_mb": round(grown(watch.engine), 1),
    }
    print(json.dumps(summary))
    if log:
        print(log[-4000:], file=sys.stderr)
    if options.json:
        record = {"summary": summary, "interface": watch.interface, "engine": watch.engine, "log": log}
        options.json.write_text(json.dumps(record, indent=1))
    flat = max(grown(watch.interface), grown(watch.engine)) <= LIMIT_MB
    return 0 if alive and flat and "Traceback" not in log else 1


if __name__ == "__main__":
    sys.exit(main())
