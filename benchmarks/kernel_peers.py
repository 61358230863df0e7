"""One round of other libraries' linear learners, as their users would write it (the `bench` extra installs them)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np

BLOCK = 200


def peers(dim: int) -> dict[str, Callable[[], int]]:
    """Contenders by name; each closes a block of rounds and returns how many. A library that is missing is left out.

    Every block begins with a fresh model: after long replays of the same rows some end in NaN or a singular matrix.
    """
    rng = np.random.default_rng(dim)
    Z, y = rng.normal(size=(1000, dim)), rng.normal(size=1000)
    out: dict[str, Callable[[], int]] = {}
    if importlib.util.find_spec("river"):
        from river import linear_model

        rows = [{f"x{j}": float(v) for j, v in enumerate(z)} for z in Z]
        bayes = linear_model.BayesianLinearRegression
        out["river BayesianLinearRegression"] = lambda: _river(bayes(), rows[:BLOCK], y)
        out["river BayesianLinearRegression(smoothing=0.99)"] = lambda: _river(bayes(smoothing=0.99), rows[:BLOCK], y)
        out["river LinearRegression"] = lambda: _river(linear_model.LinearRegression(), rows[:BLOCK], y)
    if importlib.util.find_spec("padasip"):
        import padasip

        out["padasip FilterRLS"] = lambda: _padasip(padasip.filters.FilterRLS(n=dim, mu=0.99), Z[:BLOCK], y)
    if importlib.util.find_spec("sklearn"):
        from sklearn.linear_model import SGDRegressor

        out["scikit-learn SGDRegressor partial_fit(1)"] = lambda: _sklearn(SGDRegressor(), Z[:BLOCK], y)
        out["scikit-learn SGDRegressor partial_fit(1000)"] = lambda: len(Z) if SGDRegressor().partial_fit(Z, y) else 0
    return out


def _river(model, rows, y) -> int:
    for row, label in zip(rows, y, strict=False):
        model.predict_one(row)
        model.learn_one(row, float(label))
    return len(rows)


def _padasip(model, Z, y) -> int:
    for z, label in zip(Z, y, strict=False):
        model.predict(z)
        model.adapt(label, z)
    return len(Z)


def _sklearn(model, Z, y) -> int:
    for t in range(len(Z)):
        model.partial_fit(Z[t : t + 1], y[t : t + 1])
        model.predict(Z[t : t + 1])
    return len(Z)
