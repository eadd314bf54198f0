"""What is kept of conversations, as values, and how they are written in a database's columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

from edge_spec import PairSpec
from tui.conversations.search import Snippet, one_line

Role = Literal["user", "assistant"]

INTERRUPTED: Final = "interrupted"
"""The reason of an answer whose end nobody wrote."""

TITLE_LENGTH: Final = 80


@dataclass(frozen=True, slots=True)
class Summary:
    """A line of the list of conversations; `snippet` is what a search found in a message."""

    id: int
    title: str
    created: datetime
    updated: datetime
    num_messages: int
    models: PairSpec
    snippet: Snippet | None = None


@dataclass(frozen=True, slots=True)
class SavedMessage:
    """One message. Of an answer: how it came to be, and the ids of the prompt that it answered.

    `reason` is None while it is being given, and "" for what the user wrote.
    """

    id: int
    role: Role
    text: str
    token_ids: tuple[int, ...]
    prompt_ids: tuple[int, ...]
    created: datetime
    models: PairSpec | None
    settings: Mapping[str, Any]
    stats: Mapping[str, Any]
    reason: str | None


@dataclass(frozen=True, slots=True)
class Conversation:
    """A whole conversation."""

    id: int
    title: str
    created: datetime
    updated: datetime
    system: str
    models: PairSpec
    settings: Mapping[str, Any]
    messages: tuple[SavedMessage, ...]


def pack_ids(ids: Iterable[int]) -> bytes:
    """Token ids as LEB128 numbers: seven bits a byte, the lowest first, the eighth says that more follow.

    Two or three bytes a token, and the packed form of a text's parts is that of the text.
    """
    packed = bytearray()
    for number in ids:
        while number > 0x7F:
            packed.append(number & 0x7F | 0x80)
            number >>= 7
        packed.append(number)
    return bytes(packed)


def unpack_ids(packed: bytes | None) -> tuple[int, ...]:
    """What `pack_ids` packed; nothing for a column without a value."""
    ids, number, shift = [], 0, 0
    for byte in packed or b"":
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            ids.append(number)
            number = shift = 0
    return tuple(ids)


def pack_models(spec: PairSpec) -> str:
    return pack_json({"target": spec.target, "draft": spec.draft, "options": dict(spec.options)})


def unpack_models(text: str) -> PairSpec:
    return PairSpec(**json.loads(text))


def pack_json(value: Mapping[str, Any]) -> str:
    """Equal values give equal texts."""
    return json.dumps(dict(value), sort_keys=True, separators=(",", ":"))


def unpack_json(text: str | None) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text) if text else {}
    return value


def time_of(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def storable(text: str) -> str:
    """`text` as UTF-8 can have it: half a surrogate pair, which a paste may bring, becomes a sign."""
    return text.encode("utf-8", "replace").decode("utf-8")


def title_of(text: str) -> str:
    """The title of a conversation that begins with the message `text`."""
    line = next((line for line in map(one_line, text.splitlines()) if line), "Untitled")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"
