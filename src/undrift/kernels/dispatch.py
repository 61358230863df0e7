"""The kernel level: which instruction set the compiled loops use.

| level | processors |
|---|---|
| `v4` | x86-64 with AVX-512 (F, DQ, VL, BW, CD) |
| `v3` | x86-64 with AVX2 and FMA |
| `v2` | x86-64 with SSE4.2 |
| `neon` | 64-bit ARM |
| `portable` | all: plain C++, one number at a time |

The best one of the machine is chosen when `undrift.kernels` is imported; UNDRIFT_KERNELS names another. Results are the
same bits within a level; between levels the last bits differ, because not all of them fuse multiply and add.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from undrift.kernels import _native

VARIABLE = "UNDRIFT_KERNELS"
"""Environment variable that names the level to use; processes we start inherit it."""


def level() -> str:
    """Return the level in use."""
    return _native.level()


def levels() -> list[str]:
    """Return the levels this machine can use, the best first."""
    return _native.levels()


def set_level(name: str) -> None:
    """Use a level from now on: in all threads of this process, and in processes that it starts.

    Learners go on at whatever level is in use. A fleet's run in memory stays with the level it began at.
    """
    if not _native.choose(name):
        raise ValueError(f"set_level: the level must be one of {', '.join(levels())} on this machine, got {name!r}")
    os.environ[VARIABLE] = name


@contextlib.contextmanager
def use_level(name: str) -> Iterator[None]:
    """Use a level inside a `with` block, as `set_level` does, then the one before."""
    before, variable = level(), os.environ.get(VARIABLE)
    set_level(name)
    try:
        yield
    finally:
        set_level(before)
        if variable is None:
            del os.environ[VARIABLE]


def _start() -> None:
    """Use the level that the environment names, or else the best."""
    wish = os.environ.get(VARIABLE, "")
    if not _native.choose(wish or levels()[0]):
        raise ImportError(
            f"{VARIABLE} must be one of {', '.join(levels())} on this machine, got {wish!r}; "
            "unset it to let undrift choose",
            name="undrift.kernels",
        )


_start()
