"""Spreadsheets: the first sheet of a workbook, measured before a reader unpacks it.

A sheet is unpacked as a full rectangle: a single cell at XFD1048576 in a file of 4 KB would ask for 512 GiB. So the
parts of a zipped workbook are read here first, piece by piece (how many cells its sheets span, how much text they
hold), and the reader gets a copy of the parts that were measured. Nothing that the file states about itself (sizes,
dimensions) is believed.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING
from xml.parsers import expat

import numpy as np

from undrift.errors import DataError, InputError, MissingExtraError, UndriftError
from undrift.run.read.parquet import typed_cells
from undrift.run.read.verified_file import VerifiedReader
from undrift.stream.cells import BATCH_ROWS, MAX_COLUMNS, RowBatch
from undrift.stream.extras import polars

if TYPE_CHECKING:
    from undrift.run.read.source import Source

MOST_CELLS = 1 << 23
"""Cells of the rectangle that a sheet spans, empty ones too: 8 columns of all the rows that Excel has."""
MOST_BYTES = 1 << 28
"""Bytes of a workbook's XML when it is unpacked, and of the texts of its cells."""
PIECE = 1 << 16
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""First bytes of a workbook of the format before 2007 (.xls)."""
_REFERENCE = re.compile("([A-Za-z]{0,6})([0-9]{1,12})")
_ODS_TEXTS = ("office:string-value", "office:date-value", "office:time-value", "table:formula")
_NUMBER = re.compile("[0-9]{1,18}")


class _Cut(Exception):
    """The rows that are wanted end here."""


def measure_workbook(file: IO[bytes], name: str, limit: int | None) -> bytes:
    """Return a workbook that is safe to unpack, .xlsx sheets cut after `limit` rows; refuse one that is too large."""
    counts, copy = _Counts(name), io.BytesIO()
    raw = file.read(MOST_BYTES + 1)
    counts.require_bytes(len(raw))
    if raw.startswith(OLE):
        _measure_xls(raw, counts)
        return raw
    try:
        with (
            zipfile.ZipFile(io.BytesIO(raw)) as book,
            zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target,
        ):
            parts = dict.fromkeys(book.namelist())
            if any(part.lower().endswith("workbook.bin") for part in parts):
                raise DataError(f"{name}: a binary workbook (.xlsb), which is not read; save it as .xlsx or CSV")
            for part in parts:
                if part.lower().endswith((".xml", ".rels")) or part == "mimetype":  # no pictures, no macros
                    info = book.getinfo(part)
                    info.file_size = 1 << 40  # what it states may be a lie, and is where Python stops reading
                    with book.open(info) as source, target.open(part, "w") as whole:
                        for piece in _measure_part(source, part, counts, limit):
                            whole.write(piece)
    except UndriftError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OSError) as error:
        raise damage_error(name, error) from None
    counts.require_texts()
    return copy.getvalue()


def damage_error(name: str, error: BaseException | str) -> DataError:
    """Return the refusal of a file that is no workbook."""
    why = str(error).strip().splitlines() or [type(error).__name__]
    return DataError(f"{name}: not a spreadsheet, or damaged ({why[0][:120]}); save the sheet as CSV")


class _Counts:
    """What the parts of one workbook add up to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.unpacked = 0
        self.texts = 0
        self.lengths: list[int] = []
        """Bytes of each shared text."""
        self.uses: Counter[int] = Counter()
        """Cells that hold each shared text."""

    def unpack(self, count: int) -> None:
        """Count bytes that came out of the file."""
        self.unpacked += count
        self.require_bytes(self.unpacked)

    def require_bytes(self, count: int) -> None:
        """Refuse so many bytes if they would fill the memory."""
        if count > MOST_BYTES:
            raise DataError(
                f"{self.name}: more than {MOST_BYTES >> 20} MiB when unpacked; save the sheet as CSV, "
                "which is read piece by piece"
            )

    def require_cells(self, rows: int, columns: int) -> None:
        """Refuse a rectangle that would fill the memory."""
        if rows * columns > MOST_CELLS:
            raise DataError(
                f"{self.name}: a sheet spans {rows:,} rows and {columns:,} columns, more than {MOST_CELLS:,} cells; "
                "delete stray cells beyond the table, or save the sheet as CSV, which is read piece by piece"
            )

    def add_text(self, count: int) -> None:
        """Count bytes of texts in cells."""
        self.texts += count
        if self.texts > MOST_BYTES:
            raise DataError(
                f"{self.name}: the texts of its cells add up to more than {MOST_BYTES >> 20} MiB; "
                "save the sheet as CSV, which is read piece by piece"
            )

    def require_texts(self) -> None:
        """Refuse texts that are stored once and repeated until the memory is full."""
        for text, times in self.uses.items():
            if text < len(self.lengths):
                self.add_text(times * self.lengths[text])


