"""Token ids of conversations, which keep the ids that were generated.

A sampled answer may be split into tokens otherwise than the tokenizer would split its text. If
the answer were tokenised again in the next turn, both caches would be wrong from there on, and
the model would read a text that it did not write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edge_spec.llama.model import Model
    from edge_spec.types import Message


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """A rendered conversation: its text, the spans that must stay plain text, its token ids."""

    text: str
    held: tuple[str, ...]
    ids: tuple[int, ...]


class ChatEncoder:
    """Encodes conversations for one model; remembers the last one with its answer."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._known = EncodedChat("", (), ())

    def encode(self, messages: Sequence[Message]) -> EncodedChat:
        """Token ids of a conversation; what goes on from the one remembered keeps its ids.

        Raises UsageError.
        """
        text, held = self._model.hold_special(messages)
        known = self._known
        if known.text and text.startswith(known.text) and tuple(held[: len(known.held)]) == known.held:
            rest = self._model.encode_rendered(text[len(known.text) :], held, starts=False)
            return EncodedChat(text, tuple(held), (*known.ids, *rest))
        return EncodedChat(text, tuple(held), tuple(self._model.encode_rendered(text, held)))

    def remember(self, chat: EncodedChat, emitted: Sequence[int]) -> None:
        """The model went on with the tokens `emitted` after `chat`."""
        answer = b"".join(self._model.piece(token) for token in emitted)
        try:
            text = answer.decode("utf-8")
        except UnicodeDecodeError:
            return  # it ended inside a character, so no later text begins with it
        if emitted and self._model.is_eog(emitted[-1]):
            text += self._model.special_text(emitted[-1])
        self._known = EncodedChat(chat.text + text, chat.held, (*chat.ids, *emitted))
