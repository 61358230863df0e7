"""River estimators: one dictionary at a time, in pipelines, with `evaluate.progressive_val_score`."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from undrift import _check
from undrift._typing import Vector
from undrift.baselines import take_lags
from undrift.errors import InputError, MissingExtraError
from undrift.kernels import Lock
from undrift.learners.intervals import Interval, Limits
from undrift.learners.served import ServedPrediction
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.online.columns import Candidates
from undrift.stream.features import lag_names
from undrift.stream.settings import LONGEST_LAG as MOST_LAGS

try:
    from river import base
except ImportError:
    raise MissingExtraError("undrift.river needs river; install it with: pip install 'undrift[river]'") from None

Row = Mapping[Hashable, Any]
"""A River row: feature names to numbers."""
Frame = Any
"""A pandas data frame or series, which is what River's mini-batch methods pass."""


class KeptPredictions:
    """What was predicted for rows whose label may come later, found again by the row itself; the oldest rows go first.

    River hands a late label over without saying which prediction it belongs to. Learning from what was really predicted
    keeps late labels from being learned as if they had come on time.
    """

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0
        self._kept: dict[Hashable, deque[ServedPrediction]] = {}  # by row, its oldest prediction first
        self._last: Hashable = None  # the row that was predicted last
        self._lock = Lock()  # its own: predictions of several threads are kept at the same time

    def keep(self, x: Row, elapsed: float | None, served: ServedPrediction) -> None:
        """Keep a prediction; a row predicted again before anything was learned has one prediction, not two."""
        row = _identify(x, elapsed)
        if row is None or not self._most:
            return
        with self._lock:
            same = self._kept.get(row)
            if row == self._last and same and same[-1].rounds == served.rounds > 0:
                return
            self._last = row
            self._kept.setdefault(row, deque()).append(served)
            self._count += 1
            if self._count > self._most:
                self._remove(next(iter(self._kept)))

    def take(self, x: Row, elapsed: float | None) -> ServedPrediction | None:
        """Return the oldest prediction kept for this row, and forget it; None if there is none."""
        row = _identify(x, elapsed)
        with self._lock:
            return self._remove(row) if row in self._kept else None

    def __len__(self) -> int:
        return self._count

    def _remove(self, row: Hashable) -> ServedPrediction:
        self._count -= 1
        served = self._kept[row].popleft()
        if not self._kept[row]:
            del self._kept[row]
        return served


def _identify(x: Row, elapsed: float | None) -> Hashable | None:
    """Return what predictions of the same row have in common; None for rows that cannot be compared."""
    try:
        identity: Hashable = frozenset(x.items()), elapsed
        hash(identity)
    except TypeError:
        return None
    return identity


