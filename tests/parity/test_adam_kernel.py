"""The compiled Adam loops equal their NumPy twin, for any number of threads and at every level."""

import numpy as np
import pytest

from tests.twins import adam as reference_adam
from undrift import kernels

KINDS = {0: (np.float32, np.float32), 1: (np.float64, np.float64), 2: (np.uint16, np.float32)}
SIZES = [1, 7, 16, 33, 1000, 16384, 16385, 40000, 0]


class Tensors:
    """Parameters, gradients and state in memory of their own, and their addresses."""

    def __init__(self, kind, seed, coord, average):
        rng = np.random.default_rng(seed)
        narrow, wide = KINDS[kind]
        self.arrays = {}
        for name, dtype in [("p", narrow), ("g", narrow), ("m", wide), ("v", wide), ("average", wide)]:
            blocks = [rng.normal(size=n) ** (2 if name == "v" else 1) for n in SIZES]
            if kind == 2 and dtype is narrow:
                blocks = [(b.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for b in blocks]
            self.arrays[name] = [np.ascontiguousarray(b, dtype=dtype) for b in blocks]
        self.size = np.array(SIZES, dtype=np.int64)
        self.absent = {name for name, there in (("v", coord), ("average", average)) if not there}

    def address(self, name):
        found = [b.ctypes.data if b.size and name not in self.absent else 0 for b in self.arrays[name]]
        return np.array(found, dtype=np.uint64)

    def numbers(self, name):
        """Values, bfloat16 widened."""
        blocks = self.arrays[name]
        if blocks[0].dtype == np.uint16:
            return [(b.astype(np.uint32) << 16).view(np.float32) for b in blocks]
        return blocks


ROWS = np.array(
    [
        [1.0, 0.0, 0.1, 0.01, 1e-8, np.inf, 0.01, 0.3, 1.0, 1.0, 1.0],
        [-1.0, 0.2, 0.3, 0.05, 0.0, 0.4, 0.1, 0.5, 0.98, 1.7, 2.3],
    ]
)


def run(where, kind, tensors, threads=1, with_m=True):
    which = (np.arange(len(SIZES)) % len(ROWS)).astype(np.int64)
    first, second = np.empty((len(SIZES), 2)), np.empty((len(SIZES), 3))
    a = {name: tensors.address(name) for name in tensors.arrays}
    where.adam_measure(kind, a["p"], a["g"], a["m"], tensors.size, ROWS, which, with_m, threads, first)
    where.adam_apply(kind, a["p"], a["g"], a["m"], a["v"], a["average"], tensors.size, ROWS, which, threads, second)
    return first, second


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("coord", [True, False])
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("with_m", [True, False])
def test_equals_its_twin(kind, coord, average, with_m):
    one, two = Tensors(kind, 4, coord, average), Tensors(kind, 4, coord, average)
    expected = run(reference_adam, kind, two, with_m=with_m)
    found = run(kernels, kind, one, with_m=with_m)
    rtol = 1e-13 if kind == 1 else 2e-6
    moved = 2**-7 if kind == 2 else rtol  # one step of bfloat16
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12 if kind == 1 else 1e-6)
    for name in ("m", "v", "g", "average"):
        for x, y in zip(one.arrays[name], two.arrays[name], strict=True):
            np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol)
    for x, y in zip(one.numbers("p"), two.numbers("p"), strict=True):
        np.testing.assert_allclose(x, y, rtol=moved, atol=rtol)


@pytest.mark.parametrize("kind", KINDS)
def test_bits_do_not_depend_on_threads(kind):
    one, two = Tensors(kind, 5, True, True), Tensors(kind, 5, True, True)
    big = 300_000  # enough to be worth a thread
    for tensors in (one, two):
        for name, blocks in tensors.arrays.items():
            values = np.resize(blocks[-2], big)
            tensors.arrays[name] = [*blocks[:-1], values]
        tensors.size = np.array([*SIZES[:-1], big], dtype=np.int64)
    for x, y in zip(run(kernels, kind, one, threads=1), run(kernels, kind, two, threads=3), strict=True):
        np.testing.assert_array_equal(x, y)
    for name in one.arrays:
        for x, y in zip(one.arrays[name], two.arrays[name], strict=True):
            np.testing.assert_array_equal(x, y)


def test_measuring_changes_nothing():
    tensors = Tensors(0, 6, True, True)
    before = {name: [b.copy() for b in blocks] for name, blocks in tensors.arrays.items()}
    a = {name: tensors.address(name) for name in tensors.arrays}
    which, out = np.zeros(len(SIZES), dtype=np.int64), np.empty((len(SIZES), 2))
    kernels.adam_measure(0, a["p"], a["g"], a["m"], tensors.size, ROWS, which, True, 1, out)
    for name, blocks in tensors.arrays.items():
        for x, y in zip(blocks, before[name], strict=True):
            np.testing.assert_array_equal(x, y)


def test_arrays_that_do_not_fit_are_refused():
    tensors = Tensors(0, 7, True, True)
    a = {name: tensors.address(name) for name in tensors.arrays}
    which, out = np.zeros(len(SIZES), dtype=np.int64), np.empty((len(SIZES), 2))
    good = [0, a["p"], a["g"], a["m"], tensors.size, ROWS, which, True, 1, out]
    for place, bad in [
        (0, 3),
        (2, a["g"][1:]),
        (4, -tensors.size),
        (5, ROWS[:, 1:].copy()),
        (6, which + len(ROWS)),
        (9, out[1:]),
    ]:
        arguments = [bad if i == place else x for i, x in enumerate(good)]
        with pytest.raises(ValueError, match="adam kernels: arrays do not fit together"):
            kernels.adam_measure(*arguments)
