"""Events as JSON lines: what a live answer said, saved so that it can be replayed.

A trace is UTF-8 text with one JSON object a line. The first line is the header, every other
line holds one event, or the bytes of tokens that the next events name for the first time, so
that a trace can be shown without its models::

    {"trace": "edge-spec", "schema_version": 1, "versions": {...}, "files": {...}, "settings": {...}}
    {"pieces": {"9707": "Hello", "11": ","}}
    {"event": "started", "slot": 0, "prompt_ids": [9707, 11], "cached": 0, "draft_cached": 0}
    {"event": "verified", "slot": 0, "proposal": {...}, "verdict": {...}, "timings": {...}}

Every field of every event comes back as it was, with one exception. A distribution over a
whole vocabulary would be 152,000 numbers a drafted token, so a proposal's `dists` are written
as `drawn`: for each node the probability q(x) that its token was drawn with, or null for a
token chosen deterministically. Reading gives a Dist with that single entry, and None where
there was null: `dist.prob(token)` of the drafted token is right, drawn and deterministic stay
apart, and writing what was read gives the same line. p(x) stands in `verdict.target_probs`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import json
import math
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from edge_spec.errors import OutputError, UsageError
from edge_spec.events import Drafted, Event, Finished, Inspected, Notice, Prefilled, Started, Verified
from edge_spec.text import Piece
from edge_spec.types import Dist, Proposal

SCHEMA_VERSION: Final = 1

Json = dict[str, Any]

_EVENTS: Final[dict[str, type[Event]]] = {
    "started": Started,
    "prefilled": Prefilled,
    "drafted": Drafted,
    "verified": Verified,
    "inspected": Inspected,
    "notice": Notice,
    "finished": Finished,
}
_NAMES: Final = {cls: name for name, cls in _EVENTS.items()}


def encode(event: Event) -> Json:
    """An event as a JSON object; its class is under "event"."""
    return {"event": _NAMES[type(event)], **to_plain(event)}


def decode(line: Mapping[str, Any]) -> Event:
    """The event that `encode` wrote; ValueError says what is wrong with `line`."""
    name = line.get("event")
    if not isinstance(name, str) or name not in _EVENTS:
        raise ValueError(f"there is no event {name!r}")
    fields = {key: value for key, value in line.items() if key != "event"}
    try:
        event: Event = from_plain(_EVENTS[name], fields, name)
    except OverflowError as error:  # JSON's integers have no end
        raise ValueError("a number in it is too large") from error
    return event


def to_plain(value: Any) -> Any:
    """`value` in JSON's types; dataclasses become objects, infinities become strings."""
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


@dataclasses.dataclass(frozen=True, slots=True)
class TraceHeader:
    """What produced a trace: library versions, model files with their hashes, settings."""

    versions: dict[str, Any]
    files: dict[str, Any]
    settings: dict[str, Any]

    def line(self) -> Json:
        return {"trace": "edge-spec", "schema_version": SCHEMA_VERSION, **to_plain(self)}


def as_line(line: Json) -> str:
    """A JSON object as the line of text that stands for it; ASCII."""
    return json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n"


class EventEncoder:
    """Events as lines of text, the bytes of tokens before the first event that names them."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._known: set[int] = set()

    def encode(self, event: Event) -> str:
        """The event's line, after a line with the pieces that are new in it."""
        new = [token for token in _named(event) if token not in self._known]
        if not new:
            return as_line(encode(event))
        self._known.update(new)
        pieces = {str(token): self._piece(token).decode("utf-8", "surrogateescape") for token in new}
        return as_line({"pieces": pieces}) + as_line(encode(event))


class EventDecoder:
    """Reads what an EventEncoder wrote; `pieces` fills as lines are read."""

    def __init__(self) -> None:
        self.pieces: dict[int, bytes] = {}

    def piece(self, token: int) -> bytes:
        """The bytes of a token that an event named."""
        return self.pieces[token]

    def decode(self, line: Mapping[str, Any]) -> Event | None:
        """The event of a line, or None for a line of pieces; ValueError says what is wrong with it."""
        if "pieces" not in line:
            return decode(line)
        pieces = line["pieces"]
        if not isinstance(pieces, dict) or not all(isinstance(text, str) for text in pieces.values()):
            raise ValueError("pieces is not an object of strings")
        for token, text in pieces.items():
            self.pieces[int(token)] = text.encode("utf-8", "surrogateescape")
        return None


