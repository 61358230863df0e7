"""Sources: files of rows, read in batches of a fixed size, with the line every row stands on."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import lzma
import re
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from undrift.errors import DataError, InputError
from undrift.run.read.csv_file import csv_batches
from undrift.run.read.ndjson import ndjson_batches
from undrift.run.read.parquet import parquet_batches
from undrift.run.read.unpack import decode_wide, unpack
from undrift.run.read.verified_file import VerifiedFile, VerifiedReader
from undrift.run.read.workbook import excel_batches
from undrift.stream.cells import MAX_LINE_BYTES, RowBatch
from undrift.stream.first_rows import RowOrigin
from undrift.stream.settings import Settings

ENDINGS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".parquet": "parquet", ".pq": "parquet"}
ENDINGS |= {".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson"}
ENDINGS |= dict.fromkeys((".xlsx", ".xlsm", ".xls", ".ods"), "excel")
_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_OBJECT, _FIRST_BYTES = re.compile(rb"(\xef\xbb\xbf)?\s*(\[\s*)?\{"), 64
COMPRESSIONS = (".gz", ".zst", ".bz2", ".xz", ".zip")
BLOCK = 1 << 18
"""Bytes of a text file that are read at a time, at most."""
LINEWISE = frozenset(("utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1250", "cp1251", "cp1252"))
"""Encodings in which many lines decoded at once are the same as one after the other."""


class Source(RowOrigin):
    """A file, or the standard input ("-").

    With `size`, only the first so many bytes of a file that grew since. Columns named `exact` keep integers and times
    as they are: they never become floats.
    """

    def __init__(self, path: str, settings: Settings, *, size: int | None = None, exact: Iterable[str] = ()) -> None:
        self.exact = frozenset(exact)
        self.stdin = path == "-"
        if _URL.match(path):
            raise InputError(
                f"{path:.200}: an address, not a file; download it first, for example with curl -LO {path:.200}"
            )
        self.path = Path(path).expanduser()
        super().__init__("stdin" if self.stdin else path, settings)
        if not self.stdin and not self.path.is_file():
            kind = "is a folder" if self.path.is_dir() else "is no file" if self.path.exists() else "does not exist"
            raise InputError(f"{path} {kind}; name a CSV, JSON, Excel or Parquet file, or - for the standard input")
        self.format = self._format()
        self.row_word = "row" if self.format in ("parquet", "excel") else "line"
        self.file = None if self.stdin else VerifiedFile(self.path, self.name, size)
        self._reader: VerifiedReader | None = None
        if self.size == 0:
            raise DataError(f"{self.name} is empty; it needs a header line and rows")

    @property
    def size(self) -> int | None:
        """Bytes of the file when it was opened; None for the standard input."""
        return None if self.file is None else self.file.size

    def digest(self) -> str | None:
        """Return the file's SHA-256 and refuse to read anything else from now on; None for the standard input."""
        return None if self.file is None else self.file.digest()

    def prefix_digests(self, sizes: Iterable[int]) -> dict[int, str]:
        """Return the SHA-256 of the first so many bytes for each of the sizes that are smaller than the file."""
        out: dict[int, str] = {}
        wanted = sorted({size for size in sizes if self.size is not None and 0 <= size < self.size})
        if not wanted:
            return out
        digest, read = hashlib.sha256(), 0
        with self.path.open("rb") as file:
            for size in wanted:
                while read < size and (block := file.read(min(size - read, 1 << 20))):
                    digest.update(block)
                    read += len(block)
                out[size] = digest.hexdigest()
        return out

    def fraction(self) -> float | None:
        """Return the part of the file that was read; None if nobody knows."""
        return None if self._reader is None or not self.size else self._reader.tell() / self.size

    def batches(self) -> Iterator[RowBatch]:
        """Return the rows in order, up to the limit; nothing after it is read."""
        if self.stdin and self.settings.format == "auto" and self._begins_with_object():
            self.format = "ndjson"
        readers = {"csv": csv_batches, "ndjson": ndjson_batches, "parquet": parquet_batches, "excel": excel_batches}
        return readers[self.format](self)

    def lines(self) -> Iterator[str]:
        """Yield the lines of a text file, decoded; number them from 1."""
        for block in self.blocks():
            yield from io.StringIO(block, newline="\n")

    def blocks(self) -> Iterator[str]:
        """Yield a text file, decoded, in blocks of whole lines; all lines before one that is refused are yielded."""
        encoding, number = self.settings.encoding, 0
        try:
            "".encode(encoding)
        except (LookupError, ValueError):
            raise InputError(f"settings: encoding '{encoding}' is unknown; try utf-8, latin-1 or cp1252") from None
        try:
            file, encoding = decode_wide(self._open(), encoding)
            for raw in _whole_lines(file):
                if raw[-1:] != b"\n":
                    self._require_whole(number + 1, raw)
                first, refused = number == 0, None
                text = _decode_at_once(raw, encoding)
                if text is not None:
                    number += raw.count(b"\n") or 1
                else:
                    texts: list[str] = []
                    try:
                        for line in io.BytesIO(raw):
                            number += 1
                            texts.append(line.decode(encoding))
                    except UnicodeError as error:
                        refused = error
                    text = "".join(texts)
                yield text[1:] if first and text[:1] == "\ufeff" else text
                if refused is not None:
                    raise refused
        except UnicodeDecodeError as error:
            bad = error.object[error.start]
            raise DataError(
                f"{self.at(number + (number == 0))}: byte 0x{bad:02x} is not {encoding}; "
                "save the file as UTF-8, or pass --encoding latin-1"
            ) from None
        except UnicodeError:  # of encodings for names of hosts and the like
            raise DataError(f"{self.at(number)}: not {encoding}; save the file as UTF-8") from None
        except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile):
            raise DataError(f"{self.name}: cut off or damaged after line {number}; compress it again") from None
        except OSError as error:
            raise InputError(f"{self.name} cannot be read ({(error.strerror or str(error)).lower()})") from None

    def _require_whole(self, number: int, line: bytes) -> None:
        """Refuse a line that is too long, or that someone is about to complete."""
        if len(line) > MAX_LINE_BYTES:
            raise DataError(
                f"{self.at(number)}: longer than {MAX_LINE_BYTES >> 20} MiB, the most a line may hold; "
                "is this a file of rows, with line ends?"
            )
        if self.file is not None and not self._compression() and self.file.grew():
            raise DataError(f"{self.at(number)}: someone is writing this line; start again with a copy of the file")

    def _open(self) -> IO[bytes]:
        if self.file is None:
            if sys.stdin is None:
                raise InputError("the standard input is closed; name a file")
            return sys.stdin.buffer
        self._reader = VerifiedReader(self.file)
        return io.BufferedReader(unpack(self._reader, self._compression(), self.name), 1 << 18)

    def _begins_with_object(self) -> bool:
        """Whether the first bytes are those of a JSON object, or of a list of them; none is taken away."""
        peek = getattr(self._open(), "peek", None)
        try:
            return peek is not None and _OBJECT.match(peek(_FIRST_BYTES)) is not None
        except OSError:  # which is told when lines are read
            return False

    def _compression(self) -> str:
        return "" if self.stdin else next((end for end in COMPRESSIONS if self.path.name.lower().endswith(end)), "")

    def _format(self) -> str:
        if self.settings.format != "auto":
            if self.stdin and self.settings.format in ("parquet", "excel"):
                raise InputError(
                    f"{self.settings.format.capitalize()} is read from its end, where the standard input cannot begin; "
                    "name a file"
                )
            return self.settings.format
        if self.stdin:
            return "csv"
        name = self.path.name.lower().removesuffix(self._compression())
        found = ENDINGS.get(Path(name).suffix)
        if found is None and self._compression() == ".zip":
            return "csv"  # the name of what is inside is looked at when it is read
        if found is None:
            raise InputError(
                f"{self.name}: what is in it? The ending is none of {', '.join(ENDINGS)}; "
                "pass --format csv, parquet, ndjson or excel"
            )
        if found in ("parquet", "excel") and self._compression():
            raise InputError(f"{self.name}: {found.capitalize()} is compressed inside; unpack the file first")
        return found


