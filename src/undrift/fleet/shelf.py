"""Shelf: states, outputs and progress of a fleet in one file, changed together or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from undrift.errors import ModelFileError
from undrift.fleet.outputs import Key, Outputs

VERSION = 1
FILE = "fleet.db"
PAGE = 65_536
"""Bytes; of new files. States of 8 to 20 kilobytes should lie in one piece, and leave little room between them."""
CACHE = 65_536
"""Kilobytes of pages kept in memory."""
ASKED = 500
"""States read at a time."""
_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS states (key PRIMARY KEY, state BLOB);
CREATE TABLE IF NOT EXISTS outputs (part INTEGER PRIMARY KEY, source TEXT, packed BLOB);
CREATE TABLE IF NOT EXISTS progress (source TEXT PRIMARY KEY, records INTEGER);
"""


class Shelf(Mapping[Key, bytes]):
    """A folder with the states of a fleet, read key by key; survives being killed at any moment.

    A change is one transaction: the states, what was said, and how far the source was read. It is an SQLite file
    holding data only.
    """

    def __init__(self, folder: str | os.PathLike[str], fingerprint: bytes) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(self.folder / FILE, isolation_level=None, check_same_thread=False)
        try:
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute(f"PRAGMA page_size = {PAGE}")
            self._db.execute(f"PRAGMA cache_size = -{CACHE}")
            self._db.execute("BEGIN IMMEDIATE")
            for statement in _TABLES.split(";"):
                self._db.execute(statement)
            about = {"version": VERSION, "fingerprint": fingerprint.hex()}
            self._db.execute("INSERT OR IGNORE INTO about VALUES ('fleet', ?)", (json.dumps(about),))
            saved = json.loads(self._db.execute("SELECT value FROM about WHERE name = 'fleet'").fetchone()[0])
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise ModelFileError(f"{self.folder}: another process is using this fleet ({error}); wait for it") from None
        except (sqlite3.DatabaseError, ValueError):
            raise ModelFileError(f"{self.folder}: {FILE} is damaged or not a fleet's; choose another folder") from None
        if saved["version"] > VERSION:
            raise ModelFileError(
                f"{self.folder}: version {saved['version']} is newer than this undrift; upgrade undrift"
            )
        if saved["fingerprint"] != fingerprint.hex():
            raise ModelFileError(
                f"{self.folder}: made by a fleet with another model or other features; choose another folder"
            )

    def __getitem__(self, key: Key) -> bytes:
        found = self._db.execute("SELECT state FROM states WHERE key = ?", (key,)).fetchone()
        if found is None:
            raise KeyError(key)
        return bytes(found[0])

    def __iter__(self) -> Iterator[Key]:
        return (row[0] for row in self._db.execute("SELECT key FROM states ORDER BY key"))

    def __len__(self) -> int:
        return int(self._db.execute("SELECT count(*) FROM states").fetchone()[0])

    def seen(self, source: str) -> int:
        """Return how many records of a source are behind the states."""
        row = self._db.execute("SELECT records FROM progress WHERE source = ?", (source,)).fetchone()
        return 0 if row is None else int(row[0])

    def some(self, keys: Sequence[Key]) -> dict[Key, bytes]:
        """Return the states of those keys that have one."""
        found: dict[Key, bytes] = {}
        for a in range(0, len(keys), ASKED):
            asked = keys[a : a + ASKED]
            marks = ",".join("?" * len(asked))
            found.update(self._db.execute(f"SELECT key, state FROM states WHERE key IN ({marks})", asked))
        return found

    @contextlib.contextmanager
    def change(self) -> Iterator[None]:
        """Keep everything that is put in meanwhile, or nothing if that fails or is killed."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def put(self, states: Mapping[Key, bytes]) -> None:
        """Put in new states."""
        put = "INSERT INTO states VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET state = excluded.state"
        self._db.executemany(put, states.items())

    def note(self, outputs: Outputs, source: str, seen: int) -> None:
        """Put in what was said, and that `seen` records of the source are done."""
        if len(outputs):
            self._db.execute("INSERT INTO outputs (source, packed) VALUES (?, ?)", (source, outputs.pack()))
        self._db.execute("INSERT OR REPLACE INTO progress VALUES (?, ?)", (source, seen))

    def outputs(self, source: str) -> Iterator[Outputs]:
        """Yield what was said about a source's records, part by part."""
        for (packed,) in self._db.execute("SELECT packed FROM outputs WHERE source = ? ORDER BY part", (source,)):
            yield Outputs.unpack(packed)

    def close(self) -> None:
        """Close the file."""
        self._db.close()
