"""The numbers behind every figure, few enough to embed whatever the length of the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.losses import sigmoid
from undrift.report.axis import Clock
from undrift.report.blocks import cut
from undrift.report.memory import changes, effective
from undrift.report.scores import OWN, losses
from undrift.run import RunData

Sheet = dict[str, Any]
"""One figure's numbers, ready for JSON."""
POINTS = 1000
"""Points of a curve through the whole run, at most."""
RECENT = 300
"""Rounds of the close-up."""
COLUMNS = 150
"""Columns of the memory spectrum, at most."""
SNAPSHOTS = 300
"""Points of other curves made of snapshots, at most."""
SMOOTH = 7
"""Columns the line of the spectrum is averaged over."""
PANELS = 12
"""Features whose coefficients are drawn; all are in the table."""
TABLE = 500
"""Features in the table of coefficients, at most."""
BINS = 20
LEVEL = 0.9
"""The intervals of a run are made for this share of labels."""


def plain(values: Iterable[float], digits: int = 5) -> list[float | None]:
    """Return numbers for JSON: few digits, and None where there is no finite number."""
    return [float(f"{x:.{digits}g}") if np.isfinite(x) else None for x in values]


def loss_curves(data: RunData, clock: Clock) -> Sheet:
    """Rolling and cumulative loss of the run and of every baseline."""
    blocks = cut(data.rounds, POINTS)
    window = blocks.window(max(20, data.rounds // 50))
    sheet: Sheet = {
        "axis": clock.axis(blocks.last),
        "window": min(window * blocks.size, data.rounds),
        "names": [OWN, *data.baselines],
        "rolling": [],
        "cumulative": [],
        "behind": [],
    }
    own: Vector | None = None
    for yhat in (data.yhat, *data.baselines.values()):
        loss = losses(data.task, yhat, data.y)
        mean = blocks.rolling(loss, window)
        total = np.cumsum(blocks.sum(loss))
        own = total if own is None else own
        sheet["rolling"].append(plain(mean if data.task == "classification" else np.sqrt(2.0 * mean)))
        sheet["cumulative"].append(plain(total, 6))
        sheet["behind"].append(plain(total - own, 6))
    return sheet


def recent(data: RunData, clock: Clock) -> Sheet:
    """The last rounds one by one."""
    rows = slice(max(0, data.rounds - RECENT), data.rounds)
    sheet: Sheet = {
        "axis": clock.axis(np.arange(rows.start + 1, rows.stop + 1)),
        "line": [int(n) for n in data.line[rows]],
        "y": plain(data.y[rows], 7),
    }
    if data.task == "classification":
        p = sigmoid(data.yhat[rows])
        sheet["p"] = plain(p)
        for label, name in ((1, "positive"), (0, "negative")):
            sheet[name] = [label if y == label else None for y in data.y[rows]]
        return sheet
    sheet["yhat"] = plain(data.yhat[rows], 7)
    for name, ends in (("lower", data.lower), ("upper", data.upper)):
        sheet[name] = None if ends is None else plain(ends[rows], 7)
    return sheet


def whole(data: RunData, clock: Clock) -> Sheet:
    """Labels and predictions of the whole run, block by block."""
    regression = data.task == "regression"
    blocks = cut(data.rounds, POINTS // 2 if regression else 150)
    said = data.yhat if regression else sigmoid(data.yhat)
    sheet: Sheet = {
        "axis": clock.axis(blocks.last),
        "size": blocks.size,
        "y": plain(blocks.mean(data.y)),
        "yhat": plain(blocks.mean(said)),
    }
    if regression:
        sheet["lowest"], sheet["highest"] = plain(blocks.lowest(data.y)), plain(blocks.highest(data.y))
    return sheet


def spectrum(data: RunData, clock: Clock) -> Sheet | None:
    """Weight of each memory length through time, the half-life they amount to, and where it changed."""
    if not data.spectrum.size:
        return None
    blocks = cut(len(data.spectrum), COLUMNS)
    weights = np.column_stack([blocks.mean(column) for column in data.spectrum.T])
    rounds = data.spectrum_round[blocks.last - 1].astype(np.int64)
    rounds = np.clip(rounds, 1, data.rounds)
    half_life = effective(data.half_lives, centred(weights, SMOOTH))
    found = changes(data.spectrum_round, data.half_lives, data.spectrum)
    return {
        "axis": clock.axis(rounds),
        "marks": clock.axis(np.array([change.round for change in found], dtype=np.int64)),
        "half_lives": plain(data.half_lives),
        "heights": plain(heights(data.half_lives)),
        "weights": [plain(row, 3) for row in weights.T],
        "effective": plain(half_life),
        "line": plain(_height_of(half_life, data.half_lives)),
        "changes": [change._asdict() for change in found],
    }


def centred(rows: Matrix, width: int) -> Matrix:
    """Return the mean of `width` rows around each; fewer at the ends."""
    ones = np.ones(min(width, len(rows)))
    shares = np.convolve(np.ones(len(rows)), ones, "same")
    return np.column_stack([np.convolve(column, ones, "same") / shares for column in rows.T])


def heights(half_lives: Vector) -> Vector:
    """Return where half-lives stand on a log axis; forever is one ordinary step above the longest."""
    finite = np.isfinite(half_lives)
    if not finite.any():
        return np.zeros(len(half_lives))
    logs = np.log10(half_lives[finite])
    step = float(np.median(np.diff(logs))) if len(logs) > 1 else 1.0
    return np.where(finite, np.log10(np.where(finite, half_lives, 1.0)), logs[-1] + step)


def _height_of(half_life: Vector, half_lives: Vector) -> Vector:
    """Return where an effective half-life is drawn: never above the row of "forever"."""
    top = float(np.max(heights(half_lives)))
    return np.minimum(np.where(np.isfinite(half_life), np.log10(np.maximum(half_life, 1e-9)), top), top)


def candidates(data: RunData, clock: Clock) -> Sheet | None:
    """Weights of the last mixer's candidates through time."""
    if not data.candidate_weights.size:
        return None
    blocks = cut(len(data.candidate_weights), SNAPSHOTS)
    rounds = np.clip(data.spectrum_round[blocks.last - 1].astype(np.int64), 1, data.rounds)
    means = np.column_stack([blocks.mean(column) for column in data.candidate_weights.T])
    seen = np.max(means, axis=0) >= 0.02
    names = [name for name, large in zip(data.candidates, seen, strict=True) if large]
    shares = [*means.T[seen]]
    if not seen.all():
        names.append("others")
        shares.append(np.sum(means[:, ~seen], axis=1))
    return {"axis": clock.axis(rounds), "names": names, "weights": [plain(share, 4) for share in shares]}


def coefficients(data: RunData, clock: Clock) -> Sheet | None:
    """Coefficients of the leading linear leaf: curves of the clearest features, and a table of all."""
    if not data.coef.size:
        return None
    keep = cut(len(data.coef), SNAPSHOTS).last - 1
    rounds = np.clip(data.coef_round[keep].astype(np.int64), 1, data.rounds)
    known = [column[np.isfinite(column)] for column in data.coef.T]
    order = _clearest(known)
    return {
        "axis": clock.axis(rounds),
        "panels": [
            {
                "name": data.coef_names[j],
                "values": plain(data.coef[keep, j]),
                "range": _ordinary(known[j]),
                "last": float(known[j][-1]),
            }
            for j in order[:PANELS]
            if len(known[j])
        ],
        "table": [
            {
                "name": data.coef_names[j],
                "first": float(known[j][0]),
                "lowest": float(np.min(known[j])),
                "highest": float(np.max(known[j])),
                "last": float(known[j][-1]),
            }
            for j in range(min(len(known), TABLE))
            if len(known[j])
        ],
        "features": len(known),
    }


def _ordinary(values: Vector) -> list[float] | None:
    """Return the range to draw when a few extreme values would flatten the rest; None to draw all."""
    low, high = (float(q) for q in np.quantile(values, (0.03, 0.97)))
    room = 0.25 * (high - low)
    extreme = float(np.max(values)) - float(np.min(values)) > 3.0 * (high - low) > 0.0
    return [float(f"{low - room:.5g}"), float(f"{high + room:.5g}")] if extreme else None


def _clearest(known: list[Vector]) -> list[int]:
    """Return features by how clearly their coefficient is not 0, in units of how much it moves; the constant last."""

    def clear(values: Vector) -> float:
        if not len(values) or not np.any(values):
            return -1.0
        spread = float(np.std(values))
        return abs(float(np.mean(values))) / spread if spread > 0.0 else float("inf")

    features = sorted(range(len(known) - 1), key=lambda j: -clear(known[j]))
    return [*features[: PANELS - 1], len(known) - 1]


def calibration(data: RunData) -> Sheet:
    """Predicted probabilities beside what happened, in equal steps of probability."""
    p = sigmoid(data.yhat)
    bin_of = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(bin_of, minlength=BINS)
    there = counts > 0
    said = np.bincount(bin_of, weights=p, minlength=BINS)[there] / counts[there]
    came = np.bincount(bin_of, weights=data.y, minlength=BINS)[there] / counts[there]
    error = np.sqrt(said * (1.0 - said) / counts[there])
    return {
        "said": plain(said),
        "came": plain(came),
        "error": plain(2.0 * error),
        "middle": plain((np.flatnonzero(there) + 0.5) / BINS),
        "count": [int(n) for n in counts[there]],
        "gap": float(np.sum(np.abs(said - came) * counts[there]) / data.rounds),
    }


def intervals(data: RunData, clock: Clock) -> Sheet | None:
    """How often labels lay inside the intervals predicted for them, through time, and how wide these were."""
    if data.lower is None or data.upper is None:
        return None
    known = np.isfinite(data.lower) & np.isfinite(data.upper)
    if not known.any():
        return None
    inside = known & (data.lower <= data.y) & (data.y <= data.upper)
    width = np.where(known, data.upper - data.lower, 0.0)
    blocks = cut(data.rounds, POINTS // 2)
    window = blocks.window(max(100, data.rounds // 30))
    share = blocks.rolling(known.astype(np.float64), window)
    share = np.where(share > 0.0, share, np.nan)  # no interval in the window: nothing to draw
    return {
        "axis": clock.axis(blocks.last),
        "window": min(window * blocks.size, data.rounds),
        "level": LEVEL,
        "measured": float(np.count_nonzero(inside) / np.count_nonzero(known)),
        "rounds": int(np.count_nonzero(known)),
        "coverage": plain(blocks.rolling(inside.astype(np.float64), window) / share, 4),
        "width": plain(blocks.rolling(width, window) / share, 4),
    }
