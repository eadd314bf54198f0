#!/usr/bin/env python3
"""How fast the conversations open and are searched when there are many: builds such a file, prints times.

    scripts/bench_conversations.py

Every time is that of a store opened afresh, so nothing but the operating system's cache is warm;
the slowest of several such runs counts. Exit code 1 when the list, or any search, takes longer
than --limit-ms.
"""

from __future__ import annotations

import _bootstrap

if __name__ == "__main__":
    _bootstrap.enter()

import argparse
import itertools
import json
import os
import platform
import random
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_spec import PairSpec
from tui.conversations.saved import pack_ids, pack_json, pack_models
from tui.conversations.store import ConversationStore
from tui.conversations.word_index import SHIFT

SEED = 7
COMMON = ("the", "of", "and", "function", "list", "return", "für", "这个函数", "を返す")
RARE = "quokka"
SPEC = PairSpec("qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", {"context_size": 4096})
STATS = {"rounds": 40, "drafted": 120, "accepted": 90, "tokens_per_second": 42.5, "wall_s": 3.2}

QUERIES = {
    "a common word": "the",
    "a word just begun": "func",
    "a common long word": "function",
    "one letter": "t",
    "a digit": "4",
    "four common words": "the of and list",
    "two letters each": "th fu re",
    "a rare word": RARE,
    "a rare and a common word": f"{RARE} the",
    "a rare and a long word": f"{RARE} function",
    "no such word": "zyzzyva",
    "an umlaut": "für",
    "Chinese": "函数",
    "one ideograph": "这",
    "Japanese": "を返",
    "signs": '"the" AND (of*',
}


@dataclass(frozen=True, slots=True)
class Timing:
    """What was measured how often, in milliseconds; `found` is how many conversations came of it."""

    name: str
    found: int
    median_ms: float
    worst_ms: float
    limited: bool


class Words:
    """Texts whose words are as unevenly frequent as people's: Zipf's law over 20,000 made-up ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        made = (
            "".join(self._random.choices("etaoinshrdlu", k=self._random.randint(3, 10)))
            for _ in range(20_000)
        )
        self._words = [*COMMON, *made]
        self._weights = list(itertools.accumulate(1 / rank for rank in range(1, len(self._words) + 1)))

    def text(self) -> str:
        count = self._random.randint(20, 140)
        words = self._random.choices(self._words, cum_weights=self._weights, k=count)
        if self._random.random() < 0.0002:
            words.insert(count // 2, RARE)
        return f"{self._random.randint(1, 99)}. " + " ".join(words)

    def ids(self, text: str) -> list[int]:
        return [self._random.randrange(150_000) for _ in range(len(text) // 4)]


def messages(words: Words, num_conversations: int, num_messages: int) -> Iterator[tuple[Any, ...]]:
    """Rows of the table of messages, user and assistant in turn."""
    for conversation in range(1, num_conversations + 1):
        for number in range(1, num_messages + 1):
            text, answers = words.text(), number % 2 == 0
            yield (
                conversation << SHIFT | number, conversation, "assistant" if answers else "user", text,
                pack_ids(words.ids(text)) if answers else b"", conversation * 1000.0 + number,
                1 if answers else None, "eog" if answers else "", pack_json(STATS) if answers else None,
            )  # fmt: skip


def build(path: Path, num_conversations: int, num_messages: int) -> None:
    """Fill a new store, row by row: saying it all through its methods would take an hour."""
    ConversationStore(path).close()
    words = Words(SEED)
    db = sqlite3.connect(path)
    with db:
        db.execute("INSERT INTO setups VALUES (1, ?, ?)", (pack_models(SPEC), pack_json({"temp": 0.8})))
        db.executemany(
            "INSERT INTO conversations VALUES (?, ?, 0, ?, ?, 'Be brief.', 1, ?)",
            (
                (
                    number,
                    words.text()[:60],
                    number * 1000.0,
                    number * 1000.0 + number * 7919 % 1000,
                    num_messages,
                )
                for number in range(1, num_conversations + 1)
            ),
        )
        db.executemany(
            "INSERT INTO messages (id, conversation, role, text, token_ids, created, setup, reason, stats)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            messages(words, num_conversations, num_messages),
        )
        db.execute("DELETE FROM words_complete")  # the next store that opens the file makes the index
    db.close()
    ConversationStore(path).close()


def measure(
    path: Path, name: str, repeat: int, work: Callable[[ConversationStore], object], *, limited: bool = True
) -> Timing:
    times, found = [], 0
    for _ in range(repeat):
        store = ConversationStore(path)
        started = time.perf_counter()
        result = work(store)
        times.append((time.perf_counter() - started) * 1e3)
        store.close()
        found = len(result) if isinstance(result, Sequence) else 1
    return Timing(name, found, statistics.median(times), max(times), limited)


def searching(query: str) -> Callable[[ConversationStore], object]:
    return lambda store: store.search(query)


def stream(store: ConversationStore, num_flushes: int) -> None:
    """One answer, flushed so often."""
    conversation = store.create("", SPEC, {})
    store.add_message(conversation, "user", "Go on.")
    message = store.add_message(conversation, "assistant", "")
    for flush in range(num_flushes):
        store.append(message, " and so on", [flush, 3])
    store.finish(message, reason="eog", stats=STATS, prompt_ids=range(500))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=200, help="of each conversation")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--limit-ms", type=float, default=100.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--file", type=Path, help="build here once, and measure a copy of it from then on")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "conversations.sqlite3"
        started = time.perf_counter()
        built = options.file or path
        if not built.exists():
            build(built, options.conversations, options.messages)
        if options.file:
            shutil.copyfile(built, path)
        built_s = time.perf_counter() - started
        record = {
            "seed": SEED,
            "conversations": options.conversations,
            "messages": options.messages,
            "repeat": options.repeat,
            "megabytes": round(path.stat().st_size / 1e6, 1),
            "built_s": round(built_s, 1),
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "cores": os.cpu_count(),
        }
        print(", ".join(f"{name} {value}" for name, value in record.items()))
        middle = options.conversations // 2 or 1
        timings = [
            measure(path, "list", options.repeat, lambda store: store.list()),
            measure(path, "list, all", options.repeat, lambda store: store.list(limit=10**6)),
        ]
        for name, query in QUERIES.items():
            timings.append(measure(path, name, options.repeat, searching(query)))
        timings += [
            measure(
                path, "load one", options.repeat, lambda store: store.load(middle).messages, limited=False
            ),
            measure(path, "100 flushes", options.repeat, lambda store: stream(store, 100), limited=False),
            measure(path, "delete one", 1, lambda store: store.delete(middle), limited=False),
        ]
    print(f"{'':26} {'found':>6} {'median ms':>10} {'worst ms':>9}")
    for timing in timings:
        over = timing.limited and timing.worst_ms >= options.limit_ms
        print(
            f"{timing.name:26} {timing.found:6} {timing.median_ms:10.1f} {timing.worst_ms:9.1f}"
            + (f"  over {options.limit_ms:g}" if over else "")
        )
    if options.json:
        rows = [
            {"name": t.name, "found": t.found, "median_ms": t.median_ms, "worst_ms": t.worst_ms}
            for t in timings
        ]
        options.json.write_text(json.dumps({**record, "timings": rows}, indent=2) + "\n")
    return int(any(timing.limited and timing.worst_ms >= options.limit_ms for timing in timings))


if __name__ == "__main__":
    sys.exit(main())
