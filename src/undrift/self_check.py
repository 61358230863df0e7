"""Checks of an install: seconds, no files left behind."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import undrift
from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.kernels import layout
from undrift.streams import synthetic


def _kernels() -> None:
    stream = synthetic("gradual", rounds=200, dim=4)
    beta = np.array([0.9, 0.99, 1.0])
    state, m, h = layout.fresh(4, np.ones(3)), np.empty((200, 3)), np.empty((200, 3))
    _check.raise_on_status("self check", kernels.vaw_play(state, beta, 0, stream.Z, stream.y, m, h), 4)
    for i in range(len(beta)):
        if not np.allclose(m[:, i], _ridge_predictions(stream.Z, stream.y, float(beta[i])), rtol=1e-9, atol=1e-9):
            raise ArithmeticError("the compiled kernel and the equations it solves disagree")


def _ridge_predictions(Z: Matrix, y: Vector, beta: float) -> Vector:
    """Return the predictions of discounted ridge regression, from its normal equations in every round."""
    A, r, yhat = np.eye(Z.shape[1]), np.zeros(Z.shape[1]), np.empty(len(y))
    for t, z in enumerate(Z):
        A, r = beta * A, beta * r
        yhat[t] = z @ np.linalg.solve(A, r)
        A, r = A + np.outer(z, z), r + y[t] * z
    return yhat


def _learning() -> None:
    stream = synthetic("abrupt", rounds=1500, dim=3, noise=0.1)
    trace = undrift.OnlineRegressor(speed="fast").play(stream.Z, stream.y)
    if not np.mean((trace.yhat - stream.y) ** 2) < 0.5 * np.var(stream.y):
        raise ArithmeticError("predictions on a synthetic stream are too far off")


def _files() -> None:
    stream = synthetic("recurring", task="classification", rounds=600, dim=3)
    model = undrift.OnlineClassifier(speed="fast")
    model.play(stream.Z[:300], stream.y[:300])
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.undrift")
        again = undrift.load(Path(folder) / "model.undrift")
    a, b = (one.play(stream.Z[300:], stream.y[300:]).yhat for one in (model, again))
    if a.tobytes() != b.tobytes():
        raise ArithmeticError("a saved model continues with other bits")


CHECKS: dict[str, Callable[[], None]] = {
    "the kernels solve their equations": _kernels,
    "a drifting stream is learned": _learning,
    "a saved model continues bit for bit": _files,
}
"""What is checked, and how; a check raises when it fails."""
