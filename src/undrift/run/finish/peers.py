"""Learners of other libraries that are installed, over rows without holes, each predicted before it is learned."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import undrift
from undrift._typing import Matrix, Vector
from undrift.losses import log_odds
from undrift.run.finish.contenders import MICROSECONDS, Contender
from undrift.run.finish.retrained import (
    RIDGE_WINDOW,
    SCHEDULES,
    forest_makers,
    play_retrained,
    play_windowed_ridge,
)

HUGE = 1e75
"""Stands for predictions that are infinite."""


def installed_peers(task: str, seed: int) -> Iterator[Contender]:
    """Yield the learners of the libraries that are installed, with their own defaults behind a scaler.

    Boosted trees are fitted again on a schedule, with the last label as a feature, as is a ridge over the last rows.
    """
    if importlib.util.find_spec("river") is not None:
        for name, model in _river_models(task, seed).items():
            yield Contender("river", name, partial(_play_river, model, task), MICROSECONDS[name])
    if importlib.util.find_spec("sklearn") is not None:
        for name, model in _sklearn_models(task, seed).items():
            yield Contender("scikit-learn", name, partial(_play_sklearn, model, task), MICROSECONDS[name])
    for library, name, make in forest_makers(task, seed):
        for every in SCHEDULES:
            play = partial(play_retrained, make, every, task)
            yield Contender(library, f"{name}, refitted every {every:,}", play, MICROSECONDS[name] * 1000 / every)
    ridge = partial(play_windowed_ridge, task)
    yield Contender("numpy", f"ridge over {RIDGE_WINDOW:,} rows", ridge, MICROSECONDS["ridge"])


def _river_models(task: str, seed: int) -> dict[str, Any]:
    from river import forest, linear_model, neighbors, preprocessing, tree

    scaled = preprocessing.StandardScaler
    if task == "regression":
        return {
            "LinearRegression": scaled() | linear_model.LinearRegression(),
            "BayesianLinearRegression": scaled() | linear_model.BayesianLinearRegression(),
            "HoeffdingAdaptiveTreeRegressor": scaled() | tree.HoeffdingAdaptiveTreeRegressor(seed=seed),
            "ARFRegressor": scaled() | forest.ARFRegressor(seed=seed),
            "KNNRegressor": scaled() | neighbors.KNNRegressor(engine=neighbors.SWINN(seed=seed)),
        }
    return {
        "LogisticRegression": scaled() | linear_model.LogisticRegression(),
        "HoeffdingAdaptiveTreeClassifier": scaled() | tree.HoeffdingAdaptiveTreeClassifier(seed=seed),
        "ARFClassifier": scaled() | forest.ARFClassifier(seed=seed),
    }


def _play_river(model: Any, task: str, Z: Matrix, y: Vector) -> Vector:
    out = np.zeros(len(y))
    names = [str(j) for j in range(Z.shape[1])]
    for t, (row, label) in enumerate(zip(Z.tolist(), y.tolist(), strict=True)):
        x = dict(zip(names, row, strict=True))
        if task == "regression":
            out[t] = model.predict_one(x)
        else:
            out[t] = model.predict_proba_one(x).get(True, 0.5)
        if not math.isnan(label):
            model.learn_one(x, label if task == "regression" else label > 0.5)
    out = out if task == "regression" else log_odds(out)
    return np.nan_to_num(out, nan=0.0, posinf=HUGE, neginf=-HUGE)


def _sklearn_models(task: str, seed: int) -> dict[str, Any]:
    from sklearn import linear_model

    if task == "regression":
        return {"SGDRegressor": linear_model.SGDRegressor(random_state=seed)}
    return {"SGDClassifier": linear_model.SGDClassifier(loss="log_loss", random_state=seed)}


def _play_sklearn(model: Any, task: str, Z: Matrix, y: Vector) -> Vector:
    """Play row by row, on rows scaled by the means and deviations so far."""
    from sklearn.preprocessing import StandardScaler

    scaler, out = StandardScaler(), np.zeros(len(y))
    for t, label in enumerate(y.tolist()):
        x = Z[t : t + 1]
        if t:
            scaled = (x - scaler.mean_) / scaler.scale_  # as its transform, which checks the row at length
            if hasattr(model, "coef_"):
                out[t] = model.decision_function(scaled)[0] if task != "regression" else model.predict(scaled)[0]
        scaler.partial_fit(x)
        if not math.isnan(label):
            extra = {} if task == "regression" else {"classes": [0.0, 1.0]}
            model.partial_fit((x - scaler.mean_) / scaler.scale_, [label], **extra)
    return np.nan_to_num(out, nan=0.0, posinf=HUGE, neginf=-HUGE)


LIBRARIES = ("river", "scikit-learn", "lightgbm")
"""Where peers are from."""


def absent_libraries() -> list[str]:
    """Return the libraries whose learners cannot take part, as they are not installed."""
    return [name for name in LIBRARIES if name not in versions()]


def versions() -> dict[str, str]:
    """Return the versions of undrift and of the peers that are installed."""
    found = {"undrift": undrift.__version__}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