def _measure_part(source: IO[bytes], part: str, counts: _Counts, limit: int | None) -> Iterator[bytes]:
    """Yield the pieces of one part as they are, up to the limit; count what its cells will need."""
    if part == "mimetype":
        piece = source.read(PIECE)
        counts.unpack(len(piece))
        yield piece
        return
    parser = expat.ParserCreate("utf-8")  # whatever the part declares: the reader takes it for UTF-8 as well
    parser.buffer_text = True

    def begin(root: str, attributes: dict[str, str]) -> None:
        """Choose by the first element how the part is measured; most hold no cells, and only their bytes count."""
        parser.StartElementHandler = None
        match root.rpartition(":")[2]:
            case "worksheet":
                _Sheet(parser, counts, limit, root)
            case "sst":
                _SharedTexts(parser, counts)
            case "document-content":
                _Tables(parser, counts)

    def refuse(*_: object) -> None:
        raise damage_error(counts.name, f"{part} declares a document type")

    parser.StartElementHandler = begin
    parser.StartDoctypeDeclHandler = refuse
    fed = 0
    try:
        while piece := source.read(PIECE):
            counts.unpack(len(piece))
            parser.Parse(piece, False)
            fed += len(piece)
            yield piece
        parser.Parse(b"", True)
    except _Cut as cut:
        yield piece[: parser.CurrentByteIndex - fed] + str(cut).encode()
    except expat.ExpatError as error:
        raise damage_error(counts.name, f"{part}: {error}") from None


class _Sheet:
    """A sheet of an .xlsx workbook: `row` and `c` elements, whose places (`r`) may be given or follow on.

    Only beginnings of elements are looked at, as each call from the parser costs as much as reading a cell.
    """

    def __init__(self, parser: expat.XMLParserType, counts: _Counts, limit: int | None, root: str) -> None:
        self.parser, self.counts, self.limit = parser, counts, limit
        self.row = self.column = 0
        self.rows = self.columns = 0
        self.filled_rows = self.last_filled = 0
        self.shared = self.reading = False
        self.ends = f"</{root}>"
        """What closes the elements that are open between two rows."""
        self.letters = {"": 1}
        """Numbers of columns by their letters; a row without letters is moved to its first cell."""
        parser.StartElementHandler = self.start

    def start(self, element: str, attributes: dict[str, str]) -> None:
        """Move to the place of a row or cell; a cell counts if it holds something."""
        qualified = element
        if ":" in element:
            element = element.rpartition(":")[2]
        if self.reading:
            self.parser.CharacterDataHandler, self.reading = None, False
        if element == "c":
            self.column += 1
            if "r" in attributes:
                self.row, self.column = self._place(attributes["r"])
            self.shared = attributes.get("t") == "s"
        elif element == "v" or element == "is":
            if self.row != self.last_filled:
                self.last_filled, self.filled_rows = self.row, self.filled_rows + 1
            if self.row > self.rows or self.column > self.columns:
                self.rows, self.columns = max(self.row, self.rows), max(self.column, self.columns)
                self.counts.require_cells(self.rows, self.columns)
            if self.shared:
                self.parser.CharacterDataHandler, self.reading = self._count_shared, True
        elif element == "row":
            if self.limit is not None and self.filled_rows > self.limit:  # the row of names, and those wanted
                raise _Cut(self.ends)
            self.row, self.column = self.row + 1, 0
            if "r" in attributes:
                self.row, _ = self._place(attributes["r"])
        elif element == "sheetData":
            self.ends = f"</{qualified}>{self.ends}"

    def _place(self, text: str) -> tuple[int, int]:
        found = _REFERENCE.fullmatch(text)
        if found is None:
            raise damage_error(self.counts.name, f"no cell {text!r:.40}")
        letters, number = found.groups()
        if letters not in self.letters:
            column = 0
            for letter in letters.upper():
                column = 26 * column + ord(letter) - 64
            self.letters[letters] = column
        return int(number), self.letters[letters]

    def _count_shared(self, text: str) -> None:
        if _NUMBER.fullmatch(text):
            self.counts.uses[int(text)] += 1


