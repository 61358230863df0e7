"""A file as it was when it was opened: what is appended later is not seen, what changes is refused.

A run records the digest of its file, and learns for minutes. A log may grow meanwhile, and an editor may save over it;
so the size is taken once, and every piece that is read is compared with what was digested. No row is learned that the
digest does not cover. It is our own code because no file system keeps others from writing, and a copy of every file
would cost its size.
"""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

from undrift.errors import DataError, InputError

PIECE = 1 << 20
"""Bytes that are digested, and compared again, at a time."""


class VerifiedFile:
    """One descriptor, kept open; bytes from 0 up to the size at opening, or up to `size` if that is less."""

    def __init__(self, path: Path, name: str, size: int | None = None) -> None:
        self.path, self.name = path, name
        try:
            self._file = path.open("rb", buffering=0)
        except OSError as error:
            raise InputError(f"{name} cannot be read ({(error.strerror or '').lower()})") from None
        self._then = os.fstat(self._file.fileno())
        self.size = self._then.st_size if size is None else min(size, self._then.st_size)
        self._digest: str | None = None
        self._pieces: list[int] = []

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def digest(self) -> str:
        """Return the SHA-256 of the bytes; from now on, pieces that are read must be those that were digested."""
        if self._digest is None:
            whole, pieces = hashlib.sha256(), []
            for first in range(0, self.size, PIECE):
                piece = self.read_at(first, PIECE)
                whole.update(piece)
                pieces.append(_fingerprint(piece))
            self._pieces, self._digest = pieces, whole.hexdigest()
        return self._digest

    def piece(self, number: int) -> bytes:
        """Return the bytes from `number` times `PIECE` on, at most that many."""
        piece = self.read_at(number * PIECE, PIECE)
        if self._digest is not None and _fingerprint(piece) != self._pieces[number]:
            raise self._change_error()
        return piece

    def read_at(self, first: int, count: int) -> bytes:
        """Return some bytes as they are now, fewer at the end; not compared with what was digested."""
        parts, count = bytearray(), max(0, min(count, self.size - first))
        try:
            self._file.seek(first)
            while len(parts) < count:
                some = self._file.read(count - len(parts))
                if not some:
                    raise self._change_error()
                parts += some
        except OSError as error:
            raise InputError(f"{self.name} cannot be read ({(error.strerror or str(error)).lower()})") from None
        return bytes(parts)

    def grew(self) -> bool:
        """Whether the file is longer than when it was opened."""
        return os.fstat(self._file.fileno()).st_size > self._then.st_size

    def require_unchanged(self) -> None:
        """Refuse to go on if the path leads to another file or other contents; for readers that open it themselves."""
        try:
            now = os.stat(self.path)
        except OSError:
            raise self._change_error() from None
        same = ("st_dev", "st_ino", "st_size", "st_mtime_ns")
        if any(getattr(now, what) != getattr(self._then, what) for what in same):
            raise self._change_error()

    def _change_error(self) -> DataError:
        return DataError(
            f"{self.name} changed while it was read, and what was learned would be of two files; "
            "start again with a copy that nobody writes to"
        )


class VerifiedReader(io.RawIOBase):
    """Reads an opened file from its first byte; any number of readers may share one."""

    def __init__(self, file: VerifiedFile) -> None:
        self._file, self._at = file, 0
        self._piece, self._number = b"", -1

    def readable(self) -> bool:
        """Whether it can be read from."""
        return True

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; 0 at the end."""
        if self._at >= self._file.size:
            return 0
        number, first = divmod(self._at, PIECE)
        if number != self._number:
            self._piece, self._number = self._file.piece(number), number
        count = min(len(buffer), len(self._piece) - first)
        buffer[:count] = self._piece[first : first + count]
        self._at += count
        return count


def _fingerprint(piece: bytes) -> int:
    """Return 64 bits of a piece for this process alone: SipHash, with a key that no writer of the file knows."""
    return hash(piece)
