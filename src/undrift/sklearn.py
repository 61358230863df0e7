"""scikit-learn estimators: `fit`, `partial_fit`, `predict`, on rows in the order they came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import narwhals as nw
import numpy as np

from undrift import _check
from undrift.errors import InputError, MissingExtraError
from undrift.kernels import Lock
from undrift.learners.intervals import Interval, Limits
from undrift.learners.row_context import Delay
from undrift.online import OnlineClassifier, OnlineRegressor, Table
from undrift.online.columns import Candidates
from undrift.stream.cells import RowBatch
from undrift.stream.features import Features
from undrift.stream.first_rows import FIRST_ROWS, FirstRows, RowOrigin, first_rows_of
from undrift.stream.frames import python_words, read_table
from undrift.stream.schema import infer_schema
from undrift.stream.settings import Settings, Task
from undrift.stream.text_features import unused_name

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
    """Add to what scikit-learn says of texts in arrays what to do about them."""
    try:
        yield
    except (TypeError, ValueError) as error:
        sentence = str(error)
        if "could not convert string" in sentence or "Cannot cast str" in sentence:
            raise type(error)(f"{sentence}; pass a data frame, whose columns may be texts") from None
        raise


def _has_texts(X: Data) -> bool:
    """Whether rows are a data frame with columns of texts, categories or times."""
    if not hasattr(type(X), "columns"):
        return False
    table: Any = nw.from_native(X, eager_only=True, pass_through=True)
    kinds = table.schema.values() if isinstance(table, nw.DataFrame) else ()
    return any(not (kind.is_numeric() or kind == nw.Boolean) for kind in kinds)


class _DriftEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What both estimators share: parameters as scikit-learn wants them, and an online learner in `model_`."""

    model_: Any

    def __init__(
        self,
        speed: str = "best",
        indicators: bool = False,
        seed: int = 0,
        candidates: Candidates | None = None,
        lag: Sequence[int] = (),
        calendar: bool = False,
    ) -> None:
        self.lag = lag
        self.calendar = calendar
        self.speed = speed
        self.indicators = indicators
        self.seed = seed
        self.candidates = candidates

    def _make_model(self) -> OnlineRegressor | OnlineClassifier:
        """Return a fresh model with the parameters."""
        raise NotImplementedError

    def _model_parameters(self) -> dict[str, Any]:
        """Return the parameters of the model; the others are about columns."""
        return {name: value for name, value in self.get_params(deep=False).items() if name not in ("lag", "calendar")}

    def _learn_rows(
        self, X: Data, y: Data, sample_weight: Data, elapsed: Data, delay: Delay, *, reset: bool, classes: Data = None
    ) -> Self:
        """Check rows and learn them in order, by a fresh model or the one there is; one that refuses is not kept."""
        with self._lock:
            self._refuse_missing_labels(y)
            fresh = reset or not hasattr(self, "model_")
            features = None if fresh else self._features
            texts = features is not None or (fresh and (_has_texts(X) or self.calendar or len(self.lag) > 0))
            X, y = (self._check_table if texts else self._check_input)(X, y, reset=fresh)
            weight = sample_weight
            if weight is not None:
                weight = _check_sample_weight(weight, y, dtype=np.float64, ensure_non_negative=True)
            labels = self._encode(y, (y if classes is None else classes) if fresh else None)
            model = self._make_model() if fresh else self.model_
            if texts:
                features, rows = self._encode_table(X, labels, features, delay)
            else:
                rows = self._name_columns(X)
            model.play(rows, labels, weight=weight, elapsed=elapsed, delay=delay)
            self.model_, self._features = model, features
        return self

    _features: Features | None = None
    """What makes numbers of the columns of frames with texts, categories or times; None where all are numbers."""

    def _check_table(self, X: Data, y: Data, *, reset: bool) -> tuple[Data, Data]:
        """Return a frame of any columns and its labels, checked as far as scikit-learn can."""
        validate_data(self, X, reset=reset, skip_check_array=True)
        y = column_or_1d(_check.fill_masked(y), warn=True)
        check_consistent_length(X, y)
        return X, y

    def _encode_table(self, X: Data, labels: Data, features: Features | None, delay: Delay) -> tuple[Features, Table]:
        """Return what makes numbers of a frame's columns from here on, and its rows as numbers."""
        name, late = _check.name_of(self), int(np.max(delay, initial=0))
        batch = read_table(name, X)
        target = unused_name("y", list(batch.columns))
        codes = np.asarray(labels)
        task: Task = "regression" if isinstance(self, RegressorMixin) else "classification"
        if task == "classification":
            task = "multiclass" if len(self.classes_) > 2 else task
            codes = codes if task == "multiclass" else (codes > 0).astype(np.int64)
        own = {
            target: np.asarray(codes, np.float64) if task == "regression" else [str(code) for code in codes.tolist()]
        }
        batch = RowBatch(batch.lines, {**batch.columns, **own})
        given = [column for column in np.ravel(self._given_columns()).tolist() if isinstance(column, str)]
        settings = Settings(
            target=target,
            task=task,
            missing="fill",
            delay=late,
            candidate=tuple(given),
            lag=tuple(self.lag),
            calendar=self.calendar,
        )
        origin = RowOrigin("X", settings)
        with python_words():
            if features is None:
                first = FirstRows(origin, [first_rows_of(batch)], whole=len(batch.lines) <= FIRST_ROWS)
                features = Features(settings, infer_schema(first))
            work = features.copy()
            rows = work.encode(batch, origin)
        return work, Table(work.names, rows.Z)

    def _given_columns(self) -> list[Any]:
        """Return the columns that hold predictions made elsewhere."""
        if self.candidates is None:
            return []
        if isinstance(self.candidates, Mapping):
            return [column for group in self.candidates.values() for column in group.values()]
        return list(self.candidates)

    def _check_input(self, X: Data, y: Data, *, reset: bool) -> tuple[Data, Data]:
        """Return rows and labels as scikit-learn wants them checked."""
        raise NotImplementedError

    def _encode(self, y: Data, classes: Data) -> Data:
        """Return checked labels as the model takes them; `classes` are given before the first ones."""
        return y

    @property
    def _lock(self) -> Lock:
        """The estimator's lock, made when it is first fitted: scikit-learn wants nothing but parameters before."""
        return self.__dict__.setdefault("_lock_object", Lock())  # type: ignore[no-any-return]  # a single call, so that threads get the same one

    def _check_rows(self, X: Data, *, reset: bool) -> Data:
        rows = _check.fill_masked(X)
        with _explain_texts():
            return validate_data(self, rows, dtype=np.float64, ensure_all_finite="allow-nan", reset=reset)

    def _read_rows(self, X: Data) -> Data:
        """Return checked rows as the model takes them."""
        if self._features is None:
            return self._name_columns(self._check_rows(X, reset=False))
        validate_data(self, X, reset=False, skip_check_array=True)
        work = self._features.copy()
        with python_words():
            rows = work.encode(read_table(_check.name_of(self), X), RowOrigin("X", work.settings), "never")
        return Table(work.names, rows.Z)

    def _name_columns(self, X: Data) -> Data:
        """Return checked rows with the names of a frame's columns where candidates need them."""
        names = getattr(self, "feature_names_in_", None)
        return X if names is None or self.candidates is None else Table(names.tolist(), X)

    def _refuse_missing_labels(self, y: Data) -> None:
        """Refuse labels that are missing, which scikit-learn knows nothing of."""
        name, own = _check.name_of(self), "OnlineClassifier" if isinstance(self, ClassifierMixin) else "OnlineRegressor"
        given = np.asarray(_check.fill_masked(y))
        holes = np.isnan(given) if given.dtype.kind == "f" else np.zeros(given.shape, bool)
        if given.dtype.kind == "O" and given.ndim:
            unknown = [one is None or type(one).__name__ == "NAType" or one != one for one in given.flat]
            holes = np.array(unknown, dtype=bool)
        if holes.any():
            raise InputError(
                f"{name}: y contains NaN, in row {int(np.argmax(holes))}, but scikit-learn requires a label for every "
                f"row; leave such rows out, or pass them to {own}.play(Z, y)"
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class DriftRegressor(RegressorMixin, _DriftEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """`OnlineRegressor` for scikit-learn. Rows are a stream: do not shuffle them, and score what comes after.

    Parameters
    ----------
    speed, indicators, seed, half_life, limits
        As in `OnlineRegressor`, which is kept as `model_`.
    candidates
        Columns with predictions made elsewhere, which are no features: names if rows are frames, else numbers.
    lag
        Rows ago whose label is a feature; for data frames.
    calendar
        Whether the hour, the weekday and the time of year are features; for data frames with a column of times.

    Notes
    -----
    Columns of data frames may be texts, categories and times: `undrift.Stream` describes what becomes of them.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = DriftRegressor(speed="fast").fit(X, X[:, 0])
    >>> bool(model.score(X, X[:, 0]) > 0.99)
    True
    """

    model_: OnlineRegressor

    def __init__(
        self,
        speed: str = "best",
        indicators: bool = False,
        seed: int = 0,
        half_life: float | None = None,
        limits: Limits | None = None,
        candidates: Sequence[str] | Sequence[int] | None = None,
        lag: Sequence[int] = (),
        calendar: bool = False,
    ) -> None:
        super().__init__(speed, indicators, seed, candidates, lag, calendar)
        self.half_life = half_life
        self.limits = limits

    def _make_model(self) -> OnlineRegressor:
        return OnlineRegressor(**self._model_parameters())

    @property
    def coef_(self) -> Data:
        """Coefficients of the linear memory that leads, in the units of the features; see `OnlineRegressor.line`."""
        check_is_fitted(self)
        with self._lock.shared:
            return self.model_.line().coef

    @property
    def intercept_(self) -> float:
        """What that line says at 0."""
        check_is_fitted(self)
        with self._lock.shared:
            return self.model_.line().intercept

    def fit(self, X: Data, y: Data, sample_weight: Data = None, *, elapsed: Data = None, delay: Delay = 0) -> Self:
        """Forget everything and learn the rows in order; each counts `sample_weight` times in the memories.

        A row comes the time `elapsed` after the one before; its label is learned after `delay` further rows, the last
        ones with the next `partial_fit`.
        """
        return self._learn_rows(X, y, sample_weight, elapsed, delay, reset=True)

    def partial_fit(
        self, X: Data, y: Data, sample_weight: Data = None, *, elapsed: Data = None, delay: Delay = 0
    ) -> Self:
        """Learn further rows in order, as `fit` does."""
        return self._learn_rows(X, y, sample_weight, elapsed, delay, reset=False)

    def predict(self, X: Data, *, elapsed: float | None = None) -> Data:
        """Return predictions, each as if its row came next, the time `elapsed` after the last one."""
        check_is_fitted(self)
        with self._lock.shared:
            return self.model_.predict(self._read_rows(X), elapsed=elapsed)

    def predict_interval(self, X: Data, level: float = 0.9, *, elapsed: float | None = None) -> Interval:
        """Return an interval for the label of each row, its lower and upper ends; infinite before there is one."""
        check_is_fitted(self)
        with self._lock.shared:
            return self.model_.predict_interval(self._read_rows(X), level, elapsed=elapsed)

    def predict_quantiles(
        self, X: Data, levels: Sequence[float] = (0.1, 0.5, 0.9), *, elapsed: float | None = None
    ) -> Data:
        """Return quantiles of the label of each row (n, levels)."""
        check_is_fitted(self)
        with self._lock.shared:
            return self.model_.predict_quantiles(self._read_rows(X), levels, elapsed=elapsed)

    def _check_input(self, X: Data, y: Data, *, reset: bool) -> tuple[Data, Data]:
        X, y = _check.fill_masked(X), _check.fill_masked(y)
        options: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "y_numeric": True}
        with _explain_texts():
            X, y = validate_data(self, X, y, reset=reset, **options)
        return X, y


class DriftClassifier(ClassifierMixin, _DriftEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """`OnlineClassifier` for scikit-learn, classes of any name and number. Rows are a stream: do not shuffle them.

    Parameters
    ----------
    speed, indicators, seed
        As in `OnlineClassifier`, which is kept as `model_`.
    candidates
        Columns with probabilities made elsewhere, which are no features, by name if rows are frames, else by number: of
        the second of two `classes_`, as a list, or of every class, `{"mine": {"red": "p_red", "blue": "p_blue"}}`.
    lag, calendar
        As in `DriftRegressor`; lags for two classes.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where(X[:, 0] > 0, "up", "down")
    >>> model = DriftClassifier(speed="fast").fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    model_: OnlineClassifier

    def fit(self, X: Data, y: Data, sample_weight: Data = None, *, elapsed: Data = None, delay: Delay = 0) -> Self:
        """Forget everything and learn the rows in order; each counts `sample_weight` times in the memories.

        A row comes the time `elapsed` after the one before; its label is learned after `delay` further rows, the last
        ones with the next `partial_fit`.
        """
        return self._learn_rows(X, y, sample_weight, elapsed, delay, reset=True)

    def partial_fit(
        self,
        X: Data,
        y: Data,
        classes: Data = None,
        sample_weight: Data = None,
        *,
        elapsed: Data = None,
        delay: Delay = 0,
    ) -> Self:
        """Learn further rows in order, as `fit` does; the first call may name all classes."""
        return self._learn_rows(X, y, sample_weight, elapsed, delay, reset=False, classes=classes)

    def predict(self, X: Data, *, elapsed: float | None = None) -> Data:
        """Return the likelier class of each row, as if it came next, the time `elapsed` after the last one."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X, elapsed=elapsed), axis=1)]

    def predict_proba(self, X: Data, *, elapsed: float | None = None) -> Data:
        """Return the probability of each class (rows, classes)."""
        check_is_fitted(self)
        with self._lock.shared:
            p = self.model_.predict_proba(self._read_rows(X), elapsed=elapsed)
            labels = np.asarray(self.model_.columns, dtype=np.int64)  # of two classes the first is 0 before it came
            out = np.zeros((len(p), len(self.classes_)))
            out[:, (labels > 0).astype(np.int64) if len(self.classes_) == 2 else labels] = p
            return out

    def decision_function(self, X: Data, *, elapsed: float | None = None) -> Data:
        """Return the log-odds of the second class; of more than two, the logarithms of their probabilities."""
        check_is_fitted(self)
        if len(self.classes_) == 2 and not self.model_.several_classes:
            with self._lock.shared:
                return self.model_.log_odds(self._read_rows(X), elapsed=elapsed)
        logs = np.log(np.maximum(self.predict_proba(X, elapsed=elapsed), 1e-300))
        return logs if len(self.classes_) > 2 else logs[:, 1] - logs[:, 0]

    def _encode(self, y: Data, classes: Data) -> Data:
        if classes is not None:
            known = np.unique(classes)
            if len(known) < 2:
                raise ValueError(f"Classifier can't train when only one class is present: {known[0]!r}")
            self.classes_ = known
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has a class that was not there before: {unknown[0]!r}; classes are {self.classes_!r}")
        return self._codes(y)

    def _codes(self, y: Data) -> Data:
        """Return what the model calls known labels: -1 and 1 if there are two, else their numbers."""
        numbers = np.searchsorted(self.classes_, y)
        return 2 * numbers - 1 if len(self.classes_) == 2 else numbers

    def _make_model(self) -> OnlineClassifier:
        codes = dict(zip(self.classes_.tolist(), self._codes(self.classes_).tolist(), strict=True))
        candidates: Any = self.candidates
        if isinstance(candidates, Mapping):
            named = [label for one in candidates.values() if isinstance(one, Mapping) for label in one]
            other = [label for label in named if label not in codes]
            if other:
                raise ValueError(f"candidates name a class that y has not: {other[0]!r}; classes are {list(codes)!r}")
            candidates = {
                name: {codes[label]: column for label, column in one.items()} if isinstance(one, Mapping) else one
                for name, one in candidates.items()
            }
        return OnlineClassifier(**{**self._model_parameters(), "candidates": candidates})

    def _check_input(self, X: Data, y: Data, *, reset: bool) -> tuple[Data, Data]:
        X = self._check_rows(X, reset=reset)
        y = column_or_1d(_check.fill_masked(y), warn=True)
        check_classification_targets(y)
        check_consistent_length(X, y)
        return X, y
