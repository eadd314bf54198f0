"""Events as JSON lines: what a live answer said, saved so that it can be replayed.

A trace is UTF-8 text with one JSON object a line. The first line is the header, every other
line holds one event, or the bytes of tokens that the next events name for the first time, so
that a trace can be shown without its models::

    {"trace": "edge-spec", "schema_version": 1, "versions": {...}, "files": {...}, "settings": {...}}
    {"pieces": {"9707": "Hello", "11": ","}}
    {"event": "started", "slot": 0, "prompt_ids": [9707, 11], "cached": 0, "draft_cached": 0}
    {"event": "verified", "slot": 0, "proposal": {...}, "verdict": {...}, "timings": {...}}

Every field of every event comes back as it was, but of a proposal's `dists` only what `plain`
keeps. p(x) stands in `verdict.target_probs`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from edge_spec.errors import OutputError, UsageError
from edge_spec.events import (
    Calibrating,
    Drafted,
    Event,
    Finished,
    Inspected,
    Notice,
    Prefilled,
    Started,
    Verified,
)
from edge_spec.plain import Json, as_line, from_plain, to_plain
from edge_spec.text import Piece

SCHEMA_VERSION: Final = 1

_EVENTS: Final[dict[str, type[Event]]] = {
    "calibrating": Calibrating,
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


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """What produced a trace: library versions, model files with their hashes, settings."""

    versions: dict[str, Any]
    files: dict[str, Any]
    settings: dict[str, Any]

    def line(self) -> Json:
        return {"trace": "edge-spec", "schema_version": SCHEMA_VERSION, **to_plain(self)}


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
        case Calibrating() | Prefilled() | Notice() | Finished():
            return []
