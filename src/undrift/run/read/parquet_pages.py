"""What the pages of a Parquet file unpack to, by their own headers, before anything is unpacked.

A page of a few bytes may stand for two gigabytes. The libraries that read Parquet unpack a page before anyone can ask
for its size, so its header is read here. Headers are structures of Thrift's compact protocol: lists of a field's
number, its type and its value, which takes one short reader. The numbers below are those of `parquet.thrift`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from undrift.errors import DataError
from undrift.run.read.verified_file import VerifiedFile

PAGE = 1 << 26
"""Bytes a page may unpack to: 64 MiB. Writers make pages of about one."""
HEADER = 1 << 16
"""Bytes of a page's header that are looked at; it ends with the smallest and the largest value."""
DEEPEST = 16
Fields = dict[int, Any]


class DamagedHeader(Exception):
    """Bytes that are no headers of Parquet."""


def row_bytes(file: VerifiedFile, leave_out: Collection[str], widest: int) -> float:
    """Return the most that a row unpacks to, by means over pages; refuse large pages and too many columns."""
    largest: dict[str, float] = {}
    try:
        for name, page in page_headers(file, leave_out, widest):
            unpacked = page[2]
            if not 0 <= unpacked <= PAGE:
                raise DataError(
                    f"{file.name}: a page of column '{name}' unpacks to {unpacked / 2**20:,.0f} MiB, where "
                    f"{PAGE >> 20} are allowed; write the file again with smaller pages, or pass --drop '{name}'"
                )
            rows = page.get(5) or page.get(8)  # of data; a dictionary's entries are shared by the rows
            if rows:
                largest[name] = max(largest.get(name, 0.0), unpacked / max(1, rows[1]))
    except (DamagedHeader, LookupError, TypeError, AttributeError, UnicodeDecodeError):  # whatever nonsense may lead to
        raise DataError(f"{file.name}: not a Parquet file, or damaged (its headers make no sense)") from None
    return sum(largest.values())


def page_headers(file: VerifiedFile, leave_out: Collection[str], widest: int) -> Iterator[tuple[str, Fields]]:
    """Yield the column's name and the header of every page."""
    tail = file.read_at(max(0, file.size - 8), 8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or length > file.size - 12:
        raise DamagedHeader
    footer = ThriftReader(file.read_at(file.size - 8 - length, length)).structure()
    columns = len(footer[2]) - 1  # the first element is the table
    if columns > widest:
        raise DataError(f"{file.name}: {columns:,} columns, where {widest:,} are allowed; leave some out")
    for group in footer[4]:
        for column in group[1]:
            facts = column[3]
            name = facts[3][0].decode()
            if name in leave_out:
                continue
            at = min(facts[9], facts.get(11, facts[9]))
            end = at + facts[7]
            if not 0 <= at <= end <= file.size:
                raise DamagedHeader
            while at < end:
                page, size = _header(file, at)
                if page[3] < 0:
                    raise DamagedHeader
                yield name, page
                at += size + page[3]


def _header(file: VerifiedFile, at: int) -> tuple[Fields, int]:
    """Return the header of a page and its size."""
    for most in (HEADER >> 6, HEADER):
        reader = ThriftReader(file.read_at(at, most))
        try:
            return reader.structure(), reader.at
        except (DamagedHeader, LookupError):  # it may go on after what was read
            continue
    raise DamagedHeader


class ThriftReader:
    """A reader of Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def structure(self, depth: int = 0) -> Fields:
        """Return the fields of a structure by number."""
        if depth > DEEPEST:
            raise DamagedHeader
        out: Fields = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed_varint()
            kind = head & 15
            out[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return out

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed_varint()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._varint())
        if kind in (9, 10):
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            if count > len(self.data) - self.at:  # every element takes a byte at least
                raise DamagedHeader
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind == 11:
            count = self._varint()
            kinds = self._byte() if count else 0
            if count > len(self.data) - self.at:
                raise DamagedHeader
            return [(self._value(kinds >> 4, depth + 1), self._value(kinds & 15, depth + 1)) for _ in range(count)]
        if kind == 12:
            return self.structure(depth + 1)
        raise DamagedHeader

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        found = self.data[self.at : self.at + count]
        if len(found) < count:
            raise DamagedHeader
        self.at += count
        return found

    def _varint(self) -> int:
        out = shift = 0
        while True:
            byte = self._byte()
            out |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return out
            if shift > 63:
                raise DamagedHeader

    def _signed_varint(self) -> int:
        bits = self._varint()
        return (bits >> 1) ^ -(bits & 1)
