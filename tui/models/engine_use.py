"""What the model screens must know of the chat's engine: forging needs the same cores and memory."""

from __future__ import annotations

from typing import Protocol


class EngineUse(Protocol):
    """The engine of a chat, as seen by whoever wants the machine to itself."""

    @property
    def is_answering(self) -> bool:
        """Whether an answer is being given."""
        ...

    @property
    def is_loaded(self) -> bool:
        """Whether models are loaded, or being loaded."""
        ...

    def unload(self) -> None:
        """Free the models; `is_loaded` tells when that is done."""
        ...
