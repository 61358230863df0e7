"""Runs for the report's tests: played by the real estimators, without files."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np

import undrift as ud
from undrift.losses import logistic, squared
from undrift.regret import comparators
from undrift.run import RunData, Settings, play_file, read_run


def jumping_rows(task: str, rounds: int, dim: int = 4, seed: int = 0):
    """Rows whose coefficients jump in the middle."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rounds, dim))
    u = np.repeat(rng.normal(size=(2, dim)), [rounds - rounds // 2, rounds // 2], axis=0)
    signal = np.sum(Z * u, axis=1)
    if task == "regression":
        return Z, 50.0 + 10.0 * signal + rng.normal(size=rounds)
    return Z, (signal + rng.logistic(size=rounds) > 0).astype(np.float64)


def play_run(task: str, Z, y, *, names=None, time=None, snapshots: int = 60, certify: bool = True, **more) -> RunData:
    """Play an online estimator over rows, with snapshots, as a run would."""
    classify = task == "classification"
    model = ud.OnlineClassifier(speed="fast") if classify else ud.OnlineRegressor(speed="fast")
    T, d = Z.shape
    names = names or [f"feature {j}" for j in range(d)]
    cuts = np.unique(np.linspace(0, T, min(snapshots, T) + 1).astype(int))
    scaled = np.nan_to_num((Z - np.nanmean(Z, axis=0)) / np.maximum(np.nanstd(Z, axis=0), 1e-9))
    rows = np.column_stack([scaled, np.ones(T)])
    linear = ud.DiscountedAIOLI(half_life=300, bound=8.0) if classify else ud.DiscountedVAW(half_life=300)
    traces, spectrum, weights, coef, combination = [], [], [], [], []
    for a, b in itertools.pairwise(cuts):
        traces.append(model.play(Z[a:b], y[a:b]) if classify else model.play(Z[a:b], y[a:b], interval=0.9))
        linear.play(rows[a:b], y[a:b])
        spectrum.append(model.spectrum().weights)
        weights.append(model.weights)
        combination.append([*model.combination().values()])
        coef.append(linear.coef.copy())
    yhat = np.concatenate([trace.yhat for trace in traces])
    snapshot_rounds = cuts[1:].astype(np.float64)
    before = np.concatenate((y[:1], y[:-1]))
    rate = (np.concatenate(([0.0], np.cumsum(y)[:-1])) + 0.5) / (np.arange(T) + 1.0)
    if classify:
        baselines = {
            "same as last time": np.where(before > 0, 1.7, -1.7),
            "base rate": np.log(rate / (1.0 - rate).clip(1e-9)),
        }
    else:
        baselines = {"last value": before, "running mean": rate}
    base = {
        "settings": {"target": "count", "seed": 0, "speed": "fast"},
        "provenance": {
            "undrift": ud.__version__,
            "kernels": "v3",
            "seconds": 1.5,
        },
        "learned": [{"path": "/data/rows.csv", "size": 12345, "sha256": "0" * 64, "rows": T}],
        "task": task,
        "target": "count",
        "features": names,
        "classes": ["no", "yes"] if classify else None,
        "line": np.arange(2, T + 2),
        "time": time,
        "y": np.asarray(y, dtype=np.float64),
        "yhat": yhat,
        "lower": None if classify else np.concatenate([trace.lower for trace in traces]),
        "upper": None if classify else np.concatenate([trace.upper for trace in traces]),
        "baselines": baselines,
        "spectrum_round": snapshot_rounds,
        "half_lives": model.spectrum().half_lives,
        "spectrum": np.array(spectrum),
        "candidates": model.candidates,
        "candidate_weights": np.array(weights),
        "coef_round": snapshot_rounds,
        "coef_names": [*names, "(intercept)"],
        "coef": np.array(coef),
        "effects": dict(zip(names, model.effects(Z[-50:]).tolist(), strict=True)),
        "families": [*model.combination()],
        "combination": np.array(combination),
        "arms": model.arms(),
        "then": Z[:200],
        "now": Z[-200:],
        "certificates": certificates(task, rows, y, yhat) if certify else [],
        "problems": [
            {
                "kind": "missing",
                "column": names[0],
                "count": 12,
                "lines": [3, 14, 159],
                "note": "filled with the last value",
            }
        ],
        "notes": ["The first 4 rows were predicted without any experience."],
    }
    return RunData(**{**base, **more})


def play_class_run(folder: Path, rounds: int, classes=("low", "middle", "high", "<b>top</b>")) -> RunData:
    """Run a file of several classes, of which the last appears late."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(rounds, 3))
    scores = 3.0 * Z @ rng.normal(size=(3, len(classes))) + rng.gumbel(size=(rounds, len(classes)))
    scores[: rounds // 2, -1] = -np.inf
    labels = [classes[k] for k in np.argmax(scores, axis=1)]
    labels[5] = None
    with (folder / "classes.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerows([["a", "b", "c", "kind"], *([*z.round(4), y] for z, y in zip(Z, labels, strict=True))])
    play_file(str(folder / "classes.csv"), folder / "classes-run", Settings(target="kind", speed="fast"))
    return read_run(folder / "classes-run")


def certificates(task, rows, y, yhat):
    """The certificates a run would store, through two learners of known memory."""
    if task == "classification":
        loss, limit = logistic, {"margin": 8.0}
        learners = [ud.DiscountedAIOLI(beta=b, bound=8.0, radius=1.0) for b in (0.999, 1.0)]
        y = 2.0 * y - 1.0
    else:
        loss, limit = squared, {}
        learners = [ud.DiscountedVAW(beta=b, hint="ridge") for b in (0.99, 0.999, 1.0)]
    every = len(y) // 20 or 1
    pieces = comparators.piecewise(rows, y, loss, segments=min(20, len(y)), **limit)
    rivals = [
        ("best fixed", comparators.fixed(rows, y, loss, **limit), "a line that stands still", None),
        ("20 pieces", pieces, f"a line refitted every {every} rows", every),
        ("smooth", comparators.smooth(rows, y, loss, tau=1e4, **limit), "a line that drifts", None),
    ]
    out = []
    for name, u, words, refit in rivals:
        played = ud.trace.Trace(yhat)
        c = ud.regret.certify(ud.regret.ReferenceLearners(learners), rows, y, trace=played, u=u, loss=loss)
        best = ud.regret.certify(ud.regret.HindsightLeaves(binary=task == "classification"), rows, y, trace=played, u=u)
        fields = ("regret", "start", "stability", "variation", "potential_drift", "excess", "bound", "slack", "ratio")
        out.append(
            {
                "name": name,
                "words": words,
                "kind": "any such line",
                "leaf": c.leaf,
                **{key: getattr(c, key) for key in (*fields, "comparator_loss", "holds", "vacuous")},
                "hindsight": {"bound": best.bound, "ratio": best.ratio, "holds": best.holds, "leaf": best.leaf},
                "own_loss": c.incurred,
                "rounds": len(y),
                "refit_every": refit,
                "refused": None,
            }
        )
    return out
