"""Sources: files of rows, read in batches of a fixed size, with the line every row stands on."""

from __future__ import annotations

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift.errors import DataError, InputError
from undrift.run.data import Lines
from undrift.run.extras import extra
from undrift.run.settings import Settings

BATCH = 4096
"""Rows read at a time; part of what makes a resumed run the same, so fixed."""

Cells = Sequence[object] | NDArray[np.generic]
"""One column of a batch: texts or JSON values, None where missing; or an array of numbers or times."""

ENDINGS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet"}
ENDINGS |= {".ndjson": "ndjson", ".jsonl": "ndjson"}
PACKED = (".gz", ".zst")


class Batch(NamedTuple):
    """Some rows of a source."""

    lines: Lines
    """Where they stand."""
    columns: dict[str, Cells]
    """Their cells, by column."""


class Source:
    """A file, or the standard input ("-")."""

    def __init__(self, path: str, settings: Settings) -> None:
        self.stdin = path == "-"
        self.path, self.settings = Path(path), settings
        self.name = "stdin" if self.stdin else path
        if not self.stdin and not self.path.is_file():
            kind = "is a folder" if self.path.is_dir() else "does not exist"
            raise InputError(f"{path} {kind}; name a CSV, Parquet or NDJSON file, or - for the standard input")
        self.format = self._format()
        self.size = None if self.stdin else self.path.stat().st_size
        self._raw: IO[bytes] | None = None
        if self.size == 0:
            raise DataError(f"{self.name} is empty; it needs a header line and rows")

    @property
    def place(self) -> str:
        """What a row's number is called."""
        return "row" if self.format == "parquet" else "line"

    def at(self, line: int) -> str:
        """Return where something stands, for an error."""
        return f"{self.name}, {self.place} {line}"

    def digest(self) -> str | None:
        """Return the file's SHA-256; None for the standard input."""
        if self.stdin:
            return None
        try:
            with self.path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise InputError(f"{self.name} cannot be read ({(error.strerror or '').lower()})") from None

    def fraction(self) -> float | None:
        """Return the part of the file that was read; None if nobody knows."""
        if self._raw is None or not self.size or self.stdin:
            return None
        return 1.0 if self._raw.closed else min(1.0, self._raw.tell() / self.size)

    def batches(self) -> Iterator[Batch]:
        """Yield the rows in order, up to the limit."""
        left = self.settings.limit
        for batch in self._every():
            if left is None or len(batch.lines) < left:
                yield batch
            else:
                yield Batch(batch.lines[:left], {name: cells[:left] for name, cells in batch.columns.items()})
                return
            left = None if left is None else left - len(batch.lines)

    def _every(self) -> Iterator[Batch]:
        if self.format == "parquet":
            from undrift.run.parquet import parquet_batches

            return parquet_batches(self)
        if self.format == "ndjson":
            from undrift.run.ndjson import ndjson_batches

            return ndjson_batches(self)
        from undrift.run.csvfile import csv_batches

        return csv_batches(self)

    def lines(self) -> Iterator[str]:
        """Yield the lines of a text file, decoded; number them from 1."""
        encoding, number = self.settings.encoding, 0
        try:
            "".encode(encoding)
        except LookupError:
            raise InputError(f"settings: encoding '{encoding}' is unknown; try utf-8, latin-1 or cp1252") from None
        try:
            for raw in self._open():
                number += 1
                text = raw.decode(encoding)
                yield text[1:] if number == 1 and text[:1] == "\ufeff" else text
        except UnicodeDecodeError as error:
            bad = error.object[error.start]
            if number == 1 and error.object[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise DataError(f"{self.name} is UTF-16; save it as UTF-8") from None
            raise DataError(
                f"{self.at(number + (number == 0))}: byte 0x{bad:02x} is not {encoding}; "
                "save the file as UTF-8, or pass --encoding latin-1"
            ) from None
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise DataError(f"{self.name}: cut off or damaged after line {number}; compress it again") from None
        except OSError as error:
            raise InputError(f"{self.name} cannot be read ({(error.strerror or str(error)).lower()})") from None
        finally:
            if self._raw is not None and not self.stdin:
                self._raw.close()

    def _open(self) -> IO[bytes]:
        self._raw = sys.stdin.buffer if self.stdin else self.path.open("rb")
        packed = self._packed()
        if packed == ".gz":
            return io.BufferedReader(gzip.GzipFile(fileobj=self._raw), 1 << 18)
        if packed == ".zst":
            zstd = extra("zstandard", self.name)
            return io.BufferedReader(_Zstd(zstd, self._raw), 1 << 18)
        return self._raw

    def _packed(self) -> str:
        return "" if self.stdin else next((end for end in PACKED if self.path.name.lower().endswith(end)), "")

    def _format(self) -> str:
        if self.settings.format != "auto":
            return self.settings.format
        if self.stdin:
            return "csv"
        name = self.path.name.lower().removesuffix(".gz").removesuffix(".zst")
        found = ENDINGS.get(Path(name).suffix)
        if found is None:
            raise InputError(
                f"{self.name}: what is in it? The ending is none of {', '.join(ENDINGS)}; "
                "pass --format csv, parquet or ndjson"
            )
        if found == "parquet" and self._packed():
            raise InputError(f"{self.name}: Parquet is compressed inside; unpack the file first")
        return found


class _Zstd(io.RawIOBase):
    """A zstd stream whose errors are ours."""

    def __init__(self, zstd: Any, raw: IO[bytes]) -> None:
        self._zstd, self._raw = zstd, raw
        self._frame = zstd.ZstdDecompressor().decompressobj()
        self._ready, self._begun = b"", False

    def readable(self) -> bool:
        """Whether it can be read from."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; 0 at the end, which must be the end of a frame."""
        while not self._ready:
            packed = self._frame.unused_data if self._frame.eof else b""
            packed = packed or self._raw.read(1 << 16)
            if not packed:
                if self._begun and not self._frame.eof:
                    raise EOFError
                return 0
            if self._frame.eof:
                self._frame = self._zstd.ZstdDecompressor().decompressobj()
            self._begun = True
            try:
                self._ready = self._frame.decompress(packed)
            except self._zstd.ZstdError:
                raise EOFError from None
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count
