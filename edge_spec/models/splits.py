"""Names of the parts of a model that is spread over several files, as llama.cpp's gguf-split gives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.gguf", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SplitName:
    """`stem-00002-of-00004.gguf` taken apart; `number` counts from 1."""

    stem: str
    number: int
    count: int

    def part(self, number: int) -> str:
        """The file name of another part."""
        return f"{self.stem}-{number:05d}-of-{self.count:05d}.gguf"


def split_name(path: Path) -> SplitName | None:
    """What a file name says of its place among the parts, or None for the name of a whole file."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        return None
    name = SplitName(found[1], int(found[2]), int(found[3]))
    return name if 1 <= name.number <= name.count else None


def model_stem(path: Path) -> str:
    """The file's name without `.gguf` and without which part it is."""
    name = split_name(path)
    if name is not None:
        return name.stem
    return path.stem if path.suffix.lower() == ".gguf" else path.name
