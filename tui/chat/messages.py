"""What the engine's thread tells the interface. Each arrives on the interface's own thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.message import Message

from edge_spec import EngineCrashedError, Event, PairInfo


@dataclass
class LoadingProgress(Message, bubble=False):
    """A model is being loaded: "target" or "draft", and the fraction done."""

    model: str
    fraction: float


@dataclass
class Loaded(Message, bubble=False):
    """The pair can be asked; `piece` gives the bytes of its tokens."""

    info: PairInfo
    piece: Callable[[int], bytes]


@dataclass
class Unloaded(Message, bubble=False):
    """Nothing is loaded any more, as it was asked for."""


@dataclass
class EngineEvents(Message, bubble=False):
    """What happened in the answer since the last such message, in order; nothing is left out."""

    events: list[Event]


@dataclass
class Failed(Message, bubble=False):
    """Loading or an answer ended with an error; `words` is its sentence for the user."""

    words: str
    error: Exception
    loading: bool


@dataclass
class Crashed(Message, bubble=False):
    """The engine's process died; nothing is loaded any more."""

    error: EngineCrashedError
    loading: bool
