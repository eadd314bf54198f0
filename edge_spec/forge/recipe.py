"""How a forged file came to be, kept in its metadata."""

from __future__ import annotations

from dataclasses import dataclass

import gguf

from edge_spec.forge.rewrite import KeyValue
from edge_spec.models.facts import FORGE_PREFIX


@dataclass(frozen=True, slots=True)
class Recipe:
    """The steps from `source` to a draft for `target`; None is a step not taken.

    `layers` are the numbers of the dropped ones, in the source's counting. The three figures are
    those of the machine that forged it.
    """

    source: str
    source_sha256: str
    target: str
    type_name: str | None
    num_tokens: int | None
    layers: tuple[int, ...]
    step_ms: float
    acceptance: float
    speedup: float

    @property
    def key_values(self) -> dict[str, KeyValue | None]:
        """The keys in the order in which a list shows them."""
        string, number = gguf.GGUFValueType.STRING, gguf.GGUFValueType.FLOAT64
        found: dict[str, KeyValue | None] = {"from": KeyValue(self.source, string)}
        found["for"] = KeyValue(self.target, string)
        if self.type_name is not None:
            found["type"] = KeyValue(self.type_name, string)
        if self.num_tokens is not None:
            found["tokens"] = KeyValue(self.num_tokens, gguf.GGUFValueType.UINT32)
        if self.layers:
            found["layers_dropped"] = KeyValue(f"{self.layers[0]} to {self.layers[-1]}", string)
        found["step_ms"] = KeyValue(round(self.step_ms, 2), number)
        found["acceptance"] = KeyValue(round(self.acceptance, 3), number)
        found["speedup"] = KeyValue(round(self.speedup, 2), number)
        named = {f"{FORGE_PREFIX}{key}": value for key, value in found.items()}
        # Not among the steps, which a list of models shows.
        return {**named, "edge_spec.source_sha256": KeyValue(self.source_sha256, string)}
