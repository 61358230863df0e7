"""River estimators: one dictionary at a time, in pipelines, with `evaluate.progressive_val_score`."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from undrift import _check
from undrift.errors import InputError, MissingExtraError
from undrift.kernels import Lock
from undrift.losses import sigmoid
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.online.intervals import Interval, Limits
from undrift.online.peeked import PeekedRow

try:
    from river import base
except ImportError:
    raise MissingExtraError("undrift.river needs river; install it with: pip install 'undrift[river]'") from None

Row = Mapping[Hashable, Any]
"""A River row: feature names to numbers."""
Frame = Any
"""A pandas data frame or series, which is what River's mini-batch methods pass."""


class KeptPredictions:
    """What was predicted for rows whose label may come later, found again by the row itself; the oldest go first.

    River hands a late label over without saying which prediction it belongs to. Learning from what was really predicted
    keeps late labels from being learned as if they had come on time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[int, tuple[Hashable, PeekedRow]] = {}  # by number, oldest first
        self._numbers: dict[Hashable, deque[int]] = {}  # of each row's predictions, oldest first
        self._last = 0
        self._lock = Lock()  # its own: predictions of several threads are kept at the same time

    def keep(self, x: Row, peeked: PeekedRow) -> None:
        """Keep a prediction; a row predicted again before anything was learned has one prediction, not two."""
        row = _identify(x)
        if row is None or not self._most:
            return
        with self._lock:
            newest = self._kept.get(self._last)
            if newest is not None and newest[0] == row and newest[1].rounds == peeked.rounds > 0:
                return
            self._last += 1
            self._kept[self._last] = row, peeked
            self._numbers.setdefault(row, deque()).append(self._last)
            if len(self._kept) > self._most:
                self._remove(next(iter(self._kept)))

    def take(self, x: Row) -> PeekedRow | None:
        """Return the oldest prediction kept for this row, and forget it; None if there is none."""
        row = _identify(x)
        with self._lock:
            return self._remove(self._numbers[row][0]) if row is not None and row in self._numbers else None

    def __len__(self) -> int:
        return len(self._kept)

    def _remove(self, number: int) -> PeekedRow:
        row, peeked = self._kept.pop(number)
        numbers = self._numbers[row]
        numbers.popleft()  # the oldest of all is the oldest of its row
        if not numbers:
            del self._numbers[row]
        return peeked


def _has_features(who: object, x: object) -> bool:
    """Whether a row has features; refuse what is no row of River's."""
    if not isinstance(x, Mapping):
        cure = "; pass x.to_dict()" if hasattr(x, "to_dict") else ""
        raise InputError(f"{_check.name_of(who)}: x must be a dict of features, got a {type(x).__name__}{cure}")
    return bool(x)


