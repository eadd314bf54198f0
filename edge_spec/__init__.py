"""Lossless speculative decoding on one person's machine.

`load_pair` is the way in; `import edge_spec` itself loads neither numpy nor llama.cpp.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edge_spec.api import load_pair
    from edge_spec.config import Decoding, ModelSettings, Sampling
    from edge_spec.errors import Cancelled, EdgeSpecError
    from edge_spec.events import Drafted, Event, Finished, Notice, Prefilled, Started, Verified
    from edge_spec.pair import Answer, Pair
    from edge_spec.stats import Stats

_HOME = {
    "Answer": "pair",
    "Cancelled": "errors",
    "Decoding": "config",
    "Drafted": "events",
    "EdgeSpecError": "errors",
    "Event": "events",
    "Finished": "events",
    "ModelSettings": "config",
    "Notice": "events",
    "Pair": "pair",
    "Prefilled": "events",
    "Sampling": "config",
    "Started": "events",
    "Stats": "stats",
    "Verified": "events",
    "load_pair": "api",
}

__all__ = [
    "Answer",
    "Cancelled",
    "Decoding",
    "Drafted",
    "EdgeSpecError",
    "Event",
    "Finished",
    "ModelSettings",
    "Notice",
    "Pair",
    "Prefilled",
    "Sampling",
    "Started",
    "Stats",
    "Verified",
    "load_pair",
]


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'edge_spec' has no attribute {name!r}")
    return getattr(importlib.import_module(f"edge_spec.{home}"), name)


def __dir__() -> list[str]:
    return list(__all__)
