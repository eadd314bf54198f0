"""What an arm is asked and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class BenchError(Exception):
    """A peer failed, or said something that is not understood, or the run cannot be as asked for."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: its text by the target's chat template is the same for every arm."""

    id: str
    category: str
    messages: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer by one arm: `decode_tokens` in `decode_s`, and with the prompt `wall_tokens` in `wall_s`.

    `wall_s` is None where the prompt was not read within the time (llama-bench), `text` where
    there is none. `outside_s` is decoding time that was not spent in llama.cpp; None where nobody
    measures it. `agreement` is the share of the text that ours-plain begins with, known once both
    have answered; from then on only the text's hash is kept.
    """

    decode_tokens: int
    decode_s: float
    wall_tokens: int
    wall_s: float | None
    prompt_tokens: int
    drafted: int = 0
    accepted: int = 0
    rounds: int = 0
    outside_s: float | None = None
    text: str | None = None
    text_sha256: str | None = None
    agreement: float | None = None

    @property
    def decode_speed(self) -> float | None:
        """Tokens a second after the first; None for a text that ended before it had a speed."""
        return self.decode_tokens / self.decode_s if self.decode_tokens and self.decode_s > 0 else None

    @property
    def wall_speed(self) -> float | None:
        """Tokens a second with the reading of the prompt, loading left out."""
        return self.wall_tokens / self.wall_s if self.wall_tokens and self.wall_s else None


class Arm(Protocol):
    """One way to answer a prompt."""

    name: str

    def run(self, prompt: Prompt, repetition: int) -> Sample: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What all arms share. `reproducible` is what `--reproducible` says, for ours."""

    target: Path
    draft: Path | None
    max_tokens: int
    temperature: float
    context_size: int
    threads: int
    seed: int
    reproducible: bool = True
