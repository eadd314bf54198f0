"""Which prompts are answered, and in which order the arms take turns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.samples import BenchError, Prompt

PROMPTS = Path(__file__).parents[2] / "edge_spec" / "forge" / "prompts.jsonl"
"""What is asked where no file is given: the prompts that drafts are forged with."""

FORMAT = "JSONL: messages or a prompt a line, with a category, and an id if it has one"


def read_prompts(lines: Iterable[str]) -> list[Prompt]:
    """The prompts of a file's lines; one without an id is called by its category and line."""
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            entry = json.loads(line)
            category = entry.get("category", "all")
            messages = entry.get("messages") or [{"role": "user", "content": entry["prompt"]}]
            found.append(Prompt(entry.get("id", f"{category}-{number}"), category, tuple(messages)))
    return found


def choose_prompts(lines: Iterable[str], categories: Sequence[str], per_category: int | None) -> list[Prompt]:
    """The prompts of each category whose ids hash lowest: arbitrary, and the same everywhere.

    `per_category` None is all of them.
    """
    found: dict[str, list[Prompt]] = {}
    for prompt in read_prompts(lines):
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


def visits(prompts: Sequence[Prompt], repetitions: int) -> Iterator[tuple[int, Prompt]]:
    """(repetition, prompt) in running order; the prompts rotate."""
    for repetition in range(repetitions):
        start = repetition % len(prompts)
        for prompt in (*prompts[start:], *prompts[:start]):
            yield repetition, prompt


def turn(arms: Sequence[str], repetition: int) -> list[str]:
    """The arms in the order in which they answer one prompt: it turns round every time (ABBA)."""
    return list(arms if repetition % 2 == 0 else reversed(arms))
