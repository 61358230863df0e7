"""scikit-learn estimators: `fit`, `partial_fit`, `predict`, on rows in the order they came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from undrift import _check
from undrift.errors import MissingExtraError
from undrift.kernels import Lock
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.online.intervals import Interval, Limits

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_consistent_length
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data
except ImportError:
    raise MissingExtraError(
        "undrift.sklearn needs scikit-learn; install it with: pip install 'undrift[sklearn]'"
    ) from None

Data = Any
"""Whatever scikit-learn accepts as rows or labels."""


@contextmanager
def _explain_texts() -> Iterator[None]:
    """Add to what scikit-learn says of texts and times what to do about them."""
    try:
        yield
    except (TypeError, ValueError) as error:
        said = str(error)
        if "could not convert string" in said or "Cannot cast str" in said:
            raise type(error)(f"{said}; encode texts first, for example with OneHotEncoder") from None
        if "datetime" in said.lower():
            raise type(error)(f"{said}; leave times out, or make numbers of them, such as the hour") from None
        raise


class _OnlineEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share: parameters as scikit-learn wants them, and an online learner in `model_`."""

    def __init__(self, speed: str = "best", indicators: bool = False, seed: int = 0) -> None:
        self.speed = speed
        self.indicators = indicators
        self.seed = seed

    def _model_parameters(self) -> dict[str, Any]:
        return {"speed": self.speed, "indicators": self.indicators, "seed": self.seed}

    @property
    def _lock(self) -> Lock:
        """The estimator's lock, made when it is first fitted: scikit-learn wants nothing but parameters before."""
        return self.__dict__.setdefault("_lock_object", Lock())  # type: ignore[no-any-return]  # a single call, so that threads get the same one

    def _check_rows(self, X: Data, *, reset: bool) -> Data:
        rows = _check.fill_masked(X)
        with _explain_texts():
            return validate_data(self, rows, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)

    @staticmethod
    def _weights(X: Data, sample_weight: Data) -> Data:
        """Return how often each checked row counts; None: once."""
        if sample_weight is None:
            return None
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class DriftRegressor(RegressorMixin, _OnlineEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """`OnlineRegressor` for scikit-learn. Rows are a stream: do not shuffle them, and score what comes after.

    Parameters
    ----------
    speed, indicators, seed, half_life, limits
        As in `OnlineRegressor`, which is kept as `model_`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = DriftRegressor(speed="fast").fit(X, X[:, 0])
    >>> bool(model.score(X, X[:, 0]) > 0.99)
    True
    """

    def __init__(
        self,
        speed: str = "best",
        indicators: bool = False,
        seed: int = 0,
        half_life: float | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(speed, indicators, seed)
        self.half_life = half_life
        self.limits = limits

    def _model_parameters(self) -> dict[str, Any]:
        return {**super()._model_parameters(), "half_life": self.half_life, "limits": self.limits}

    @property
    def coef_(self) -> Data:
        """Coefficients of the linear memory that leads, in the units of the rows; see `OnlineRegressor.line`."""
        check_is_fitted(self)
        with self._lock.shared:
            return self.model_.line().coef

    @property
    def intercept_(self) -> float:
        """What that line says at 0."""
        check_is_fitted(self)
        with self._lock.shared:
            return self.model_.line().intercept

    def fit(self, X: Data, y: Data, sample_weight: Data = None) -> Self:
        """Forget everything and learn the rows in order; each counts `sample_weight` times in the memories."""
        with self._lock:
            X, y = self._check_input(X, y, reset=True)
            weight = self._weights(X, sample_weight)
            self.model_ = OnlineRegressor(**self._model_parameters())
            self.model_.play(X, y, weight=weight)
        return self

    def partial_fit(self, X: Data, y: Data, sample_weight: Data = None) -> Self:
        """Learn further rows in order; each counts `sample_weight` times in the memories."""
        with self._lock:
            first = not hasattr(self, "model_")
            X, y = self._check_input(X, y, reset=first)
            weight = self._weights(X, sample_weight)
            if first:
                self.model_ = OnlineRegressor(**self._model_parameters())
            self.model_.play(X, y, weight=weight)
        return self

    def predict(self, X: Data) -> Data:
        """Return predictions, each as if its row came next."""
        check_is_fitted(self)
        with self._lock.shared:
            return self.model_.predict(self._check_rows(X, reset=False))

    def predict_interval(self, X: Data, level: float = 0.9) -> Interval:
        """Return an interval for the label of each row, its lower and upper ends; infinite before there is one."""
        check_is_fitted(self)
        with self._lock.shared:
            return self.model_.predict_interval(self._check_rows(X, reset=False), level)

    def predict_quantiles(self, X: Data, levels: Sequence[float] = (0.1, 0.5, 0.9)) -> Data:
        """Return quantiles of the label of each row (n, levels)."""
        check_is_fitted(self)
        with self._lock.shared:
            return self.model_.predict_quantiles(self._check_rows(X, reset=False), levels)

    def _check_input(self, X: Data, y: Data, *, reset: bool) -> tuple[Data, Data]:
        X, y = _check.fill_masked(X), _check.fill_masked(y)
        options: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "y_numeric": True}
        with _explain_texts():
            X, y = validate_data(self, X, y, reset=reset, **options)
        return X, y


class DriftClassifier(ClassifierMixin, _OnlineEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """`OnlineClassifier` for scikit-learn, classes of any name and number. Rows are a stream: do not shuffle them.

    Parameters
    ----------
    speed, indicators, seed
        As in `OnlineClassifier`, which is kept as `model_`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, "up", "down")
    >>> model = DriftClassifier(speed="fast").fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def fit(self, X: Data, y: Data, sample_weight: Data = None) -> Self:
        """Forget everything and learn the rows in order; each counts `sample_weight` times in the memories."""
        with self._lock:
            X, y = self._check_input(X, y, reset=True)
            weight = self._weights(X, sample_weight)
            self._start(np.unique(y), y)
            return self._learn(X, y, weight)

    def partial_fit(self, X: Data, y: Data, classes: Data = None, sample_weight: Data = None) -> Self:
        """Learn further rows in order; the first call may name all classes. Rows count `sample_weight` times."""
        with self._lock:
            first = not hasattr(self, "model_")
            X, y = self._check_input(X, y, reset=first)
            weight = self._weights(X, sample_weight)
            if first:
                self._start(np.unique(y) if classes is None else np.unique(classes), y)
            return self._learn(X, y, weight)

    def predict(self, X: Data) -> Data:
        """Return the likelier class of each row, as if it came next."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def predict_proba(self, X: Data) -> Data:
        """Return the probability of each class (rows, classes)."""
        check_is_fitted(self)
        with self._lock.shared:
            p = self.model_.predict_proba(self._check_rows(X, reset=False))
            out = np.zeros((len(p), len(self.classes_)))
            out[:, self._numbers(self.model_.columns)] = p
            return out

    def decision_function(self, X: Data) -> Data:
        """Return the log-odds of the second class; of more than two, the logarithms of their probabilities."""
        check_is_fitted(self)
        if len(self.classes_) > 2:
            return np.log(np.maximum(self.predict_proba(X), 1e-300))
        with self._lock.shared:
            return self.model_.log_odds(self._check_rows(X, reset=False))

    def _numbers(self, labels: Data) -> Data:
        """Return the numbers of the classes that the model calls so: -1 and 1 if there are two, else their numbers."""
        labels = np.asarray(labels, dtype=np.int64)
        return (labels > 0).astype(np.int64) if len(self.classes_) == 2 else labels

    def _start(self, classes: Data, y: Data) -> None:
        if len(classes) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: {classes[0]!r}")
        self.classes_ = classes
        self.model_ = OnlineClassifier(**self._model_parameters())

    def _learn(self, X: Data, y: Data, weight: Data) -> Self:
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has a class that was not there before: {unknown[0]!r}; classes are {self.classes_!r}")
        two = len(self.classes_) == 2
        labels = np.where(y == self.classes_[-1], 1.0, -1.0) if two else np.searchsorted(self.classes_, y)
        self.model_.play(X, labels, weight=weight)
        return self

    def _check_input(self, X: Data, y: Data, *, reset: bool) -> tuple[Data, Data]:
        X = self._check_rows(X, reset=reset)
        y = column_or_1d(_check.fill_masked(y), warn=True)
        check_classification_targets(y)
        check_consistent_length(X, y)
        return X, y
