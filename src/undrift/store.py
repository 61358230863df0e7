"""One data-only file: float64 arrays and a JSON header, whole or not there at all.

The container is safetensors; the header is its metadata entry "undrift". A digest over the header and every array
tells a damaged file from a whole one. Nothing in a file is ever executed. The same header and arrays give the same
bytes: we write the container ourselves, names in order, because the library orders its metadata at random. This module
is written by hand because no library replaces a file so that neither a crash nor a power cut leaves half of it, and
refuses damaged ones before anything is made from them.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import secrets
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from undrift._typing import Scalar
from undrift.errors import ModelFileError

FORMAT = 3
"""Number of the file format; no other one is read until 1.0, from which on files stay readable."""

Header = dict[str, "Scalar | Header"]
Arrays = Mapping[str, NDArray[np.float64]]


def write(path: str | os.PathLike[str], header: Header, arrays: Arrays) -> None:
    """Write header and arrays to `path`; a crash at any moment leaves the old file or the new one, never a part."""
    replace(path, _container(header, arrays))


def _container(header: Header, given: Arrays) -> Iterator[bytes]:
    """Yield a safetensors file piece by piece: the length of its table, the table, the arrays as they lie in memory."""
    arrays = {name: np.asarray(given[name], dtype="<f8", order="C") for name in sorted(given)}
    own = json.dumps({"format": FORMAT, **_encode(header)}, sort_keys=True, allow_nan=False)
    table: dict[str, object] = {"__metadata__": {"digest": _digest(own, arrays), "undrift": own}}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        table[name] = {"dtype": "F64", "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the arrays are aligned
    yield struct.pack("<Q", len(text))
    yield text
    for array in arrays.values():
        yield array.tobytes()


def replace(path: str | os.PathLike[str], payload: bytes | Iterable[bytes]) -> None:
    """Put `payload`, whole or in pieces, at `path` by writing beside it and renaming: no reader sees half a file."""
    target = Path(path)
    require_place(target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)  # less the umask
    try:
        with os.fdopen(fd, "wb") as file:
            file.writelines([payload] if isinstance(payload, bytes) else payload)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    flush_folder(target.parent)


def require_place(path: Path) -> None:
    """Raise OSError if no file can be put at `path`, before any work is done for it."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder to write into", os.fspath(path.parent))
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a folder is there", os.fspath(path))


def flush(path: Path) -> None:
    """Wait until what a file holds would survive a power cut."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def flush_folder(path: Path) -> None:
    """Wait until the names in a folder would survive a power cut."""
    if os.name == "posix":
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def read(path: str | os.PathLike[str]) -> tuple[Header, dict[str, NDArray[np.float64]]]:
    """Return the header and arrays of a file written by `write`, or say what is wrong with it."""
    if os.path.isdir(path):
        raise ModelFileError(f"{path}: a folder, not a model file; name the file inside it")
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    except _DAMAGE:
        raise ModelFileError(f"{path}: not an undrift file, or cut off or damaged; save it again") from None
    return _check_contents(path, metadata, arrays)


_DAMAGE = SafetensorError, ValueError, TypeError, OverflowError, MemoryError
"""What reading a damaged container raises; a shape or a type that NumPy cannot hold is among it."""


def _check_contents(
    path: str | os.PathLike[str], metadata: dict[str, str], arrays: dict[str, NDArray[np.float64]]
) -> tuple[Header, dict[str, NDArray[np.float64]]]:
    """Return the header and arrays of a container that is ours, readable and undamaged."""
    text = metadata.get("undrift")
    if text is None:
        raise ModelFileError(f"{path}: a safetensors file, but not one of undrift's")
    try:
        header = json.loads(text)
        version = header.pop("format")
        header = _decode(header)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelFileError(f"{path}: the header is damaged; save it again") from None
    if not isinstance(version, int):
        raise ModelFileError(f"{path}: the header is damaged; save it again")
    if version > FORMAT:
        raise ModelFileError(
            f"{path}: format {version!s:.20} is newer than this undrift reads ({FORMAT}); upgrade undrift"
        )
    if 1 <= version < FORMAT:
        raise ModelFileError(
            f"{path}: written by undrift 0.{version} before its release, whose files later versions do not read; learn "
            "the data again"
        )
    if version < 1:
        raise ModelFileError(f"{path}: the header is damaged; save it again")
    if metadata.get("digest") != _digest(text, arrays):
        raise ModelFileError(f"{path}: contents do not match their digest; the file was damaged or edited")
    return header, arrays


def _digest(text: str, arrays: Arrays) -> str:
    sha = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        sha.update(f"|{name}|{array.dtype}|{array.shape}|".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def _encode(value: Header) -> Header:
    """JSON has no infinity: write it as a tagged word."""
    out: Header = {}
    for key, item in value.items():
        if isinstance(item, dict):
            out[key] = _encode(item)
        elif isinstance(item, float) and not math.isfinite(item):
            out[key] = {"float": repr(item)}
        else:
            out[key] = item
    return out


def _decode(value: Header) -> Header:
    out: Header = {}
    for key, item in value.items():
        if isinstance(item, dict):
            word = item.get("float")
            out[key] = float(word) if set(item) == {"float"} and isinstance(word, str) else _decode(item)
        else:
            out[key] = item
    return out
