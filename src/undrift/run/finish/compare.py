"""Our default beside other learners and the naive baselines, on one file, each row predicted before it is learned."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from undrift._internal.stopping import Interrupted, StopRequest
from undrift._typing import Matrix, Vector
from undrift.baselines import Baselines, ClassBaselines, baseline_names
from undrift.errors import InputError
from undrift.losses import log_odds
from undrift.online.design import fill_holes
from undrift.run.finish.peers import (
    Contender,
    absent_libraries,
    choose_contenders,
    count_classes,
    installed_peers,
    our_contenders,
    use_one_thread,
)
from undrift.run.play.scores import score_predictions
from undrift.run.read.rows_in_order import add_default_lags, load_rows
from undrift.run.read.source import Source
from undrift.stream.schema import naive_lags
from undrift.stream.settings import Settings

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
    """Scores by name over `rows`; the first is what the table is sorted by."""
    microseconds: float
    """A row."""
    rows: int
    """Rows it is scored on: all with a label but the first, of a given column those in which it has a prediction."""
    same_rows: dict[str, float]
    """The first score over the rows of each given column that is empty in some, by the column's name."""


class FileComparison:
    """Learners beside each other on the rows of a file, one after the other, those that cost least first.

    All see the same rows: holes filled with the last value seen, scaled by their own means where they have any. Columns
    with predictions made elsewhere are candidates for ours, features for peers, and scored by themselves in the rows in
    which they have one, beside everyone's score over those rows. A file with nothing but a time and a target is
    compared on its own past, as `play_file` learns it.

    Parameters
    ----------
    path
        The file, which is read at once.
    settings
        What to predict, from what.
    peers
        Whether learners of other libraries take part.
    only, without
        Words that name learners or libraries: these alone, and all but these. Naive guesses always take part.
    """

    def __init__(
        self,
        path: str,
        settings: Settings,
        *,
        peers: bool = True,
        only: Sequence[str] = (),
        without: Sequence[str] = (),
    ) -> None:
        if settings.weight is not None or settings.elapsed:
            raise InputError(
                "compare: weight and elapsed are not for comparisons, in which every learner counts rows alike"
            )
        rows = settings.limit or ROWS
        with_lags = add_default_lags(path, settings)
        table, self._y, schema = load_rows(Source(path, with_lags.replace(limit=rows)), rows)
        self.task = schema.task
        self._lags = [lag for lag in naive_lags(with_lags, schema.seasons) if lag < len(self._y)]
        self._Z = table.values
        self._filled = np.nan_to_num(fill_holes(self._Z))
        known = ~np.isnan(self._y)
        self._scored = known & (np.cumsum(known) > 1)  # nobody is scored before a label was known
        given = {name: _score_units(self.task, self._Z[:, table.columns.index(name)]) for name in settings.candidate}
        self._spoken = {name: self._scored & ~np.isnan(said) for name, said in given.items()}
        absent = absent_libraries() if peers else []
        for word in only:
            if word.lower() in absent:
                raise InputError(f"--only '{word}': {word} is not installed here; pip install {word} brings it in")
        self.absent = [] if only else absent
        """Libraries whose learners would take part if they were installed."""
        at = [table.columns.index(name) for name in given]
        self._contenders = choose_contenders(self._find_contenders(settings, at, peers), only, without)
        self.notes = [] if not given or self.task == "multiclass" else ["ours weigh the given predictions too"]
        """What else to know about the table."""
        self._results = self._naive_results(given)

    @property
    def rows(self) -> int:
        """Rows that are compared on."""
        return len(self._y)

    @property
    def results(self) -> list[LearnerResult]:
        """Results of the learners that are done, best first; a column empty in some rows stands by those it has."""
        first = next(iter(self._results[0].scores))
        partial = [result for result in self._results if result.name in result.same_rows and result.kind == "given"]
        found = sorted((one for one in self._results if one not in partial), key=lambda one: one.scores[first])
        for column in sorted(partial, key=lambda one: one.scores[first]):
            worse = (k for k, one in enumerate(found) if one.same_rows[column.name] > column.scores[first])
            found.insert(next(worse, len(found)), column)
        return found

    @property
    def missing(self) -> list[str]:
        """Names of the learners that have not played."""
        return [one.name for one in self._contenders]

    @property
    def seconds_left(self) -> float:
        """About how long the learners take that have not played, by what they took on another machine."""
        return sum(one.microseconds for one in self._contenders) * self.rows / 1e6

    def play(
        self,
        *,
        log: Callable[[str], None] | None = None,
        show: Callable[[str, float], None] | None = None,
        stop: StopRequest | None = None,
    ) -> None:
        """Let one learner after the other play; a request to stop is granted at any moment and raises Interrupted.

        `log` is told how each one did, and `show` who plays and which share of the whole is over.
        """
        request, whole = stop or StopRequest(), self.seconds_left
        while self._contenders:
            one = self._contenders[0]
            if show is not None:
                show(one.name, 1.0 - self.seconds_left / whole)
            begin = time.perf_counter()
            with request.interruptible(), use_one_thread():
                yhat = one.play(self._Z if one.library == "undrift" else self._filled, self._y)
            if request():  # a learner may have caught the exception
                raise Interrupted
            seconds = time.perf_counter() - begin
            result = self._score(one.name, one.library, yhat, seconds)
            self._results.append(result)
            del self._contenders[0]
            if log is not None:
                measure, value = next(iter(result.scores.items()))
                log(f"{one.name}: {measure} {value:.4g}, {seconds:.1f} s")

    def _score(self, name: str, kind: str, yhat: Vector | Matrix, seconds: float) -> LearnerResult:
        rows = self._spoken[name] if kind == "given" else self._scored
        scores = score_predictions(self.task, yhat[rows], self._y[rows])
        first, same_rows = next(iter(scores)), {}
        for column in self._partial:
            both = rows & self._spoken[column]
            same_rows[column] = score_predictions(self.task, yhat[both], self._y[both])[first]
        return LearnerResult(name, kind, scores, seconds / len(self._y) * 1e6, int(np.sum(rows)), same_rows)

    def _naive_results(self, given: dict[str, Vector]) -> list[LearnerResult]:
        """Return how the naive guesses did, and columns of predictions made elsewhere where they have one."""
        y, begin = self._y, time.perf_counter()
        if self.task == "multiclass":
            naive: Sequence[Vector | Matrix] = ClassBaselines(lags=self._lags).play(y, count_classes(y))
        else:
            naive = list(Baselines(binary=self.task == "classification", lags=self._lags).play(y).T)
        seconds = time.perf_counter() - begin
        names = baseline_names(self.task, self._lags)
        found = [self._score(name, "naive", yhat, seconds) for name, yhat in zip(names, naive, strict=True)]
        for name, said in given.items():
            if self._spoken[name].any():
                found.append(self._score(name, "given", said, 0.0))
            else:
                self.notes.append(f"'{name}' is left out: it is empty in every row that is scored")
        return found

    @property
    def _partial(self) -> list[str]:
        """The given columns that are empty in some of the rows that are scored, but not in all."""
        whole = np.sum(self._scored)
        return [name for name, spoken in self._spoken.items() if 0 < np.sum(spoken) < whole]

    def _find_contenders(self, settings: Settings, given: list[int], peers: bool) -> Iterator[Contender]:
        yield from our_contenders(self.task, settings.seed, given)
        if peers:
            yield from installed_peers(self.task, settings.seed)


def compare_file(path: str, settings: Settings, *, peers: bool = True) -> tuple[str, int, list[LearnerResult]]:
    """Return the task, the rows, and every learner's result, best first; `FileComparison` says how they play."""
    comparison = FileComparison(path, settings, peers=peers)
    comparison.play()
    return comparison.task, comparison.rows, comparison.results


def _score_units(task: str, predictions: Vector) -> Vector:
    """Return predictions made elsewhere as scores are counted: log-odds in place of probabilities."""
    return predictions if task == "regression" else log_odds(predictions)
