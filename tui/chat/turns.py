"""The messages of a conversation: as they are shown, as the models hold them, as they were saved."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from edge_spec import History, Message, PairSpec
from tui.chat.transcript import Block
from tui.conversations.record import Place
from tui.conversations.saved import SavedMessage

Piece = Callable[[int], bytes]
"""Gives the bytes of a token."""


@dataclass(slots=True, eq=False)
class Turn:
    """One message of the conversation.

    Of an answer, `ids` are the tokens of the conversation up to its end as the models hold them,
    () when they do not, `piece` gives the bytes of its tokens, and `reason` is why it ended.
    """

    role: Literal["user", "assistant"]
    block: Block
    ids: tuple[int, ...] = ()
    piece: Piece | None = None
    reason: str | None = None
    place: Place = field(default_factory=Place)


def saved_turn(message: SavedMessage, is_target: Callable[[PairSpec], bool]) -> Turn | None:
    """A message of the store; None for an answer that never had a token.

    Its ids count where `is_target` says that its models have the target that is loaded.
    """
    place = Place(message.id)
    if message.role == "user":
        return Turn("user", Block.of_text("you", message.text), place=place, reason=message.reason)
    if not message.text and not message.token_ids:
        return None
    block = Block.of_text("model", message.text, message.token_ids)
    is_known = message.prompt_ids and message.models is not None and is_target(message.models)
    ids = (*message.prompt_ids, *message.token_ids) if is_known else ()
    return Turn("assistant", block, ids, place=place, reason=message.reason)


def messages_of(turns: Sequence[Turn], system: str) -> list[Message]:
    """The messages for a chat template, which may insist that the roles take turns.

    What one side said twice, for the first had no answer, is one message.
    """
    messages: list[Message] = [
        {"role": role, "content": "\n\n".join(turn.block.text for turn in said)}
        for role, said in itertools.groupby(turns, lambda turn: turn.role)
    ]
    return [{"role": "system", "content": system}, *messages] if system else messages


def known_turn(turns: Sequence[Turn]) -> Turn | None:
    """The last answer up to which the conversation's ids are known."""
    return next((turn for turn in reversed(turns) if turn.ids), None)


def history_of(turns: Sequence[Turn], system: str) -> History | None:
    """What the models hold of the conversation, or may; None: nothing that is known."""
    known = known_turn(turns)
    if known is None:
        return None
    return History(len(messages_of(turns[: turns.index(known) + 1], system)), known.ids)
