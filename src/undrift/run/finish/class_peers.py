"""Learners of several classes over rows without holes, ours and others', each row predicted before it is learned.

Labels are class numbers, NaN where missing, and predictions probabilities (rows, K).
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.kernels.definitions import LEAST_PROBABILITY
from undrift.online import OnlineClassifier
from undrift.run.finish.contenders import MICROSECONDS, OUR_OPTIONS, Contender
from undrift.run.finish.retrained import FIRST_FIT, SCHEDULES, MakeModel, cut_fits, forest_makers, varies


def class_contenders(seed: int, *, peers: bool) -> Iterator[Contender]:
    """Yield our classifier, and the learners of the libraries that are installed, with their defaults."""
    for name, options in OUR_OPTIONS.items():
        play = partial(_play_ours, {**options, "seed": seed})
        yield Contender("undrift", f"OnlineClassifier ({name})", play, MICROSECONDS[name])
    if not peers:
        return
    if importlib.util.find_spec("river") is not None:
        for name, model in _river_models(seed).items():
            yield Contender("river", name, partial(_play_river, model), MICROSECONDS[name])
    if importlib.util.find_spec("sklearn") is not None:
        yield Contender("scikit-learn", "SGDClassifier", partial(_play_sgd, seed), MICROSECONDS["SGDClassifier"])
    for library, name, make in islice(forest_makers("multiclass", seed), 1):  # two of them would take most of the time
        for every in SCHEDULES:
            play = partial(_play_retrained, make, every)
            yield Contender(library, f"{name}, refitted every {every:,}", play, MICROSECONDS[name] * 1000 / every)


def count_classes(y: Vector) -> int:
    """Return how many classes there are, those between included."""
    return int(np.nanmax(y)) + 1


def _play_ours(options: Mapping[str, Any], Z: Matrix, y: Vector) -> Matrix:
    model = OnlineClassifier(**options)
    labels: Any = np.array([None if one != one else f"{one:.0f}" for one in y.tolist()], dtype=object)
    logs, out = model.play(Z, labels).yhat, np.zeros((len(y), count_classes(y)))
    out[:, [int(name) for name in model.classes]] = np.exp(logs)
    return out


def _river_models(seed: int) -> dict[str, Any]:
    from river import forest, linear_model, preprocessing, tree

    scaled = preprocessing.StandardScaler
    return {
        "SoftmaxRegression": scaled() | linear_model.SoftmaxRegression(),
        "HoeffdingAdaptiveTreeClassifier": scaled() | tree.HoeffdingAdaptiveTreeClassifier(seed=seed),
        "ARFClassifier": scaled() | forest.ARFClassifier(seed=seed),
        "AMFClassifier": scaled() | forest.AMFClassifier(seed=seed),
    }


def _play_river(model: Any, Z: Matrix, y: Vector) -> Matrix:
    names, out = [str(j) for j in range(Z.shape[1])], np.zeros((len(y), count_classes(y)))
    for t, (row, label) in enumerate(zip(Z.tolist(), y.tolist(), strict=True)):
        x = dict(zip(names, row, strict=True))
        for k, p in model.predict_proba_one(x).items():
            out[t, k] = p
        if not math.isnan(label):
            model.learn_one(x, int(label))
    return _as_probabilities(out)


def _play_sgd(seed: int, Z: Matrix, y: Vector) -> Matrix:
    """Play row by row, on rows scaled by the means and deviations so far; it is told the classes beforehand."""
    from sklearn.linear_model import SGDClassifier
    from sklearn.preprocessing import StandardScaler

    K = count_classes(y)
    model, scaler, out = SGDClassifier(loss="log_loss", random_state=seed), StandardScaler(), np.zeros((len(y), K))
    for t, label in enumerate(y.tolist()):
        x = Z[t : t + 1]
        if t and hasattr(model, "coef_"):
            out[t] = model.predict_proba(scaler.transform(x))[0]
        scaler.partial_fit(x)
        if not math.isnan(label):
            model.partial_fit(scaler.transform(x), [int(label)], classes=np.arange(K))
    return _as_probabilities(out)


def _play_retrained(make: MakeModel, every: int, Z: Matrix, y: Vector) -> Matrix:
    """Predict every row by a model fitted to all labelled rows before it, again after each `every` rows.

    Its features are the row and, one column for each class, the last label.
    """
    K, known = count_classes(y), ~np.isnan(y)
    X = np.column_stack([Z, _last_label(y, K)])
    out, model, used = np.zeros((len(y), K)), None, np.zeros(X.shape[1], bool)
    for begin, end in cut_fits(known, every):
        past = np.flatnonzero(known[:begin])
        if len(past) >= FIRST_FIT and len(np.unique(y[past])) > 1 and varies(X[past]).any():
            used = varies(X[past])
            model = make().fit(X[past][:, used], y[past].astype(np.int64))
        if model is not None:
            out[begin:end, model.classes_] = model.predict_proba(X[begin:end][:, used])
    return _as_probabilities(out)


def _last_label(y: Vector, classes: int) -> Matrix:
    """Return for each row the last label that was known before it, as one column for each class."""
    out, last = np.zeros((len(y), classes)), math.nan
    for t, label in enumerate(y.tolist()):
        if not math.isnan(last):
            out[t, int(last)] = 1.0
        last = last if math.isnan(label) else label
    return out


def _as_probabilities(given: Matrix) -> Matrix:
    """Return what others gave as probabilities, none of them 0; all classes alike where nothing was given."""
    p = np.nan_to_num(given, nan=0.0, posinf=1.0, neginf=0.0)
    p[p.sum(axis=1) <= 0.0] = 1.0
    p = np.maximum(p / p.sum(axis=1, keepdims=True), LEAST_PROBABILITY)
    return np.asarray(p / p.sum(axis=1, keepdims=True))