class _SharedTexts:
    """Texts that the cells of an .xlsx workbook refer to by their number."""

    def __init__(self, parser: expat.XMLParserType, counts: _Counts) -> None:
        if counts.lengths:
            raise damage_error(counts.name, "two lists of shared texts")
        self.counts = counts
        parser.StartElementHandler, parser.CharacterDataHandler = self.start, self._add

    def start(self, element: str, attributes: dict[str, str]) -> None:
        """Begin a text."""
        if element.rpartition(":")[2] == "si":
            self.counts.lengths.append(0)
            self.counts.require_cells(len(self.counts.lengths), 1)

    def _add(self, text: str) -> None:
        if self.counts.lengths:
            self.counts.lengths[-1] += len(text.encode())


class _Tables:
    """The tables of an .ods workbook, whose rows and cells say how often they are repeated."""

    def __init__(self, parser: expat.XMLParserType, counts: _Counts) -> None:
        self.parser, self.counts = parser, counts
        self.rows = self.filled_rows = self.columns = self.total_width = 0
        self.row_repeats = self.cell_repeats = 1
        self.width = self.empty = 0
        self.row_text = self.cell_text = 0
        self.row_filled = self.cell_filled = False
        parser.StartElementHandler, parser.EndElementHandler = self.start, self.end

    def start(self, element: str, attributes: dict[str, str]) -> None:
        """Read how often something is repeated, and whether a cell holds something."""
        if element in ("table:table-cell", "table:covered-table-cell"):
            self.width += self.empty
            self.cell_repeats = int(attributes.get("table:number-columns-repeated", 1))
            self.cell_filled = any(key.startswith("office:") or key == "table:formula" for key in attributes)
            self.cell_text = sum(len(attributes.get(key, "").encode()) for key in _ODS_TEXTS)
            self.parser.CharacterDataHandler = self._add
        elif element == "text:s":
            self.cell_text += int(attributes.get("text:c", 1))
        elif element == "table:table-row":
            self.row_repeats = int(attributes.get("table:number-rows-repeated", 1))
            self.width = self.empty = self.row_text = 0
            self.row_filled = False
        elif element == "table:table":
            self.rows = self.filled_rows = self.columns = 0

    def end(self, element: str) -> None:
        """Add up what ended."""
        if element in ("table:table-cell", "table:covered-table-cell"):
            self.parser.CharacterDataHandler = None
            self.empty = 0 if self.cell_filled else self.cell_repeats
            if self.cell_filled:
                self.row_filled = True
                self.width += self.cell_repeats
                self.row_text += self.cell_text * self.cell_repeats
        elif element == "table:table-row":
            self.rows += self.row_repeats
            self.columns = max(self.columns, self.width)
            self.total_width += self.width
            if self.row_filled:
                self.filled_rows = self.rows
            self.counts.require_cells(self.filled_rows, self.columns)
            self.counts.require_cells(1, self.total_width)
            self.counts.add_text(self.row_text * self.row_repeats)

    def _add(self, text: str) -> None:
        self.cell_text += len(text.encode())


