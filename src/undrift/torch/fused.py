"""The step by our compiled CPU kernel: two passes over memory, averaging and certificate included."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from undrift import kernels
from undrift.torch.plain import Sums
from undrift.torch.rounds import Row
from undrift.torch.slots import Slot

KINDS = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2}
"""Types the kernel knows; bfloat16 parameters have single-precision state."""


def takes(slot: Slot) -> bool:
    """Say whether the kernel can step this slot: dense, contiguous, on the CPU, of a known type."""
    p, g, m, v, average = slot.p, slot.g, slot.m, slot.v, slot.average
    return (
        p.dtype in KINDS
        and g.dtype == p.dtype
        and p.is_cpu
        and g.is_cpu
        and p.is_contiguous()
        and g.is_contiguous()
        and m.is_contiguous()
        and (v is None or v.is_contiguous())
        and (average is None or average.is_contiguous())
    )


def _by_kind(slots: Sequence[Slot]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for i, slot in enumerate(slots):
        found.setdefault(KINDS[slot.p.dtype], []).append(i)
    return found


def _addresses(tensors: list[torch.Tensor | None]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array([0 if t is None else t.data_ptr() for t in tensors], dtype=np.uint64)


def _rows(
    rows: Sequence[Row],
) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.float64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return each different row once, and which one belongs to each slot."""
    places: dict[int, int] = {}
    which = [places.setdefault(id(row), len(places)) for row in rows]
    table: list[Row] = [rows[0]] * len(places)
    for row, place in zip(rows, which, strict=True):
        table[place] = row
    return np.array(table, dtype=np.float64), np.array(which, dtype=np.int64)


def measure(slots: Sequence[Slot], rows: Sequence[Row], with_m: bool) -> Sums:
    """Return |g|^2 and, if asked, |m|^2 after this round for every slot; nothing is changed."""
    sums: Sums = [(0.0, 0.0)] * len(slots)
    for kind, members in _by_kind(slots).items():
        some = [slots[i] for i in members]
        table, which = _rows([rows[i] for i in members])
        out = np.empty((len(some), 2))
        kernels.adam_measure(
            kind,
            _addresses([slot.p for slot in some]),
            _addresses([slot.g for slot in some]),
            _addresses([slot.m for slot in some]),
            np.array([slot.p.numel() for slot in some], dtype=np.int64),
            table,
            which,
            with_m,
            torch.get_num_threads(),
            out,
        )
        for i, (g2, m2) in zip(members, out.tolist(), strict=True):
            sums[i] = (g2, m2)
    return sums


def apply(slots: Sequence[Slot], rows: Sequence[Row]) -> Sums:
    """Make the step; return |m|^2 and |x - average|^2 (before either moved) for every slot."""
    sums: Sums = [(0.0, 0.0)] * len(slots)
    for kind, members in _by_kind(slots).items():
        some = [slots[i] for i in members]
        table, which = _rows([rows[i] for i in members])
        out = np.empty((len(some), 2))
        kernels.adam_apply(
            kind,
            _addresses([slot.p for slot in some]),
            _addresses([slot.g for slot in some]),
            _addresses([slot.m for slot in some]),
            _addresses([slot.v for slot in some]),
            _addresses([slot.average for slot in some]),
            np.array([slot.p.numel() for slot in some], dtype=np.int64),
            table,
            which,
            torch.get_num_threads(),
            out,
        )
        torch.autograd.graph.increment_version([slot.p for slot in some])  # as an operation of torch would
        for i, (m2, distance) in zip(members, out.tolist(), strict=True):
            sums[i] = (m2, distance)
    return sums