class TraceWriter:
    """Writes a trace, a line an event, so that whatever happens the file is readable up to there.

    The file is opened at once, to refuse a path that cannot be written before any model is
    loaded; what it held before is lost only when the header is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._encoder: EventEncoder | None = None
        try:
            existed = path.exists()
            self._file: TextIO = path.open("a", encoding="utf-8", newline="\n")
        except OSError as error:
            raise self._failure(error) from error
        self._remove_if_empty = not existed

    def begin(self, header: TraceHeader, piece: Piece) -> None:
        """Write the header; `piece` gives the bytes of the tokens that events will name."""
        self._encoder = EventEncoder(piece)
        try:
            if self.path.is_file():
                self._file.truncate(0)
        except OSError as error:
            raise self._failure(error) from error
        self._write(as_line(header.line()))
        self._remove_if_empty = False

    def write(self, event: Event) -> None:
        """Append one event."""
        assert self._encoder is not None, "begin() comes first"
        self._write(self._encoder.encode(event))

    def close(self) -> None:
        """Close the file; one that this writer made and never began is removed."""
        with contextlib.suppress(OSError):  # what failed to be written has been reported
            self._file.close()
        if self._remove_if_empty:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, text: str) -> None:
        try:
            self._file.write(text)
            self._file.flush()
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> OutputError:
        return OutputError(f"The trace {self.path} cannot be written: {error.strerror}.")


class TraceReader:
    """A trace being read: its header, then its events by iteration.

    `pieces` fills as the events that name the tokens are read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._decoder = EventDecoder()
        try:
            self._file = path.open(encoding="utf-8")
        except OSError as error:
            raise UsageError(f"The trace {path} cannot be read: {error.strerror}.") from error
        self._number = 0
        try:
            self.header = self._read_header()
        except UsageError:
            self._file.close()
            raise

    @property
    def pieces(self) -> dict[int, bytes]:
        return self._decoder.pieces

    def piece(self, token: int) -> bytes:
        """The bytes of a token that an event named."""
        return self._decoder.piece(token)

    def __iter__(self) -> Iterator[Event]:
        while (line := self._next()) is not None:
            try:
                event = self._decoder.decode(line)
            except ValueError as error:
                raise self._failure(str(error)) from error
            if event is not None:
                yield event

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> TraceReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_header(self) -> TraceHeader:
        line = self._next()
        if line is None or line.get("trace") != "edge-spec":
            raise UsageError(
                f"{self.path} is not an edge-spec trace: it does not begin with a trace's header."
            )
        version = line.get("schema_version")
        if version != SCHEMA_VERSION:
            raise UsageError(
                f"The trace {self.path} has schema version {version}, but this edge-spec reads "
                f"{SCHEMA_VERSION}."
            )
        try:
            fields = {name: line[name] for name in ("versions", "files", "settings")}
            header: TraceHeader = from_plain(TraceHeader, fields, "header")
        except (KeyError, ValueError) as error:
            raise self._failure(f"the header is not complete ({error})") from error
        return header

    def _next(self) -> Json | None:
        text = ""
        try:
            self._number += 1
            text = self._file.readline()
            if not text:
                return None
            line = json.loads(text)
        except (ValueError, RecursionError) as error:  # not UTF-8, or not JSON
            if self._number <= 1:
                raise UsageError(f"{self.path} is not an edge-spec trace: it is not JSON lines.") from error
            cut = "" if text.endswith("\n") else ", it is cut off"
            raise self._failure(f"it is not JSON{cut}") from error
        if not isinstance(line, dict):
            raise self._failure("it is not an object")
        return line

    def _failure(self, what: str) -> UsageError:
        return UsageError(f"The trace {self.path} cannot be read beyond line {self._number}: {what}.")


def read_trace(path: Path) -> TraceReader:
    """Open a trace and check its header; UsageError says what is wrong with the file."""
    return TraceReader(path)


def _named(event: Event) -> list[int]:
    """The tokens that an event names, each once."""
    match event:
        case Started(prompt_ids=tokens):
            return list(dict.fromkeys(tokens))
        case Drafted(proposal=proposal):
            return list(dict.fromkeys(proposal.tokens))
        case Verified(proposal=proposal, verdict=verdict):
            return list(dict.fromkeys((*proposal.tokens, *verdict.tokens)))
        case Inspected(rows=rows):
            best = (alternative for row in rows for alternative in (*row.target, *row.draft))
            return list(dict.fromkeys(alternative.token for alternative in best))
        case Prefilled() | Notice() | Finished():
            return []


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
