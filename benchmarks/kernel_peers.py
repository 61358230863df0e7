"""One round of other libraries' linear learners, as their users would write it (the `bench` extra installs them)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np


def peers(dim: int) -> dict[str, Callable[[], int]]:
    """Contenders by name; each closes a block of rounds and returns how many. A library that is missing is left out."""
    rng = np.random.default_rng(dim)
    Z, y = rng.normal(size=(1000, dim)), rng.normal(size=1000)
    out: dict[str, Callable[[], int]] = {}
    if importlib.util.find_spec("river"):
        from river import linear_model

        rows = [{f"x{j}": float(v) for j, v in enumerate(z)} for z in Z]
        for name, model in {
            "river BayesianLinearRegression": linear_model.BayesianLinearRegression(),
            "river BayesianLinearRegression(smoothing=0.99)": linear_model.BayesianLinearRegression(smoothing=0.99),
            "river LinearRegression": linear_model.LinearRegression(),
        }.items():
            out[name] = lambda model=model: _river(model, rows[:50], y)
    if importlib.util.find_spec("padasip"):
        import padasip

        rls = padasip.filters.FilterRLS(n=dim, mu=0.99)
        out["padasip FilterRLS"] = lambda: _padasip(rls, Z[:50], y)
    if importlib.util.find_spec("sklearn"):
        from sklearn.linear_model import SGDRegressor

        one, many = SGDRegressor(), SGDRegressor()
        out["scikit-learn SGDRegressor partial_fit(1)"] = lambda: _sklearn(one, Z[:50], y)
        out["scikit-learn SGDRegressor partial_fit(1000)"] = lambda: len(Z) if many.partial_fit(Z, y) else 0
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
