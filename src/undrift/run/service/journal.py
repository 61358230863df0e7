"""The journal: everything a service was asked and told, in order, on the disk before anyone is answered.

A kill at any moment leaves whole entries only (SQLite, write-ahead log). A snapshot replaces the entries before it, in
one transaction, so that a restart is the last snapshot and the few entries after it. The model of a run is in its
folder: facts of the snapshot are written first, then the folder is committed with the snapshot's number, and then the
entries go. With a model for each key, keys are saved a few at a time; entries stay until every key that they changed
was saved after them.

Rows that wait for their label are written once, with the entry that brought them, and are no part of a snapshot. One
whose label has come stays until a snapshot holds what was learned from it, as the label's entry may be repeated until
then. Everything that is read back has a checksum, and entries are numbered without gaps.

It is our own code because queues and logs made for this are servers of their own, and a service has to survive a kill
with nothing but a file beside it.
"""

from __future__ import annotations

import enum
import os
import sqlite3
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from undrift import _check
from undrift._typing import Vector
from undrift.errors import InputError, ModelFileError, UndriftError

SCHEMA_VERSION = 6
KEPT_CLOSED = 1_000_000
"""Of so many last rows it is known whether they expired, and which reference they had."""
MOST_ENTRIES = 2**53
"""No journal has a larger number."""
CLEANED_AT_ONCE = 500
"""Rows that were closed before the last snapshot and are removed in one transaction: a few milliseconds."""
_TABLES = {
    "journal": """(
        first INTEGER PRIMARY KEY, last INTEGER NOT NULL, kind INTEGER NOT NULL, body TEXT NOT NULL,
        checksum INTEGER NOT NULL
    )""",
    "snapshot": """(
        sequence INTEGER PRIMARY KEY, facts TEXT NOT NULL, checksum INTEGER NOT NULL
    )""",
    "key_facts": "(key TEXT PRIMARY KEY, facts TEXT NOT NULL, checksum INTEGER NOT NULL) WITHOUT ROWID",
    "key_models": """(
        key TEXT PRIMARY KEY, recent TEXT NOT NULL, model BLOB NOT NULL, checksum INTEGER NOT NULL
    )""",
    "waiting": """(
        row INTEGER PRIMARY KEY, key TEXT, serial INTEGER NOT NULL, reference TEXT, came REAL NOT NULL,
        closed INTEGER, expired INTEGER NOT NULL
    )""",
    "records": "(row INTEGER PRIMARY KEY, record BLOB NOT NULL, checksum INTEGER NOT NULL)",
    "closed": "(row INTEGER PRIMARY KEY, reference TEXT, expired INTEGER NOT NULL)",
}
"""`waiting` has the rows that wait, and those that the entry `closed` closed; `closed` has those that a snapshot holds,
if they expired or have a reference."""
_INDICES = """
CREATE INDEX waiting_by_reference ON waiting (reference) WHERE reference IS NOT NULL;
CREATE INDEX closed_by_reference ON closed (reference) WHERE reference IS NOT NULL;
"""


class WaitingRow(NamedTuple):
    """A row that was served and waits for its label."""

    number: int
    """Its id."""
    key: str | None
    """Whose it is, where every key has a model."""
    serial: int
    """Its number among the rows of its model."""
    reference: str | None
    """The client's own name for it."""
    when: float
    """When it came, in seconds since 1970."""
    record: Vector
    """What its model needs to learn its label (`OnlineEstimator.release_record`)."""


class StoredRow(NamedTuple):
    """A row as the journal has it."""

    row: WaitingRow
    closed: int | None
    """Number of the entry that closed it; None while it waits."""


class EntryKind(enum.IntEnum):
    """What an entry says."""

    ASKED = 0
    """Rows came: when, the rows, their references, and the id of the first."""
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
    """JSON: its last rounds, what watches them, and outputs for the store of its fleet."""
    model: bytes
    """Its state."""


