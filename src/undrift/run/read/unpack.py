"""The bytes of a text file, whatever it is packed in, in an encoding whose lines end in a newline byte."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import sys
import zipfile
from typing import IO, Any

from undrift.errors import DataError
from undrift.run.read.verified_file import VerifiedReader
from undrift.stream.extras import extra

WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""How files begin whose characters are pairs of bytes."""
BLOCK = 1 << 16
"""Bytes that are decoded at a time."""
ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
"""The library for zstd: Python's own, or what it is for earlier versions."""
WINDOW_LOG = 27
"""Most that a zstd frame may ask to keep in memory: 128 MiB, what `zstd --long` and level 22 ask for."""


def unpack(reader: VerifiedReader, compression: str, name: str) -> Any:
    """Return a reader of what is packed in another one, by the ending of the file's name."""
    if compression == ".gz":
        return gzip.GzipFile(fileobj=reader)
    if compression == ".zst":
        return ZstdReader(reader, name)
    if compression == ".bz2":
        return bz2.BZ2File(reader)
    if compression == ".xz":
        return lzma.LZMAFile(reader)  # type: ignore[arg-type]  # any reader of bytes will do
    return _only_member(reader, name) if compression == ".zip" else reader


def _only_member(reader: VerifiedReader, name: str) -> IO[bytes]:
    """Return the one file of a zip archive."""
    archive = zipfile.ZipFile(io.BytesIO(reader.readall() or b""))  # which is read from its end
    members = [one for one in archive.infolist() if not one.is_dir() and not one.filename.startswith("__MACOSX")]
    if len(members) != 1:
        raise DataError(f"{name}: {len(members)} files inside, where one is needed; unpack it and name the file")
    if members[0].flag_bits & 1:
        raise DataError(f"{name}: what is inside is encrypted; unpack it first")
    return archive.open(members[0])


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


class ZstdReader(io.RawIOBase):
    """What the frames of a zstd file hold, as a file; EOFError where the file is cut off or damaged."""

    def __init__(self, packed: io.RawIOBase, name: str) -> None:
        self._zstd, self._name = extra(ZSTD, name), name
        self._packed, self._head = io.BufferedReader(packed, BLOCK), b""
        options = {self._zstd.DecompressionParameter.window_log_max: WINDOW_LOG}
        self._file = self._zstd.ZstdFile(self._packed, options=options)

    def readable(self) -> bool:
        """Whether it can be read from."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with a block at most, whatever a few bytes may stand for; 0 at the end."""
        self._head = self._head or self._packed.peek()[:18]
        if not self._head:
            return 0
        try:
            return int(self._file.readinto(memoryview(buffer)[:BLOCK]))
        except self._zstd.ZstdError as error:
            if "too much memory" not in str(error):
                raise EOFError from None
        window, most = self._window() / 2**20, 2**WINDOW_LOG >> 20
        takes = (
            f"{window:,.0f} MiB of memory, more than" if window > most else "more MiB of memory than"
        )  # a later frame
        raise DataError(
            f"{self._name}: unpacking it takes {takes} {most}; compress it again with zstd --long=27 or less"
        )

    def _window(self) -> int:
        """Return how much memory the first frame asks for, by its header (RFC 8878, section 3.1.1.1)."""
        if self._head[4] & 0x20:  # a single segment: all that it holds
            return int(self._zstd.get_frame_info(self._head).decompressed_size)
        return 8 + (self._head[5] & 7) << 7 + (self._head[5] >> 3)
