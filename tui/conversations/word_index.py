"""Which texts have which words: an FTS5 index, or the texts themselves where SQLite has no FTS5.

An entry's number is its conversation's, shifted, plus its own in it, so that a hit tells its
conversation without being looked up; number 0 is the title.
"""

from __future__ import annotations

import heapq
import sqlite3
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from tui.conversations.database import Database
from tui.conversations.search import TOKENIZER, index_words, indexable, like_patterns

SHIFT: Final = 20

SCHEMA: Final = (
    # Has a row while the index has every title and every message that has ended.
    "CREATE TABLE words_complete (since REAL NOT NULL)",
)

_LONGEST_PREFIX: Final = 3
_CREATE: Final = f"""CREATE VIRTUAL TABLE words USING fts5 (
    text, content = '', detail = none, columnsize = 0, prefix = '1 2 {_LONGEST_PREFIX}',
    tokenize = '{TOKENIZER}'
)"""

_ALL: Final = f"""SELECT id << {SHIFT} AS id, title AS text FROM conversations WHERE title != ''
    UNION ALL SELECT id, text FROM messages WHERE reason IS NOT NULL AND text != ''"""

_TERMS: Final = "CREATE VIRTUAL TABLE temp.terms USING fts5vocab (main, words, instance)"
_FIRST_TERM: Final = "SELECT term FROM terms WHERE term >= ? LIMIT 1"
_MOST_TERMS: Final = 64
"""More words than these with one beginning are better put together by FTS5."""

_FIRST: Final = 2
"""So many times the conversations that are wanted are looked through first."""
_GROWTH: Final = 3
"""So many times those seen already come next, when too few were found."""
_MOST_STRETCHES: Final = 4
_WIDE: Final = 50

_LAST_USED: Final = "SELECT updated, id FROM conversations ORDER BY updated DESC, id DESC LIMIT ? OFFSET ?"
_NUM_FOUND: Final = """SELECT count(*) FROM hits CROSS JOIN conversations c ON c.id = hits.conversation
    WHERE (c.updated, c.id) >= (?, ?)"""


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

    def find(self, db: sqlite3.Connection, words: Sequence[str], limit: int) -> None:
        """Fill `temp.hits`: conversations, each with its last entry that has all the words.

        Among them are the `limit` last used ones of all that have such an entry. The last used
        conversations are looked through first, then more, until so many are found: a common word
        has 100,000 entries, nearly all in conversations that would not be shown.
        """
        db.execute("CREATE TEMP TABLE hits (conversation INTEGER PRIMARY KEY, entry INTEGER NOT NULL)")
        if self._able:
            source, condition = "SELECT rowid AS id FROM words", "words MATCH ?"
            arguments = [_expression(db, words)]
        else:
            arguments = like_patterns(words)
            source, condition = f"SELECT id FROM ({_ALL})", " AND ".join(["text LIKE ?"] * len(arguments))
        # A table, for the latest of each group is found several times faster by ignoring all that
        # comes after it than by sorting.
        look_through = (
            f"INSERT OR IGNORE INTO hits SELECT id >> {SHIFT}, id"
            f" FROM ({source} WHERE {condition} AND id BETWEEN ? AND ? ORDER BY id DESC)"
        )
        num_seen, num_more = 0, _FIRST * max(limit, 1)
        while True:
            more = db.execute(_LAST_USED, (num_more, num_seen)).fetchall()
            for first, last in stretches(sorted(conversation for _, conversation in more)):
                db.execute(look_through, (*arguments, first << SHIFT, (last + 1 << SHIFT) - 1))
            if len(more) < num_more or db.execute(_NUM_FOUND, more[-1]).fetchone()[0] >= limit:
                return
            num_seen += num_more
            num_more = _GROWTH * num_seen


def stretches(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """A few ranges, first and last, that have all of the ascending `numbers` and not many others.

    Looking one more range up costs about as much as looking through some conversations in vain.
    """

    def gap(index: int) -> int:
        return numbers[index] - numbers[index - 1]

    widest = heapq.nlargest(_MOST_STRETCHES - 1, range(1, len(numbers)), key=gap)
    cuts = sorted(index for index in widest if gap(index) > _WIDE)
    parts = pairwise([0, *cuts, len(numbers)]) if numbers else ()
    return [(numbers[begin], numbers[end - 1]) for begin, end in parts]


def _expression(db: sqlite3.Connection, words: Sequence[str]) -> str:
    """An FTS5 query for the texts that have all of `words`, each perhaps only as a beginning.

    Quoted, a word is never taken for syntax.
    """
    db.execute(_TERMS)
    return " AND ".join(_beginning_with(db, word) for word in index_words(words))


def _beginning_with(db: sqlite3.Connection, word: str) -> str:
    """An FTS5 query for the texts with a word that begins so.

    For a beginning that is in no index of beginnings FTS5 puts the entries of all such words
    together before it tells the first, 40 ms for a common word. Those words themselves, where they
    are few, are at hand at once. How the index writes a word that is not in ASCII, only FTS5 knows.
    """
    terms: list[str] = []
    if len(word) > _LONGEST_PREFIX and word.isascii():
        word = term = word.lower()
        while len(terms) <= _MOST_TERMS:
            row = db.execute(_FIRST_TERM, (term,)).fetchone()
            if row is None or not row[0].startswith(word):
                return f"({' OR '.join(map(_quoted, terms))})" if terms else _quoted(word)
            terms.append(row[0])
            term = f"{row[0]}\1"  # the least that comes after it
    return f"{_quoted(word)}*"


def _quoted(word: str) -> str:
    return f'"{word}"'


def _is_complete(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM words_complete").fetchone() is not None


def _has_fts5(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone() is not None
