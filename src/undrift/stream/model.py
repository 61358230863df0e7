"""StreamModel: the online estimator of a stream, which takes `Rows` and gives `Answers`, whatever the task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from undrift._internal.rows import Table
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.learners import Learner
from undrift.learners.served import ServedPrediction
from undrift.metrics import most_likely
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.online.estimator import OnlineEstimator
from undrift.stream.answers import Answers, join_answers
from undrift.stream.features import Features, Rows
from undrift.stream.settings import Settings


def make_model(settings: Settings, task: str) -> OnlineEstimator:
    """Return the online estimator that settings ask for."""
    cls = OnlineRegressor if task == "regression" else OnlineClassifier
    more: dict[str, Any] = {}
    if settings.nonnegative:
        if task != "regression":
            raise InputError("settings: nonnegative is for targets that are numbers, not for classes; leave it out")
        more = {"limits": (0.0, None)}
    if settings.quantiles and task != "regression":
        raise InputError("settings: quantiles are for targets that are numbers, not for classes; leave them out")
    model: OnlineEstimator = cls(
        speed=settings.speed,
        indicators=settings.missing == "indicators",
        seed=settings.seed,
        half_life=settings.half_life,
        candidates=settings.candidate or None,
        **more,
    )
    return model


class StreamModel:
    """The estimator, and in which row each of several classes first came.

    Any other learner of numbers or of two classes may take its place; it has no intervals, and its features no names.

    Parameters
    ----------
    settings
        Delay, level of the intervals, levels of the quantiles.
    task
        "regression", "classification" (two classes) or "multiclass", whose estimator learns the labels by name.
    estimator
        By default the one that settings ask for.
    bounded
        Whether rows get intervals as they are learned; what the estimator learns does not depend on it.
    """

    def __init__(
        self, settings: Settings, task: str, estimator: Learner | None = None, *, bounded: bool = True
    ) -> None:
        self.settings, self.task, self.bounded = settings, task, bounded
        self.estimator: Any = make_model(settings, task) if estimator is None else estimator
        self.first_rows = np.zeros(0)
        """The row in which each of several classes first came, from 1 on."""

    def close(self, rows: Rows, features: Features) -> Answers:
        """Predict and learn rows whose labels are beside them; a feature is there from the row on that brings it."""
        answers = []
        for part, width in rows.parts():
            table = self._table(features.names[:width], rows.Z[part, :width])
            answers.append(self._close_alike(table, rows.between(part.start, part.stop), features.labels.classes))
        return join_answers(answers)

    def _table(self, names: Sequence[str], Z: Matrix) -> Table | Matrix:
        """Return rows with names, or as an array if the estimator's features have none."""
        model = self.estimator
        named = isinstance(model, OnlineEstimator) and (model.dim is None or model.names is not None)
        return Table(names, Z) if named else Z

    def _close_alike(self, table: Table | Matrix, rows: Rows, classes: Sequence[str] | None) -> Answers:
        """Predict and learn rows of the same features."""
        settings, model = self.settings, self.estimator
        serial = model.served_rows + 1 + np.arange(len(rows.y), dtype=np.int64)
        context: dict[str, Any] = {"delay": settings.delay, "weight": rows.weight, "elapsed": rows.elapsed}
        facts = _facts(serial, rows)
        if isinstance(model, OnlineRegressor):
            level = settings.level if self.bounded else None
            trace = model.play(table, rows.y, interval=level, quantiles=settings.quantiles or None, **context)
            none = np.full(len(rows.y), np.nan)
            ends = (trace.lower, trace.upper) if self.bounded else (none, none)
            levels, quantiles = settings.quantiles, trace.quantiles
            return _answer_numbers(facts, trace.yhat, trace.known, settings.level, ends, levels, quantiles)
        if self.task != "multiclass":
            trace = model.play(table, rows.y, **context)
            if self.task == "classification":
                return _answer_two(facts, trace.yhat, trace.known, classes)
            none = np.full(len(rows.y), np.nan)
            return _answer_numbers(facts, trace.yhat, trace.known, settings.level, (none, none), (), None)
        names: Any = np.array([self.label_of(number, classes) for number in rows.y.tolist()], dtype=object)
        unlabelled = np.isnan(rows.y)
        trace = model.play(table, rows.y if unlabelled.all() else names, **context)
        self.note_classes(rows.y, serial, classes or ())
        p = self._order_classes(np.exp(trace.yhat) if trace.yhat.ndim == 2 else np.empty((len(rows.y), 0)), classes)
        p[serial[:, None] <= self.first_rows + settings.delay] = np.nan
        return _answer_classes(facts, p, classes)

    def predict(
        self,
        rows: Rows,
        features: Features,
        level: float | None = None,
        quantiles: Sequence[float] | None = None,
    ) -> Answers:
        """Predict rows, each as if it came next, after its own time; nothing changes.

        Intervals and quantiles are by default those of the settings.
        """
        times = None if rows.elapsed is None else np.unique(rows.elapsed)
        if times is not None and len(times) > 1:
            each = [rows.between(t, t + 1) for t in range(len(rows.y))]
            return join_answers([self.predict(row, features, level, quantiles) for row in each])
        table, classes, model = Table(features.names, rows.Z), features.labels.classes, self.estimator
        n, elapsed = len(rows.y), None if times is None or not len(times) else float(times[0])
        facts, known = _facts(np.zeros(n, dtype=np.int64), rows), np.full(n, model.rounds > 0)
        if isinstance(model, OnlineRegressor):
            wanted = self.settings.level if level is None else level
            levels = self.settings.quantiles if quantiles is None else tuple(quantiles)
            none: Any = np.empty(0)
            found: Any = np.empty((0, len(levels)))
            yhat, ends, found = (
                model.predict_all(table, wanted, levels, elapsed=elapsed) if n else (none, (none, none), found)
            )
            return _answer_numbers(facts, yhat, known, wanted, ends, levels, found if levels else None)
        assert isinstance(model, OnlineClassifier)
        if self.task != "multiclass":
            odds = model.log_odds(table, elapsed=elapsed) if n else np.empty(0)
            return _answer_two(facts, odds, known, classes)
        p = model.predict_shares(table, elapsed=elapsed) if n and model.rounds else np.empty((n, 0))
        return _answer_classes(facts, self._order_classes(p, classes), classes)

    def serve(self, rows: Rows, features: Features) -> list[ServedPrediction]:
        """Serve rows that have come, and keep a record of each until its label comes."""
        served = []
        for part, width in rows.parts():
            table, elapsed = self._table(features.names[:width], rows.Z[part, :width]), rows.elapsed
            if isinstance(self.estimator, OnlineEstimator):
                served += self.estimator.ask_rows(table, elapsed=None if elapsed is None else elapsed[part])
            else:
                served += [self.estimator.ask(z) for z in rows.Z[part]]
        if isinstance(self.estimator, OnlineEstimator):
            self.estimator.settle_due(self.settings.delay)
        return served

    def read(
        self,
        served: Sequence[ServedPrediction],
        rows: Rows,
        classes: Sequence[str] | None,
        level: float | None = None,
    ) -> Answers:
        """Return what was answered to rows that were served; intervals are by default at the level of the settings."""
        facts = _facts(np.array([row.serial for row in served], dtype=np.int64), rows)
        known, model = np.array([row.known for row in served], dtype=bool), self.estimator
        if self.task == "multiclass":
            assert isinstance(model, OnlineClassifier)
            p = np.full((len(served), len(classes or ())), np.nan)
            for t, row in enumerate(served):
                for name, share in model.served_probabilities(row).items():
                    p[t, list(classes or ()).index(str(name))] = share
            return _answer_classes(facts, p, classes)
        yhat = np.array([row.yhat for row in served], dtype=np.float64)
        if self.task == "classification":
            return _answer_two(facts, yhat, known, classes)
        level, levels = self.settings.level if level is None else level, self.settings.quantiles
        levels = levels if isinstance(model, OnlineRegressor) else ()
        ends = np.array([row.bounds(level) for row in served], dtype=np.float64).reshape(-1, 2)
        quantiles = np.array([[row.quantile(q) for q in levels] for row in served]) if levels else None
        return _answer_numbers(facts, yhat, known, level, (ends[:, 0], ends[:, 1]), levels, quantiles)

    def tell(self, served: ServedPrediction, number: float, classes: Sequence[str] | None, weight: float) -> None:
        """Learn the label of a row that was served, a number or the number of a class; NaN for none."""
        label = self.label_of(number, classes) if self.task == "multiclass" and number == number else number
        self.estimator.tell(served, label, weight=None if weight == 1.0 else weight)

    def scores(self, table: Table, label: str | None, elapsed: float | None) -> Vector:
        """Return predictions of rows; of classes the log-odds of a label, the likeliest one of the first row."""
        model = self.estimator
        if isinstance(model, OnlineRegressor):
            return np.asarray(model.predict(table, elapsed=elapsed))
        assert isinstance(model, OnlineClassifier)
        if not model.several_classes:
            odds = np.asarray(model.log_odds(table, elapsed=elapsed))
            return odds if odds[0] > 0.0 else -odds
        names = [str(name) for name in model.columns]
        p = np.clip(model.predict_proba(table, elapsed=elapsed)[:, names.index(str(label))], 1e-300, 1.0 - 1e-16)
        return np.asarray(np.log(p) - np.log1p(-p))

    def note_classes(self, y: Vector, serial: NDArray[np.int64], classes: Sequence[str]) -> None:
        """Keep in which row each of several classes first came."""
        fresh = len(classes) - len(self.first_rows)
        self.first_rows = np.pad(self.first_rows, (0, fresh), constant_values=np.inf)
        for k in np.unique(y[~np.isnan(y)]).astype(np.int64):
            self.first_rows[k] = min(self.first_rows[k], serial[int(np.argmax(y == k))])

    @staticmethod
    def label_of(number: float, classes: Sequence[str] | None) -> str | None:
        """Return the name of a class by its number; None for a missing label."""
        return None if number != number or classes is None else classes[int(number)]

    def _order_classes(self, p: Matrix, classes: Sequence[str] | None) -> Matrix:
        """Return probabilities in the order of the classes, NaN for one that the estimator does not know."""
        names, model = list(classes or ()), self.estimator
        out = np.full((len(p), len(names)), np.nan)
        if p.shape[1] and isinstance(model, OnlineClassifier):
            out[:, [names.index(str(name)) for name in model.classes]] = p
        return out