class Checkpoint(NamedTuple):
    """What is saved at once, so that entries can be forgotten."""

    facts: str
    """JSON."""
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
        self.last = self.waiting = 0
        """Number of the last entry, and how many rows wait."""
        self._saved = 0  # number of the last entry in the snapshot
        self._closed: deque[tuple[int, int]] = deque()  # closed rows that are to be removed, after their entry
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            os.chmod(path, 0o600)  # the write-ahead log gets the same mode from SQLite
            self._base = sqlite3.connect(path, isolation_level=None, timeout=5.0, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"{path}: cannot be opened ({error}); make it writable, then try again") from None
        try:
            self._open(durable)
        except BaseException:
            self._base.close()
            raise

    def _open(self, durable: bool) -> None:
        with self._reading():
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            version = int(self._base.execute("PRAGMA user_version").fetchone()[0])
            found = {name for (name,) in self._base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if version == 0 and not found:
                create = "".join(f"CREATE TABLE {name} {columns};\n" for name, columns in _TABLES.items())
                self._base.executescript(f"BEGIN;\n{create}{_INDICES}PRAGMA user_version = {SCHEMA_VERSION};\nCOMMIT;")
            elif version != SCHEMA_VERSION:
                raise ModelFileError(
                    f"{self.path}: written by another version of undrift; use that one, or move it away"
                )
            elif not found >= _TABLES.keys():
                raise self._damage(f"the table '{min(_TABLES.keys() - found)}' is missing")
        self.refresh()

    def refresh(self) -> None:
        """Read again which number the last entry has, and how many rows wait; what is written in part is given up."""
        with self._reading():
            if self._base.in_transaction:
                self._base.execute("ROLLBACK")
            last = self._base.execute("SELECT max(last) FROM journal").fetchone()[0]
            saved, latest = self._base.execute("SELECT min(sequence), max(sequence) FROM snapshot").fetchone()
            self.last = max(int(last or 0), int(latest or 0))
            if not 0 <= self.last <= MOST_ENTRIES:
                raise ValueError(f"entry {self.last}")
            self.waiting = int(self._base.execute("SELECT count(*) FROM waiting WHERE closed IS NULL").fetchone()[0])
            closed = self._base.execute("SELECT closed, row FROM waiting WHERE closed IS NOT NULL ORDER BY closed")
            self._closed = deque((int(entry), int(row)) for entry, row in closed)
            self._saved = int(saved or 0)

    def append(
        self,
        kind: EntryKind,
        count: int,
        body: str,
        *,
        waiting: Sequence[WaitingRow] = (),
        closed: Sequence[int] = (),
        expired: bool = False,
    ) -> None:
        """Write an entry that takes `count` numbers after `last`, the rows that wait by it, and those it closes."""
        first, last = self.last + 1, self.last + count
        heads = [(row.number, row.key, row.serial, row.reference, row.when) for row in waiting]
        records = [row.record.astype("<f8").tobytes() for row in waiting]
        with self._transaction():
            entry = first, last, int(kind), body
            self._base.execute("INSERT INTO journal VALUES (?, ?, ?, ?, ?)", (*entry, _checksum(*entry)))
            if heads:
                checked = [(row[0], data, _checksum(*row, data)) for row, data in zip(heads, records, strict=True)]
                self._base.executemany("INSERT INTO waiting VALUES (?, ?, ?, ?, ?, NULL, 0)", heads)
                self._base.executemany("INSERT INTO records VALUES (?, ?, ?)", checked)
            if closed:
                ends = [(first, expired, row) for row in closed]
                self._base.executemany("UPDATE waiting SET closed = ?, expired = ? WHERE row = ?", ends)
        self.last = last
        self.waiting += len(waiting) - len(closed)
        self._closed.extend((first, row) for row in closed)

    def find_rows(self, numbers: Sequence[int]) -> dict[int, StoredRow]:
        """Return those of some rows that wait, or whose label came after the last snapshot, by number."""
        found: dict[int, StoredRow] = {}
        with self._reading():
            rows = self._base.execute(
                "SELECT row, waiting.key, serial, reference, came, closed, record, checksum "
                "FROM json_each(?) AS asked JOIN waiting ON row = asked.value LEFT JOIN records USING (row)",
                (f"[{','.join(map(str, numbers))}]",),
            )
            for number, key, serial, reference, came, closed, record, checksum in rows:
                if record is None or checksum != _checksum(number, key, serial, reference, came, record):
                    raise self._damage(f"row {number} does not match its checksum")
                kept = np.frombuffer(record, "<f8").astype(np.float64)
                found[number] = StoredRow(WaitingRow(number, key, serial, reference, came, kept), closed)
        return found

    def find_reference(self, reference: str) -> int | None:
        """Return the number of the row that waits under a reference, or else of the last closed one that had it."""
        with self._reading():
            for query in (
                "SELECT max(row) FROM waiting WHERE reference = ? AND closed IS NULL",
                "SELECT max(row) FROM waiting WHERE reference = ?",
                "SELECT max(row) FROM closed WHERE reference = ?",
            ):
                (number,) = self._base.execute(query, (reference,)).fetchone()
                if number is not None:
                    return int(number)
        return None

    def is_waiting(self, reference: str) -> bool:
        """Whether a row waits under a reference."""
        with self._reading():
            query = "SELECT 1 FROM waiting WHERE reference = ? AND closed IS NULL"
            return self._base.execute(query, (reference,)).fetchone() is not None

    def oldest_rows(self, count: int) -> list[tuple[int, float]]:
        """Return the numbers of the rows that have waited longest, and when they came."""
        with self._reading():
            query = "SELECT row, came FROM waiting WHERE closed IS NULL ORDER BY row LIMIT ?"
            return [(int(row), float(came)) for row, came in self._base.execute(query, (count,))]

    def waiting_rows(self) -> Iterator[tuple[str, int]]:
        """Yield the key and the number of every row that waits, the newest first."""
        with self._reading():
            query = "SELECT key, row FROM waiting WHERE closed IS NULL ORDER BY row DESC"
            yield from self._base.execute(query)

    def newest_row(self) -> int:
        """Return the largest number of a row that the journal has, 0 if it has none."""
        with self._reading():
            return int(self._base.execute("SELECT coalesce(max(row), 0) FROM waiting").fetchone()[0])

    def is_expired(self, row: int) -> bool:
        """Whether a row was given up because it had waited too long for its label."""
        with self._reading():
            return any(
                self._base.execute(f"SELECT 1 FROM {table} WHERE row = ? AND expired", (row,)).fetchone() is not None
                for table in ("waiting", "closed")
            )

    def entries_after(self, number: int) -> Iterator[JournalEntry]:
        """Yield the entries after a number, in order; refuse those that are damaged or missing."""
        with self._reading():
            following = number + 1
            found = self._base.execute("SELECT * FROM journal WHERE last > ? ORDER BY first", (number,))
            for *entry, checksum in found:
                if checksum != _checksum(*entry) or entry[0] != following:
                    raise self._damage(f"entry {following} is missing, or does not match its checksum")
                following = entry[1] + 1
                yield JournalEntry(entry[0], entry[1], EntryKind(entry[2]), entry[3])

    def last_snapshot(self) -> JournalSnapshot | None:
        """Return the last snapshot, None before the first."""
        with self._reading():
            (sequence,) = self._base.execute("SELECT max(sequence) FROM snapshot").fetchone()
        if sequence is None:
            if self.last:
                raise self._damage("its snapshot is missing")
            return None
        return self.snapshot_at(sequence)

    def snapshot_at(self, sequence: int) -> JournalSnapshot:
        """Return the snapshot that holds the entries up to a number; refuse a journal that has none."""
        with self._reading():
            query = "SELECT sequence, facts, checksum FROM snapshot WHERE sequence = ?"
            found = self._base.execute(query, (sequence,)).fetchone()
        if found is None:
            raise self._damage(f"its snapshot after entry {sequence} is missing")
        if found[2] != _checksum(*found[:2]):
            raise self._damage("its snapshot does not match its checksum")
        return JournalSnapshot(*found[:2])

    def announce(self, facts: str) -> None:
        """Write the facts of a snapshot whose model is about to be written elsewhere, beside the last one's."""
        with self._transaction():
            self._put_snapshot(JournalSnapshot(self.last, facts))

    def save(self, now: Checkpoint) -> None:
        """Put what is now in the place of the entries that led to it."""
        with self._transaction():
            run, many = self._base.execute, self._base.executemany
            self._put_snapshot(JournalSnapshot(now.keep_from - 1, now.facts))
            run("DELETE FROM snapshot WHERE sequence != ?", (now.keep_from - 1,))
            facts = [(row.key, row.facts) for row in now.keys]
            many("INSERT OR REPLACE INTO key_facts VALUES (?, ?, ?)", [(*row, _checksum(*row)) for row in facts])
            models = [(row.key, row.recent, row.model) for row in now.keys]
            many("INSERT OR REPLACE INTO key_models VALUES (?, ?, ?, ?)", [(*row, _checksum(*row)) for row in models])
            run("DELETE FROM journal WHERE last < ?", (now.keep_from,))
        self._saved = now.keep_from - 1

    def _put_snapshot(self, now: JournalSnapshot) -> None:
        self._base.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)", (*now, _checksum(*now)))

    def clean(self) -> bool:
        """Remove some rows whose end a snapshot holds; return whether there may be more of them."""
        rows = [(row,) for entry, row in islice(self._closed, CLEANED_AT_ONCE) if entry <= self._saved]
        if not rows:
            return False
        with self._transaction():
            run, many = self._base.execute, self._base.executemany
            many(
                "INSERT OR REPLACE INTO closed SELECT row, reference, expired FROM waiting "
                "WHERE row = ? AND (expired OR reference IS NOT NULL)",
                rows,
            )
            many("DELETE FROM records WHERE row = ?", rows)
            many("DELETE FROM waiting WHERE row = ?", rows)
            run("DELETE FROM closed WHERE row <= (SELECT max(row) FROM closed) - ?", (KEPT_CLOSED,))
        for _ in rows:
            self._closed.popleft()
        return len(rows) == CLEANED_AT_ONCE

    def key_facts(self) -> Iterator[tuple[str, str]]:
        """Yield every key that was saved, and its facts."""
        with self._reading():
            query = "SELECT key, facts, checksum, key IN (SELECT key FROM key_models) FROM key_facts"
            for key, facts, checksum, has_model in self._base.execute(query):
                if checksum != _checksum(key, facts) or not has_model:
                    raise self._damage(f"the facts of key {key!r:.60} do not match their checksum, or it has no model")
                yield key, facts

    def key_model(self, key: str) -> tuple[str, bytes] | None:
        """Return the last rounds and the model of a key as they were saved; None for a key that never was."""
        with self._reading():
            query = "SELECT recent, model, checksum FROM key_models WHERE key = ?"
            found = self._base.execute(query, (key,)).fetchone()
        if found is not None and found[2] != _checksum(key, *found[:2]):
            raise self._damage(f"the model of key {key!r:.60} does not match its checksum")
        return None if found is None else (found[0], found[1])

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def _transaction(self) -> _Transaction:
        return _Transaction(self._base, self.path)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Say in one sentence what SQLite cannot read, and what is of a kind that was never written."""
        try:
            yield
        except UndriftError:
            raise
        except (sqlite3.Error, ArithmeticError, TypeError, ValueError) as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_ROOM:
                raise _explain(self.path, error) from None
            raise self._damage(str(error)) from None

    def _damage(self, what: str) -> ModelFileError:
        why = _check.one_line(what, 200)
        return ModelFileError(f"{self.path}: not a journal of undrift's, or damaged ({why}); move it away")


def _checksum(*values: Any) -> int:
    """Return the CRC-32 of the values of a row of a table."""
    total = 0
    for value in values:
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        total = zlib.crc32(data, zlib.crc32(b"|", total))
    return total


class _Transaction:
    """All of what is written inside, or nothing of it; a full disk is one sentence."""

    def __init__(self, base: sqlite3.Connection, path: Path) -> None:
        self._base, self._path = base, path

    def __enter__(self) -> None:
        self._run("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if kind is None:
                self._run("COMMIT")
        finally:
            if self._base.in_transaction:
                self._run("ROLLBACK")
        if isinstance(error, sqlite3.Error):
            raise _explain(self._path, error) from None

    def _run(self, statement: str) -> None:
        try:
            self._base.execute(statement)
        except sqlite3.Error as error:
            raise _explain(self._path, error) from None


_NO_ROOM = sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_READONLY
"""What SQLite answers where a file is whole but cannot be written."""


def _explain(path: Path, error: Exception) -> InputError:
    return InputError(f"{path}: cannot be written ({error}); make room on the disk, then try again")
