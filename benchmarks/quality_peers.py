"""Contenders of `quality.py`: ours, other libraries' learners at documented settings, and the naive.

A contender is a function of a stream that predicts every row before its label, in order; classifiers predict log-odds.
Peers get rows without holes (last value, 0 before the first). What learns its own scale sees raw rows through a running
StandardScaler, River's way. Second-order learners, which a running scaler disturbs, and Vowpal Wabbit get rows and
labels scaled once by the first rows, a peek we do not grant ourselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import undrift as ud
from benchmarks.streams import Stream
from undrift.baselines import BASELINES, Baselines
from undrift.losses import log_odds
from undrift.online.plan import SPEEDS
from undrift.run.finish.peers import SCHEDULES, forest_makers, play_retrained, play_windowed_ridge

CLIP = 10.0
"""Running scales make rare features huge: those of SGDRegressor stay within this, or it diverges on metro_traffic."""
SURE = 13.8155
"""Log-odds of one in a million: how sure a contender may be."""


class Told(NamedTuple):
    yhat: np.ndarray
    """Predictions, in the units of the raw labels; log-odds for classes."""
    coverage: float | None = None
    """Share of labels inside the 90% intervals predicted for them."""


class Contender(NamedTuple):
    name: str
    play: Callable[[Data], Told]
    rows: int | None = None
    """Rows it is given; None: all."""


class Data(NamedTuple):
    raw: np.ndarray
    """Rows as they are, with holes."""
    filled: np.ndarray
    """Rows without holes."""
    dicts: list[dict[str, float]]
    """The same as dictionaries."""
    scaled: Stream
    """Rows scaled by the first ones, and a constant."""
    y: np.ndarray
    """Labels, 0 and 1 for classes."""
    center: float
    """What the scaled labels were centred by and ..."""
    unit: float
    """... divided by."""


def ours(speed: str) -> Callable[[Data], Told]:
    def play(data: Data) -> Told:
        model = (ud.OnlineClassifier if data.scaled.binary else ud.OnlineRegressor)(speed=speed)
        yhat = model.play(data.raw, data.y).yhat
        if data.scaled.binary:
            return Told(yhat)
        return Told(yhat, next(one.measured for one in model.coverage() if one.level == 0.9))

    return play


def naive(column: int) -> Callable[[Data], Told]:
    def play(data: Data) -> Told:
        return Told(Baselines(binary=data.scaled.binary).play(data.y)[:, column])

    return play


def seasonal(lag: int) -> Callable[[Data], Told]:
    """The label of so many rows ago, and before that the last one."""

    def play(data: Data) -> Told:
        yhat = np.concatenate([[0.0], data.y[:-1]])[: len(data.y)]
        yhat[lag:] = data.y[: max(0, len(data.y) - lag)]
        return Told(yhat)

    return play


def retrained(make: Callable[[], object], every: int, task: str) -> Callable[[Data], Told]:
    """Boosted trees fitted to all past rows and the last label, again after so many rows; holes are left to them."""
    return lambda data: Told(play_retrained(make, every, task, data.raw, data.y))


def river(make: Callable[[], object], scaled: bool = False) -> Callable[[Data], Told]:
    """A River model over dictionaries, or over rows scaled once."""

    def play(data: Data) -> Told:
        model, binary = make(), data.scaled.binary
        rows = named(data.scaled.Z) if scaled else data.dicts
        labels = (data.y > 0.0).tolist() if binary else (data.scaled.y if scaled else data.y).tolist()
        yhat = np.full(len(labels), np.nan)
        for t, (row, label) in enumerate(zip(rows, labels, strict=True)):
            yhat[t] = model.predict_proba_one(row).get(True, 0.5) if binary else model.predict_one(row)
            model.learn_one(row, label)
        yhat[:1] = np.nan_to_num(yhat[:1])  # River's AMF says nothing before the first label
        return Told(log_odds(yhat) if binary else data.center + data.unit * yhat if scaled else yhat)

    return play


def vowpal(options: str) -> Callable[[Data], Told]:
    def play(data: Data) -> Told:
        import vowpalwabbit

        model = vowpalwabbit.Workspace(f"--quiet {options}")
        labels = np.where(data.y > 0.0, 1.0, -1.0) if data.scaled.binary else data.scaled.y
        yhat = np.empty(len(labels))
        for t, (z, label) in enumerate(zip(data.scaled.Z[:, :-1].tolist(), labels.tolist(), strict=True)):
            text = " ".join(f"{j}:{v:.9g}" for j, v in enumerate(z))
            yhat[t] = model.predict(f"| {text}")
            model.learn(f"{label:.9g} | {text}")
        model.finish()
        return Told(yhat if data.scaled.binary else data.center + data.unit * yhat)

    return play


def sgd(**options: object) -> Callable[[Data], Told]:
    def play(data: Data) -> Told:
        import sklearn
        from sklearn.linear_model import SGDClassifier, SGDRegressor

        X, binary = running_scale(data.filled), data.scaled.binary
        if not binary:
            X = np.clip(X, -CLIP, CLIP)
        model = SGDClassifier(loss="log_loss", **options) if binary else SGDRegressor(**options)
        say = model.decision_function if binary else model.predict
        classes = {"classes": [0.0, 1.0]} if binary else {}
        yhat = np.zeros(len(data.y))
        with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
            for t in range(len(data.y)):
                if t:
                    yhat[t] = say(X[t : t + 1])[0]
                model.partial_fit(X[t : t + 1], data.y[t : t + 1], **classes)
        return Told(yhat)

    return play


def rls(**options: float) -> Callable[[Data], Told]:
    def play(data: Data) -> Told:
        import padasip

        model = padasip.filters.FilterRLS(n=data.scaled.Z.shape[1], **options)
        yhat = np.empty(len(data.y))
        for t, (z, label) in enumerate(zip(data.scaled.Z, data.scaled.y, strict=True)):
            yhat[t] = model.predict(z)
            model.adapt(label, z)
        return Told(data.center + data.unit * yhat)

    return play


def running_scale(Z: np.ndarray) -> np.ndarray:
    """Each row centred and scaled by the rows so far, itself included, as StandardScaler().partial_fit does."""
    count = np.arange(1.0, len(Z) + 1.0)[:, None]
    shifted = Z - Z[0]  # sums of squares lose nothing to a large mean
    mean = np.cumsum(shifted, axis=0) / count
    spread = np.sqrt(np.maximum(np.cumsum(shifted**2, axis=0) / count - mean**2, 0.0))
    return (shifted - mean) / np.where(spread > 1e-12 * (1.0 + np.abs(mean)), spread, 1.0)


def named(Z: np.ndarray) -> list[dict[str, float]]:
    return [{f"x{j}": v for j, v in enumerate(row)} for row in Z.tolist()]


def contenders(binary: bool) -> list[Contender]:
    """All of them, ours first; the slow ones on a prefix."""
    out = [Contender(f"undrift {speed}" + " (default)" * (speed == "best"), ours(speed)) for speed in reversed(SPEEDS)]
    task = "classification" if binary else "regression"
    for library, name, make in forest_makers(task, seed=0):
        rows = None if library == "lightgbm" else 20_000
        out += [Contender(f"{library} {name}, refitted every {n:,}", retrained(make, n, task), rows) for n in SCHEDULES]
    out.append(Contender("ridge over 1,000 rows", lambda data: Told(play_windowed_ridge(task, data.filled, data.y))))
    out += [Contender(name, naive(k)) for k, name in enumerate(BASELINES[task])]
    if not binary:  # all three streams are hourly, give or take missing rows
        out += [Contender(f"label of {lag} rows ago", seasonal(lag)) for lag in (24, 168)]
    return out + (classifiers() if binary else regressors())


def regressors() -> list[Contender]:
    from river import forest, linear_model, optim, preprocessing, tree

    scaler = preprocessing.StandardScaler

    def on_scaled_target(optimizer: optim.base.Optimizer) -> object:
        model = linear_model.LinearRegression(optimizer=optimizer.clone())
        return scaler() | preprocessing.TargetStandardScaler(regressor=model)

    return [
        Contender("River LinearRegression", river(lambda: scaler() | linear_model.LinearRegression())),
        Contender(
            "River LinearRegression, AdaGrad(0.1), target scaled", river(lambda: on_scaled_target(optim.AdaGrad(0.1)))
        ),
        Contender("River LinearRegression, SGD(0.01), target scaled", river(lambda: on_scaled_target(optim.SGD(0.01)))),
        Contender("River BayesianLinearRegression", river(lambda: linear_model.BayesianLinearRegression(), True)),
        Contender(
            "River BayesianLinearRegression(smoothing=0.99)",
            river(lambda: linear_model.BayesianLinearRegression(smoothing=0.99), True),
        ),
        Contender("VW, target scaled", vowpal("")),
        Contender("scikit-learn SGDRegressor", sgd(), 20_000),
        Contender("scikit-learn SGDRegressor(constant, 0.01)", sgd(learning_rate="constant", eta0=0.01), 20_000),
        Contender("padasip FilterRLS", rls()),
        Contender("padasip FilterRLS(mu=0.99)", rls(mu=0.99)),
        Contender(
            "River HoeffdingAdaptiveTree",
            river(lambda: scaler() | tree.HoeffdingAdaptiveTreeRegressor(seed=0)),
            10_000,
        ),
        Contender("River ARF(10)", river(lambda: scaler() | forest.ARFRegressor(seed=0)), 5_000),
        Contender("River AMF(10)", river(lambda: scaler() | forest.AMFRegressor(seed=0)), 5_000),
    ]


def classifiers() -> list[Contender]:
    from river import forest, linear_model, optim, preprocessing, tree

    scaler = preprocessing.StandardScaler
    return [
        Contender("River LogisticRegression", river(lambda: scaler() | linear_model.LogisticRegression())),
        Contender(
            "River LogisticRegression, SGD(0.1)",
            river(lambda: scaler() | linear_model.LogisticRegression(optimizer=optim.SGD(0.1))),
        ),
        Contender("VW logistic", vowpal("--loss_function logistic")),
        Contender("VW logistic --power_t 0", vowpal("--loss_function logistic --power_t 0")),
        Contender("scikit-learn SGDClassifier", sgd(), 20_000),
        Contender("scikit-learn SGDClassifier(constant, 0.01)", sgd(learning_rate="constant", eta0=0.01), 20_000),
        Contender(
            "River HoeffdingAdaptiveTree",
            river(lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=0)),
            10_000,
        ),
        Contender("River ARF(10)", river(lambda: forest.ARFClassifier(seed=0)), 5_000),
        Contender("River AMF(10)", river(lambda: forest.AMFClassifier(seed=0)), 5_000),
    ]
