"""What the engine's thread tells the interface. Each arrives on the interface's own thread.

`load` is the number of the load that a message is about. When that is not the engine's newest any
more, another pair was chosen before the message arrived, and it is about nothing that is there.
"""

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
    load: int


@dataclass
class Loaded(Message, bubble=False):
    """The pair can be asked; `piece` gives the bytes of its tokens."""

    info: PairInfo
    piece: Callable[[int], bytes]
    load: int


@dataclass
class Unloaded(Message, bubble=False):
    """Nothing is loaded any more, as it was asked for."""


@dataclass
class EngineEvents(Message, bubble=False):
    """What happened in the answer since the last such message, in order; nothing is left out."""

    events: list[Event]


@dataclass
class Failed(Message, bubble=False):
    """Loading ended with an error, or an answer, if `load` is None; `words` is for the user."""

    words: str
    error: Exception
    load: int | None


@dataclass
class Crashed(Message, bubble=False):
    """The engine's process died, in a load or in an answer (None); nothing is loaded any more."""

    error: EngineCrashedError
    load: int | None
