"""Models that are fitted again to all past rows on a schedule, as a practitioner would, and a ridge over a window."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.losses import log_odds

FIRST_FIT = 100
"""Labelled rows before a model is fitted for the first time."""
SCHEDULES = (250, 1000)
"""Rows between two fits."""
RIDGE_WINDOW, RIDGE_EVERY = 1000, 25
"""Rows that a ridge is fitted to, and rows between two fits."""

MakeModel = Callable[[], Any]


def forest_makers(task: str, seed: int) -> Iterator[tuple[str, str, MakeModel]]:
    """Yield library, name and constructor of the boosted trees that are installed."""
    numbers = task == "regression"
    if importlib.util.find_spec("lightgbm") is not None:
        import lightgbm

        kind: Any = lightgbm.LGBMRegressor if numbers else lightgbm.LGBMClassifier
        options: dict[str, Any] = {
            "n_estimators": 200,
            "learning_rate": 0.05,
            "n_jobs": 1,
            "random_state": seed,
            "verbose": -1,
        }
        yield "lightgbm", kind.__name__, lambda: kind(**options)
    if importlib.util.find_spec("sklearn") is not None:
        from sklearn import ensemble

        trees: Any = ensemble.HistGradientBoostingRegressor if numbers else ensemble.HistGradientBoostingClassifier
        yield "scikit-learn", trees.__name__, lambda: trees(random_state=seed, early_stopping=False)


def with_last_label(Z: Matrix, y: Vector) -> Matrix:
    """Return rows with the last label that was known before each, 0 before the first."""
    known = np.flatnonzero(~np.isnan(y))
    last = np.searchsorted(known, np.arange(len(y)), side="left") - 1
    labels = np.where(last >= 0, y[known[np.maximum(last, 0)]], 0.0) if len(known) else np.zeros(len(y))
    return np.column_stack([Z, labels])


def play_retrained(make: MakeModel, every: int, task: str, Z: Matrix, y: Vector) -> Vector:
    """Predict every row by a model fitted to all labelled rows before it, again after each `every` rows.

    Its features are the row and the last label; columns that are constant so far are left out, which some libraries
    cannot bin. Before the first fit it predicts the last label, or even odds.
    """
    X = with_last_label(Z, y)
    out = X[:, -1].copy() if task == "regression" else np.zeros(len(y))
    known = ~np.isnan(y)
    model: Any = None
    used = np.zeros(X.shape[1], bool)
    for begin, end in cut_fits(known, every):
        past = np.flatnonzero(known[:begin])
        if len(past) >= FIRST_FIT and (task == "regression" or len(np.unique(y[past])) == 2):
            used = varies(X[past])
            if used.any():
                labels = y[past] if task == "regression" else (y[past] > 0.5).astype(int)
                model = make().fit(X[past][:, used], labels)
        if model is not None:
            out[begin:end] = _answer(model, task, X[begin:end][:, used])
    return out


def varies(X: Matrix) -> NDArray[np.bool_]:
    """Return which columns have two different values."""
    low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
    return np.asarray(low < high)


def cut_fits(known: Vector, every: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the rows between two fits; the first fit comes as soon as there are enough labels."""
    counts = np.cumsum(known)
    first = int(np.searchsorted(counts, FIRST_FIT)) + 1
    cuts = [0, *range(first, len(known), every), len(known)] if first < len(known) else [0, len(known)]
    yield from pairwise(cuts)


def _answer(model: Any, task: str, X: Matrix) -> Vector:
    if task == "regression":
        return np.asarray(model.predict(X), np.float64)
    return log_odds(model.predict_proba(X)[:, 1])


def play_windowed_ridge(task: str, Z: Matrix, y: Vector) -> Vector:
    """Predict every row by a ridge fitted to the last rows and their last labels, scaled by those rows.

    For two classes it is fitted to 0 and 1, and its answer is taken for a probability.
    """
    X = with_last_label(Z, y)
    out = X[:, -1].copy() if task == "regression" else np.zeros(len(y))
    known = np.flatnonzero(~np.isnan(y))
    for begin in range(RIDGE_EVERY, len(y), RIDGE_EVERY):
        past = known[known < begin][-RIDGE_WINDOW:]
        if len(past) < 2:
            continue
        center, spread = X[past].mean(axis=0), X[past].std(axis=0)
        scale = np.where(spread > 0.0, spread, 1.0)
        A = (X[past] - center) / scale
        target = y[past] - y[past].mean()
        coef = np.linalg.solve(A.T @ A + np.eye(A.shape[1]), A.T @ target)
        rows = slice(begin, begin + RIDGE_EVERY)
        answer = y[past].mean() + ((X[rows] - center) / scale) @ coef
        out[rows] = answer if task == "regression" else log_odds(answer)
    return out
