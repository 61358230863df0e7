"""Who takes part in a comparison: our estimators, and learners of other libraries that are installed.

Peers see rows without holes, ours rows with them; each row is predicted before its label is known, and learned when
it is known: at once, or so many rows late. Labels are numbers, 0 and 1, or class numbers, NaN where missing;
predictions are numbers, log-odds, or probabilities (rows, K). Weights reach the learners that take some; of the others
each learns every row once, but none learns a row of weight 0.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import undrift
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.kernels.definitions import LEAST_PROBABILITY
from undrift.learners.row_context import ORDINARY, RowContext
from undrift.losses import log_odds
from undrift.online import OnlineClassifier, OnlineRegressor, Table
from undrift.online.estimator import OnlineEstimator
from undrift.stream.model import make_model
from undrift.stream.settings import Settings, did_you_mean
from undrift.trace import Trace

MICROSECONDS = {
    "light": 8.0, "fast": 15.0, "best, no trees": 30.0, "best": 90.0, "max": 400.0,
    "LinearRegression": 50.0, "LogisticRegression": 50.0, "SoftmaxRegression": 150.0, "BayesianLinearRegression": 110.0,
    "SGDRegressor": 2000.0, "SGDClassifier": 2000.0, "KNNRegressor": 4000.0, "ridge": 30.0,
    "HoeffdingAdaptiveTreeRegressor": 800.0, "HoeffdingAdaptiveTreeClassifier": 800.0,
    "ARFRegressor": 10_000.0, "ARFClassifier": 5_000.0, "AMFClassifier": 5_000.0,
    "LGBMRegressor": 200.0, "LGBMClassifier": 200.0,
    "HistGradientBoostingRegressor": 350.0, "HistGradientBoostingClassifier": 350.0,
}  # fmt: skip
"""What a row costs, measured on 4,000 rows of 16 columns; of trees that are refitted, every 1,000 rows."""
OUR_SPEEDS = {"max": "max", "best": "best", "best, no trees": "best", "fast": "fast"}
"""Our estimators that take part whatever the settings, and their speeds."""
LIBRARIES = ("river", "scikit-learn", "lightgbm")
"""Where peers are from."""
HUGE = 1e75
"""Stands for predictions that are infinite."""
FIRST_FIT = 100
"""Labelled rows before a model is fitted for the first time."""
SCHEDULES = (250, 1000)
"""Rows between two fits."""
RIDGE_WINDOW, RIDGE_EVERY = 1000, 25
"""Rows that a ridge is fitted to, and rows between two fits."""

PlayFunction = Callable[[Matrix, Vector, RowContext], Vector | Matrix | Trace]
"""Takes rows, labels (NaN where missing), and when labels are known and how often rows count; returns a prediction for
each row: a number, log-odds, or probabilities; learners with intervals return a trace."""
MakeModel = Callable[[], Any]


class Contender(NamedTuple):
    """A learner in a comparison."""

    library: str
    name: str
    play: PlayFunction
    microseconds: float
    """A row costs about so much; who costs least plays first."""
    takes_weights: bool = False
    """Whether it learns a row as often as its weight says; else every row once."""


def choose_contenders(
    found: Iterable[Contender], only: Sequence[str] = (), without: Sequence[str] = ()
) -> list[Contender]:
    """Return those that are asked for, the cheap ones first.

    A word names every contender whose library it is or in whose name it stands, whatever the case: "river", "forest".
    """
    every = list(found)
    for option, words in (("--only", only), ("--without", without)):
        for word in words:
            if not any(_is_named(one, [word]) for one in every):
                names = dict.fromkeys(name for one in every for name in (one.library, one.name))
                raise InputError(f"{option} '{word}': no learner is called that{did_you_mean(word, names)}")
    chosen = [one for one in every if (not only or _is_named(one, only)) and not _is_named(one, without)]
    return sorted(chosen, key=lambda one: one.microseconds)


def _is_named(one: Contender, words: Iterable[str]) -> bool:
    return any(word.lower() == one.library.lower() or word.lower() in one.name.lower() for word in words)


def our_contenders(settings: Settings, task: str, names: Sequence[str]) -> Iterator[Contender]:
    """Yield our estimators, made as `undrift run` makes its model, of which the one of these settings is always one.

    `names` are the features, predictions made elsewhere included.
    """
    for name, speed in (OUR_SPEEDS | {settings.speed: settings.speed}).items():
        model = make_model(settings.replace(speed=speed), task)
        if name.endswith("no trees"):
            model = model.without_trees()
        play = partial(play_ours, model, settings, task, names)
        yield Contender("undrift", f"{type(model).__name__} ({name})", play, MICROSECONDS[name], takes_weights=True)


def installed_peers(task: str, seed: int) -> Iterator[Contender]:
    """Yield the learners of the libraries that are installed, with their own defaults behind a scaler.

    Boosted trees are fitted again on a schedule, with the last known label as a feature, as is a ridge over the last
    rows.
    """
    if importlib.util.find_spec("river") is not None:
        for name, model in _river_models(task, seed).items():
            weighted = _learns_weights(model)
            play = partial(_play_river, model, task)
            yield Contender("river", name, play, MICROSECONDS[name], takes_weights=weighted)
    if importlib.util.find_spec("sklearn") is not None:
        name, model = _sklearn_model(task, seed)
        yield Contender(
            "scikit-learn", name, partial(_play_sklearn, model, task), MICROSECONDS[name], takes_weights=True
        )
    most = 1 if task == "multiclass" else None  # two of them would take most of the time
    for library, name, make in islice(forest_makers(task, seed), most):
        for every in SCHEDULES:
            cost = MICROSECONDS[name] * 1000 / every
            refitted = partial(play_retrained, make, every, task)
            yield Contender(library, f"{name}, refitted every {every:,}", refitted, cost, takes_weights=True)
    if task != "multiclass":
        ridge = partial(play_windowed_ridge, task)
        yield Contender("numpy", f"ridge over {RIDGE_WINDOW:,} rows", ridge, MICROSECONDS["ridge"], takes_weights=True)


def absent_libraries() -> list[str]:
    """Return the libraries whose learners cannot take part, as they are not installed."""
    return [name for name in LIBRARIES if name not in versions()]


def versions() -> dict[str, str]:
    """Return the versions of undrift and of the peers that are installed."""
    found = {"undrift": undrift.__version__}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@contextlib.contextmanager
def use_one_thread() -> Iterator[None]:
    """Keep compiled code of other libraries on one thread; nothing of what they predict depends on it.

    Threads that wait for each other on a busy machine take many times as long as one alone.
    """
    if importlib.util.find_spec("threadpoolctl") is None:  # which scikit-learn brings along
        yield
        return
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="openmp"):
        yield


def count_classes(y: Vector) -> int:
    """Return how many classes there are, those between included."""
    return int(np.nanmax(y)) + 1


def play_ours(
    model: OnlineEstimator,
    settings: Settings,
    task: str,
    names: Sequence[str],
    Z: Matrix,
    y: Vector,
    context: RowContext = ORDINARY,
) -> Trace:
    """Return what an estimator of ours predicts, with the intervals and quantiles of the settings for numbers."""
    rows = Table(list(names), Z)
    beside: dict[str, Any] = {"delay": context.delay, "weight": context.weight, "elapsed": context.elapsed}
    if isinstance(model, OnlineRegressor):
        return model.play(rows, y, interval=settings.level, quantiles=settings.quantiles or None, **beside)
    if task != "multiclass":
        return model.play(rows, y, **beside)
    assert isinstance(model, OnlineClassifier)  # as the task has classes
    labels: Any = np.array([None if label != label else f"{label:.0f}" for label in y.tolist()], dtype=object)
    trace, p = model.play(rows, labels, **beside), _no_predictions(task, y)
    p[:, [int(name) for name in model.classes]] = np.exp(trace.yhat)
    return replace(trace, yhat=p)


def play_row_by_row(
    predict: Callable[[int], Any],
    learn: Callable[[int, float], object],
    y: Vector,
    context: RowContext,
    out: Matrix,
) -> None:
    """Fill in the prediction of every row, then learn the row whose label is known by then, `delay` rows before it.

    `predict` takes the number of a row, `learn` the number of a row and its weight. Rows without a label and those of
    weight 0 are not learned, nor are the last ones, whose labels come after the last prediction.
    """
    labelled, weights = ~np.isnan(_labels_to_learn(y, context)), context.weights(len(y)).tolist()
    for t in range(len(y)):
        out[t] = predict(t)
        known = t - context.longest_delay
        if known >= 0 and labelled[known]:
            learn(known, weights[known])


def _labels_to_learn(y: Vector, context: RowContext) -> Vector:
    """Return the labels, NaN in rows that count 0 times."""
    return y if context.weight is None else np.where(context.weight > 0.0, y, np.nan)


def _river_models(task: str, seed: int) -> dict[str, Any]:
    from river import forest, linear_model, neighbors, preprocessing, tree

    scaled = preprocessing.StandardScaler
    if task == "regression":
        return {
            "LinearRegression": scaled() | linear_model.LinearRegression(),
            "BayesianLinearRegression": scaled() | linear_model.BayesianLinearRegression(),
            "HoeffdingAdaptiveTreeRegressor": scaled() | tree.HoeffdingAdaptiveTreeRegressor(seed=seed),
            "ARFRegressor": scaled() | forest.ARFRegressor(seed=seed),
            "KNNRegressor": scaled() | neighbors.KNNRegressor(engine=neighbors.SWINN(seed=seed)),
        }
    trees = {
        "HoeffdingAdaptiveTreeClassifier": scaled() | tree.HoeffdingAdaptiveTreeClassifier(seed=seed),
        "ARFClassifier": scaled() | forest.ARFClassifier(seed=seed),
    }
    if task == "classification":
        return {"LogisticRegression": scaled() | linear_model.LogisticRegression(), **trees}
    softmax = scaled() | linear_model.SoftmaxRegression()
    return {"SoftmaxRegression": softmax, **trees, "AMFClassifier": scaled() | forest.AMFClassifier(seed=seed)}


def _learns_weights(pipeline: Any) -> bool:
    """Whether the learner of River at the end of a pipeline takes weights."""
    return "w" in inspect.signature([*pipeline.steps.values()][-1].learn_one).parameters


def _play_river(model: Any, task: str, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> Vector | Matrix:
    names, out = [str(j) for j in range(Z.shape[1])], _no_predictions(task, y)
    weighted = context.weight is not None and _learns_weights(model)
    label_type: Callable[[float], Any] = {"regression": float, "classification": bool, "multiclass": int}[task]

    def row(t: int) -> dict[str, float]:
        return dict(zip(names, Z[t].tolist(), strict=True))

    def predict(t: int) -> Any:
        if task == "regression":
            return model.predict_one(row(t))
        p = model.predict_proba_one(row(t))
        return p.get(True, 0.5) if task == "classification" else [p.get(k, 0.0) for k in range(out.shape[1])]

    def learn(t: int, weight: float) -> None:
        model.learn_one(row(t), label_type(y[t]), **({"w": weight} if weighted else {}))

    play_row_by_row(predict, learn, y, context, out)
    return _replace_non_finite(task, log_odds(out) if task == "classification" else out)


def _sklearn_model(task: str, seed: int) -> tuple[str, Any]:
    from sklearn import linear_model

    if task == "regression":
        return "SGDRegressor", linear_model.SGDRegressor(random_state=seed)
    return "SGDClassifier", linear_model.SGDClassifier(loss="log_loss", random_state=seed)


def _play_sklearn(model: Any, task: str, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> Vector | Matrix:
    """Play row by row, on rows scaled by the means and deviations so far; classes are known beforehand."""
    from sklearn.preprocessing import StandardScaler

    scaler, out = StandardScaler(), _no_predictions(task, y)
    answer = {"regression": "predict", "classification": "decision_function", "multiclass": "predict_proba"}[task]
    classes = {} if task == "regression" else {"classes": np.arange(float(out.shape[1] if out.ndim > 1 else 2))}

    def scale_row(t: int) -> Matrix:
        return np.asarray((Z[t : t + 1] - scaler.mean_) / scaler.scale_)  # as its transform, without its checks

    def predict(t: int) -> Any:
        prediction = getattr(model, answer)(scale_row(t))[0] if hasattr(model, "coef_") else 0.0
        scaler.partial_fit(Z[t : t + 1])
        return prediction

    def learn(t: int, weight: float) -> None:
        weights = {} if context.weight is None else {"sample_weight": [weight]}
        model.partial_fit(scale_row(t), y[t : t + 1], **classes, **weights)

    play_row_by_row(predict, learn, y, context, out)
    return _replace_non_finite(task, out)


def forest_makers(task: str, seed: int) -> Iterator[tuple[str, str, MakeModel]]:
    """Yield library, name and constructor of the boosted trees that are installed."""
    numbers = task == "regression"
    if importlib.util.find_spec("lightgbm") is not None:
        import lightgbm

        kind: Any = lightgbm.LGBMRegressor if numbers else lightgbm.LGBMClassifier
        options: dict[str, Any] = {
            "n_estimators": 200,
            "learning_rate": 0.05,
            "n_jobs": 1,
            "random_state": seed,
            "verbose": -1,
        }
        yield "lightgbm", kind.__name__, lambda: kind(**options)
    if importlib.util.find_spec("sklearn") is not None:
        from sklearn import ensemble

        trees: Any = ensemble.HistGradientBoostingRegressor if numbers else ensemble.HistGradientBoostingClassifier
        yield "scikit-learn", trees.__name__, lambda: trees(random_state=seed, early_stopping=False)


def play_retrained(
    make: MakeModel, every: int, task: str, Z: Matrix, y: Vector, context: RowContext = ORDINARY
) -> Vector | Matrix:
    """Predict every row by a model fitted to all rows with a known label, again after each `every` rows.

    Its features are the row and the last known label; columns that are constant so far are left out, which some
    libraries cannot bin. Before the first fit it predicts the last known label, or even odds.
    """
    delay, labels = context.longest_delay, _labels_to_learn(y, context)
    X = with_last_label(Z, labels, count_classes(y) if task == "multiclass" else 0, delay)
    out = X[:, -1].copy() if task == "regression" else _no_predictions(task, y)
    labelled = ~np.isnan(labels)
    model: Any = None
    used = np.zeros(X.shape[1], bool)
    for begin, end in _cut_fits(labelled, every, delay):
        past = np.flatnonzero(labelled[: max(0, begin - delay)])
        if len(past) >= FIRST_FIT and (task == "regression" or len(np.unique(y[past])) > 1):
            used = _varies(X[past])
            if used.any():
                weights = {} if context.weight is None else {"sample_weight": context.weight[past]}
                targets = y[past] if task == "regression" else y[past].astype(np.int64)
                model = make().fit(X[past][:, used], targets, **weights)
        if model is None:
            continue
        rows = X[begin:end][:, used]
        if task == "regression":
            out[begin:end] = np.asarray(model.predict(rows), np.float64)
        elif task == "classification":
            out[begin:end] = log_odds(model.predict_proba(rows)[:, 1])
        else:
            out[begin:end, model.classes_] = model.predict_proba(rows)
    return _as_probabilities(out) if task == "multiclass" else out


def with_last_label(Z: Matrix, y: Vector, classes: int = 0, delay: int = 0) -> Matrix:
    """Return rows with the last label that was known before each, 0 before the first; or a column for each class."""
    labelled = np.flatnonzero(~np.isnan(y))
    last = np.searchsorted(labelled, np.arange(len(y)) - delay, side="left") - 1
    labels = np.where(last >= 0, y[labelled[np.maximum(last, 0)]], 0.0) if len(labelled) else np.zeros(len(y))
    if classes:
        return np.column_stack([Z, (labels[:, None] == np.arange(classes)) & (last >= 0)[:, None]])
    return np.column_stack([Z, labels])


def _cut_fits(labelled: NDArray[np.bool_], every: int, delay: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the rows between two fits; the first fit comes as soon as enough labels are known."""
    first = int(np.searchsorted(np.cumsum(labelled), FIRST_FIT)) + 1 + delay
    rows = len(labelled)
    yield from pairwise([0, *range(first, rows, every), rows] if first < rows else [0, rows])