def _facts(serial: NDArray[np.int64], rows: Rows) -> dict[str, Any]:
    """Return what answers say about their rows."""
    return {"serial": serial, "line": rows.line, "time": rows.time}


def _answer_numbers(
    facts: dict[str, Any], yhat: Any, known: Any, level: float, ends: Any, levels: tuple[float, ...], quantiles: Any
) -> Answers:
    """Return answers of numbers; an interval has both ends or none."""
    lower, upper = ends
    there = np.isfinite(lower) & np.isfinite(upper)
    bounds = {"lower": np.where(there, lower, np.nan), "upper": np.where(there, upper, np.nan)}
    yhat, known = np.atleast_1d(yhat), _all(known, np.size(yhat))
    found = None if quantiles is None else np.where(known[:, None], _finite(quantiles), np.nan)
    more: dict[str, Any] = {"levels": levels, "quantiles": found, **bounds}
    return Answers(**facts, yhat=np.where(known, yhat, np.nan), known=known, level=level, **more)


def _answer_two(facts: dict[str, Any], odds: Any, known: Any, classes: Sequence[str] | None) -> Answers:
    """Return answers of two classes from the log-odds of the second one."""
    yhat, known = np.atleast_1d(odds), _all(known, np.size(odds))
    return Answers(**facts, yhat=np.where(known, yhat, np.nan), known=known, classes=tuple(classes or ()))


def _answer_classes(facts: dict[str, Any], p: Matrix, classes: Sequence[str] | None) -> Answers:
    """Return answers of several classes from their probabilities."""
    yhat = most_likely(p)
    return Answers(**facts, yhat=yhat, known=~np.isnan(yhat), classes=tuple(classes or ()), several=p)


def _finite(values: Any) -> Any:
    """Return ends of intervals or quantiles, NaN where there is none yet."""
    values = np.atleast_1d(np.asarray(values, dtype=np.float64))
    return np.where(np.isfinite(values), values, np.nan)


def _all(known: Any, count: int) -> NDArray[np.bool_]:
    return np.ones(count, dtype=bool) if known is None else np.asarray(known, dtype=bool)
