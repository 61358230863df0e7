"""Events that rows bring, before any label: features are frozen, missing, or have another level."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from undrift import kernels
from undrift._typing import Matrix
from undrift.errors import ModelFileError
from undrift.events.change_test import SCORES
from undrift.events.event import EventKind
from undrift.kernels.definitions import FEATURE_WINDOW, FeatureChange, FeatureNumber, RunNumber

_ONCE = (RunNumber.NO_NO, RunNumber.NO_YES, RunNumber.YES_NO, RunNumber.YES_YES)
"""Counts that begin at 1, as if each had been seen once."""


class FeatureWatch:
    """Features by name. A level is judged on what the feature's last value did not foretell.

    The value is regressed on the one before it, over all rows so far: features that wander slowly and come back do not
    look shifted. Those that often repeat a value (counts, flags, rain) are watched for freezing and holes alone.
    """

    def __init__(self, names: Sequence[str], rows_between_alarms: float) -> None:
        self.names, count = list(names), len(names)
        self._limit = 4.0 * rows_between_alarms * count
        self._state = np.zeros((count, FeatureNumber.END + FEATURE_WINDOW))
        self._state[:, FeatureNumber.LAST] = math.nan
        for runs in (FeatureNumber.FROZEN, FeatureNumber.MISSING):
            self._state[:, [runs + place for place in _ONCE]] = 1.0

    def add(self, Z: Matrix) -> Iterator[tuple[int, EventKind, str, str]]:
        """Take rows in, NaN where a feature is missing; yield row, kind, feature and a sentence of what changed."""
        found = np.empty(Z.shape, dtype=np.int64)
        levels = np.empty((*Z.shape, 4))
        Z = np.ascontiguousarray(Z)
        if not kernels.watch_features(self._state, Z, SCORES, self._limit, found, levels):
            return
        for t in np.flatnonzero(found.any(axis=1)).tolist():
            for what in FeatureChange:
                for j in np.flatnonzero(found[t] & what).tolist():
                    yield t, *_describe(what, self.names[j], Z[t, j], levels[t, j].tolist())

    def state(self) -> Any:
        """Return what later rows depend on, as JSON values."""
        kept = (FeatureNumber.END + self._state[:, FeatureNumber.KEPT].astype(np.int64)).tolist()
        rows = [row[:end] for row, end in zip(self._state.tolist(), kept, strict=True)]
        return [self.names, [[None if math.isnan(value) else value for value in row] for row in rows]]

    def resume(self, state: Any) -> None:
        """Go on where `state` left off; refuse what no watch writes."""
        for row, saved in zip(self._state, state[1], strict=True):
            values = np.array(saved, dtype=np.float64)  # None becomes NaN
            kept, place = values[FeatureNumber.KEPT], values[FeatureNumber.PLACE]
            if len(values) != FeatureNumber.END + kept or kept < 0.0 or not 0.0 <= place < FEATURE_WINDOW:
                raise ModelFileError("Watch: the saved state of a feature cannot be used")
            row[: len(values)] = values


def _describe(what: FeatureChange, name: str, value: float, levels: list[float]) -> tuple[EventKind, str, str]:
    """Return what was found in a row of a feature, with a sentence."""
    if what == FeatureChange.MISSING:
        return EventKind.FEATURE_MISSING, name, "it stays missing for longer than it ever did"
    if what == FeatureChange.FROZEN:
        return EventKind.FEATURE_FROZEN, name, f"it has been {value:.6g} for longer than it ever kept a value"
    before, now = _round_alike(*(levels[:2] if what == FeatureChange.UP else levels[2:]))
    return EventKind.FEATURE_SHIFTED, name, f"its level went from about {before} to about {now}"


def _round_alike(a: float, b: float) -> tuple[str, str]:
    """Return two numbers with the digits that tell them apart.

    >>> _round_alike(1013.2467, 1019.871), _round_alike(-0.2684, 0.0012)
    (('1013.2', '1019.9'), ('-0.27', '0'))
    """
    digits = 1 - math.floor(math.log10(abs(b - a))) if math.isfinite(b - a) and b != a else 6
    return f"{round(a, digits) + 0.0:.12g}", f"{round(b, digits) + 0.0:.12g}"  # -0 becomes 0
