"""The tables of conversations, and how their rows are read and written.

Everything here works inside a transaction of whoever calls it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tui.conversations.database import ConversationError
from tui.conversations.saved import (
    Conversation,
    SavedMessage,
    Summary,
    time_of,
    unpack_ids,
    unpack_json,
    unpack_models,
)
from tui.conversations.search import Snippet
from tui.conversations.word_index import SCHEMA as WORDS_SCHEMA
from tui.conversations.word_index import SHIFT

APPLICATION_ID: Final = 0x65647370  # "edsp"

MIGRATIONS: Final = (
    (
        # Models and settings are the same for many messages, so they are kept once.
        """CREATE TABLE setups (
            id INTEGER PRIMARY KEY, models TEXT NOT NULL, settings TEXT NOT NULL, UNIQUE (models, settings)
        )""",
        """CREATE TABLE conversations (
            id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL, renamed INTEGER NOT NULL,
            created REAL NOT NULL, updated REAL NOT NULL, system TEXT NOT NULL,
            setup INTEGER NOT NULL REFERENCES setups, last_number INTEGER NOT NULL
        )""",
        "CREATE INDEX conversations_by_age ON conversations (updated DESC, id DESC)",
        # The id is the entry of the index of words, so a conversation's messages lie together; no
        # number is used twice. `reason` is NULL while an answer streams, '' for what the user wrote.
        # A prompt's ids are the first `shared` ones of the message `base`, prompt and answer, and
        # then `prompt_ids`: each turn adds only what is new.
        """CREATE TABLE messages (
            id INTEGER PRIMARY KEY, conversation INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
            role TEXT NOT NULL, text TEXT NOT NULL, token_ids BLOB NOT NULL, created REAL NOT NULL,
            setup INTEGER REFERENCES setups, reason TEXT, stats TEXT,
            base INTEGER, shared INTEGER, prompt_ids BLOB
        )""",
        "CREATE INDEX messages_by_conversation ON messages (conversation)",
        "CREATE INDEX messages_streaming ON messages (conversation) WHERE reason IS NULL",
        """CREATE TABLE pieces (
            id INTEGER PRIMARY KEY, message INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
            text TEXT NOT NULL, token_ids BLOB NOT NULL
        )""",
        "CREATE INDEX pieces_by_message ON pieces (message)",
        *WORDS_SCHEMA,
    ),
)

_SUMMARY: Final = """c.id, c.title, c.created, c.updated,
    (SELECT count(*) FROM messages m WHERE m.conversation = c.id),
    (SELECT s.models FROM setups s WHERE s.id = c.setup)"""

# A conversation without messages has no title.
LIST: Final = f"""SELECT {_SUMMARY} FROM conversations c WHERE c.title != ''
    ORDER BY c.updated DESC, c.id DESC LIMIT ? OFFSET ?"""

# The inner query first, so that texts are read of those only which are shown.
FOUND: Final = f"""SELECT {_SUMMARY}, (SELECT text FROM messages WHERE id = c.entry) FROM (
    SELECT c.*, hits.entry FROM hits CROSS JOIN conversations c ON c.id = hits.conversation
    ORDER BY c.updated DESC, c.id DESC LIMIT ?
) c ORDER BY c.updated DESC, c.id DESC"""


def setup_id(db: sqlite3.Connection, models: str, settings: str) -> int:
    """The id of these models and settings."""
    db.execute("INSERT OR IGNORE INTO setups (models, settings) VALUES (?, ?)", (models, settings))
    row = db.execute("SELECT id FROM setups WHERE models = ? AND settings = ?", (models, settings)).fetchone()
    return int(row[0])


def save_piece(db: sqlite3.Connection, message: int, text: str, ids: bytes) -> None:
    db.execute("INSERT INTO pieces (message, text, token_ids) VALUES (?, ?, ?)", (message, text, ids))


def pieces_of(db: sqlite3.Connection, message: int) -> tuple[str, bytes]:
    """The text and packed ids of what has been flushed of an answer."""
    rows = db.execute(
        "SELECT text, token_ids FROM pieces WHERE message = ? ORDER BY id", (message,)
    ).fetchall()
    return "".join(text for text, _ in rows), b"".join(ids for _, ids in rows)


def streaming(db: sqlite3.Connection, conversation: int) -> set[int]:
    """The answers of a conversation that nobody has ended."""
    rows = db.execute(
        "SELECT id FROM messages WHERE conversation = ? AND reason IS NULL", (conversation,)
    ).fetchall()
    return {message for (message,) in rows}


@dataclass(frozen=True, slots=True)
class _Ids:
    """The ids of an answer and of the whole prompt before it."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def all(self) -> tuple[int, ...]:
        return (*self.prompt, *self.answer)