class DriftRegressor(base.MiniBatchRegressor):
    """`OnlineRegressor` for River.

    Parameters
    ----------
    speed, indicators, seed
        As in `OnlineRegressor`, which is kept as `model`.
    pending
        How many predictions are kept for labels that come late; the oldest rows go first.
    half_life, limits, candidates
        As in `OnlineRegressor`: candidates are names in the rows.
    lags
        Labels of so many rows ago that become features, such as (1, 24), counted in the order in which labels come.

    Notes
    -----
    `learn_one` learns from what was predicted for this very row, if it was, as with `evaluate.progressive_val_score`
    and a `delay`. Rows are the same if all their values and `elapsed` are; behind transformers that learn meanwhile
    they may not be, and such a row is learned as if it had just been predicted. Predicting changes no model: what
    depends on features alone, such as their running means, advances when the label comes.

    `elapsed` is the time since the row before, 1 by default; pipelines pass it on.

    Examples
    --------
    >>> model = DriftRegressor(speed="fast")
    >>> for t in range(100):
    ...     model.learn_one({"x": t % 7}, 2.0 * (t % 7))
    >>> round(model.predict_one({"x": 3}), 1)
    6.0
    """

    def __init__(
        self,
        speed: str = "best",
        indicators: bool = False,
        seed: int = 0,
        pending: int = 1024,
        half_life: float | None = None,
        limits: Limits | None = None,
        candidates: Sequence[str] | None = None,
        lags: Sequence[int] | None = None,
    ) -> None:
        self.speed, self.indicators, self.seed, self.half_life, self.limits = speed, indicators, seed, half_life, limits
        self.pending, self.candidates = _check.integer(self, "pending", pending, 0), candidates
        self._predicted = KeptPredictions(self.pending)
        self.lags = lags
        self._lags = tuple(_check.integer(self, "lags", lag, 1, MOST_LAGS) for lag in lags or ())
        self._last_labels = np.full(max(self._lags, default=0), np.nan)
        self.model = OnlineRegressor(
            speed=speed, indicators=indicators, seed=seed, half_life=half_life, limits=limits, candidates=candidates
        )
        self._lock = Lock()

    def learn_one(self, x: Row, y: float, w: float = 1.0, elapsed: float | None = None) -> None:
        """Close one round; the row counts `w` times in the memories."""
        with self._lock:
            _learn(self, x, y, w, elapsed)

    def predict_one(self, x: Row, elapsed: float | None = None) -> float:
        """Return the prediction for the coming round, and keep it for a label that comes late."""
        with self._lock.shared:
            served = _predict(self, x, elapsed)
            return 0.0 if served is None else served.yhat

    def predict_interval(self, x: Row, level: float = 0.9, elapsed: float | None = None) -> Interval:
        """Return an interval for the label of a row; infinite before there is one."""
        with self._lock.shared:
            return self.model.predict_interval(_fill_row(self, x), level, elapsed=elapsed)

    def predict_quantiles(
        self, x: Row, levels: Sequence[float] = (0.1, 0.5, 0.9), elapsed: float | None = None
    ) -> dict[float, float]:
        """Return quantiles of the label of a row, by level."""
        with self._lock.shared:
            found = self.model.predict_quantiles(_fill_row(self, x), levels, elapsed=elapsed)
        return dict(zip(levels, np.ravel(found).tolist(), strict=True))

    def learn_many(self, X: Frame, y: Frame) -> None:
        """Close a block of rounds: the same as one after the other."""
        labels = np.asarray(y, dtype=np.float64)
        with self._lock:
            lagged, last = take_lags(self._last_labels, labels, self._lags)
            self.model.play(_fill_frame(self, X, lagged), labels)
            self._last_labels = last

    def predict_many(self, X: Frame) -> Frame:
        """Return predictions, each as if its row came next."""
        import pandas as pd

        with self._lock.shared:
            known = self.model.rounds > 0
            yhat = self.model.predict(_fill_frame(self, X, _lag_values(self))) if known else np.zeros(len(X))
        return pd.Series(yhat, index=X.index)


