"""Our default beside other learners and the naive guesses, on one file, each row predicted before it is learned."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

import undrift
from undrift._typing import Matrix, Vector
from undrift.baselines import BASELINES, Baselines
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.online.base import OnlineLearner
from undrift.online.rows import Memory
from undrift.run.play.scores import score_predictions
from undrift.run.prepare.load_rows import load_rows
from undrift.run.read.source import Source
from undrift.run.settings import Settings

ROWS = 20_000
"""Rows compared on unless told otherwise: some peers take a millisecond a row."""
Said = Vector
"""Predictions, or log-odds, one for each row."""
CLIP = 1e-6
"""Peers' probabilities are kept this far from 0 and 1, as their users would."""


@dataclass(frozen=True)
class LearnerResult:
    """How one learner did."""

    name: str
    """Of the learner."""
    kind: str
    """"undrift", "naive", or the library it is from."""
    scores: dict[str, float]
    """Measures by name; the first is what the table is sorted by."""
    microseconds: float
    """A row."""


def compare_file(
    path: str,
    settings: Settings,
    *,
    peers: bool = True,
    log: Callable[[str], None] | None = None,
) -> tuple[str, int, list[LearnerResult]]:
    """Return the task, the rows, and every learner's result, best first.

    All see the same rows: holes filled with the last value seen, scaled by their own means where they have any.
    """
    rows = settings.limit or ROWS
    table, y, task = load_rows(Source(path, replace(settings, limit=rows)), rows)
    Z = table.values
    filled = np.nan_to_num(Memory(Z.shape[1]).fill(Z))
    known = ~np.isnan(y)
    out = []
    for kind, name, play in _learners(task, settings, peers):
        if log is not None:
            log(f"{name} ...")
        begin = time.perf_counter()
        yhat = play(Z if kind == "undrift" else filled, y)
        took = time.perf_counter() - begin
        out.append(LearnerResult(name, kind, score_predictions(task, yhat[known], y[known]), took / len(y) * 1e6))
    naive = Baselines(binary=task == "classification", delay=0)
    begin = time.perf_counter()
    guesses = naive.play(y)
    took = (time.perf_counter() - begin) / len(y) * 1e6
    for name, guess in zip(BASELINES[task], guesses.T, strict=True):
        out.append(LearnerResult(name, "naive", score_predictions(task, guess[known], y[known]), took))
    first = next(iter(out[0].scores))
    return task, len(y), sorted(out, key=lambda one: one.scores[first])


Play = Callable[[Matrix, Vector], Said]


def _learners(task: str, settings: Settings, peers: bool) -> Iterator[tuple[str, str, Play]]:
    cls = OnlineRegressor if task == "regression" else OnlineClassifier
    for speed in ("best", "fast"):
        yield "undrift", f"{cls.__name__} ({speed})", partial(_own_play, cls(speed=speed, seed=settings.seed))
    if not peers:
        return
    if importlib.util.find_spec("river") is not None:
        for name, model in _river(task, settings.seed).items():
            yield "river", name, partial(_river_play, model, task)
    if importlib.util.find_spec("sklearn") is not None:
        for name, model in _sklearn(task, settings.seed).items():
            yield "scikit-learn", name, partial(_sklearn_play, model, task)


def _own_play(model: OnlineLearner, Z: Matrix, y: Vector) -> Said:
    return model.play(Z, y).yhat


def _river(task: str, seed: int) -> dict[str, Any]:
    from river import forest, linear_model, neighbors, preprocessing, tree

    scaled = preprocessing.StandardScaler
    if task == "regression":
        return {
            "LinearRegression": scaled() | linear_model.LinearRegression(),
            "BayesianLinearRegression": scaled() | linear_model.BayesianLinearRegression(),
            "HoeffdingAdaptiveTreeRegressor": scaled() | tree.HoeffdingAdaptiveTreeRegressor(seed=seed),
            "ARFRegressor": scaled() | forest.ARFRegressor(seed=seed),
            "KNNRegressor": scaled() | neighbors.KNNRegressor(),
        }
    return {
        "LogisticRegression": scaled() | linear_model.LogisticRegression(),
        "HoeffdingAdaptiveTreeClassifier": scaled() | tree.HoeffdingAdaptiveTreeClassifier(seed=seed),
        "ARFClassifier": scaled() | forest.ARFClassifier(seed=seed),
    }


def _river_play(model: Any, task: str, Z: Matrix, y: Vector) -> Said:
    out = np.zeros(len(y))
    names = [str(j) for j in range(Z.shape[1])]
    for t, (row, label) in enumerate(zip(Z.tolist(), y.tolist(), strict=True)):
        x = dict(zip(names, row, strict=True))
        if task == "regression":
            out[t] = model.predict_one(x)
        else:
            out[t] = _odds(model.predict_proba_one(x).get(True, 0.5))
        if not math.isnan(label):
            model.learn_one(x, label if task == "regression" else label > 0.5)
    return np.nan_to_num(out, nan=0.0, posinf=1e75, neginf=-1e75)


def _sklearn(task: str, seed: int) -> dict[str, Any]:
    from sklearn import linear_model

    if task == "regression":
        return {"SGDRegressor": linear_model.SGDRegressor(random_state=seed)}
    return {"SGDClassifier": linear_model.SGDClassifier(loss="log_loss", random_state=seed)}


def _sklearn_play(model: Any, task: str, Z: Matrix, y: Vector) -> Said:
    """Row by row, on rows scaled by the means and deviations so far."""
    from sklearn.preprocessing import StandardScaler

    scaler, out = StandardScaler(), np.zeros(len(y))
    for t, label in enumerate(y.tolist()):
        x = Z[t : t + 1]
        if t:
            scaled = scaler.transform(x)
            if hasattr(model, "coef_"):
                out[t] = model.decision_function(scaled)[0] if task != "regression" else model.predict(scaled)[0]
        scaler.partial_fit(x)
        if not math.isnan(label):
            extra = {} if task == "regression" else {"classes": [0.0, 1.0]}
            model.partial_fit(scaler.transform(x), [label], **extra)
    return np.nan_to_num(out, nan=0.0, posinf=1e75, neginf=-1e75)


def _odds(p: float) -> float:
    p = min(max(p, CLIP), 1.0 - CLIP)
    return math.log(p / (1.0 - p))


def versions() -> dict[str, str]:
    """Return the versions of what was compared."""
    import importlib.metadata

    found = {"undrift": undrift.__version__}
    for name in ("river", "scikit-learn"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
