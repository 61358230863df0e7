"""StateStore: states, outputs and progress of a fleet in one file, changed together or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from undrift._internal.folder import write_refused
from undrift.errors import InputError, ModelFileError, UndriftError
from undrift.kernels import Lock
from undrift.stream.keyed.outputs import Key, Outputs

MAGIC = b"SQLite format 3\0"
OPEN_TIMEOUT = 20.0
"""Seconds that opening a file may take, since a hostile one could take for ever."""
MAX_VALUE_BYTES = 2**28
"""Bytes of one value, at most, unless the file itself is larger."""
LOCK_TIMEOUT = 5.0
"""Seconds to wait for another process that is in the middle of a change."""
_ON_OUR_TABLES = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE))
_ALWAYS_ALLOWED = frozenset((sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SELECT))
_DISK_FULL_BELOW = 4 * 65_536
"""Free bytes below which a failure of the disk is taken for a full one."""


def connect(path: Path, tables: Mapping[str, Collection[str]], page: int, cache: int) -> sqlite3.Connection:
    """Open a file that holds these tables, new or old; refuse one that holds anything else.

    Parameters
    ----------
    path
        The file.
    tables
        For each table, the statements that may have made it; the first one makes a new one.
    page
        Bytes of a page, in a new file.
    cache
        Kilobytes of pages kept in memory.
    """
    size = _check_file(path)
    with translate_errors(path):
        db = sqlite3.connect(path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
    try:
        with translate_errors(path):
            db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(MAX_VALUE_BYTES, min(size, 10**9)))
            db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            deadline = time.monotonic() + OPEN_TIMEOUT
            db.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA cell_size_check = ON")
            db.execute("PRAGMA mmap_size = 0")
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA page_size = {page}")
            db.execute(f"PRAGMA cache_size = -{cache}")
            db.execute("BEGIN IMMEDIATE")
            _make_or_check(db, path, tables)
            db.execute("COMMIT")
            db.set_progress_handler(None, 0)
            names = frozenset(tables)
            db.set_authorizer(lambda action, name, _2, _3, within: _allow(names, action, name, within))
    except BaseException:
        db.close()
        raise
    return db


def _check_file(path: Path) -> int:
    """Return the size of the file, 0 if there is none; refuse links and files that do not begin as ours do."""
    with translate_errors(path):
        try:
            found = path.lstat()
        except FileNotFoundError:
            return 0
        if not stat.S_ISREG(found.st_mode):
            raise ModelFileError(f"{path}: a link or a folder where a file should be; it is not followed")
        if found.st_size:
            with path.open("rb") as file:
                head = file.read(20)
            if head[:16] != MAGIC or head[18:20] != b"\x01\x01":  # the journal mode we write, not WAL
                raise damaged_file_error(path)
    return found.st_size


def _make_or_check(db: sqlite3.Connection, path: Path, tables: Mapping[str, Collection[str]]) -> None:
    found = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT 100").fetchall()
    if not found:
        for statements in tables.values():
            db.execute(next(iter(statements)))
        return
    made = {name for kind, name, _, sql in found if kind == "table" and sql in tables.get(name, ())}
    ours = all(
        (kind == "table" and name in made) or (kind == "index" and sql is None and table in made)
        for kind, name, table, sql in found
    )
    if not ours or made != set(tables):
        raise damaged_file_error(path)


def _allow(names: Collection[str], action: int, name: str | None, within: str | None) -> int:
    """Whether a statement may do this: change and read our tables, by itself and not from a view or a trigger."""
    fine = within is None and (action in _ALWAYS_ALLOWED or (action in _ON_OUR_TABLES and name in names))
    return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY


def damaged_file_error(path: Path) -> ModelFileError:
    """Return the error for a file whose contents are not what we write."""
    return ModelFileError(f"{path}: damaged, or not a fleet of undrift's; choose another folder")


@contextlib.contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite and of the disk into one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explain(path, error) from None
    except UnicodeError:  # in a text of the file, or in what SQLite says about it
        raise damaged_file_error(path) from None
    except OSError as error:
        if isinstance(error, UndriftError):
            raise
        raise InputError(f"{path}: cannot be used ({(error.strerror or str(error)).lower()})") from None


def _explain(path: Path, error: sqlite3.Error) -> UndriftError:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return InputError(f"{path.parent}: another process is writing this fleet; wait for it to end")
    failed = code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
    if code == sqlite3.SQLITE_FULL or (failed and _is_full(path.parent)):
        return UndriftError(f"{path.parent}: the disk is full; make room, then give the same command again")
    if failed or code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return write_refused(path.parent, str(error))
    return damaged_file_error(path)


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _DISK_FULL_BELOW or not os.statvfs(folder).f_favail
    except (OSError, AttributeError):
        return False


VERSION = 2
STORE_FILE, JOURNAL_FILE = "fleet.db", "fleet.db-journal"
PAGE = 65_536
"""Bytes of a page in new files: a state of 8 to 20 kilobytes should fit into one with little room to spare."""
CACHE = 65_536
"""Kilobytes of pages kept in memory."""
KEYS_PER_QUERY = 500
"""States read at a time."""
ROWS_PER_PART = 100_000
"""Rows of outputs that are stored as one value, at most."""
_TABLES = {
    "about": ("CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT)",),
    "states": (
        "CREATE TABLE states (key PRIMARY KEY, state BLOB)",
        "CREATE TABLE states (key PRIMARY KEY, state BLOB) WITHOUT ROWID",
    ),
    "outputs": ("CREATE TABLE outputs (part INTEGER PRIMARY KEY, source TEXT, packed BLOB)",),
    "progress": ("CREATE TABLE progress (source TEXT PRIMARY KEY, records INTEGER, digest BLOB)",),
}
COMPARED_FIRST = ("file", "key", "order", "target")
"""Where several things differ, the error names one of these if it can: others may follow from them."""
About = Mapping[str, Any]
"""What decides about the results of a fleet: JSON values by name."""


class SourceProgress(NamedTuple):
    """How far a source was read."""

    records: int
    """Records that are behind the states."""
    digest: bytes
    """Of these records."""


class FleetMismatchError(InputError):
    """A folder holds a fleet that was made with other columns, another model or other settings."""

    def __init__(self, folder: Path, name: str, then: object, now: object) -> None:
        self.name, self.then, self.now = name, then, now
        super().__init__(
            f"{folder}: this fleet was made with {name} = {then!r:.60}, not {now!r:.60}; choose another folder"
        )


class StateStore(Mapping[Key, bytes]):
    """A file with the states of a fleet, read key by key; survives being killed at any moment.

    A transaction holds the new states, the outputs, and how far the source was read. It is an SQLite file holding data
    only.
    """

    def __init__(self, path: Path, about: About) -> None:
        self.path = path
        # SQLite asks Python whether a statement is allowed while it holds a lock of its own: two threads inside it
        # would wait for each other for ever, one for that lock, one for the interpreter.
        self._lock = Lock()
        self._db = connect(path, _TABLES, PAGE, CACHE)
        try:
            with translate_errors(self.path), self._sql_transaction():
                self._db.execute("INSERT OR IGNORE INTO about VALUES ('version', ?)", (str(VERSION),))
                self._db.execute("INSERT OR IGNORE INTO about VALUES ('fleet', ?)", (json.dumps(dict(about)),))
                self._compare(about)
        except BaseException:
            self._db.close()
            raise

    def _compare(self, about: About) -> None:
        """Refuse a file of another version, or of a fleet that was made otherwise."""
        rows = self._rows("SELECT name, value FROM about")
        found = {str(name): value for name, value in rows}
        try:
            version, then = int(found["version"]), json.loads(found["fleet"])
        except (KeyError, ValueError, TypeError, RecursionError):
            raise damaged_file_error(self.path) from None
        if version > VERSION:
            raise ModelFileError(f"{self.path}: version {version} is newer than this undrift; upgrade undrift")
        if version < VERSION or not isinstance(then, dict):
            raise damaged_file_error(self.path)
        now = json.loads(json.dumps(dict(about)))
        for name in sorted({*then, *now}, key=lambda name: (name not in COMPARED_FIRST, name)):
            if then.get(name) != now.get(name):
                raise FleetMismatchError(self.path.parent, name, then.get(name), now.get(name))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getitem__(self, key: Key) -> bytes:
        found = self.get_many([key])
        if key not in found:
            raise KeyError(key)
        return found[key]

    def __iter__(self) -> Iterator[Key]:
        return (self._from_sqlite(row[0]) for row in self._rows("SELECT key FROM states ORDER BY key"))

    def __len__(self) -> int:
        return sum(1 for _ in self)  # SQLite's own count could be kept busy for ever by a hostile file

    def progress(self, source: str) -> SourceProgress:
        """Return how far a source was read."""
        for records, digest in self._rows("SELECT records, digest FROM progress WHERE source = ?", source):
            if type(records) is not int or records < 0 or type(digest) is not bytes:
                raise damaged_file_error(self.path)
            return SourceProgress(records, digest)
        return SourceProgress(0, b"")

    def digest(self) -> str:
        """Return what tells these states from those of other records or settings, without reading them all."""
        parts = [*self._rows("SELECT name, value FROM about ORDER BY name")]
        parts += [*self._rows("SELECT source, records, digest FROM progress ORDER BY source")]
        return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def get_many(self, keys: Sequence[Key]) -> dict[Key, bytes]:
        """Return the states of those keys that have one."""
        found: dict[Key, bytes] = {}
        for a in range(0, len(keys), KEYS_PER_QUERY):
            stored = [_to_sqlite(key) for key in keys[a : a + KEYS_PER_QUERY]]
            marks = ",".join("?" * len(stored))
            for key, state in self._rows(f"SELECT key, state FROM states WHERE key IN ({marks})", *stored):
                if type(state) is not bytes:
                    raise damaged_file_error(self.path)
                found[self._from_sqlite(key)] = state
        return found

    @contextlib.contextmanager
    def transaction(self, source: str, records: int) -> Iterator[None]:
        """Keep everything that is put in meanwhile, or nothing if that fails or is killed.

        Refuses if the source is not read up to `records`, because then another process was at work here.
        """
        with self._sql_transaction():
            now = self.progress(source).records
            if now != records:
                raise InputError(
                    f"{self.path.parent}: another process wrote to this fleet meanwhile ({now} records instead of "
                    f"{records}); nothing was learned twice, give the same command again"
                )
            yield

    @contextlib.contextmanager
    def _sql_transaction(self) -> Iterator[None]:
        with self._lock:
            with translate_errors(self.path):
                self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                with translate_errors(self.path):
                    self._db.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # after some failures SQLite has rolled back by itself
                    self._db.execute("ROLLBACK")
                raise

    def put(self, states: Mapping[Key, bytes], *, replace: bool = True) -> None:
        """Put in new states, or those of keys that have none."""
        put = "INSERT INTO states VALUES (?, ?) ON CONFLICT (key) DO "
        put += "UPDATE SET state = excluded.state" if replace else "NOTHING"
        with self._lock, translate_errors(self.path):
            self._db.executemany(put, ((_to_sqlite(key), state) for key, state in states.items()))

    def add_outputs(self, outputs: Iterable[Outputs], source: str, progress: SourceProgress) -> None:
        """Put in outputs, and how far the source is read."""
        with self._lock, translate_errors(self.path):
            for part in Outputs.concat(outputs).split(ROWS_PER_PART):
                self._db.execute("INSERT INTO outputs (source, packed) VALUES (?, ?)", (source, part.pack()))
            values = (source, progress.records, progress.digest)
            self._db.execute("INSERT OR REPLACE INTO progress VALUES (?, ?, ?)", values)

    def outputs(self, source: str | None) -> Iterator[Outputs]:
        """Yield the outputs for a source's records, or for those of all sources (None), part by part."""
        which, values = ("", ()) if source is None else (" WHERE source = ?", (source,))
        for (packed,) in self._rows(f"SELECT packed FROM outputs{which} ORDER BY part", *values):
            if type(packed) is not bytes:
                raise damaged_file_error(self.path)
            yield Outputs.unpack(packed)

    @staticmethod
    def discard_journal(path: Path) -> None:
        """Remove the journal of a file that is about to be replaced, undoing first what it was kept for."""
        journal = path.with_name(f"{path.name}-journal")
        if journal.exists():
            with contextlib.suppress(UndriftError):
                connect(path, _TABLES, PAGE, CACHE).close()
            journal.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _rows(self, statement: str, *values: object) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query, no more than the file has room for: a hostile file may repeat them for ever."""
        with translate_errors(self.path):
            max_rows = self.path.stat().st_size // 4 + 1000
            with self._lock:
                cursor = self._db.execute(statement, values)
            while (row := self._next(cursor)) is not None:
                max_rows -= 1
                if max_rows < 0:
                    raise damaged_file_error(self.path)
                yield row

    def _next(self, cursor: sqlite3.Cursor) -> tuple[Any, ...] | None:
        with self._lock:
            return cursor.fetchone()  # type: ignore[no-any-return]  # a row is a tuple

    def _from_sqlite(self, stored: object) -> Key:
        """Return the key that `_to_sqlite` stored."""
        if type(stored) is int or type(stored) is str:
            return stored
        try:
            return int(stored.decode("ascii"))  # type: ignore[attr-defined]  # fails right here
        except (AttributeError, ValueError):
            raise damaged_file_error(self.path) from None


def read_about(path: Path) -> dict[str, Any]:
    """Return what a fleet's file says about how it was made."""
    db = connect(path, _TABLES, PAGE, CACHE)
    try:
        with translate_errors(path):
            found = dict(db.execute("SELECT name, value FROM about WHERE name = 'fleet' LIMIT 2").fetchall())
        return dict(json.loads(found["fleet"]))
    except (KeyError, ValueError, TypeError, RecursionError):
        raise damaged_file_error(path) from None
    finally:
        db.close()


def is_store(path: Path) -> bool:
    """Whether a file is one of ours, by its tables."""
    if not path.is_file():
        return False
    try:
        connect(path, _TABLES, PAGE, CACHE).close()
    except UndriftError:
        return False
    return True


def _to_sqlite(key: Key) -> int | str | bytes:
    """Return a key as SQLite holds it: integers beyond 64 bits as bytes, which no other key is."""
    if isinstance(key, int) and not -(2**63) <= key < 2**63:
        return str(key).encode()
    return key  # type: ignore[no-any-return]  # text or an integer
