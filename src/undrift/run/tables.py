"""Tables as files: CSV or Parquet by the ending, whole or not at all.

Excel, LibreOffice and Google Sheets run a cell that begins with =, +, - or @ (or with a tab or line end before one),
and keys and labels come from other people's files: an apostrophe before such a text in CSV makes it a text again.
Numbers stay numbers.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from undrift import store
from undrift._internal.folder import explain_disk_errors
from undrift.stream.cells import parse_number
from undrift.stream.extras import LITERAL, polars

if TYPE_CHECKING:
    from polars import DataFrame, LazyFrame

ENDINGS = (".csv", ".csv.gz", ".parquet")
PART = 64
"""Frames that Parquet is written from at a time."""


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns to a file."""
    frame, name = polars(str(path)).DataFrame(columns), path.name.lower()
    buffer = io.BytesIO()
    frame.write_parquet(buffer) if name.endswith(".parquet") else buffer.write(as_csv(frame).encode())
    payload = buffer.getvalue()
    with explain_disk_errors(path.parent):
        store.replace(path, gzip.compress(payload, mtime=0) if name.endswith(".gz") else payload)


class TableFile:
    """A CSV or Parquet file whose rows come frame by frame: it appears when it is whole, and memory stays flat.

    Parameters
    ----------
    path
        Where it appears; what is there until then stays. Its parts are kept in a hidden folder beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.written = path, False
        self._parts = path.with_name(f".{path.name}.{secrets.token_hex(8)}")

    def write(self, frames: Iterable[DataFrame]) -> None:
        """Write the file; whatever goes wrong leaves nothing behind."""
        with explain_disk_errors(self.path.parent):
            store.require_place(self.path)
            self._parts.mkdir()
            try:
                make = self._parquet if self.path.name.lower().endswith(".parquet") else self._csv
                whole = make(iter(frames))
                store.flush(whole)
                os.replace(whole, self.path)
                self.written = True
            finally:
                self.discard()
            store.flush_folder(self.path.parent)

    def discard(self) -> None:
        """Remove the parts; also for another thread that is about to end the process."""
        shutil.rmtree(self._parts, ignore_errors=True)

    def _csv(self, frames: Iterator[DataFrame]) -> Path:
        whole = self._parts / "whole"
        with whole.open("xb") as file:
            file.writelines(text.encode() for text in csv_pieces(frames))
        return whole

    def _parquet(self, frames: Iterator[DataFrame]) -> Path:
        pl, parts = polars(str(self.path)), list[Path]()
        while some := list(islice(frames, PART)):
            buffer = io.BytesIO()
            pl.concat(some, rechunk=True).write_parquet(buffer)
            parts.append(self._parts / f"{len(parts):06d}.parquet")
            parts[-1].write_bytes(buffer.getvalue())
        if len(parts) == 1:
            return parts[0]
        whole = self._parts / "whole"
        join_parquet(parts, whole)
        return whole


def join_parquet(parts: Sequence[Path], path: Path) -> None:
    """Join Parquet files into one without holding their rows; later ones may have more columns."""
    with _explain_engine():
        scan_parts(parts).sink_parquet(path.absolute(), compression="zstd", maintain_order=True)


def write_parquet(frame: DataFrame, path: Path) -> None:
    """Write a table as Parquet."""
    with _explain_engine():
        frame.write_parquet(path)


@contextlib.contextmanager
def _explain_engine() -> Iterator[None]:
    """Raise what the disk answers to the engine, which writes by itself and wraps it, as it is."""
    try:
        yield
    except polars("a table").exceptions.PolarsError as error:
        number = re.search(r"os error (\d+)", str(error))
        raise OSError(int(number[1]) if number else errno.EIO, str(error).splitlines()[0]) from None


def cut_parquet(table: Path, path: Path, rows: int, columns: int) -> None:
    """Write the first rows and columns of a Parquet file into another."""
    pl = polars(str(path))
    with _explain_engine():
        first = pl.scan_parquet(table.absolute(), **LITERAL).head(rows).select(pl.nth(range(columns)))
        first.sink_parquet(path.absolute(), compression="zstd", maintain_order=True)


def table_shape(parts: Sequence[Path]) -> tuple[int, int]:
    """Return how many rows and columns Parquet files have together."""
    table = scan_parts(parts)
    return int(table.select(polars("a table").len()).collect().item()), len(table.collect_schema())


def scan_parts(parts: Sequence[Path]) -> LazyFrame:
    """Return the rows of Parquet files one after the other; columns that later files add are null before."""
    pl = polars("a table")
    places = [part.absolute() for part in parts]
    first, last = (pl.scan_parquet(place, **LITERAL).collect_schema() for place in (places[0], places[-1]))
    if first == last:
        rows: LazyFrame = pl.scan_parquet(places, **LITERAL)
    else:
        rows = pl.concat([pl.scan_parquet(place, **LITERAL) for place in places], how="diagonal")
    return rows


def as_lists(frame: DataFrame) -> dict[str, list[Any]]:
    """Return the columns as lists; times as texts."""
    pl = polars("a table")
    texts = frame.with_columns(pl.col(pl.Datetime).dt.to_string("iso:strict"))
    return {name: texts[name].to_list() for name in texts.columns}


def csv_pieces(frames: Iterable[DataFrame]) -> Iterator[str]:
    """Yield the CSV of a table that comes frame by frame: the header once, then the rows."""
    for number, frame in enumerate(frames):
        yield as_csv(frame, header=number == 0)


def as_csv(frame: DataFrame, *, header: bool = True) -> str:
    """Return a table as CSV that a spreadsheet opens without running anything."""
    pl = polars("a table")
    texts = frame.select(pl.col(pl.String))
    safe = [pl.Series(one.name, [escape_formula(text) for text in one], dtype=pl.String) for one in texts]
    return frame.with_columns(safe).write_csv(include_header=header)


_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")  # the last four are the wide forms of = + - @


def escape_formula(cell: object) -> object:
    """Return a cell as it is written into CSV; only a text that might be a formula changes.

    >>> escape_formula("=1+1"), escape_formula("-5"), escape_formula(-5.0), escape_formula("oslo")
    ("'=1+1", '-5', -5.0, 'oslo')
    """
    if isinstance(cell, str) and _FORMULA.match(cell) and parse_number(cell) is None:
        return f"'{cell}"
    return cell


def unescape_formula(text: str) -> str:
    """Return the text that `escape_formula` was given.

    >>> unescape_formula("'=1+1"), unescape_formula("-5"), unescape_formula("'quoted'")
    ('=1+1', '-5', "'quoted'")
    """
    return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text
