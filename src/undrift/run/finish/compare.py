"""Our default beside other learners and the naive baselines, on one file, each row predicted before it is learned."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.baselines import BASELINES, Baselines, ClassBaselines
from undrift.errors import InputError
from undrift.losses import log_odds
from undrift.online import OnlineClassifier, OnlineRegressor
from undrift.online.base import OnlineLearner
from undrift.online.rows import fill_holes
from undrift.run.finish.class_peers import ClassContender, class_contenders, count_classes
from undrift.run.finish.peers import Contender, installed_peers
from undrift.run.play.scores import score_predictions
from undrift.run.prepare.default_lags import add_default_lags
from undrift.run.prepare.load_rows import load_rows
from undrift.run.read.source import Source
from undrift.run.settings import Settings

ROWS = 20_000
"""Rows compared on unless told otherwise: some peers take a millisecond a row."""


@dataclass(frozen=True)
class LearnerResult:
    """How one learner did."""

    name: str
    """Of the learner."""
    kind: str
    """"undrift", "naive", "given" (a column of predictions made elsewhere), or the library it is from."""
    scores: dict[str, float]
    """Scores by name; the first is what the table is sorted by."""
    microseconds: float
    """A row."""


def compare_file(
    path: str,
    settings: Settings,
    *,
    peers: bool = True,
    log: Callable[[str], None] | None = None,
) -> tuple[str, int, list[LearnerResult]]:
    """Return the task, the rows, and every learner's result, best first.

    All see the same rows: holes filled with the last value seen, scaled by their own means where they have any. Columns
    with predictions made elsewhere are candidates for ours, features for peers, and judged by themselves. A file with
    nothing but a time and a target is compared on its own past, as `play_file` learns it.
    """
    if settings.weight is not None or settings.elapsed:
        raise InputError(
            "compare: weight and elapsed are not for comparisons, in which every learner counts rows alike"
        )
    rows = settings.limit or ROWS
    with_lags = add_default_lags(path, settings)
    table, y, task = load_rows(Source(path, replace(with_lags, limit=rows)), rows)
    Z = table.values
    filled = np.nan_to_num(fill_holes(Z))
    known = ~np.isnan(y)
    known &= np.cumsum(known) > 1  # nobody is scored before a label was known

    def score(name: str, kind: str, yhat: Vector | Matrix, seconds: float) -> LearnerResult:
        return LearnerResult(name, kind, score_predictions(task, yhat[known], y[known]), seconds / len(y) * 1e6)

    results = []
    given = [table.columns.index(name) for name in settings.candidate]
    several = task == "multiclass"
    contenders: list[Contender | ClassContender] = list(class_contenders(settings.seed, peers=peers)) if several else [
        *_our_learners(task, settings.seed, given), *(installed_peers(task, settings.seed) if peers else ()),
    ]  # fmt: skip
    for kind, name, play in contenders:
        if log is not None:
            log(f"{name} ...")
        begin = time.perf_counter()
        yhat = play(Z if kind == "undrift" else filled, y)
        results.append(score(name, kind, yhat, time.perf_counter() - begin))
    begin = time.perf_counter()
    if several:
        naive: Sequence[Vector | Matrix] = ClassBaselines().play(y, count_classes(y))
    else:
        naive = list(Baselines(binary=task == "classification").play(y).T)
    seconds = time.perf_counter() - begin
    results += [score(name, "naive", yhat, seconds) for name, yhat in zip(BASELINES[task], naive, strict=True)]
    for name, column in zip(settings.candidate, given, strict=True):  # where it is silent, the last baseline speaks
        said = _score_units(task, Z[:, column])
        results.append(score(name, "given", np.where(np.isnan(said), naive[-1], said), 0.0))
    first = next(iter(results[0].scores))
    return task, len(y), sorted(results, key=lambda one: one.scores[first])


def _our_learners(task: str, seed: int, given: list[int]) -> Iterator[Contender]:
    cls = OnlineRegressor if task == "regression" else OnlineClassifier
    for speed in ("max", "best", "fast"):
        model = cls(speed=speed, seed=seed, candidates=given or None)
        yield Contender("undrift", f"{cls.__name__} ({speed})", partial(_play_ours, model))


def _score_units(task: str, predictions: Vector) -> Vector:
    """Return predictions made elsewhere as scores are counted: log-odds in place of probabilities."""
    return predictions if task == "regression" else log_odds(predictions)


def _play_ours(model: OnlineLearner, Z: Matrix, y: Vector) -> Vector:
    return model.play(Z, y).yhat
