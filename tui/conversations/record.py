"""The present conversation as the store has it, written as it goes.

A chat must not end because a disk is full: what cannot be saved is said once, and the chat goes
on. What is not written is kept, and written in its order before anything else can be.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge_spec import Notice, PairSpec, Stats, UsageError
from tui.conversations.database import ConversationError, UnavailableError
from tui.conversations.saved import Conversation, Role
from tui.conversations.store import ConversationStore, DeletedError


@dataclass(slots=True, eq=False)
class Place:
    """A conversation or message in the store; `id` is None until it is written there.

    Once a conversation was `deleted` by somebody else, nothing more is written into it.
    """

    id: int | None = None
    deleted: bool = False

    @property
    def number(self) -> int:
        """The id of what was written before."""
        assert self.id is not None, "things are written in their order"
        return self.id


_Write = Callable[[ConversationStore, Place], object]
"""Writes something into the conversation that has this place."""


class Record:
    """Writes one conversation at a time; it is made in the store with its first message.

    `store` is None where nothing can be saved at all.
    """

    def __init__(self, store: ConversationStore | None, tell: Callable[[Notice], None]) -> None:
        self.store = store
        self.title = ""
        self._tell = tell
        self._place: Place | None = None
        self._answer: Place | None = None
        self._tokens: list[int] = []
        self._text = ""
        self._unwritten: collections.deque[tuple[Place, _Write]] = collections.deque()
        self._complained = False

    @property
    def is_deleted(self) -> bool:
        """Whether the conversation is found to be deleted by somebody else; `begin_again` saves it anew."""
        return self._place is not None and self._place.deleted

    @property
    def conversation(self) -> int | None:
        """Its id in the store; None before its first message, and when it is not saved."""
        return None if self._place is None else self._place.id

    # -- a conversation

    def open(self, conversation: int) -> Conversation:
        """Go on with this one. Raises ConversationError when it cannot be read."""
        if self.store is None:
            raise ConversationError("Conversations are not being saved.")
        self.drain()
        saved = self.store.load(conversation)
        self.leave()
        self._place, self.title = Place(conversation), saved.title
        return saved

    def load(self) -> Conversation | None:
        """The conversation as the store has it; None where that cannot be read or lacks something."""
        self.drain()
        if self.store is None or self.conversation is None or self._unwritten:
            return None
        try:
            return self.store.load(self.conversation)
        except ConversationError:
            return None

    def leave(self) -> None:
        """What comes next is another conversation."""
        self._place, self._answer, self.title = None, None, ""
        self._complained = False

    def rename(self, title: str) -> None:
        """Raises UsageError while nothing is saved that could have a title."""
        if self.conversation is None or self.store is None:
            raise UsageError("Nothing of this conversation is saved yet that could have a title.")
        self.store.rename(self.conversation, title)
        self.title = self.store.title(self.conversation)

    def refresh(self) -> None:
        """The title may have been changed elsewhere. Raises ConversationError."""
        if self.conversation is not None and self.store is not None:
            self.title = self.store.title(self.conversation)

    def delete(self) -> None:
        """Take the conversation out of the store. Raises ConversationError."""
        if self.conversation is not None and self.store is not None:
            self.store.delete(self.conversation)
        self._unwritten = collections.deque(
            (place, write) for place, write in self._unwritten if place is not self._place
        )
        self.leave()

    # -- what is said in it

    def say(self, text: str, system: str, spec: PairSpec, settings: Mapping[str, Any]) -> Place:
        """A message of the user; returns where it is.

        The rest is what a conversation that begins with it has: system prompt, models, and the
        settings by name.
        """
        if self._place is None and self.store is not None:
            self.begin_again(system, spec, settings)
        message = Place()
        self._write(_new_message(message, "user", text))
        self._write(self._read_title)
        return message

    def begin_again(self, system: str, spec: PairSpec, settings: Mapping[str, Any]) -> None:
        """What is said from now on is in a new conversation, which has these."""
        self._place, self.title = Place(), ""
        self._write(_new_conversation(system, spec, settings))

    def repeat(
        self,
        message: Place,
        role: Role,
        text: str,
        token_ids: Sequence[int] = (),
        prompt_ids: Sequence[int] = (),
        reason: str = "",
    ) -> None:
        """Say in this conversation what was said in one that is no longer there, and is now here.

        An answer has its tokens, those of its prompt, and why it ended, but no longer its stats, and as
        its models and settings those of the conversation.
        """
        message.id = None
        self._write(_new_message(message, role, text, token_ids))
        if role == "assistant":
            self._write(
                lambda store, _place: store.finish(
                    message.number, reason=reason, stats={}, prompt_ids=prompt_ids
                )
            )
        self._write(self._read_title)

    def call_again(self, title: str) -> None:
        """Give the conversation the title that somebody gave the one before it."""
        self._write(lambda store, place: store.rename(place.number, title))
        self._write(self._read_title)

    def answer(self, settings: Mapping[str, Any]) -> Place:
        """The model begins to answer, with these settings; returns where it is."""
        self._answer, self._tokens, self._text = Place(), [], ""
        self._write(lambda store, place: store.set_settings(place.number, settings))
        self._write(_new_message(self._answer, "assistant", ""))
        return self._answer

    def grow(self, tokens: Sequence[int], text: str) -> None:
        """The answer has these tokens more, and this text."""
        self._tokens += tokens
        self._text += text

    def flush(self) -> None:
        """Save what has come of the answer since the last flush."""
        tokens, text = self._tokens, self._text
        if self._answer is None or not (tokens or text):
            return
        self._tokens, self._text = [], ""
        self._write_to_answer(lambda store, answer: store.append(answer, text, tokens))

    def finish(self, reason: str, stats: Stats, prompt_ids: Sequence[int]) -> None:
        """The answer has ended."""
        self.flush()
        plain = _plain(stats)
        self._write_to_answer(
            lambda store, answer: store.finish(answer, reason=reason, stats=plain, prompt_ids=prompt_ids)
        )
        self._answer = None

    def remove(self, messages: Iterable[Place]) -> None:
        """These messages are no longer part of the conversation."""
        gone = tuple(messages)
        self._write(
            lambda store, place: store.remove(
                place.number, [message.id for message in gone if message.id is not None]
            )
        )
        self._write(self._read_title)

    def models(self, spec: PairSpec) -> None:
        """The answers to come are of these models."""
        self._write(lambda store, place: store.set_models(place.number, spec))

    def system(self, system: str) -> None:
        """The system prompt is another one."""
        self._write(lambda store, place: store.set_system(place.number, system))

    def drain(self) -> None:
        """Write what could not be written so far, as much of it as can be now.

        What will never be possible is given up, so that it stands in no other's way.
        """
        while self.store is not None and self._unwritten:
            place, write = self._unwritten[0]
            try:
                if not place.deleted:
                    write(self.store, place)
            except ConversationError as error:
                place.deleted = isinstance(error, DeletedError)
                if place.deleted:
                    self._tell(Notice("warning", str(error)))
                elif not self._complained:
                    self._tell(Notice("warning", f"{error} The chat goes on without being saved."))
                self._complained = True
                if isinstance(error, UnavailableError):
                    return
            except Exception:
                self._unwritten.popleft()
                raise
            else:
                self._complained = self._complained and place.deleted
            self._unwritten.popleft()

    # -- inside

    def _write(self, write: _Write) -> None:
        """Write into the present conversation, if there is one."""
        if self._place is not None:
            self._unwritten.append((self._place, write))
            self.drain()

    def _write_to_answer(self, write: Callable[[ConversationStore, int], object]) -> None:
        answer = self._answer
        if answer is not None:  # its place is empty where the conversation was deleted before it began
            self._write(lambda store, _place: answer.id is not None and write(store, answer.id))

    def _read_title(self, store: ConversationStore, place: Place) -> None:
        title = store.title(place.number)
        if place is self._place:
            self.title = title


def _new_conversation(system: str, spec: PairSpec, settings: Mapping[str, Any]) -> _Write:
    def write(store: ConversationStore, place: Place) -> None:
        place.id = store.create(system, spec, settings)

    return write


def _new_message(message: Place, role: Role, text: str, token_ids: Sequence[int] = ()) -> _Write:
    def write(store: ConversationStore, place: Place) -> None:
        message.id = store.add_message(place.number, role, text, token_ids)

    return write


def _plain(stats: Stats) -> dict[str, Any]:
    """The counts and seconds of an answer, and the rates that people ask for, in JSON's types."""
    rates = ("acceptance_rate", "draft_yield", "mean_acceptance_length", "tokens_per_second")
    return {**dataclasses.asdict(stats), **{name: getattr(stats, name) for name in rates}}
