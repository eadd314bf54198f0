"""Token ids of conversations, which keep the ids that were generated.

A sampled answer may be split into tokens otherwise than the tokenizer would split its text. If
the answer were tokenised again in the next turn, both caches would be wrong from there on, and
the model would read a text that it did not write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edge_spec.errors import UsageError

if TYPE_CHECKING:
    from edge_spec.llama.model import Model
    from edge_spec.types import Message


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """A rendered conversation: its text, the spans that must stay plain text, its token ids."""

    text: str
    held: tuple[str, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class History:
    """Ids of a conversation's beginning that was generated here before.

    The first `num_messages` messages, of which the last is the assistant's, are exactly `ids`.
    """

    num_messages: int
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
        return self._after(self._known, messages)

    def remember(self, chat: EncodedChat, emitted: Sequence[int]) -> None:
        """The model went on with the tokens `emitted` after `chat`."""
        self._known = self._answered(chat, emitted) or self._known

    def restore(self, messages: Sequence[Message], ids: Sequence[int]) -> bool:
        """Remember that the conversation `messages`, which ends with an answer, is exactly `ids`.

        Returns whether it is: what stands between answers must be tokenised to the same ids
        here, and the ids of each answer must have its bytes. Otherwise, as with another model
        or an edited message, nothing changes, and the conversation will be tokenised again.
        """
        ids = tuple(ids)
        if self._known.ids == ids:
            return True
        if not all(0 <= token < self._model.num_vocab for token in ids):
            return False
        try:
            known = self._followed(messages, ids)
        except UsageError:  # the template refuses a part of this conversation
            return False
        self._known = known or self._known
        return known is not None

    # -- inside

    def _after(self, known: EncodedChat, messages: Sequence[Message]) -> EncodedChat:
        """Encode a conversation, the part of it that is `known` by the ids known."""
        text, held = self._model.hold_special(messages)
        if known.text and text.startswith(known.text) and tuple(held[: len(known.held)]) == known.held:
            rest = self._model.encode_rendered(text[len(known.text) :], held, starts=False)
            return EncodedChat(text, tuple(held), (*known.ids, *rest))
        return EncodedChat(text, tuple(held), tuple(self._model.encode_rendered(text, held)))

    def _answered(self, chat: EncodedChat, emitted: Sequence[int]) -> EncodedChat | None:
        """`chat` with its answer; None when that ends inside a character, for then no later text
        begins with it."""
        answer = b"".join(self._model.piece(token) for token in emitted)
        try:
            text = answer.decode("utf-8")
        except UnicodeDecodeError:
            return None
        if emitted and self._model.is_eog(emitted[-1]):
            text += self._model.special_text(emitted[-1])
        return EncodedChat(chat.text + text, chat.held, (*chat.ids, *emitted))

    def _followed(self, messages: Sequence[Message], ids: tuple[int, ...]) -> EncodedChat | None:
        """The conversation that `ids` are, followed answer by answer; None when they are not it."""
        known = EncodedChat("", (), ())
        for index, message in enumerate(messages):
            if message.get("role") != "assistant":
                continue
            chat = self._after(known, messages[:index])
            rest = ids[len(chat.ids) :]
            count = self._num_answering(rest, message.get("content", "").encode("utf-8", "replace"))
            answered = None if count is None else self._answered(chat, rest[:count])
            if answered is None:
                return None
            known = answered
        return known if known.ids == ids else None

    def _num_answering(self, ids: Sequence[int], answer: bytes) -> int | None:
        """How many of `ids` stand for `answer`, a token that ends it included; None if they do not."""
        count = done = 0
        while done < len(answer):
            piece = self._model.piece(ids[count]) if count < len(ids) else None
            if piece is None or not answer.startswith(piece, done):
                return None
            done += len(piece)
            count += 1
        return count + (count < len(ids) and self._model.is_eog(ids[count]))
