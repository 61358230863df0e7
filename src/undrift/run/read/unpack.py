"""The bytes of a text file, whatever it is packed in, in an encoding whose lines end in a newline byte."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zipfile
from typing import IO, Any

from undrift.errors import DataError
from undrift.run.extras import extra
from undrift.run.read.verified_file import VerifiedReader
from undrift.run.read.zstd import ZstdReader

WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How files begin whose characters are pairs of bytes."""
BLOCK = 1 << 16
"""Bytes that are decoded at a time."""


def unpack(reader: VerifiedReader, compression: str, name: str) -> Any:
    """Return a reader of what is packed in another one, by the ending of the file's name."""
    if compression == ".gz":
        return gzip.GzipFile(fileobj=reader)
    if compression == ".zst":
        return ZstdReader(extra("zstandard", name), reader, name)
    if compression == ".bz2":
        return bz2.BZ2File(reader)
    if compression == ".xz":
        return lzma.LZMAFile(reader)  # type: ignore[arg-type]  # any reader of bytes will do
    return _only_member(reader, name) if compression == ".zip" else reader


def _only_member(reader: VerifiedReader, name: str) -> IO[bytes]:
    """Return the one file of a zip archive."""
    archive = zipfile.ZipFile(_Seekable(reader))
    members = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX")]
    if len(members) != 1:
        raise DataError(f"{name}: {len(members)} files inside, where one is needed; unpack it and name the file")
    if members[0].flag_bits & 1:
        raise DataError(f"{name}: what is inside is encrypted; unpack it first")
    return archive.open(members[0])


class _Seekable(io.BytesIO):
    """The bytes of a zip archive, which is read from its end."""

    def __init__(self, reader: VerifiedReader) -> None:
        super().__init__(reader.readall() or b"")


def decode_wide(file: IO[bytes], encoding: str) -> tuple[IO[bytes], str]:
    """Return the file and its encoding, both changed to UTF-8 where it begins like UTF-16."""
    peek = getattr(file, "peek", None)
    head = peek(2)[:2] if peek is not None else b""
    if head in WIDE or codecs.lookup(encoding).name.startswith("utf-16"):
        wide = "utf-16" if head in WIDE else encoding
        return io.BufferedReader(_Recoded(file, wide), BLOCK), "utf-8"
    return file, encoding


class _Recoded(io.RawIOBase):
    """A file in another encoding, as UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file, self._decoder = file, codecs.getincrementaldecoder(encoding)()
        self._left = b""

    def readable(self) -> bool:
        """Whether it can be read from."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; 0 at the end."""
        while not self._left:
            raw = self._file.read(BLOCK)
            self._left = self._decoder.decode(raw, final=not raw).encode()
            if not raw:
                break
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count
