"""The present conversation as the store has it, written as it goes.

A chat must not end because a disk is full: what cannot be saved is said once, and the chat goes
on. The store keeps what it could not write of an answer, and writes it with the next flush.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from edge_spec import Notice, PairSpec, Stats, UsageError
from tui.chat.settings import ChatSettings
from tui.conversations.database import ConversationError
from tui.conversations.saved import Conversation
from tui.conversations.store import ConversationStore


class Record:
    """Writes one conversation at a time; it is made in the store with its first message.

    `store` is None where nothing can be saved at all.
    """

    def __init__(self, store: ConversationStore | None, tell: Callable[[Notice], None]) -> None:
        self.store = store
        self.title = ""
        self._tell = tell
        self._conversation: int | None = None
        self._answer: int | None = None
        self._tokens: list[int] = []
        self._text = ""
        self._complained = False

    @property
    def conversation(self) -> int | None:
        """Its id in the store; None before its first message, and when it is not saved."""
        return self._conversation

    # -- a conversation

    def open(self, conversation: int) -> Conversation:
        """Go on with this one. Raises ConversationError when it cannot be read."""
        if self.store is None:
            raise ConversationError("Conversations are not being saved.")
        saved = self.store.load(conversation)
        self.leave()
        self._conversation, self.title = conversation, saved.title
        return saved

    def leave(self) -> None:
        """What comes next is another conversation."""
        self._conversation, self._answer, self.title = None, None, ""

    def rename(self, title: str) -> None:
        """Raises UsageError while nothing is saved that could have a title."""
        if self._conversation is None or self.store is None:
            raise UsageError("Nothing of this conversation is saved yet; write a message first.")
        self.store.rename(self._conversation, title)
        self.title = title

    def refresh(self) -> None:
        """The title may have been changed elsewhere. Raises ConversationError."""
        if self._conversation is not None and self.store is not None:
            self.title = self.store.load(self._conversation).title

    def delete(self) -> None:
        """Take the conversation out of the store. Raises ConversationError."""
        if self._conversation is not None and self.store is not None:
            self.store.delete(self._conversation)
        self.leave()

    # -- what is said in it

    def say(self, text: str, settings: ChatSettings, spec: PairSpec) -> None:
        """A message of the user."""
        if self._conversation is None and self.store is not None:
            self._write(lambda store: self._begin(store, text, settings, spec))
        self._write_in(lambda store, number: store.add_message(number, "user", text))

    def answer(self, settings: ChatSettings) -> None:
        """The model begins to answer, with these settings."""
        self._answer, self._tokens, self._text = None, [], ""
        self._write_in(lambda store, number: store.set_settings(number, settings.plain()))
        self._write_in(self._begin_answer)

    def grow(self, tokens: Sequence[int], text: str) -> None:
        """The answer has these tokens more, and this text."""
        self._tokens += tokens
        self._text += text

    def flush(self) -> None:
        """Save what has come of the answer since the last flush."""
        answer, tokens, text = self._answer, self._tokens, self._text
        if answer is None or not (tokens or text):
            return
        # Whether or not it can be written now, the store has it from here on.
        self._tokens, self._text = [], ""
        self._write(lambda store: store.append(answer, text, tokens))

    def finish(self, reason: str, stats: Stats, prompt_ids: Sequence[int]) -> None:
        """The answer has ended."""
        self.flush()
        answer, plain = self._answer, _plain(stats)
        if answer is not None:
            self._write(lambda store: store.finish(answer, reason=reason, stats=plain, prompt_ids=prompt_ids))
        self._answer = None

    def truncate(self, num_messages: int) -> None:
        """Only the first messages are left."""
        self._answer = None
        self._write_in(lambda store, number: store.truncate(number, num_messages))

    def models(self, spec: PairSpec) -> None:
        """The answers to come are of these models."""
        self._write_in(lambda store, number: store.set_models(number, spec))

    def system(self, system: str) -> None:
        """The system prompt is another one."""
        self._write_in(lambda store, number: store.set_system(number, system))

    # -- inside

    def _begin(self, store: ConversationStore, text: str, settings: ChatSettings, spec: PairSpec) -> None:
        self._conversation = store.create(settings.system, spec, settings.plain())
        self.title = text.strip().partition("\n")[0]

    def _begin_answer(self, store: ConversationStore, number: int) -> None:
        self._answer = store.add_message(number, "assistant", "")

    def _write_in(self, write: Callable[[ConversationStore, int], object]) -> None:
        number = self._conversation
        if number is not None:
            self._write(lambda store: write(store, number))

    def _write(self, write: Callable[[ConversationStore], object]) -> None:
        if self.store is None:
            return
        try:
            write(self.store)
        except ConversationError as error:
            if not self._complained:
                self._tell(Notice("warning", f"{error} The chat goes on without being saved."))
            self._complained = True
        else:
            self._complained = False


def _plain(stats: Stats) -> dict[str, Any]:
    """The counts and seconds of an answer, and the rates that people ask for, in JSON's types."""
    rates = ("acceptance_rate", "draft_yield", "mean_acceptance_length", "tokens_per_second")
    return {**dataclasses.asdict(stats), **{name: getattr(stats, name) for name in rates}}
