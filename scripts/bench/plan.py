"""Which prompts are answered, and in which order the arms take turns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence

from bench.samples import BenchError, Prompt


def choose_prompts(lines: Iterable[str], categories: Sequence[str], per_category: int | None) -> list[Prompt]:
    """The prompts of each category whose ids hash lowest: arbitrary, and the same everywhere.

    `per_category` None is all of them.
    """
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


def visits(prompts: Sequence[Prompt], repetitions: int) -> Iterator[tuple[int, Prompt]]:
    """(repetition, prompt) in running order; the prompts rotate."""
    for repetition in range(repetitions):
        start = repetition % len(prompts)
        for prompt in (*prompts[start:], *prompts[:start]):
            yield repetition, prompt


def turn(arms: Sequence[str], repetition: int) -> list[str]:
    """The arms in the order in which they answer one prompt: it turns round every time (ABBA)."""
    return list(arms if repetition % 2 == 0 else reversed(arms))
