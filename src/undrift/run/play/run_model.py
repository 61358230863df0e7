"""The model of a run: it predicts each row before its label, and learns the label when it becomes known.

Beside it stand what a report needs of it: snapshots of what it believed, the first and the last rows, and the table
of predicted classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import undrift
from undrift._typing import Matrix, Vector
from undrift.errors import InputError, ModelFileError
from undrift.losses import sigmoid
from undrift.metrics import most_likely
from undrift.online import OnlineClassifier, OnlineRegressor, Table
from undrift.online.estimator import OnlineEstimator
from undrift.run.tables import probability_column
from undrift.stream.features import Rows
from undrift.stream.settings import Settings

RECENT_ROWS, RECENT_CELLS = 128, 16_384
"""The last rows that are kept to say what matters now: so many, and fewer where rows are wide."""
LEVEL = 0.9
"""Part of the labels that the intervals are made to hold."""


class BlockPredictions(NamedTuple):
    """Predictions of some rows."""

    yhat: Vector
    """Predictions (n,); of several classes the number of the most likely one, NaN where none is known."""
    known: NDArray[np.bool_]
    """Whether a label was known before (n,); predictions made before say nothing."""
    lower: Vector | None
    """Intervals, NaN where there was none yet; None for classes."""
    upper: Vector | None
    probabilities: Matrix | None = None
    """Of several classes by their numbers (n, K), NaN where a class was not known yet; None otherwise."""


def make_model(settings: Settings, task: str) -> OnlineEstimator:
    """Return the model the settings ask for."""
    cls = OnlineRegressor if task == "regression" else OnlineClassifier
    more: dict[str, Any] = {}
    if settings.nonnegative:
        if task != "regression":
            raise InputError("settings: nonnegative is for targets that are numbers, not for classes; leave it out")
        more = {"limits": (0.0, None)}
    model: OnlineEstimator = cls(
        speed=settings.speed,
        indicators=settings.missing == "indicators",
        seed=settings.seed,
        half_life=settings.half_life,
        candidates=settings.candidate or None,
        **more,
    )
    return model


class RunModel:
    """A model, which keeps the rows that still wait for their label, and snapshots of what it believed.

    Parameters
    ----------
    model
        It learns several classes by their labels.
    delay
        Labels become known so many rows late.
    width
        Features.
    several
        Whether labels are the numbers of several classes.
    """

    def __init__(self, model: OnlineEstimator, delay: int, width: int, *, several: bool = False) -> None:
        self.model, self.delay, self.several = model, delay, several
        self.snapshots = Snapshots(width, lines=not several)
        self.recent: Matrix = np.empty((0, 0))
        self.then_and_now = ThenAndNow()
        self.first_rows = np.zeros(0)  # the row in which each of several classes first came, from 1 on

    def play(
        self,
        names: list[str],
        Z: Matrix,
        y: Vector,
        classes: list[str] | None = None,
        weight: Vector | None = None,
        elapsed: Vector | None = None,
    ) -> BlockPredictions:
        """Predict rows, and learn those whose label becomes known on the way; `classes` name several ones.

        A row counts `weight` times, and comes the time `elapsed` after the one before.
        """
        self._keep_recent(Z)
        given: Any = self.model.parameters.get("candidates") or ()
        self.then_and_now.add(Z[:, np.array([name not in given for name in names], dtype=bool)])
        blocks = []
        a = 0
        while a < len(y):
            due = self.snapshots.next_round(self.model.rounds)
            b = min(len(y), a + due - self.model.rounds)  # a row settles one label at most
            rows = Table(names, Z[a:b])
            several = self.several and classes is not None
            both: dict[str, Any] = {
                "weight": None if weight is None else weight[a:b],
                "elapsed": None if elapsed is None else elapsed[a:b],
            }
            blocks.append(
                self._play_classes(rows, y[a:b], classes or [], both)
                if several
                else self._play_block(rows, y[a:b], both)
            )
            if self.model.rounds == due:
                self.snapshots.take(self.model)
            a = b
        return join_predictions(blocks)

    def _play_block(self, rows: Table, y: Vector, both: dict[str, Any]) -> BlockPredictions:
        if isinstance(self.model, OnlineRegressor):
            trace = self.model.play(rows, y, delay=self.delay, interval=LEVEL, **both)
        else:
            trace = self.model.play(rows, y, delay=self.delay, **both)
        known = np.ones(len(y), bool) if trace.known is None else trace.known
        if trace.lower is None or trace.upper is None:
            return BlockPredictions(trace.yhat, known, None, None)
        there = np.isfinite(trace.lower) & np.isfinite(trace.upper)
        lower, upper = (np.where(there, ends, np.nan) for ends in (trace.lower, trace.upper))
        return BlockPredictions(trace.yhat, known, lower, upper)

    def _play_classes(self, rows: Table, y: Vector, classes: list[str], both: dict[str, Any]) -> BlockPredictions:
        """Predict rows of several classes; of each row, those whose label was known before it was served."""
        before, missing = self.model.served_rows, np.isnan(y)
        labels: Any = np.array([None if one != one else classes[int(one)] for one in y.tolist()], dtype=object)
        given = np.full(len(y), np.nan) if missing.all() else labels
        trace = self.model.play(rows, given, delay=self.delay, **both)
        p = np.full((len(y), len(classes)), np.nan)
        if isinstance(self.model, OnlineClassifier) and trace.yhat.ndim == 2:
            p[:, [classes.index(str(one)) for one in self.model.classes]] = np.exp(trace.yhat)
        self.first_rows = np.pad(self.first_rows, (0, len(classes) - len(self.first_rows)), constant_values=np.inf)
        row = before + 1.0 + np.arange(len(y))
        for k in np.unique(y[~missing]).astype(np.int64):
            self.first_rows[k] = min(self.first_rows[k], row[int(np.argmax(y == k))])
        p[row[:, None] <= self.first_rows + self.delay] = np.nan
        yhat = most_likely(p)
        return BlockPredictions(yhat, ~np.isnan(yhat), None, None, p)

    def _keep_recent(self, Z: Matrix) -> None:
        """Keep the last rows; in earlier ones, features that came later are 0."""
        wide = np.pad(self.recent, ((0, 0), (0, Z.shape[1] - self.recent.shape[1])))
        most = min(RECENT_ROWS, max(1, RECENT_CELLS // max(1, Z.shape[1])))
        self.recent = np.concatenate([wide, Z])[-most:]

    def effects(self, names: list[str], groups: Mapping[str, Sequence[str]]) -> dict[str, float]:
        """Return how far each group of features moves the predictions of the last rows, by its name."""
        known = self.model.names
        if not len(self.recent) or known is None:
            return {}
        learned = {name: group for name, group in groups.items() if set(group) <= {*known}}  # no candidates
        found = self.model.effects(Table(names, self.recent), [*learned.values()])
        return dict(zip(learned, found.tolist(), strict=True))

    def finish(self) -> None:
        """Take a last snapshot; rows that still wait for their label stay in the model."""
        self.snapshots.take(self.model)

    def arrays(self) -> dict[str, Vector]:
        """Return what the next row depends on, besides the model."""
        return {**self.snapshots.arrays(), **self.then_and_now.arrays(), "recent": self.recent} | (
            {"first_rows": self.first_rows} if self.several else {}
        )

    def resume(self, arrays: Mapping[str, Vector]) -> None:
        """Go on where `arrays` left off."""
        self.snapshots.resume(arrays)
        self.then_and_now.resume(arrays)
        self.recent = arrays["recent"]
        self.first_rows = arrays["first_rows"] if self.several else self.first_rows


def join_predictions(blocks: list[BlockPredictions]) -> BlockPredictions:
    """Return the predictions of blocks one after the other."""
    yhat, known, lower, upper, _ = zip(*blocks, strict=True) if blocks else ((), (), (), (), ())
    joined, judged = np.concatenate([np.empty(0), *yhat]), np.concatenate([np.empty(0, bool), *known])
    if not blocks or lower[0] is None:
        return BlockPredictions(joined, judged, None, None, _join_probabilities(blocks))
    return BlockPredictions(joined, judged, np.concatenate(lower), np.concatenate(upper))


def _join_probabilities(blocks: list[BlockPredictions]) -> Matrix | None:
    """Return the probabilities of blocks one after the other, NaN in rows before a class came."""
    found = [one.probabilities for one in blocks if one.probabilities is not None]
    if not found:
        return None
    K = max(one.shape[1] for one in found)
    return np.concatenate([np.pad(p, ((0, 0), (0, K - p.shape[1])), constant_values=np.nan) for p in found])


def load_model(path: str) -> OnlineEstimator:
    """Return a saved model of a run."""
    model = undrift.load(path)
    if not isinstance(model, OnlineEstimator):
        raise ModelFileError(f"{path}: a {type(model).__name__}, not the model of a run; start the run again")
    return model


MOST_ROWS, MOST_CELLS = 1000, 100_000
"""Rows kept at either end: so many, and fewer where rows are wide."""


class ThenAndNow:
    """The first and the last rows; what they hold depends on the rows alone, however they are cut into batches."""

    def __init__(self) -> None:
        self.then: Matrix = np.empty((0, 0))
        self.now: Matrix = np.empty((0, 0))

    def add(self, Z: Matrix) -> None:
        """Take in rows; a feature that came later is missing before."""
        most = max(1, min(MOST_ROWS, MOST_CELLS // max(1, Z.shape[1])))
        then, now = _widen(self.then, Z.shape[1]), _widen(self.now, Z.shape[1])
        self.then = np.concatenate([then, Z[: max(0, most - len(then))]])[:most]
        self.now = np.concatenate([now, Z[-most:]])[-most:]

    def arrays(self) -> dict[str, Vector]:
        """Return what the next row depends on."""
        return {"then": self.then, "now": self.now}

    def resume(self, arrays: Mapping[str, Vector]) -> None:
        """Go on where `arrays` left off; runs of earlier versions have none, and begin here."""
        self.then, self.now = arrays.get("then", self.then), arrays.get("now", self.now)


def _widen(rows: Matrix, width: int) -> Matrix:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=np.nan)


MOST = 1000
"""Snapshots kept; when there are more, every other one goes."""
FIRST_STRIDE = 16


class Snapshot(NamedTuple):
    """What the model believed after a round."""

    round: float
    """The round, from 1."""
    spectrum: Vector
    """Weight of each memory length."""
    weights: Vector
    """Weight of each candidate of the last mixer."""
    combination: Vector
    """Coefficients of level 2 by family, the last label's last; none of several classes."""
    coef: Vector
    """Coefficients of the line, the intercept last; none of several classes."""


