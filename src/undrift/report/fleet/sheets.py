"""The numbers behind a fleet's figures: many keys as a few bars, points and curves."""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np

from undrift.baselines import BASELINES
from undrift.report.curves import Sheet, plain
from undrift.report.words import short
from undrift.run import KeyedRun, KeyReport

STEP = 0.05
"""Width of a bar of saved loss."""
LOWEST = -1.0
"""Keys that lost more than this count in the lowest bar."""
POINTS = 1000
"""Keys drawn one by one, at most."""


def saved(found: KeyedRun) -> Sheet | None:
    """How many keys saved which part of the best naive guess's loss."""
    skills = np.array([one.skill for one in found.keys])
    skills = skills[~np.isnan(skills)]
    if not len(skills):
        return None
    edges = np.round(np.arange(LOWEST, 1.0 + STEP / 2.0, STEP), 10)
    counts, _ = np.histogram(np.clip(skills, LOWEST, 1.0), edges)
    first = int(np.flatnonzero(counts)[0])
    return {
        "low": plain(edges[first:-1]),
        "high": plain(edges[first + 1 :]),
        "middle": plain((edges[first:-1] + edges[first + 1 :]) / 2.0),
        "count": counts[first:].tolist(),
        "keys": len(skills),
        "better": int(np.count_nonzero(skills > 0.0)),
        "median": float(np.median(skills)),
        "clipped": int(np.count_nonzero(skills < LOWEST)),
    }


def memories(found: KeyedRun) -> Sheet | None:
    """How many keys have which half-life, two bars for a doubling; those that never forget apart."""
    known = np.array([one.half_life for one in found.keys if one.half_life is not None], np.float64)
    if not len(known):
        return None
    finite = known[np.isfinite(known)]
    steps = np.floor(2.0 * np.log2(np.maximum(finite, 0.5))).astype(np.int64)
    low, high = (int(steps.min()), int(steps.max())) if len(finite) else (0, 0)
    pad = max(0, 4 - (high - low) // 2)  # where all keys are alike, the axis still shows a range
    low, high = low - low % 2 - pad, high + 1 - high % 2 + pad
    low, high = low - low % 2, high + 1 - high % 2  # whole doublings
    counts = np.bincount(steps - low, minlength=high - low + 1)
    edges = [2.0 ** (k / 2.0) for k in range(low, high + 2)]
    return {
        "from": plain(np.array(edges[:-1])),
        "to": plain(np.array(edges[1:])),
        "at": list(range(high - low + 1)),
        "count": counts.tolist(),
        "never": len(known) - len(finite),
        "keys": len(known),
        "of": len(found.keys),
        "median": float(np.median(known)) if np.isfinite(np.median(known)) else math.inf,
    }


def points(found: KeyedRun) -> Sheet | None:
    """Memory and saved loss, key by key: those with most rounds where there are many."""
    known = [one for one in found.keys if one.half_life is not None and not math.isnan(one.skill)]
    known = heapq.nlargest(POINTS, known, key=KeyReport.draw)
    finite = [one for one in known if math.isfinite(one.half_life or math.inf)]
    if len(finite) < 2:
        return None
    sheet: dict[str, Any] = {
        "key": [short(one.key) for one in finite],
        "half_life": plain(np.array([one.half_life for one in finite], np.float64)),
        "saved": plain(np.array([max(one.skill, LOWEST) for one in finite])),
        "rounds": [one.rounds for one in finite],
        "of": len(found.keys),
    }
    return sheet


def ages(found: KeyedRun) -> Sheet | None:
    """Losses by how many rows a key had seen, ours and the naive guesses'."""
    if len(found.ages) < 2:
        return None
    return {
        "seen": [one.first for one in found.ages],
        "last": [one.last for one in found.ages],
        "keys": [one.keys for one in found.ages],
        "names": ["undrift", *BASELINES[found.task]],
        "losses": [plain(np.array(column)) for column in zip(*(one.losses for one in found.ages), strict=True)],
    }