def _identify(x: Row) -> Hashable | None:
    """Return what equal rows have in common; None for rows that cannot be compared."""
    try:
        identity: Hashable = frozenset(x.items())
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
        How many predictions are kept for labels that come late; the oldest go first.
    half_life, limits
        As in `OnlineRegressor`.

    Notes
    -----
    `learn_one` learns from what was predicted for this very row, if it was, as with `evaluate.progressive_val_score`
    and a `delay`. Rows are the same if all their values are; behind transformers that learn meanwhile they may not be,
    and such a row is learned as if it had just been predicted. Predicting changes no model: running means of features
    advance when the label comes.

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
    ) -> None:
        self.speed, self.indicators, self.seed, self.half_life, self.limits = speed, indicators, seed, half_life, limits
        self.pending = _check.integer(self, "pending", pending, 0)
        self._predicted = KeptPredictions(self.pending)
        self.model = OnlineRegressor(speed=speed, indicators=indicators, seed=seed, half_life=half_life, limits=limits)
        self._lock = Lock()

    def learn_one(self, x: Row, y: float, w: float = 1.0) -> None:
        """Close one round; the row counts `w` times in the memories."""
        with self._lock:
            if _has_features(self, x):
                _learn(self.model, self._predicted, x, y, w)

    def predict_one(self, x: Row) -> float:
        """Return the prediction for the coming round, and keep it for a label that comes late."""
        with self._lock.shared:
            return _predict(self.model, self._predicted, x) if _has_features(self, x) else 0.0

    def predict_interval(self, x: Row, level: float = 0.9) -> Interval:
        """Return an interval for the label of a row; infinite before there is one."""
        with self._lock.shared:
            return self.model.predict_interval(_fill_row(x, self.model.names), level)

    def predict_quantiles(self, x: Row, levels: Sequence[float] = (0.1, 0.5, 0.9)) -> dict[float, float]:
        """Return quantiles of the label of a row, by level."""
        with self._lock.shared:
            found = self.model.predict_quantiles(_fill_row(x, self.model.names), levels)
        return dict(zip(levels, np.ravel(found).tolist(), strict=True))

    def learn_many(self, X: Frame, y: Frame) -> None:
        """Close a block of rounds: the same as one after the other."""
        with self._lock:
            self.model.play(_fill_frame(X, self.model.names), np.asarray(y, dtype=np.float64))

    def predict_many(self, X: Frame) -> Frame:
        """Return predictions, each as if its row came next."""
        import pandas as pd

        with self._lock.shared:
            known = self.model.rounds > 0
            yhat = self.model.predict(_fill_frame(X, self.model.names)) if known else np.zeros(len(X))
        return pd.Series(yhat, index=X.index)


