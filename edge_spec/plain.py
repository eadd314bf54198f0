"""Values as JSON and back, checked by their types: what traces, the engine's pipe and --json have in common.

Everything comes back as it was, with one exception. A distribution over a whole vocabulary would be
152,000 numbers a drafted token, so a proposal's `dists` are written as `drawn`: for each node the
probability q(x) that its token was drawn with, or null for a token chosen deterministically. Reading
gives a Dist with that single entry, and None where there was null: `dist.prob(token)` of the drafted
token is right, drawn and deterministic stay apart, and writing what was read gives the same line.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from edge_spec.types import Dist, Proposal

Json = dict[str, Any]


def as_line(line: Json) -> str:
    """A JSON object as the line of text that stands for it; ASCII."""
    return json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n"


def to_plain(value: Any) -> Any:
    """`value` in JSON's types; dataclasses become objects, sets sorted lists, infinities strings."""
    match value:
        case str() | int() | None:
            return value
        case Proposal():
            drawn = [None if d is None else d.prob(t) for t, d in zip(value.tokens, value.dists, strict=True)]
            tokens, parents = list(value.tokens), list(value.parents)
            return {"tokens": tokens, "parents": parents, "drawn": drawn, "source": value.source}
        case enum.Enum():
            return value.value
        case float() if not math.isfinite(value):
            return str(value)
        case Path():
            return str(value)
        case tuple() | list():
            return [to_plain(item) for item in value]
        case frozenset():
            return sorted(to_plain(item) for item in value)
        case Mapping():
            return {key: to_plain(item) for key, item in value.items()}
        case _ if dataclasses.is_dataclass(value):
            return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        case _:
            return value


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def from_plain(hint: Any, value: Any, where: str) -> Any:
    """What `to_plain` made of a value of type `hint`, checked; ValueError names the place.

    What a mapping holds is taken as it is.
    """
    if hint is Proposal:
        return _proposal(value, where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, dict) or value.keys() != _hints(hint).keys():
            raise ValueError(f"{where} does not have the fields {', '.join(_hints(hint))}")
        return hint(**{name: from_plain(h, value[name], name) for name, h in _hints(hint).items()})
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value in args:
            return value
    elif origin in (types.UnionType, typing.Union):
        return None if value is None else from_plain(args[0], value, where)
    elif origin is tuple and args[-1] is not Ellipsis:
        if isinstance(value, list) and len(value) == len(args):
            return tuple(from_plain(arg, item, where) for arg, item in zip(args, value, strict=True))
    elif origin in (tuple, list):
        if isinstance(value, list):
            return origin(from_plain(args[0], item, where) for item in value)
    elif origin in (dict, Mapping):
        if isinstance(value, dict):
            return value
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    elif hint is float and type(value) in (int, float, str):
        return float(value)
    elif type(value) is hint:
        return value
    raise ValueError(f"{where} is {value!r}")


def _proposal(value: Any, where: str) -> Proposal:
    if not isinstance(value, dict) or value.keys() != {"tokens", "parents", "drawn", "source"}:
        raise ValueError(f"{where} does not have the fields tokens, parents, drawn, source")
    tokens: tuple[int, ...] = from_plain(tuple[int, ...], value["tokens"], "tokens")
    parents: tuple[int, ...] = from_plain(tuple[int, ...], value["parents"], "parents")
    drawn: list[float | None] = from_plain(list[float | None], value["drawn"], "drawn")
    if not len(tokens) == len(parents) == len(drawn):
        raise ValueError(f"{where} has {len(tokens)} tokens, {len(parents)} parents and {len(drawn)} drawn")
    if not all(-1 <= parent < node for node, parent in enumerate(parents)):
        raise ValueError(f"{where} has a parent that does not come before its child")
    dists = tuple(None if q is None else _single(t, q) for t, q in zip(tokens, drawn, strict=True))
    return Proposal(tokens, parents, dists, from_plain(str, value["source"], "source"))


def _single(token: int, prob: float) -> Dist:
    import numpy as np  # slow to import: see types

    return Dist(np.array([token], dtype=np.int64), np.array([prob], dtype=np.float64))
