"""Which texts have which words: an FTS5 index, or the texts themselves where SQLite has no FTS5.

An entry's number is its conversation's, shifted, plus its own in it, so that a hit tells its
conversation without being looked up; number 0 is the title.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Final

from tui.conversations.database import Database
from tui.conversations.search import TOKENIZER, indexable, like_patterns, match_expression

SHIFT: Final = 20

SCHEMA: Final = (
    # Has a row while the index has every title and every message that has ended.
    "CREATE TABLE words_complete (since REAL NOT NULL)",
)

_CREATE: Final = f"""CREATE VIRTUAL TABLE words USING fts5 (
    text, content = '', detail = none, columnsize = 0, prefix = '1 2 3', tokenize = '{TOKENIZER}'
)"""

_ALL: Final = f"""SELECT id << {SHIFT} AS id, title AS text FROM conversations WHERE title != ''
    UNION ALL SELECT id, text FROM messages WHERE reason IS NOT NULL AND text != ''"""


class WordIndex:
    """The index in a database that has the tables `conversations` and `messages`."""

    def __init__(self, database: Database) -> None:
        """Make the index if it is missing or incomplete."""
        with database.read() as db:
            self._able = _has_fts5(db)
            complete = _is_complete(db)
        if self._able == complete:
            return
        with database.write() as db:
            if not self._able:
                # What is written from here on is missing in the index that another SQLite made.
                db.execute("DELETE FROM words_complete")
            elif not _is_complete(db):
                db.execute("DROP TABLE IF EXISTS words")
                db.execute(_CREATE)
                for entry, text in db.execute(_ALL):
                    self.add(db, entry, text)
                db.execute("INSERT INTO words_complete VALUES (?)", (time.time(),))

    def add(self, db: sqlite3.Connection, entry: int, text: str) -> None:
        if self._able and text:
            db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (entry, indexable(text)))

    def remove(self, db: sqlite3.Connection, entry: int, text: str) -> None:
        """Take out an entry; `text` must be the one that was added."""
        if self._able and text:
            db.execute(
                "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (entry, indexable(text))
            )

    def find(self, db: sqlite3.Connection, words: Sequence[str]) -> None:
        """Fill `temp.hits`: each conversation with its last entry that has all the words.

        A table, for the latest of each group is found several times faster by ignoring all that
        comes after it than by sorting, and a common word has 100,000 entries.
        """
        db.execute("CREATE TEMP TABLE hits (conversation INTEGER PRIMARY KEY, entry INTEGER NOT NULL)")
        if self._able:
            source, condition = "SELECT rowid AS id FROM words", "words MATCH ?"
            arguments = [match_expression(words)]
        else:
            arguments = like_patterns(words)
            source, condition = f"SELECT id FROM ({_ALL})", " AND ".join(["text LIKE ?"] * len(arguments))
        db.execute(
            f"INSERT OR IGNORE INTO hits SELECT id >> {SHIFT}, id"
            f" FROM ({source} WHERE {condition} ORDER BY id DESC)",
            arguments,
        )


def _is_complete(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM words_complete").fetchone() is not None


def _has_fts5(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone() is not None
