"""What an engine host and its child say to each other: the values, and the lines they become.

Both ways go JSON lines. Down: `{"request": 3, "load" | "chat" | "text": {...}}`, which are
answered one after another, and `{"cancel": 3}` and `{"skip": 3}`, which are heard at once. Up: the
lines of a trace (see `trace`), and between them the child's own, `{"host": "loading", ...}`. See
docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from edge_spec import errors
from edge_spec.config import Decoding, LoadMode, Sampling
from edge_spec.conversation import History
from edge_spec.errors import EdgeSpecError, EngineError
from edge_spec.events import Notice
from edge_spec.plain import Json, as_line, from_plain, to_plain
from edge_spec.trace import TraceHeader
from edge_spec.types import Message


@dataclass(frozen=True, slots=True)
class PairSpec:
    """Which pair to load: paths or names as `load_pair` takes them, and its other arguments."""

    target: str
    draft: str | None
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Loading:
    """How much of a model has been loaded, 0 to 1."""

    model: Literal["target", "draft"]
    fraction: float


@dataclass(frozen=True, slots=True)
class PairInfo:
    """What was loaded: names fit to show, quantisations, files, and a header for traces.

    The header's hashes are null where the file's hash was not known beforehand.
    """

    target_name: str
    target_quantization: str
    target_file: str
    draft_name: str | None
    draft_quantization: str | None
    draft_file: str | None
    context_size: int
    notices: tuple[Notice, ...]
    header: TraceHeader
    target_load_mode: LoadMode = "auto"
    draft_load_mode: LoadMode | None = None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation to be answered.

    `inspect` is how many alternatives are told for each emitted token; 0 is none. `history`
    gives the ids of earlier turns, so that an answer sampled before is not tokenised again.
    """

    messages: tuple[Message, ...]
    sampling: Sampling
    decoding: Decoding
    inspect: int = 0
    history: History | None = None


@dataclass(frozen=True, slots=True)
class TextRequest:
    """A text that the model goes on with, without a chat template."""

    text: str
    sampling: Sampling
    decoding: Decoding
    inspect: int = 0


@dataclass(frozen=True, slots=True)
class Ready:
    """The child listens; what came before this on its pipe was not from us."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A request ended with an error of the class `error`."""

    error: str
    text: str

    def exception(self) -> EdgeSpecError:
        """The error as it was raised in the child."""
        cls = getattr(errors, self.error, None)
        if isinstance(cls, type) and issubclass(cls, EdgeSpecError):
            return cls(self.text)
        return EngineError(self.text)


@dataclass(frozen=True, slots=True)
class Done:
    """A request was answered to its end."""


Request = PairSpec | ChatRequest | TextRequest
Reply = Ready | Loading | PairInfo | Failed | Done

_REQUESTS: Final[dict[str, type[Request]]] = {"load": PairSpec, "chat": ChatRequest, "text": TextRequest}
_REPLIES: Final[dict[str, type[Reply]]] = {
    "ready": Ready,
    "loading": Loading,
    "loaded": PairInfo,
    "failed": Failed,
    "done": Done,
}
_NAMES: Final = {cls: name for name, cls in (*_REQUESTS.items(), *_REPLIES.items())}


def cancel_line(number: int) -> str:
    """The order to stop a request, as the child reads it."""
    return as_line({"cancel": number})


def skip_line(number: int) -> str:
    """The order to end a request's calibration, as the child reads it."""
    return as_line({"skip": number})


def request_line(number: int, request: Request) -> str:
    """A request as the child reads it."""
    return as_line({"request": number, _NAMES[type(request)]: to_plain(request)})


def read_request(line: Json) -> Request:
    """The request that `request_line` wrote; ValueError says what is wrong with `line`."""
    name = next((name for name in _REQUESTS if name in line), None)
    if name is None:
        raise ValueError(f"there is no request in {line!r}")
    request: Request = from_plain(_REQUESTS[name], line[name], name)
    return request


def reply_line(reply: Reply) -> str:
    """A reply as the parent reads it."""
    return as_line({"host": _NAMES[type(reply)], **to_plain(reply)})


def read_reply(line: Json) -> Reply:
    """The reply that `reply_line` wrote; ValueError says what is wrong with `line`."""
    name = line.get("host")
    if not isinstance(name, str) or name not in _REPLIES:
        raise ValueError(f"there is no reply {name!r}")
    fields = {key: value for key, value in line.items() if key != "host"}
    reply: Reply = from_plain(_REPLIES[name], fields, name)
    return reply