_CELLS = {0x0006, 0x00BD, 0x00FD, 0x0203, 0x0204, 0x0205, 0x027E}
"""Records of an .xls sheet that hold cells; each begins with its row and column."""
_BOUND_SHEET, _DIMENSIONS, _SHARED, _LABEL_SHARED, _CONTINUE, _END = 0x0085, 0x0200, 0x00FC, 0x00FD, 0x003C, 0x000A
_LAST_SECTOR = 0xFFFFFFF9
"""Numbers of sectors end here; what is above marks ends and holes."""


def _measure_xls(raw: bytes, counts: _Counts) -> None:
    """Refuse an .xls workbook whose sheets or texts would fill the memory."""
    try:
        for stream in _xls_streams(raw):
            starts = []
            for kind, data, parts in _records(stream, 0):
                if kind == _BOUND_SHEET:
                    starts.append(struct.unpack_from("<I", data)[0])
                elif kind == _SHARED:
                    counts.lengths = _shared_lengths(parts)
            for start in starts:
                counts.unpack(len(stream) - min(start, len(stream)))  # sheets may overlap in a forged file
                _measure_xls_sheet(stream, start, counts)
        counts.require_texts()
    except UndriftError:
        raise
    except (struct.error, IndexError, ValueError) as error:
        raise damage_error(counts.name, error) from None


def _measure_xls_sheet(stream: bytes, start: int, counts: _Counts) -> None:
    rows = columns = 0
    for kind, data, _ in _records(stream, start):
        if kind in _CELLS:
            row, column = struct.unpack_from("<HH", data)
            last = struct.unpack_from("<H", data, len(data) - 2)[0] if kind == 0x00BD else column
            rows, columns = max(rows, row + 1), max(columns, column + 1, last + 1)
            if kind == _LABEL_SHARED:
                counts.uses[struct.unpack_from("<I", data, 6)[0]] += 1
        elif kind == _DIMENSIONS:  # the reader makes room for it
            first_row, end_row, first, end = struct.unpack_from("<IIHH" if len(data) >= 14 else "<HHHH", data)
            counts.require_cells(abs(end_row - first_row), abs(end - first))
    counts.require_cells(rows, columns)


def _records(stream: bytes, at: int) -> Iterator[tuple[int, bytes, list[bytes]]]:
    """Yield kind, data, and data with all continuations, up to the end of a substream."""
    while at + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, at)
        data = stream[at + 4 : at + 4 + size]
        at += 4 + size
        parts = [data]
        while kind == _SHARED and stream[at : at + 2] == b"\x3c\x00":
            size = struct.unpack_from("<H", stream, at + 2)[0]
            parts.append(stream[at + 4 : at + 4 + size])
            at += 4 + size
        if kind == _END:
            return
        yield kind, data, parts


