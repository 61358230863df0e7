"""What one core of the machine can do at a kernel level: multiply-adds, and reading and writing an array.

`machine.cpp` is compiled on first use, for each level by itself, with the compiler that CXX names.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from undrift import kernels

FLAGS = {
    "portable": ["-DUNDRIFT_LEVEL=0"],
    "neon": ["-DUNDRIFT_LEVEL=1"],
    "v2": ["-DUNDRIFT_LEVEL=2", "-march=x86-64-v2"],
    "v3": ["-DUNDRIFT_LEVEL=3", "-march=x86-64-v3"],
    "v4": ["-DUNDRIFT_LEVEL=4", "-march=x86-64-v4"],
}


@cache
def library(level: str) -> ctypes.CDLL:
    """Compile and load the functions of a level."""
    source = Path(__file__).with_name("machine.cpp")
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / f"machine_{level}.so"
        options = ["-std=c++17", "-O3", "-ffp-contract=off", "-shared", "-fPIC", *FLAGS[level]]
        subprocess.run([os.environ.get("CXX", "c++"), *options, str(source), "-o", str(built)], check=True)
        found = ctypes.CDLL(str(built))
    found.multiply_adds.argtypes, found.multiply_adds.restype = [ctypes.c_size_t], ctypes.c_double
    found.stream.argtypes, found.stream.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t], None
    return found


def multiply_adds(turns: int) -> float:
    """Do `turns` times a fixed number of independent multiply-adds at the level in use; return how many."""
    return float(library(kernels.level()).multiply_adds(turns))


def stream(data: NDArray[np.float64], turns: int) -> None:
    """Read and write an array `turns` times at the level in use."""
    library(kernels.level()).stream(data.ctypes.data, data.size, turns)
