"""Zstandard streams, unpacked block by block: no step makes more than 128 KiB, whatever a few bytes may hold.

The library unpacks all of the input it is given, and a block of four bytes may stand for 128 KiB; so the frames are
walked here (RFC 8878, section 3.1) and it is given one block at a time. That also tells a stream that was cut off from
one that ended.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from undrift.errors import DataError

WINDOW = 1 << 27
"""Most that a frame may ask to keep in memory: 128 MiB, what `zstd --long` and level 22 ask for."""
FRAME, SKIPPED = 0xFD2FB528, 0x184D2A50
_PIECE = 1 << 16


class ZstdReader(io.RawIOBase):
    """What a zstd file holds, as a file; EOFError where the file is cut off or damaged."""

    def __init__(self, zstd: Any, packed: io.RawIOBase, name: str) -> None:
        self._pieces = _unpack(zstd, io.BufferedReader(packed, _PIECE), name)
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Whether it can be read from."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; 0 at the end."""
        while not self._ready:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._ready = memoryview(piece)
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count


def _unpack(zstd: Any, packed: io.BufferedReader, name: str) -> Iterator[bytes]:
    """Yield what the frames hold."""
    unpacker = zstd.ZstdDecompressor(max_window_size=WINDOW)
    while magic := packed.read(4):
        kind = int.from_bytes(magic, "little")
        if kind & ~0xF == SKIPPED:
            left = int.from_bytes(_exactly(packed, 4), "little")
            while left:
                left -= len(_exactly(packed, min(left, _PIECE)))
        elif kind == FRAME:
            try:
                yield from _frame(zstd, unpacker, packed, name)
            except zstd.ZstdError:
                raise EOFError from None
        else:
            raise EOFError


def _frame(zstd: Any, unpacker: Any, packed: io.BufferedReader, name: str) -> Iterator[bytes]:
    """Yield what one frame holds; its magic number was read."""
    flags = _exactly(packed, 1)[0]
    single, size, dictionary = flags >> 5 & 1, flags >> 6, flags & 3
    rest = (1 - single) + (0, 1, 2, 4)[dictionary] + (2**size if size else single)
    header = FRAME.to_bytes(4, "little") + bytes([flags]) + _exactly(packed, rest)
    window = zstd.get_frame_parameters(header).window_size
    if window > WINDOW:
        raise DataError(
            f"{name}: unpacking it takes {window / 2**20:,.0f} MiB of memory, more than {WINDOW >> 20}; "
            "compress it again with zstd --long=27 or less"
        )
    frame = unpacker.decompressobj()
    frame.decompress(header)
    last = 0
    while not last:
        head = _exactly(packed, 3)
        bits = int.from_bytes(head, "little")
        last, repeated = bits & 1, bits >> 1 & 3 == 1
        yield frame.decompress(head + _exactly(packed, 1 if repeated else bits >> 3))
    if flags >> 2 & 1:
        frame.decompress(_exactly(packed, 4))
    if not frame.eof:
        raise EOFError


def _exactly(packed: io.BufferedReader, count: int) -> bytes:
    """Return so many bytes, or say that the file ended before."""
    found = packed.read(count)
    if len(found) < count:
        raise EOFError
    return found
