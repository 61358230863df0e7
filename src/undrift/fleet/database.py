"""Open SQLite files that anyone may have made: only our tables are accepted, and every failure is one sentence."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from undrift._internal.folder import write_refused
from undrift.errors import InputError, ModelFileError, UndriftError

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
