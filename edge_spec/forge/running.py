"""How the models of a forging will run, and are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Those options of `load_pair` that a forging measures its target and drafts with."""

    threads: int | None = None
    threads_batch: int | None = None
    gpu_layers: int = -1
    draft_gpu_layers: int = -1
    device: str | None = None
    draft_device: str | None = None


def running_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Of `options` those that are fields of `Running`."""
    return {field.name: options[field.name] for field in fields(Running) if field.name in options}