class DriftClassifier(base.MiniBatchClassifier):
    """`OnlineClassifier` for River: classes of any name and number, some of which may appear later.

    Parameters
    ----------
    speed, indicators, seed
        As in `OnlineClassifier`, which is kept as `model`.
    pending
        How many predictions are kept for labels that come late; the oldest go first.

    Notes
    -----
    `learn_one` learns from what was predicted for this very row, if it was, as with `evaluate.progressive_val_score`
    and a `delay`. Rows are the same if all their values are; behind transformers that learn meanwhile they may not be,
    and such a row is learned as if it had just been predicted; so are all rows from the third class on. Predicting
    changes no model: running means of features advance when the label comes.

    Examples
    --------
    >>> model = DriftClassifier(speed="fast")
    >>> for t in range(100):
    ...     model.learn_one({"x": t % 7}, t % 7 > 3)
    >>> model.predict_one({"x": 6})
    True
    """

    def __init__(self, speed: str = "best", indicators: bool = False, seed: int = 0, pending: int = 1024) -> None:
        self.speed, self.indicators, self.seed = speed, indicators, seed
        self.pending = _check.integer(self, "pending", pending, 0)
        self._predicted = KeptPredictions(self.pending)
        self.model = OnlineClassifier(speed=speed, indicators=indicators, seed=seed)
        self._seen: set[Any] = set()
        self._labels: list[Any] = []  # by number: of those seen, and of 0 and 1 or False and True both
        self._lock = Lock()

    @property
    def classes(self) -> list[Any]:
        """The labels learned so far."""
        return [label for label in self._labels if label in self._seen]

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Row, y: Any, w: float = 1.0) -> None:
        """Close one round; the row counts `w` times in the memories."""
        with self._lock:
            codes, labels = self._encode([y])
            if _has_features(self, x):
                _learn(self.model, self._predicted, x, codes[0], w)
            self._labels = labels
            self._seen.add(y)

    def predict_proba_one(self, x: Row, **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each class seen so far, and keep the prediction for a label that comes late.

        Before the first label there is none.
        """
        with self._lock.shared:
            classes = self.classes
            if _has_features(self, x) and len(self._labels) > 2:
                return dict(zip(classes, self._probabilities(_fill_row(x, self.model.names)), strict=True))
            score = _predict(self.model, self._predicted, x) if x else 0.0
            if len(classes) < 2 or not x:
                return dict.fromkeys(classes, 1.0 / max(len(classes), 1))
            return dict(zip(classes, sigmoid(np.array([-score, score])).tolist(), strict=True))

    def learn_many(self, X: Frame, y: Frame) -> None:
        """Close a block of rounds: the same as one after the other."""
        with self._lock:
            codes, labels = self._encode(list(y))
            self.model.play(_fill_frame(X, self.model.names), codes)
            self._labels = labels
            self._seen.update(y)

    def predict_proba_many(self, X: Frame) -> Frame:
        """Return the probability of each class seen so far, for every row."""
        import pandas as pd

        with self._lock.shared:
            classes = self.classes
            if len(classes) < 2:
                return pd.DataFrame({label: np.ones(len(X)) for label in classes}, index=X.index)
            each = self._probabilities(_fill_frame(X, self.model.names))
            return pd.DataFrame(each, columns=classes, index=X.index)

    def _probabilities(self, z: Any) -> Any:
        """Return the probabilities of the classes in their order; 0 for one whose rows had no features."""
        p, columns = np.asarray(self.model.predict_proba(z)), [float(label) for label in self.model.columns]
        rows = np.atleast_2d(p)
        codes = [_code(self._labels.index(label)) for label in self.classes]
        out = np.zeros((len(rows), len(codes)))
        for k, code in enumerate(codes):
            if code in columns:
                out[:, k] = rows[:, columns.index(code)]
        return out[0].tolist() if p.ndim == 1 else out

    def _encode(self, labels: list[Any]) -> tuple[list[float], list[Any]]:
        """Return what the model calls the labels, -1 and +1 for the first two, then 2, 3 ..., and all labels by number.

        Of False and True, 0 and 1, the second is +1 whichever came first.
        """
        known = list(self._labels)
        for label in labels:
            if not isinstance(label, Hashable):
                got = type(label).__name__
                raise InputError(f"{_check.name_of(self)}: y must be a text, a number or a bool, got a {got}")
            if label not in known:
                known.append(label)
        if not self._labels and all(isinstance(label, (bool, int, np.bool_, np.integer)) for label in known):
            kind = type(known[0])
            if set(known) <= {0, 1}:
                known = [kind(0), kind(1)]
        return [_code(known.index(label)) for label in labels], known


def _code(k: int) -> float:
    """Return the label by which the model knows class k: the first two are those of two classes."""
    return (-1.0, 1.0)[k] if k < 2 else float(k)


def _predict(model: OnlineRegressor | OnlineClassifier, predicted: KeptPredictions, x: Row) -> float:
    """Return the prediction for a row, and keep it until the label comes."""
    peeked = model.peek(_fill_row(x, model.names)) if model.rounds else PeekedRow(0.0, np.empty(0), 0)
    predicted.keep(x, peeked)
    return peeked.yhat


def _learn(model: OnlineRegressor | OnlineClassifier, predicted: KeptPredictions, x: Row, y: float, w: float) -> None:
    """Learn a row from what was predicted for it, or as if it had just been predicted; it counts w times."""
    weight = None if w == 1.0 else w
    row, peeked = _fill_row(x, model.names), predicted.take(x)
    if peeked is None or (isinstance(model, OnlineClassifier) and (len(model.columns) != 2 or y not in (-1.0, 1.0))):
        model.learn(row, y, weight=weight)
    else:
        model.learn_peeked(row, y, peeked, weight=weight)


def _fill_row(x: Row, known: list[str] | None) -> dict[str, Any]:
    """Return a row whose names are text, as data-only files need, with a 0 for every known name that it lacks.

    River's rows may be sparse and gain names at any time: with nothing missing, no new name is taken for a typo.
    """
    if known is not None and type(x) is dict and x.keys() == set(known):
        return x
    return {**dict.fromkeys(known or (), 0.0), **{str(name): value for name, value in x.items()}}


def _fill_frame(X: Frame, known: list[str] | None) -> Frame:
    """Return a frame whose names are text, with a column of 0 for every known name that it lacks."""
    named = X.rename(columns=str)
    return named.assign(**{name: 0.0 for name in known or () if name not in named.columns})