def known_ids(db: sqlite3.Connection, conversation: int) -> dict[int, _Ids]:
    """The ids of each answer that has ended, by message.

    Two windows may go on from one answer, and one of them take it back: what goes on from it is
    still a message then, but no longer one whose ids are known.
    """
    known: dict[int, _Ids] = {}
    for message, base, shared, rest, answer in db.execute(
        "SELECT id, base, shared, prompt_ids, token_ids FROM messages"
        " WHERE conversation = ? AND prompt_ids IS NOT NULL ORDER BY id",
        (conversation,),
    ):
        if shared and base not in known:
            continue
        begin = known[base].all[:shared] if shared else ()
        known[message] = _Ids((*begin, *unpack_ids(rest)), unpack_ids(answer))
    return known


def base_of(db: sqlite3.Connection, message: int, prompt_ids: Sequence[int]) -> tuple[int | None, int]:
    """The answer before `message` whose ids its prompt goes on from, and how many of them."""
    if not prompt_ids:
        return None, 0
    (base,) = db.execute(
        "SELECT max(id) FROM messages WHERE conversation = ? AND id < ? AND prompt_ids IS NOT NULL",
        (message >> SHIFT, message),
    ).fetchone()
    steps = []
    earlier = base
    while earlier is not None:
        row = db.execute(
            "SELECT base, shared, prompt_ids, token_ids FROM messages WHERE id = ?", (earlier,)
        ).fetchone()
        if row is None:
            return None, 0
        earlier, *step = row
        steps.append(step)
    known: list[int] = []
    for shared, rest, answer in reversed(steps):
        del known[shared:]
        known += unpack_ids(rest) + unpack_ids(answer)
    return base, _num_shared(known, prompt_ids)


def _num_shared(known: Sequence[int], ids: Sequence[int]) -> int:
    """The length of what two texts have in common at their beginning."""
    for index, (ours, theirs) in enumerate(zip(known, ids, strict=False)):
        if ours != theirs:
            return index
    return min(len(known), len(ids))


def load_conversation(db: sqlite3.Connection, conversation: int) -> Conversation:
    row = db.execute(
        "SELECT c.title, c.created, c.updated, c.system, s.models, s.settings"
        " FROM conversations c JOIN setups s ON s.id = c.setup WHERE c.id = ?",
        (conversation,),
    ).fetchone()
    if row is None:
        raise ConversationError("This conversation was deleted meanwhile.")
    title, created, updated, system, models, settings = row
    known, messages = known_ids(db, conversation), []
    for row in db.execute(
        "SELECT m.id, m.role, m.text, m.token_ids, m.created, s.models, s.settings, m.stats, m.reason"
        " FROM messages m LEFT JOIN setups s ON s.id = m.setup WHERE m.conversation = ? ORDER BY m.id",
        (conversation,),
    ).fetchall():
        message, role, text, ids, said, its_models, its_settings, stats, reason = row
        if reason is None:
            more_text, more_ids = pieces_of(db, message)
            text, ids = text + more_text, ids + more_ids
        messages.append(
            SavedMessage(
                id=message,
                role=role,
                text=text,
                token_ids=unpack_ids(ids),
                prompt_ids=known[message].prompt if message in known else (),
                created=time_of(said),
                models=None if its_models is None else unpack_models(its_models),
                settings=unpack_json(its_settings),
                stats=unpack_json(stats),
                reason=reason,
            )
        )
    return Conversation(
        id=conversation,
        title=title,
        created=time_of(created),
        updated=time_of(updated),
        system=system,
        models=unpack_models(models),
        settings=unpack_json(settings),
        messages=tuple(messages),
    )


def summary_of(row: Sequence[Any], found: Snippet | None = None) -> Summary:
    id, title, created, updated, num_messages, models = row
    return Summary(id, title, time_of(created), time_of(updated), num_messages, unpack_models(models), found)
