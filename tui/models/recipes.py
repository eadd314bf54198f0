"""What can be chosen for a forging, and its outcome in words; no widget here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from edge_spec import ForgeRequest, ForgeResult, ForgeStep, running_options, size_text

Value = str | int | None

WEIGHTS: Final[tuple[tuple[Value, str], ...]] = (
    ("auto", "the best of several types, measured"),
    ("keep", "as they are"),
    ("Q4_0", "Q4_0"),
    ("Q4_K_S", "Q4_K_S"),
    ("Q4_K_M", "Q4_K_M"),
    ("Q5_K_M", "Q5_K_M"),
    ("Q6_K", "Q6_K"),
    ("Q8_0", "Q8_0"),
)
TOKENS: Final[tuple[tuple[Value, str], ...]] = (
    (None, "trimmed if that pays, measured"),
    (0, "whole"),
    (8_192, "8,192 tokens"),
    (16_384, "16,384 tokens"),
    (32_768, "32,768 tokens"),
    (65_536, "65,536 tokens"),
)
LAYERS: Final[tuple[tuple[Value, str], ...]] = (
    (0, "all"),
    (None, "without those whose absence pays (takes longest)"),
    *((number, f"without {number}") for number in (1, 2, 4, 6, 8)),
)
_ROWS: Final = (("Weights", WEIGHTS), ("Vocabulary", TOKENS), ("Layers", LAYERS))


@dataclass(slots=True)
class RecipeForm:
    """The three choices, each an index into its values.

    The first values are the quick default; out of the target itself (`itself`) a draft is made by
    leaving layers out.
    """

    itself: bool
    chosen: list[int]

    @classmethod
    def default(cls, *, itself: bool) -> RecipeForm:
        return cls(itself, [0, 0, 1 if itself else 0])

    @property
    def rows(self) -> list[tuple[str, str]]:
        """Each choice with the words for its value."""
        return [(name, values[i][1]) for (name, values), i in zip(_ROWS, self.chosen, strict=True)]

    def change(self, row: int, step: int) -> None:
        """The next value of a row, or the one before; round the ends."""
        self.chosen[row] = (self.chosen[row] + step) % len(_ROWS[row][1])

    def request(self, target: str, draft: str | None, options: Mapping[str, Any]) -> ForgeRequest:
        """What is to be made, measured as it will run with the `options` of `load_pair`."""
        kind, tokens, layers = (values[i][0] for (_, values), i in zip(_ROWS, self.chosen, strict=True))
        assert isinstance(kind, str) and not isinstance(tokens, str) and not isinstance(layers, str)
        drafted = None if self.itself else draft
        return ForgeRequest(target, drafted, kind, tokens, layers, **running_options(options))


def steps_table(steps: Sequence[ForgeStep], *, over: bool) -> list[tuple[str, bool]]:
    """A line for each draft that was measured, and whether it is one to look at.

    Once forging is `over`, what was taken has a tick and what was not a cross.
    """
    if not steps:
        return []
    width = max(24, *(len(step.name) + 2 for step in steps))
    rows = [("  draft".ljust(width) + "size  ms a step  accepted  expected".rjust(38), True)]
    for index, step in enumerate(steps):
        sign = "·" if not over or not index else "✓" if step.taken else "✗"
        figures = (
            f"{size_text(step.size):>7}{step.step_s * 1e3:>11.1f}{step.acceptance:>10.0%}"
            f"{step.speedup:>9.2f}x"
        )
        rows.append((f"{sign} {step.name}".ljust(width) + figures.rjust(38), step.taken or not over))
    return rows


def outcome(result: ForgeResult) -> str:
    """What a forging came to, before and after."""
    before, after = result.given, result.best
    if result.path is None:
        return "Nothing that was tried is better here than the draft as it is, so no file was written."
    words = (
        f"{result.path.name} has {size_text(after.size)} instead of {size_text(before.size)}, and its step "
        f"takes {after.step_s * 1e3:.1f} ms instead of {before.step_s * 1e3:.1f}. Expected: "
        f"{after.speedup:.2f}x plain decoding with K = {after.length}, instead of {before.speedup:.2f}x."
    )
    return words if after.speedup > 1 else f"{words} So even this draft will hardly pay on this machine."
