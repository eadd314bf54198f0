"""The user's conversations in one SQLite file, written while answers stream.

While an answer streams, each flush is a row of its own in `pieces`, committed at once; the end
of the answer puts them together. An answer that never ended is put together by whoever loads
its conversation, and marked "interrupted". Should its writer still be alive in another program,
the rest of the answer and its real ending follow all the same.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from edge_spec import PairSpec
from tui.conversations.database import ConversationError, Database
from tui.conversations.saved import (
    INTERRUPTED,
    Conversation,
    Role,
    Summary,
    pack_ids,
    pack_json,
    pack_models,
    storable,
    title_of,
)
from tui.conversations.search import one_line, query_words, snippet
from tui.conversations.tables import (
    APPLICATION_ID,
    FOUND,
    LIST,
    MIGRATIONS,
    base_of,
    load_conversation,
    pieces_of,
    save_piece,
    setup_id,
    streaming,
    summary_of,
)
from tui.conversations.word_index import SHIFT, WordIndex


class DeletedError(ConversationError):
    """What was to be gone on with is no longer there; trying again is in vain."""

    def __init__(self) -> None:
        super().__init__(
            "This conversation was deleted in another window; as it goes on, it is saved as a new one."
        )


class RemovedError(ConversationError):
    """An answer was cut away by another window, or with its conversation."""

    def __init__(self) -> None:
        super().__init__("This answer was removed meanwhile in another window, so no more of it is saved.")


def default_path() -> Path:
    """The user's file of conversations, in the platform's folder for data."""
    return platformdirs.user_data_path("edge-spec") / "conversations.sqlite3"


class ConversationStore:
    """Conversations in a file; every method raises ConversationError where it cannot do its work.

    Any thread may use it, and several programs may use the file (see Database).
    """

    def __init__(self, path: Path | None = None) -> None:
        self._database = Database(path or default_path(), APPLICATION_ID, MIGRATIONS)
        self._streaming: set[int] = set()  # the answers that are being given here
        try:
            self._words = WordIndex(self._database)
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Safe to call twice."""
        self._database.close()

    # -- a conversation grows

    def create(self, system: str, spec: PairSpec, settings: Mapping[str, Any]) -> int:
        """A new conversation; it is listed as soon as it has a message."""
        now = time.time()
        with self._database.write() as db:
            setup = setup_id(db, pack_models(spec), pack_json(settings))
            row = db.execute(
                "INSERT INTO conversations (title, renamed, created, updated, system, setup, last_number)"
                " VALUES ('', 0, ?, ?, ?, ?, 0)",
                (now, now, storable(system), setup),
            )
        assert row.lastrowid is not None
        return row.lastrowid

    def add_message(self, conversation: int, role: Role, text: str, token_ids: Sequence[int] = ()) -> int:
        """Append a message; one of the assistant's streams until `finish`."""
        now, text, streams = time.time(), storable(text), role == "assistant"
        with self._database.write() as db:
            row = db.execute(
                "SELECT last_number + 1, setup FROM conversations WHERE id = ?", (conversation,)
            ).fetchone()
            if row is None:
                raise DeletedError
            number, setup = row
            message: int = conversation << SHIFT | number
            db.execute(
                "UPDATE conversations SET last_number = ?, updated = ? WHERE id = ?",
                (number, now, conversation),
            )
            db.execute(
                "INSERT INTO messages (id, conversation, role, text, token_ids, created, setup, reason)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    message,
                    conversation,
                    role,
                    text,
                    pack_ids(token_ids),
                    now,
                    setup if streams else None,
                    None if streams else "",
                ),
            )
            if not streams:
                self._words.add(db, message, text)
            self._update_title(db, conversation)
        if streams:
            self._streaming.add(message)
        return message

    def append(self, message: int, text: str, token_ids: Sequence[int]) -> None:
        """What a flush brought of an answer; it is in the file when this returns."""
        with self._database.write() as db:
            self._check_exists(db, message)
            save_piece(db, message, storable(text), pack_ids(token_ids))

    def finish(
        self, message: int, *, reason: str, stats: Mapping[str, Any], prompt_ids: Sequence[int]
    ) -> None:
        """An answer to the prompt `prompt_ids` has ended."""
        with self._database.write() as db:
            self._check_exists(db, message)
            self._put_together(db, message, reason)
            base, shared = base_of(db, message, prompt_ids)
            db.execute(
                "UPDATE messages SET stats = ?, base = ?, shared = ?, prompt_ids = ? WHERE id = ?",
                (
                    pack_json(stats),
                    base,
                    shared,
                    pack_ids(prompt_ids[shared:]) if prompt_ids else None,
                    message,
                ),
            )
            db.execute("UPDATE conversations SET updated = ? WHERE id = ?", (time.time(), message >> SHIFT))
        self._streaming.discard(message)

    def remove(self, conversation: int, messages: Collection[int]) -> None:
        """Take these messages out, whatever another window has added or removed beside them."""
        with self._database.write() as db:
            self._remove(db, messages)
            self._update_title(db, conversation)

    # -- what there is

    def list(self, limit: int = 200, offset: int = 0) -> Sequence[Summary]:
        """Conversations that have messages, the last used first."""
        with self._database.read() as db:
            rows = db.execute(LIST, (limit, offset)).fetchall()
        return [summary_of(row) for row in rows]

    def search(self, query: str, limit: int = 100) -> Sequence[Summary]:
        """Conversations whose title, or one message, has all the words, the last used first.

        Words may be only begun. A query of spaces finds everything, one of signs alone nothing.
        """
        words = query_words(query)
        if not words:
            return [] if query.strip() else self.list(limit)
        with self._database.read() as db:
            self._words.find(db, words, limit)
            rows = db.execute(FOUND, (limit,)).fetchall()
        return [summary_of(row, None if text is None else snippet(text, words)) for *row, text in rows]

    def load(self, conversation: int) -> Conversation:
        """A whole conversation; an answer whose end nobody wrote is then marked as interrupted."""
        with self._database.read() as db:
            abandoned = streaming(db, conversation) - self._streaming
        if abandoned:
            with self._database.write() as db:
                for message in streaming(db, conversation) & abandoned:
                    self._put_together(db, message, INTERRUPTED)
        with self._database.read() as db:
            return load_conversation(db, conversation)

    def title(self, conversation: int) -> str:
        with self._database.read() as db:
            row = db.execute("SELECT title FROM conversations WHERE id = ?", (conversation,)).fetchone()
        if row is None:
            raise DeletedError
        title: str = row[0]
        return title

    # -- changes

    def rename(self, conversation: int, title: str) -> None:
        """Give it a title; an empty one is its first message's again."""
        title = one_line(storable(title))
        with self._database.write() as db:
            db.execute("UPDATE conversations SET renamed = ? WHERE id = ?", (bool(title), conversation))
            if title:
                self._set_title(db, conversation, title)
            else:
                self._update_title(db, conversation)

    def delete(self, conversation: int) -> None:
        """Forget it; it may be gone already."""
        with self._database.write() as db:
            rows = db.execute("SELECT id FROM messages WHERE conversation = ?", (conversation,)).fetchall()
            self._remove(db, [message for (message,) in rows])
            self._set_title(db, conversation, "")
            db.execute("DELETE FROM conversations WHERE id = ?", (conversation,))

    def set_system(self, conversation: int, system: str) -> None:
        with self._database.write() as db:
            db.execute("UPDATE conversations SET system = ? WHERE id = ?", (storable(system), conversation))

    def set_models(self, conversation: int, spec: PairSpec) -> None:
        """The models of the answers to come; those given keep theirs."""
        self._set_setup(conversation, models=pack_models(spec))

    def set_settings(self, conversation: int, settings: Mapping[str, Any]) -> None:
        """The settings of the answers to come; those given keep theirs."""
        self._set_setup(conversation, settings=pack_json(settings))

    # -- inside

    def _set_setup(self, conversation: int, models: str | None = None, settings: str | None = None) -> None:
        with self._database.write() as db:
            row = db.execute(
                "SELECT s.models, s.settings FROM conversations c JOIN setups s ON s.id = c.setup"
                " WHERE c.id = ?",
                (conversation,),
            ).fetchone()
            if row is None:
                raise DeletedError
            setup = setup_id(db, models or row[0], settings or row[1])
            db.execute("UPDATE conversations SET setup = ? WHERE id = ?", (setup, conversation))

    def _check_exists(self, db: sqlite3.Connection, message: int) -> None:
        if db.execute("SELECT 1 FROM messages WHERE id = ?", (message,)).fetchone() is None:
            self._streaming.discard(message)
            raise RemovedError

    def _remove(self, db: sqlite3.Connection, messages: Collection[int]) -> None:
        for message in messages:
            row = db.execute("SELECT text, reason FROM messages WHERE id = ?", (message,)).fetchone()
            if row is not None and row[1] is not None:
                self._words.remove(db, message, row[0])
            db.execute("DELETE FROM messages WHERE id = ?", (message,))
        self._streaming.difference_update(messages)

    def _put_together(self, db: sqlite3.Connection, message: int, reason: str) -> None:
        """Make one text of an answer's pieces, and let it be found."""
        row = db.execute("SELECT text, token_ids, reason FROM messages WHERE id = ?", (message,)).fetchone()
        text, ids, before = row
        if before is not None:
            self._words.remove(db, message, text)
        more_text, more_ids = pieces_of(db, message)
        db.execute(
            "UPDATE messages SET text = ?, token_ids = ?, reason = ? WHERE id = ?",
            (text + more_text, ids + more_ids, reason, message),
        )
        db.execute("DELETE FROM pieces WHERE message = ?", (message,))
        self._words.add(db, message, text + more_text)

    def _update_title(self, db: sqlite3.Connection, conversation: int) -> None:
        """The title of the first message, unless the user has given one."""
        if db.execute("SELECT 1 FROM conversations WHERE id = ? AND renamed", (conversation,)).fetchone():
            return
        first = db.execute(
            "SELECT text FROM messages WHERE conversation = ? ORDER BY id LIMIT 1", (conversation,)
        ).fetchone()
        self._set_title(db, conversation, "" if first is None else title_of(first[0]))

    def _set_title(self, db: sqlite3.Connection, conversation: int, title: str) -> None:
        row = db.execute("SELECT title FROM conversations WHERE id = ?", (conversation,)).fetchone()
        if row is not None and row[0] != title:
            entry = conversation << SHIFT
            self._words.remove(db, entry, row[0])
            self._words.add(db, entry, title)
            db.execute("UPDATE conversations SET title = ? WHERE id = ?", (title, conversation))