class LaterSource(Source):
    """A file of rows for a model that was learned before, whose settings are no longer to choose."""

    def leave_out(self, name: str) -> str:
        """Return how a column is left out, for an error."""
        return f"run the first file again with --drop '{name}'"

    def mark_missing(self, text: str) -> str:
        """Return how a cell is said to be missing, for an error."""
        return "empty it if it means missing"

    def sort(self) -> str:
        """Return how rows are brought into order, for an error."""
        return "sort the file by it"

    def choose(self, setting: str, value: str) -> str:
        """Return how a setting is given a value, for an error."""
        return f"run the first file again with --{setting} {value}"


def _whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a file in blocks of whole lines, as they come.

    The last line of a file may lack its end. A line that is too long is the last one, and cut off.
    """
    read = getattr(file, "read1", file.readline)
    parts: list[bytes] = []  # of a line whose end has not come
    size = 0
    while piece := read(BLOCK):
        end = piece.rfind(b"\n") + 1
        if size + (piece.find(b"\n") if end else len(piece)) > MAX_LINE_BYTES:
            yield b"".join([*parts, piece[: MAX_LINE_BYTES + 1 - size]])
            return
        if end:
            yield b"".join([*parts, piece[:end]])
            parts, size = [], 0
        if end < len(piece):
            parts.append(piece[end:])
            size += len(piece) - end
    if parts:
        yield b"".join(parts)


def _decode_at_once(raw: bytes, encoding: str) -> str | None:
    """Return whole lines as a text; None if that must be done line by line."""
    if codecs.lookup(encoding).name not in LINEWISE:
        return None
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return None