def _varies(X: Matrix) -> NDArray[np.bool_]:
    """Return which columns have two different values."""
    low, high = np.fmin.reduce(X, axis=0), np.fmax.reduce(X, axis=0)
    return np.asarray(low < high)


def play_windowed_ridge(task: str, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> Vector:
    """Predict every row by a ridge fitted to the last rows with a known label, scaled by those rows.

    Its features are the row and the last known label. For two classes it is fitted to 0 and 1, and its answer is taken
    for a probability.
    """
    labels = _labels_to_learn(y, context)
    X, weights = with_last_label(Z, labels, delay=context.longest_delay), context.weights(len(y))
    out = X[:, -1].copy() if task == "regression" else np.zeros(len(y))
    labelled = np.flatnonzero(~np.isnan(labels))
    for begin in range(RIDGE_EVERY, len(y), RIDGE_EVERY):
        past = labelled[labelled < begin - context.longest_delay][-RIDGE_WINDOW:]
        if len(past) < 2:
            continue
        w = weights[past]
        center, mean = np.average(X[past], axis=0, weights=w), np.average(y[past], weights=w)
        spread = np.sqrt(np.average((X[past] - center) ** 2, axis=0, weights=w))
        scale = np.where(spread > 0.0, spread, 1.0)
        A = (X[past] - center) / scale
        coef = np.linalg.solve(A.T @ (w[:, None] * A) + np.eye(A.shape[1]), A.T @ (w * (y[past] - mean)))
        rows = slice(begin, begin + RIDGE_EVERY)
        answer = mean + ((X[rows] - center) / scale) @ coef
        out[rows] = answer if task == "regression" else log_odds(answer)
    return out


def _no_predictions(task: str, y: Vector) -> Matrix:
    """Return zeros in the shape of predictions: one for each row, or one for each row and class."""
    return np.zeros((len(y), count_classes(y)) if task == "multiclass" else len(y))


def _replace_non_finite(task: str, given: Matrix) -> Matrix:
    """Return predictions of others without what is not finite."""
    if task == "multiclass":
        return _as_probabilities(given)
    return np.nan_to_num(given, nan=0.0, posinf=HUGE, neginf=-HUGE)


def _as_probabilities(given: Matrix) -> Matrix:
    """Return what others gave as probabilities, none of them 0; all classes alike where nothing was given."""
    p = np.nan_to_num(given, nan=0.0, posinf=1.0, neginf=0.0)
    p[p.sum(axis=1) <= 0.0] = 1.0
    p = np.maximum(p / p.sum(axis=1, keepdims=True), LEAST_PROBABILITY)
    return np.asarray(p / p.sum(axis=1, keepdims=True))
