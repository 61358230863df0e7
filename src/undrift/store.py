"""One data-only file: float64 arrays and a JSON header, whole or not there at all.

The container is safetensors; the header is its metadata entry "undrift". A digest over the header and every array
tells a damaged file from a whole one. Nothing in a file is ever executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as _to_bytes

from undrift._typing import Scalar
from undrift.errors import ModelFileError

FORMAT = 1
"""Number of the file format; a reader refuses a larger one and keeps reading every smaller one."""

Header = dict[str, "Scalar | Header"]
Arrays = Mapping[str, NDArray[np.float64]]


def write(path: str | os.PathLike[str], header: Header, arrays: Arrays) -> None:
    """Write header and arrays to `path`; a crash at any moment leaves the old file or the new one, never a part."""
    plain = {name: np.ascontiguousarray(array, dtype=np.float64) for name, array in arrays.items()}
    text = json.dumps({"format": FORMAT, **_encoded(header)}, sort_keys=True, allow_nan=False)
    payload = _to_bytes(plain, metadata={"undrift": text, "digest": _digest(text, plain)})
    replace(path, payload)


def replace(path: str | os.PathLike[str], payload: bytes | Iterable[bytes]) -> None:
    """Put `payload`, whole or in pieces, at `path` by writing beside it and renaming: no reader sees half a file."""
    target = Path(path)
    fd, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(fd, "wb") as file:
            file.writelines([payload] if isinstance(payload, bytes) else payload)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # mkstemp makes private files; a saved model is an ordinary one
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if os.name == "posix":  # the rename itself must survive a power cut
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: str | os.PathLike[str]) -> tuple[Header, dict[str, NDArray[np.float64]]]:
    """Return the header and arrays of a file written by `write`, or say what is wrong with it."""
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
    except (SafetensorError, UnicodeDecodeError):
        raise ModelFileError(f"{path}: not an undrift file, or cut off or damaged; save it again") from None
    text = metadata.get("undrift")
    if text is None:
        raise ModelFileError(f"{path}: a safetensors file, but not one of undrift's")
    try:
        header = json.loads(text)
        version = header.pop("format")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ModelFileError(f"{path}: the header is damaged; save it again") from None
    if not isinstance(version, int) or version > FORMAT:
        raise ModelFileError(f"{path}: format {version} is newer than this undrift reads ({FORMAT}); upgrade undrift")
    if metadata.get("digest") != _digest(text, arrays):
        raise ModelFileError(f"{path}: contents do not match their digest; the file was damaged or edited")
    return _decoded(header), arrays


def _digest(text: str, arrays: Arrays) -> str:
    sha = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        sha.update(f"|{name}|{array.dtype}|{array.shape}|".encode())
        sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def _encoded(value: Header) -> Header:
    """JSON has no infinity: write it as a tagged word."""
    out: Header = {}
    for key, item in value.items():
        if isinstance(item, dict):
            out[key] = _encoded(item)
        elif isinstance(item, float) and not math.isfinite(item):
            out[key] = {"float": repr(item)}
        else:
            out[key] = item
    return out


def _decoded(value: Header) -> Header:
    out: Header = {}
    for key, item in value.items():
        if isinstance(item, dict):
            word = item.get("float")
            out[key] = float(word) if set(item) == {"float"} and isinstance(word, str) else _decoded(item)
        else:
            out[key] = item
    return out
