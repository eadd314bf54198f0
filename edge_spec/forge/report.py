"""What forging is asked for, tells on the way, and comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edge_spec.forge.gain import Gain
from edge_spec.forge.measure import Acceptance
from edge_spec.forge.recipe import Recipe
from edge_spec.forge.running import Running
from edge_spec.models.header import Header
from edge_spec.types import Message


class Reporter(Protocol):
    """Is told how forging goes."""

    def status(self, text: str) -> None:
        """What is being done now; comes often."""
        ...

    def stage(self, stage: Stage) -> None:
        """A file was made and measured."""
        ...

    def note(self, text: str) -> None:
        """Something worth knowing, once."""
        ...


@dataclass(frozen=True, slots=True)
class ForgeSettings(Running):
    """What to make of which draft for which target.

    `type_name` is "auto" (measured), "keep", or a type. `num_tokens` None is chosen, 0 leaves the
    vocabulary whole. `num_dropped` None is chosen, 0 leaves all layers. Steps that are chosen are
    taken only if they raise the expected speed-up.
    """

    target: Path
    draft: Path
    output: Path | None
    prompts: Sequence[Sequence[Message]]
    type_name: str = "auto"
    num_tokens: int | None = None
    num_dropped: int | None = 0
    sample_tokens: int = 64
    force: bool = False


@dataclass(slots=True, eq=False)
class Stage:
    """A draft and what was measured of it.

    `step_s` is one draft step's time, in alternation with the draft as given. `coverage` is the
    share of the target's tokens that a trimmed vocabulary has; it and that acceptance are of
    samples that the choice of tokens did not see. `taken` says that it leads to the result.
    """

    name: str
    header: Header
    step_s: float
    acceptance: Acceptance
    gain: Gain
    coverage: float | None = None
    taken: bool = True


@dataclass(frozen=True, slots=True)
class ForgeReport:
    """What forging came to. `path` is None when nothing that was tried is better than the draft as given.

    `stages` has everything that was tried, the draft as given first, `best` is the one taken.

    `target_s[n - 1]` is the target's time for n rows, in seconds; `num_positions` counts the
    sample tokens that acceptance was measured on.
    """

    path: Path | None
    stages: tuple[Stage, ...]
    best: Stage
    target_s: tuple[float, ...]
    num_positions: int
    recipe: Recipe | None

    @property
    def taken(self) -> list[Stage]:
        """The steps that led to the result, the draft as given first."""
        return [stage for stage in self.stages if stage.taken]
