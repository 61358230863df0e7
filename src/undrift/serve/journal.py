"""The journal: everything a service was asked and told, in order, on the disk before anyone is answered.

A kill at any moment leaves whole entries only (SQLite, write-ahead log). A snapshot replaces the entries before it, in
one transaction, so that a restart is the last snapshot and the few entries after it.
"""

from __future__ import annotations

import enum
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from undrift.errors import InputError, ModelFileError

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS journal (sequence INTEGER PRIMARY KEY, kind INTEGER NOT NULL, body TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS snapshot (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
    sequence INTEGER NOT NULL, facts TEXT NOT NULL, model BLOB NOT NULL
);
"""


class EntryKind(enum.IntEnum):
    """What an entry says."""

    ASKED = 0
    """A row came: its cells, its reference if the client gave one, when, and whether its features were looked at."""
    TOLD = 1
    """A label came: the number of its row's entry, and the label; null says that it will never come."""


class JournalEntry(NamedTuple):
    """One line of the journal."""

    sequence: int
    """Its number; entries are numbered without gaps."""
    kind: EntryKind
    """What it says."""
    body: str
    """JSON."""


class Snapshot(NamedTuple):
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
            if version > SCHEMA_VERSION:
                raise ModelFileError(f"{path}: written by a newer undrift; upgrade undrift")
            self._base.executescript(_SCHEMA)
            self._base.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            last = self._base.execute("SELECT max(sequence) FROM journal").fetchone()[0]
            saved = self._base.execute("SELECT sequence FROM snapshot").fetchone()
        except sqlite3.DatabaseError as error:
            raise ModelFileError(f"{path}: not a journal of undrift's, or damaged ({error}); move it away") from None
        self.last = max(int(last or 0), int(saved[0]) if saved else 0)

    def append(self, entries: Sequence[tuple[EntryKind, str]]) -> None:
        """Write entries, all or none; they have the numbers after `last`."""
        first = self.last + 1
        rows = [(first + i, int(kind), body) for i, (kind, body) in enumerate(entries)]
        with self._transaction():
            self._base.executemany("INSERT INTO journal VALUES (?, ?, ?)", rows)
        self.last += len(rows)

    def entries_after(self, sequence: int) -> Iterator[JournalEntry]:
        """Yield the entries after one, in order."""
        found = self._base.execute("SELECT * FROM journal WHERE sequence > ? ORDER BY sequence", (sequence,))
        for number, kind, body in found:
            yield JournalEntry(number, EntryKind(kind), body)

    def last_snapshot(self) -> Snapshot | None:
        """Return the last snapshot, None before the first."""
        found = self._base.execute("SELECT sequence, facts, model FROM snapshot").fetchone()
        return None if found is None else Snapshot(*found)

    def take_snapshot(self, facts: str, model: bytes) -> None:
        """Put a snapshot of now in the place of the entries so far."""
        with self._transaction():
            self._base.execute("INSERT OR REPLACE INTO snapshot VALUES (1, ?, ?, ?)", (self.last, facts, model))
            self._base.execute("DELETE FROM journal WHERE sequence <= ?", (self.last,))

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
