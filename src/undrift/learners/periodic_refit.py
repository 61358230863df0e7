"""PeriodicRefit: a model of your own, refitted on a schedule over its own past."""

from __future__ import annotations

import copy
import math
import re
from typing import Any

import numpy as np

from undrift import _check, store
from undrift._typing import Arrays, Matrix, Vector
from undrift.errors import InputError, ModelFileError
from undrift.learners.base import Columns, Learner
from undrift.learners.row_context import RowContext
from undrift.learners.serializable import Construction
from undrift.losses import log_odds

FIRST_FIT = 32
"""Labelled rows before the model is fitted for the first time."""
WINDOW = 32_768
"""The last rows that a fit uses at most, unless said otherwise."""
MISSING = 1e300
"""What a missing number is in the buffer: saved arrays are finite, and rows are at most 1e75 in size."""


class PeriodicRefit(Learner):
    """Any scikit-learn-like regressor or classifier as a learner: fitted again when its past has grown enough.

    Parameters
    ----------
    model
        An object with `fit(X, y)` and `predict(X)`, for two classes `predict_proba(X)`; a copy of it is fitted every
        time. Whether it is a classifier and takes missing numbers (NaN) is asked of it as scikit-learn does.
    grow
        It is fitted again when there are `grow` times the labelled rows of the last fit, above 1 and at most 100; when
        the window is full, after `grow` - 1 windows. A model that takes a second to fit takes it inside of `learn`.
    window
        How many of the last rows a fit uses, at least 2; 32,768 by default.

    Notes
    -----
    Makes no promise of its own; inside an `Ensemble` the mixer's holds. Before 32 labelled rows it predicts their mean,
    or the log-odds of their classes. A file holds the rows and a text that tells the model apart, not the model:
    `undrift.load(path, model=...)` fits it again. Bits are the same as far as the model's are. Not for fleets or Spark.

    Examples
    --------
    >>> import undrift as ud
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.uniform(-1, 1, size=(3000, 2))
    >>> y = np.where(Z[:, 0] > 0, Z[:, 1], -Z[:, 1])
    >>> model = PeriodicRefit(ud.BoostedTrees(columns=1.0))
    >>> error = y - model.play(Z, y).yhat
    >>> bool(np.mean(error[2000:] ** 2) < 0.1 * np.var(y))
    True
    """

    needs_model = True

    def __init__(self, model: Any, *, grow: float = 1.5, window: int | None = None) -> None:
        if isinstance(model, type) or not all(callable(getattr(model, verb, None)) for verb in ("fit", "predict")):
            raise InputError(
                f"PeriodicRefit: model must be an object with fit(X, y) and predict(X), got {_check.describe(model)}"
            )
        self.grow = _check.interval(self, "grow", grow, "(1, 100]")
        self.window = WINDOW if window is None else _check.integer(self, "window", window, 2, 10_000_000)
        self._model = copy.deepcopy(model)
        self._fitted: Any = None
        self.binary = is_classifier(model)
        self.accepts_nan = takes_missing(model)  # type: ignore[misc]  # others have a constant
        if self.binary and not callable(getattr(model, "predict_proba", None)):
            raise InputError(f"PeriodicRefit: a classifier must have predict_proba(X), got {_check.describe(model)}")
        super().__init__(grow=grow, window=window)

    @property
    def model(self) -> Any:
        """A copy of the model as it was given."""
        return copy.deepcopy(self._model)

    @property
    def fitted(self) -> Any:
        """The model as it was fitted last; None before the first fit."""
        return self._fitted

    def _construction(self) -> Construction:
        return Construction((self._model,), self.parameters)

    def _composition(self) -> store.Header:
        return {"model": describe_model(self._model)}

    @classmethod
    def _saved_construction(cls, header: store.Header) -> Construction:
        saved, models = header.get("model"), header.get("given_models")
        if not isinstance(saved, dict):
            raise ModelFileError(f"{cls.__name__}: the saved parameters cannot be used (no model is named)")
        given: list[Any] = list(models) if isinstance(models, tuple) else []
        model = next((one for one in given if describe_model(one) == saved), None)
        if model is None:
            got = ", ".join(f"{type(one).__name__}" for one in given) or "none"
            raise ModelFileError(
                f"{cls.__name__}: the file holds rows and not the model; pass load(path, model=...) with "
                f"{saved.get('class')!s:.60} and the parameters it had, got {got}"
            )
        return Construction((model,), header["parameters"])  # type: ignore[arg-type]  # __init__ checks every one of them

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, grow={self.grow!r}, window={self.window!r})"

    def _identity(self) -> list[object]:
        return [type(self).__name__, dict(self.parameters), describe_model(self._model)]

    def _begin(self, dim: int) -> None:
        capacity = self.window + self._wait(self.window)
        self._past_rows, self._past_labels = np.zeros((capacity, dim)), np.zeros(capacity)
        self._counts = np.zeros(2)  # rows in the buffer, and how many of them, the first ones, the last fit used
        self._fitted = None

    def _arrays(self) -> Arrays:
        return {"rows": self._past_rows, "labels": self._past_labels, "counts": self._counts}

    def _min_array_size(self, dim: int) -> int:
        return (self.window + self._wait(self.window)) * (dim + 1)

    def _load_arrays(self, arrays: Arrays) -> None:
        super()._load_arrays(arrays)
        filled, used = self._counts.tolist()
        if not (filled % 1 == used % 1 == 0 and 0 <= used <= filled < len(self._past_rows) and used <= self.window):
            raise ModelFileError(f"{_check.name_of(self)}: the saved counts of rows do not fit together")
        size = np.abs(self._past_rows)
        if not ((size <= _check.LIMIT) | (size == MISSING) & self.accepts_nan).all():
            raise ModelFileError(f"{_check.name_of(self)}: the saved rows hold unusable numbers")
        self._fitted = self._fit() if used else None

    def _wait(self, rows: int) -> int:
        """Return how many rows come after a fit of so many rows before the next one."""
        return math.ceil((self.grow - 1.0) * rows)

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        filled, used = self._counts.astype(int).tolist()
        if self._fitted is None:
            labels = self._past_labels[: used or filled]
            if self.binary:
                return np.full(len(Z), math.log((np.sum(labels > 0.0) + 1.0) / (np.sum(labels < 0.0) + 1.0)))
            return np.full(len(Z), labels.mean() if len(labels) else 0.0)
        if not len(Z):
            return np.empty(0)
        if not self.binary:
            return self._check_answer(self._fitted.predict(Z.copy()), (len(Z),))
        classes = list(getattr(self._fitted, "classes_", (-1, 1)))
        if 1 not in classes:
            raise InputError(
                f"PeriodicRefit: the model's classes_ must hold the label 1 it was fitted with, got {classes!r:.60}"
            )
        positive = classes.index(1)
        return log_odds(self._check_answer(self._fitted.predict_proba(Z.copy()), (len(Z), 2))[:, positive])

    def _check_answer(self, answer: Any, shape: tuple[int, ...]) -> Matrix:
        try:
            out = np.asarray(answer, np.float64)
        except (TypeError, ValueError):
            got = _check.describe(answer)
            raise InputError(
                f"PeriodicRefit: the model must predict finite numbers of shape {shape}, got {got}"
            ) from None
        if out.shape != shape or not np.isfinite(out).all() or np.abs(out).max() > _check.LIMIT:
            raise InputError(
                f"PeriodicRefit: the model must predict finite numbers of shape {shape}, got "
                f"{_check.describe(out) if out.shape != shape else 'others'}"
            )
        return out

    def _play(self, Z: Matrix, y: Vector, context: RowContext) -> Columns:
        yhat = np.empty(len(y))
        before = self._counts.copy(), self._fitted
        buffer: tuple[Matrix, Vector] | None = None
        at = 0
        try:
            while at < len(y):
                filled, used = self._counts.astype(int).tolist()
                due = used + self._wait(used) if used else min(FIRST_FIT, self.window)
                end = min(len(y), at + (due - filled if used else 1))
                yhat[at:end] = self._predict(Z[at:end])
                self._past_rows[filled : filled + end - at] = np.where(np.isnan(Z[at:end]), MISSING, Z[at:end])
                self._past_labels[filled : filled + end - at] = y[at:end]
                self._counts[0] = filled + end - at
                at = end
                if self._counts[0] == due:
                    buffer = buffer or (self._past_rows.copy(), self._past_labels.copy())
                    self._refit()
        except BaseException:
            self._counts[...], self._fitted = before
            if buffer is not None:
                self._past_rows[...], self._past_labels[...] = buffer
            for array in (self._past_rows, self._past_labels):
                array[int(self._counts[0]) :] = 0.0
            raise
        return Columns(yhat)

    def _refit(self) -> None:
        """Fit the model to the window, and let the buffer begin with its rows."""
        filled = int(self._counts[0])
        used = min(filled, self.window)
        for array in (self._past_rows, self._past_labels):
            array[:used] = array[filled - used : filled].copy()
            array[used:] = 0.0
        self._counts[...] = used
        self._fitted = self._fit()

    def _fit(self) -> Any:
        """Return a fresh model fitted to the first rows of the buffer, as many as counted; None for a single class."""
        used = int(self._counts[1])
        X, y = self._past_rows[:used].copy(), self._past_labels[:used].copy()
        X[X == MISSING] = np.nan
        if self.binary and len(np.unique(y)) < 2:
            return None
        model = self.model
        try:
            model.fit(X, (y > 0.0).astype(np.int64) if self.binary else y)
        except Exception as error:  # whatever a model of the user's raises
            why = _check.one_line(f"{type(error).__name__}: {error}", 160)
            raise InputError(f"PeriodicRefit: the model could not be fitted to {used} rows ({why})") from error
        return model


def is_classifier(model: Any) -> bool:
    """Whether a model is for classes, by what it says of itself as scikit-learn's do, else by `predict_proba`."""
    kind = getattr(model, "_estimator_type", None)
    if kind is None and hasattr(model, "__sklearn_tags__"):
        kind = model.__sklearn_tags__().estimator_type
    return hasattr(model, "predict_proba") if kind is None else kind == "classifier"


def takes_missing(model: Any) -> bool:
    """Whether a model takes missing numbers, by its `accepts_nan` or scikit-learn's tags."""
    if hasattr(model, "accepts_nan"):
        return bool(model.accepts_nan)
    return bool(hasattr(model, "__sklearn_tags__") and model.__sklearn_tags__().input_tags.allow_nan)


def describe_model(model: Any) -> store.Header:
    """Return what tells models apart in a file: the class, and the parameters as text."""
    parameters = model.get_params() if callable(getattr(model, "get_params", None)) else {}
    text = ", ".join(f"{name}={parameters[name]!r}" for name in sorted(parameters))
    return {"class": type(model).__name__, "parameters": re.sub(r" at 0x[0-9a-fA-F]+", "", text)}