class Snapshots:
    """Spectrum, candidates' weights and coefficients every so many rounds, thinned as the run grows.

    Parameters
    ----------
    width
        Features.
    lines
        Whether the model has a line, and so coefficients; those of several classes have none.
    """

    def __init__(self, width: int, *, lines: bool = True) -> None:
        self._lines = lines
        self.most = max(100, min(MOST, 400_000 // max(width, 1)))
        self.stride = FIRST_STRIDE
        self.half_lives = np.zeros(0)
        self.rows: list[Snapshot] = []

    def next_round(self, rounds: int) -> int:
        """Return the next round after which one is due."""
        return (rounds // self.stride + 1) * self.stride

    def take(self, model: OnlineEstimator) -> None:
        """Read the model."""
        spectrum, coef, combination = model.spectrum(), np.zeros(0), np.zeros(0)
        if self._lines:
            line = model.line()
            coef, combination = np.append(line.coef, line.intercept), np.array([*model.combination().values()])
        self.half_lives = spectrum.half_lives
        row = Snapshot(float(model.rounds), spectrum.weights, model.weights, combination, coef)
        if self.rows and self.rows[-1].round == row.round:
            return
        self.rows.append(row)
        if len(self.rows) > self.most:
            self.stride *= 2
            self.rows = [one for one in self.rows if one.round % self.stride == 0.0]

    def arrays(self) -> dict[str, Vector]:
        """Return everything as arrays; coefficients of features that were not there yet are NaN."""
        out = {"half_lives": self.half_lives, "stride": np.array([float(self.stride)])}
        if not self.rows:
            return {**out, "round": np.zeros(0), **{name: np.zeros((0, 0)) for name in Snapshot._fields[1:]}}
        rounds, spectrum, weights, combination, coef = zip(*self.rows, strict=True)
        wide, families = (
            np.full((len(rounds), max(len(one) for one in every)), np.nan) for every in (coef, combination)
        )
        for k, one in enumerate(coef if self._lines else ()):
            wide[k, : len(one) - 1], wide[k, -1] = one[:-1], one[-1]
        for k, one in enumerate(combination):
            families[k, : len(one)] = one
        out |= {"round": np.array(rounds), "spectrum": np.array(spectrum), "weights": np.array(weights)}
        return {**out, "combination": families, "coef": wide}

    def resume(self, arrays: Mapping[str, Vector]) -> None:
        """Go on where `arrays` left off."""
        self.stride, self.half_lives = int(arrays["stride"][0]), arrays["half_lives"]
        none = np.zeros((len(arrays["round"]), 0))  # runs of earlier versions kept no combinations
        columns = (arrays.get(name, none) for name in Snapshot._fields)
        self.rows = [Snapshot(float(each[0]), *each[1:]) for each in zip(*columns, strict=True)]


LOG_ODDS = "log_odds"
"""Name of the column with the log-odds of the second of two classes, to the last bit: certificates need them."""


class ClassTable:
    """Columns of rows whose labels are the numbers of `classes`; `baselines` names the naive predictors."""

    def __init__(self, classes: list[str], baselines: Sequence[str]) -> None:
        self.classes, self.baselines = classes, baselines

    def wide(self, predictions: BlockPredictions) -> Matrix:
        """Return the probabilities of every class (n, K), NaN where one was not known yet."""
        p = predictions.probabilities
        if p is None:
            return np.full((len(predictions.yhat), len(self.classes)), np.nan)
        return np.pad(p, ((0, 0), (0, len(self.classes) - p.shape[1])), constant_values=np.nan)

    def columns(self, rows: Rows, predictions: BlockPredictions, naive: Iterable[Matrix]) -> dict[str, Any]:
        """Return the columns of the predictions by name: those of the classes last, as more of them may follow."""
        guesses = [most_likely(p) for p in naive]
        return self._columns(rows, predictions.yhat, guesses, self.wide(predictions))

    def columns_of_two(self, rows: Rows, log_odds: Vector, naive: Matrix) -> dict[str, Any]:
        """Return the columns of two classes, the same and their log-odds, from log-odds, NaN where there are none."""
        choose = [np.where(np.isnan(odds), np.nan, odds > 0.0) for odds in (log_odds, *naive.T)]
        p = np.column_stack([sigmoid(-log_odds), sigmoid(log_odds)])
        return self._columns(rows, choose[0], choose[1:], p) | {LOG_ODDS: log_odds}

    def _columns(self, rows: Rows, yhat: Vector, naive: Sequence[Vector], p: Matrix) -> dict[str, Any]:
        """Return the columns from the numbers of the likeliest classes, the naive guesses' and the probabilities."""
        out: dict[str, Any] = {"line": rows.line}
        if rows.time is not None:
            out["time"] = rows.time
        out |= {"y": self._labels(rows.y), "yhat": self._labels(yhat)}
        out |= {name: self._labels(guess) for name, guess in zip(self.baselines, naive, strict=True)}
        return out | {probability_column(label): p[:, k] for k, label in enumerate(self.classes)}

    def _labels(self, numbers: Vector) -> Any:
        """Return labels as they stand in the source, None where there is none."""
        names = [None if k != k else self.classes[int(k)] for k in numbers.tolist()]
        return np.array(names, dtype=object)
