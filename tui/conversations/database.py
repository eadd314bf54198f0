"""One SQLite file that several programs may have open: opened, brought up to date, errors in words."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from edge_spec import UsageError

BUSY_S: Final = 5.0
"""So long one waits for another program's write; ours take milliseconds."""

_BUSY_AGAIN_S: Final = 0.02
"""So long once that was in vain, until a write succeeds: an interface may be waiting too."""


class ConversationError(UsageError):
    """Conversations cannot be read or written; a chat can go on without saving."""


class UnavailableError(ConversationError):
    """The file cannot be read or written now; it may be later, so trying again is worth it."""


class Database:
    """A file in WAL mode, with two connections that any thread may use.

    Writes take turns on one of them, reads on the other, so that a search waits neither for a
    commit of ours nor for another program's. Every method raises ConversationError.
    """

    def __init__(self, path: Path, application_id: int, migrations: Sequence[Sequence[str]]) -> None:
        self.path = path
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        self._is_patient = True
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # SQLite would make a file that everybody can read; its companions copy the mode of this one.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise ConversationError(
                f"Conversations cannot be saved in {path}: {error.strerror or error}."
            ) from error
        with self._in_words():
            self._writer = _connect(path)
        try:
            with self._in_words():
                _use_wal(self._writer)
            self._migrate(application_id, migrations)
            with self._in_words():
                self._reader = _connect(path)
        except BaseException:
            self._writer.close()
            raise

    def close(self) -> None:
        """Safe to call twice; waits for a write that another thread has begun."""
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed as a whole at the end, or not at all."""
        with self._write_lock, self._in_words():
            try:
                # IMMEDIATE: a transaction that begins by reading could be refused its first write.
                self._writer.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if _is_busy(error):
                    self._wait_for_others(patiently=False)
                raise
            try:
                self._wait_for_others(patiently=True)
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # SQLite has ended it itself when the disk is full
                    self._writer.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One state of the file, whatever is written meanwhile."""
        with self._read_lock, self._in_words():
            self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                if self._reader.in_transaction:
                    self._reader.execute("ROLLBACK")

    def _wait_for_others(self, *, patiently: bool) -> None:
        """How the next write waits while another program writes."""
        if self._is_patient != patiently:
            self._is_patient = patiently
            seconds = BUSY_S if patiently else _BUSY_AGAIN_S
            self._writer.execute(f"PRAGMA busy_timeout = {1000 * seconds:.0f}")

    def _migrate(self, application_id: int, migrations: Sequence[Sequence[str]]) -> None:
        """Apply the migrations that the file has not had yet."""
        with self._in_words():
            version = _pragma(self._writer, "user_version")
            owner = _pragma(self._writer, "application_id")
            empty = self._writer.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
        if owner != application_id and not empty:
            raise ConversationError(
                f"{self.path} is another program's database; conversations need their own."
            )
        if version > len(migrations):
            raise ConversationError(
                f"{self.path} was written by a newer edge-spec (format {version}, this one knows "
                f"{len(migrations)}); update edge-spec to open it."
            )
        if version == len(migrations):
            return
        with self.write() as connection:
            # Another program may have been quicker.
            for statements in migrations[_pragma(connection, "user_version") :]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {application_id}")
            connection.execute(f"PRAGMA user_version = {len(migrations)}")

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            kind = UnavailableError if _code(error) in _MAY_PASS else ConversationError
            raise kind(_words(error, self.path)) from error


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        # In WAL mode this is safe against crashes of programs; only a power cut may lose the last second.
        connection.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL; SQLite itself does not wait while another program does the same."""
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def _code(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code; None for what Python itself refused."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _is_busy(error: sqlite3.Error) -> bool:
    return _code(error) == sqlite3.SQLITE_BUSY


_MAY_PASS: Final = frozenset({
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_PROTOCOL,
})  # fmt: skip

_WORDS: Final = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file cannot be written",
    sqlite3.SQLITE_PERM: "the file cannot be written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_BUSY: f"another program has been writing to it for {BUSY_S:.0f} seconds",
    sqlite3.SQLITE_LOCKED: f"another program has been writing to it for {BUSY_S:.0f} seconds",
}


def _words(error: sqlite3.Error, path: Path) -> str:
    code = _code(error)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return f"The file of conversations {path} is damaged; move it away, and a new one is made."
    reason = _WORDS.get(code or -1, str(error))
    return f"Conversations cannot be saved in {path}: {reason}."