def _shared_lengths(parts: list[bytes]) -> list[int]:
    """Return the lengths of the shared texts; a text may go on in the next part, after a byte about its characters."""
    count = struct.unpack_from("<I", parts[0], 4)[0]
    if count * 3 > sum(map(len, parts)):  # the reader makes room for as many as are stated
        raise ValueError(f"{count} shared texts")
    lengths, number, at = [], 0, 8
    for _ in range(count):
        if at >= len(parts[number]):
            number, at = number + 1, 0
        characters, flags = struct.unpack_from("<HB", parts[number], at)
        at += 3
        extra = 0
        if flags & 8:
            extra += 4 * struct.unpack_from("<H", parts[number], at)[0]
            at += 2
        if flags & 4:
            extra += struct.unpack_from("<I", parts[number], at)[0]
            at += 4
        left = characters
        while left:
            wide = 1 + (flags & 1)
            here = min(left, (len(parts[number]) - at) // wide)
            left, at = left - here, at + here * wide
            if left:
                number, at, flags = number + 1, 1, parts[number + 1][0]
        while extra > len(parts[number]) - at:
            extra -= len(parts[number]) - at
            number, at = number + 1, 0
        at += extra
        lengths.append(3 * characters)  # bytes in UTF-8 at most
    return lengths


def _xls_streams(raw: bytes) -> Iterator[bytes]:
    """Yield the streams of a compound file that are called Workbook or Book."""
    shift, mini_shift = struct.unpack_from("<HH", raw, 30)
    if shift not in (9, 12) or mini_shift != 6:
        raise ValueError("sectors of no known size")
    directory, cutoff, mini_first, more, more_count = struct.unpack_from("<I4xII4xII", raw, 48)
    per_sector, sectors = (1 << shift) // 4, len(raw) >> shift
    if max(struct.unpack_from("<I", raw, at)[0] for at in (40, 44, 64, 72)) > sectors:
        raise ValueError("more sectors stated than there are")  # the reader makes room for them

    def sector(number: int) -> bytes:
        return raw[(number + 1) << shift : (number + 2) << shift]

    def numbers(data: bytes) -> tuple[int, ...]:
        return struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])

    def chain(first: int, table: tuple[int, ...]) -> Iterator[int]:
        for _ in table:
            if first > _LAST_SECTOR:
                return
            yield first
            first = table[first]

    fat_sectors = list(struct.unpack_from("<109I", raw, 76))
    for _ in range(min(more_count, len(raw) >> shift)):
        if more > _LAST_SECTOR:
            break
        *some, more = numbers(sector(more))
        fat_sectors += some[: per_sector - 1]
    fat = tuple(entry for number in fat_sectors if number <= _LAST_SECTOR for entry in numbers(sector(number)))
    entries = b"".join(map(sector, chain(directory, fat)))
    root_first, root_size = struct.unpack_from("<II", entries, 116)
    if root_size > len(raw):
        raise ValueError("a stream that is longer than the file")
    for at in range(0, len(entries) - 127, 128):
        size_of_name = struct.unpack_from("<H", entries, at + 64)[0]
        title = entries[at : at + max(min(size_of_name, 64) - 2, 0)].decode("utf-16-le", "replace")
        if title not in ("Workbook", "Book"):
            continue
        first, size = struct.unpack_from("<II", entries, at + 116)
        if size > len(raw):
            raise ValueError("a stream that is longer than the file")
        if size >= cutoff:
            yield b"".join(map(sector, chain(first, fat)))[:size]
        else:
            small = b"".join(map(sector, chain(root_first, fat)))
            table = tuple(entry for number in chain(mini_first, fat) for entry in numbers(sector(number)))
            yield b"".join(small[number << 6 : (number + 1) << 6] for number in chain(first, table))[:size]


def excel_batches(source: Source) -> Iterator[RowBatch]:
    """Yield the rows of the first sheet; the first row of the sheet is row 1. The sheet is read at once."""
    assert source.file is not None  # the standard input is refused for this format
    pl = polars(source.name)
    try:
        import fastexcel  # type: ignore[import-not-found, unused-ignore]  # noqa: F401  # polars reads sheets by it
    except ImportError:
        raise MissingExtraError(
            f"{source.name}: a spreadsheet, which needs fastexcel; install it with: pip install 'undrift[cli]', "
            "or save the sheet as CSV"
        ) from None
    if not source.settings.header:
        raise InputError(f"{source.name}: the first row of a sheet names its columns; leave out --no-header")
    file = io.BufferedReader(VerifiedReader(source.file))
    book = measure_workbook(file, source.name, source.settings.limit)
    try:
        frame = pl.read_excel(book, engine="calamine", infer_schema_length=None, raise_if_empty=False)
    except BaseException as error:  # whatever its reader raises: the file is damaged, or none of its kind
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of Rust, no Exception
            raise
        raise damage_error(source.name, error) from None
    if frame.width > MAX_COLUMNS:
        raise DataError(f"{source.name}: {frame.width:,} columns, more than {MAX_COLUMNS:,}; leave some out")
    if not frame.width:
        raise DataError(f"{source.name}: its first sheet is empty; put a row of names and rows of cells there")
    count = min(len(frame), source.settings.limit or len(frame))
    for first in range(0, count, BATCH_ROWS):
        part = frame.slice(first, min(BATCH_ROWS, count - first))
        lines = np.arange(first + 2, first + 2 + len(part), dtype=np.int64)
        yield RowBatch(lines, {name: typed_cells(source, part[name]) for name in part.columns})
