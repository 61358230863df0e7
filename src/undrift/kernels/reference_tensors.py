"""Python twin of the functions that look at many tensors at once; they also serve a module compiled before those."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def can_find_tensors(kind: type) -> bool:
    """Say whether `find_tensors` can be used: not without compiled code, which alone can call DLPack's functions."""
    return False


def find_tensors(
    kind: type, tensors: list[Any], code: int, bits: int, size: NDArray[np.int64], out: NDArray[np.uint64]
) -> int:
    """Find none: 0 says that some tensor cannot be used."""
    return 0


def all_hold(dictionaries: list[dict[str, Any]], key: str, objects: list[Any]) -> bool:
    """Say whether every dictionary has this very object under `key`."""
    if len(dictionaries) != len(objects):
        return False
    pairs = zip(dictionaries, objects, strict=True)
    return all(isinstance(one, dict) and key in one and one[key] is thing for one, thing in pairs)
