"""The journal: everything a service was asked and told, in order, on the disk before anyone is answered.

A kill at any moment leaves whole entries only (SQLite, write-ahead log). A snapshot replaces the entries before it, in
one transaction, so that a restart is the last snapshot and the few entries after it. With a model for each key, keys
are saved a few at a time; entries stay until every key that they changed was saved after them.
"""

from __future__ import annotations

import enum
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from undrift.errors import InputError, ModelFileError

SCHEMA_VERSION = 3
READABLE_VERSIONS = (0, 2, SCHEMA_VERSION)
"""0 is a new file; before 3, no file knew which rows had expired."""
KEPT_EXPIRED = 1_000_000
"""Of so many last rows it is known whether they expired."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS journal (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, kind INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS snapshot (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
    sequence INTEGER NOT NULL, facts TEXT NOT NULL, model BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS key_facts (key TEXT PRIMARY KEY, facts TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS key_models (key TEXT PRIMARY KEY, recent TEXT NOT NULL, model BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS expired (row INTEGER PRIMARY KEY);
"""


class EntryKind(enum.IntEnum):
    """What an entry says."""

    ASKED = 0
    """Rows came: when, whether the last one was looked at, the rows, their references, and the id of the first."""
    TOLD = 1
    """Labels came: the number of each row, and its label; null says that it will never come."""
    VALUES = 2
    """Values of series came: rows of numbers, null where one is missing, and their times."""


class JournalEntry(NamedTuple):
    """One line of the journal."""

    first: int
    """Its number: entries are numbered without gaps, and one of many rows takes as many numbers."""
    last: int
    """The last number that it takes."""
    kind: EntryKind
    """What it says."""
    body: str
    """JSON."""


class KeyRow(NamedTuple):
    """Everything about one key at one moment."""

    key: str
    facts: str
    """JSON: what is in memory of every key."""
    recent: str
    """JSON: its last rounds."""
    model: bytes
    """The state of its model."""


class Checkpoint(NamedTuple):
    """What is saved at once, so that entries can be forgotten."""

    facts: str
    """JSON."""
    model: bytes
    """A model file; empty where every key has a model."""
    keys: Sequence[KeyRow]
    """Keys that changed."""
    keep_from: int
    """Entries before this number are not needed any more."""


class JournalSnapshot(NamedTuple):
    """Everything the service was at one moment."""

    sequence: int
    """Number of the last entry in it."""
    facts: str
    """JSON."""
    model: bytes
    """A model file."""


class Journal:
    """The journal of a service in one SQLite file; one process at a time (the folder's lock sees to that).

    Parameters
    ----------
    path
        The file.
    durable
        Whether entries survive a power cut (slower), not only a kill of the process.
    """

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        self.path = path
        try:
            self._base = sqlite3.connect(path, isolation_level=None, timeout=5.0)
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            version = int(self._base.execute("PRAGMA user_version").fetchone()[0])
            if version not in READABLE_VERSIONS:
                raise ModelFileError(f"{path}: written by another version of undrift; use that one, or move it away")
            self._base.executescript(_SCHEMA)
            self._base.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            self.refresh()
        except sqlite3.DatabaseError as error:
            raise ModelFileError(f"{path}: not a journal of undrift's, or damaged ({error}); move it away") from None

    def refresh(self) -> None:
        """Read again which number the last entry has; what is written in part is given up."""
        if self._base.in_transaction:
            self._base.execute("ROLLBACK")
        last = self._base.execute("SELECT max(last) FROM journal").fetchone()[0]
        saved = self._base.execute("SELECT sequence FROM snapshot").fetchone()
        self.last = max(int(last or 0), int(saved[0]) if saved else 0)

    def append(self, kind: EntryKind, count: int, body: str, *, expired: Sequence[int] = ()) -> None:
        """Write an entry that takes `count` numbers after `last`, and which rows expired by it."""
        with self._transaction():
            self._base.execute(
                "INSERT INTO journal VALUES (?, ?, ?, ?)", (self.last + 1, self.last + count, kind, body)
            )
            if expired:
                self._base.executemany("INSERT INTO expired VALUES (?)", [(row,) for row in expired])
                self._base.execute("DELETE FROM expired WHERE row <= ?", (max(expired) - KEPT_EXPIRED,))
        self.last += count

    def is_expired(self, row: int) -> bool:
        """Whether a row was given up because it had waited too long for its label."""
        return self._base.execute("SELECT 1 FROM expired WHERE row = ?", (row,)).fetchone() is not None

    def entries_after(self, number: int) -> Iterator[JournalEntry]:
        """Yield the entries after a number, in order."""
        found = self._base.execute("SELECT * FROM journal WHERE last > ? ORDER BY first", (number,))
        for first, last, kind, body in found:
            yield JournalEntry(first, last, EntryKind(kind), body)

    def last_snapshot(self) -> JournalSnapshot | None:
        """Return the last snapshot, None before the first."""
        found = self._base.execute("SELECT sequence, facts, model FROM snapshot").fetchone()
        return None if found is None else JournalSnapshot(*found)

    def save(self, now: Checkpoint) -> None:
        """Put what is now in the place of the entries that led to it."""
        with self._transaction():
            run = self._base.execute
            run("INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?, ?)", (now.keep_from - 1, now.facts, now.model))
            some = self._base.executemany
            some("INSERT OR REPLACE INTO key_facts VALUES (?, ?)", [(one.key, one.facts) for one in now.keys])
            models = [(one.key, one.recent, one.model) for one in now.keys]
            some("INSERT OR REPLACE INTO key_models VALUES (?, ?, ?)", models)
            run("DELETE FROM journal WHERE last < ?", (now.keep_from,))

    def key_facts(self) -> Iterator[tuple[str, str]]:
        """Yield every key that was saved, and its facts."""
        yield from self._base.execute("SELECT key, facts FROM key_facts")

    def key_model(self, key: str) -> tuple[str, bytes] | None:
        """Return the last rounds and the model of a key as they were saved; None for a key that never was."""
        found = self._base.execute("SELECT recent, model FROM key_models WHERE key = ?", (key,)).fetchone()
        return None if found is None else (str(found[0]), bytes(found[1]))

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def _transaction(self) -> _Transaction:
        return _Transaction(self._base, self.path)


class _Transaction:
    """All of what is written inside, or nothing of it; a full disk is one sentence."""

    def __init__(self, base: sqlite3.Connection, path: Path) -> None:
        self._base, self._path = base, path

    def __enter__(self) -> None:
        self._run("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            try:
                self._run("COMMIT")
                return
            except InputError:
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                raise
        if self._base.in_transaction:
            self._base.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error):
            raise self._explain(error) from None

    def _run(self, statement: str) -> None:
        try:
            self._base.execute(statement)
        except sqlite3.Error as error:
            raise self._explain(error) from None

    def _explain(self, error: sqlite3.Error) -> InputError:
        return InputError(f"{self._path}: cannot be written ({error}); make room on the disk, then try again")