class DriftClassifier(base.MiniBatchClassifier):
    """`OnlineClassifier` for River: labels are texts, whole numbers or booleans, and a class may appear at any time.

    Parameters
    ----------
    speed, indicators, seed
        As in `OnlineClassifier`, which is kept as `model`.
    pending
        How many predictions are kept for labels that come late; the oldest rows go first.
    candidates
        As in `OnlineClassifier`: names in the rows of probabilities that were predicted elsewhere, of the second class;
        of other labels or more than two, `candidates={"mine": {"red": "p_red", "green": "p_green", "blue": "p_blue"}}`.

    Notes
    -----
    `learn_one` learns from what was predicted for this very row, if it was, as with `evaluate.progressive_val_score`
    and a `delay`. Rows are the same if all their values and `elapsed` are; behind transformers that learn meanwhile
    they may not be, and such a row is learned as if it had just been predicted. Predicting changes no model: what
    depends on features alone, such as their running means, advances when the label comes.

    `elapsed` is the time since the row before, 1 by default; pipelines pass it on.

    Examples
    --------
    >>> model = DriftClassifier(speed="fast")
    >>> for t in range(100):
    ...     model.learn_one({"x": t % 7}, t % 7 > 3)
    >>> model.predict_one({"x": 6})
    True
    """

    def __init__(
        self,
        speed: str = "best",
        indicators: bool = False,
        seed: int = 0,
        pending: int = 1024,
        candidates: Candidates | None = None,
    ) -> None:
        self.speed, self.indicators, self.seed, self.candidates = speed, indicators, seed, candidates
        self.pending = _check.integer(self, "pending", pending, 0)
        self._predicted = KeptPredictions(self.pending)
        self.model = OnlineClassifier(speed=speed, indicators=indicators, seed=seed, candidates=candidates)
        self._lock = Lock()

    @property
    def classes(self) -> list[Any]:
        """The labels learned so far, in order."""
        return self.model.classes

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Row, y: Any, w: float = 1.0, elapsed: float | None = None) -> None:
        """Close one round; the row counts `w` times in the memories."""
        if hasattr(y, "__len__") and not isinstance(y, str):
            raise InputError(f"{_check.name_of(self)}: y must be a text, a number or a bool, got a {type(y).__name__}")
        with self._lock:
            _learn(self, x, y, w, elapsed)

    def predict_proba_one(self, x: Row, elapsed: float | None = None, **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each class seen so far, and keep the prediction for a label that comes late.

        Before the first label there is none.
        """
        with self._lock.shared:
            classes, served = self.classes, _predict(self, x, elapsed)
            if served is None:
                return dict.fromkeys(classes, 1.0 / max(len(classes), 1))
            p = self.model.served_probabilities(served)
        total = sum(p[label] for label in classes)  # nothing is kept for a class not seen yet
        return {label: p[label] / total for label in classes}

    def learn_many(self, X: Frame, y: Frame) -> None:
        """Close a block of rounds: the same as one after the other."""
        with self._lock:
            self.model.play(_fill_frame(self, X), list(y))

    def predict_proba_many(self, X: Frame) -> Frame:
        """Return the probability of each class seen so far, for every row."""
        import pandas as pd

        with self._lock.shared:
            classes, columns = self.classes, self.model.columns
            if len(classes) < 2:
                return pd.DataFrame({label: np.ones(len(X)) for label in classes}, index=X.index)
            p = self.model.predict_proba(_fill_frame(self, X))
        return pd.DataFrame(p, columns=columns, index=X.index)


def _predict(host: DriftRegressor | DriftClassifier, x: Row, elapsed: float | None) -> ServedPrediction | None:
    """Return the prediction for a row, and keep it until the label comes; None for a row without features."""
    if not _has_features(host, x):
        return None
    served = host.model.peek(_fill_row(host, x), elapsed=elapsed)
    host._predicted.keep(x, elapsed, served)
    return served


def _learn(host: DriftRegressor | DriftClassifier, x: Row, y: Any, w: float, elapsed: float | None) -> None:
    """Learn a row from what was predicted for it, or as if it had just been predicted; it counts w times."""
    if _has_features(host, x):
        weight, served = None if w == 1.0 else w, host._predicted.take(x, elapsed)
        host.model.learn(_fill_row(host, x), y, weight=weight, elapsed=elapsed, served=served)
    if isinstance(host, DriftRegressor) and host._lags:
        host._last_labels = np.append(host._last_labels, y)[1:]


def _has_features(who: object, x: object) -> bool:
    """Whether a row has features; refuse anything but a dict of features."""
    if not isinstance(x, Mapping):
        cure = "; pass x.to_dict()" if hasattr(x, "to_dict") else ""
        raise InputError(f"{_check.name_of(who)}: x must be a dict of features, got a {type(x).__name__}{cure}")
    return bool(x)


def _lag_values(host: DriftRegressor | DriftClassifier) -> Vector:
    """Return the labels that are features of the next row."""
    return (
        np.array([host._last_labels[-lag] for lag in host._lags]) if isinstance(host, DriftRegressor) else np.empty(0)
    )


def _fill_row(host: DriftRegressor | DriftClassifier, x: Row) -> dict[str, Any]:
    """Return a row whose names are text, as data-only files need, with a 0 for every known name that it lacks.

    River's rows may be sparse and gain names at any time: with nothing missing, no new name is taken for a typo.
    """
    known = host.model.names
    if known is not None and type(x) is dict and x.keys() == set(known):
        return x
    lagged = dict(zip(_lag_names(host), _lag_values(host).tolist(), strict=True))
    return {**dict.fromkeys(known or (), 0.0), **{str(name): value for name, value in x.items()}, **lagged}


def _lag_names(host: DriftRegressor | DriftClassifier) -> list[str]:
    return lag_names("y", host._lags) if isinstance(host, DriftRegressor) else []


def _fill_frame(host: DriftRegressor | DriftClassifier, X: Frame, lagged: Any = None) -> Frame:
    """Return a frame whose names are text, with a column of 0 for every known name that it lacks, and lags."""
    named = X.rename(columns=str)
    more: dict[str, Any] = {name: 0.0 for name in host.model.names or () if name not in named.columns}
    if lagged is not None:
        more |= dict(zip(_lag_names(host), np.broadcast_to(lagged, (len(X), len(_lag_names(host)))).T, strict=True))
    return named.assign(**more)
