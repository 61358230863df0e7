"""RunRecorder: what a run keeps beside its stream: predictions, scores, naive guesses, snapshots, events.

A run over a file and one over a pipe write the same table through it. `Snapshots` are of what the model believed,
`ThenAndNow` holds the first and the last rows, and `RunWatch` finds what changed on the way, row by row.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from undrift._internal.rows import Table
from undrift._typing import Matrix, Vector
from undrift.baselines import Baselines, ClassBaselines, baseline_names
from undrift.events import Event, Watch
from undrift.losses import sigmoid
from undrift.metrics import most_likely
from undrift.online.estimator import OnlineEstimator
from undrift.run.play.scores import ScoreTable
from undrift.stream import Answers, Stream
from undrift.stream.answers import join_answers, probability_column, quantile_column
from undrift.stream.features import Features, Rows, join_rows

LOG_ODDS = "log_odds"
"""Name of the column with the log-odds of the second of two classes, to the last bit: certificates need them."""


class RunRecorder:
    """The record of a stream's rows, in the order in which they are closed.

    Parameters
    ----------
    stream
        The stream, whose columns are known.
    lags
        Rows ago whose label is a naive guess.
    watched
        Whether to look for changes.
    """

    def __init__(self, stream: Stream, lags: Sequence[int], *, watched: bool) -> None:
        assert stream.features is not None
        self.stream, self.lags = stream, list(lags)
        self.several = stream.task == "multiclass"
        self.baseline_names = baseline_names(stream.task, self.lags)
        delay = stream.settings.delay
        self.baselines: Baselines | ClassBaselines = ClassBaselines(delay=delay, lags=self.lags)
        if not self.several:
            binary = stream.task == "classification"
            self.baselines = Baselines(binary=binary, delay=delay, lags=self.lags)
        self._scores = ScoreTable(stream.task, ["model", *self.baseline_names])
        self.snapshots = Snapshots(len(stream.features.learned_names), lines=not self.several)
        self.then_and_now = ThenAndNow()
        self._kept: list[str] = []  # the columns of the features when rows were kept last
        self.watch = RunWatch(stream, len(stream.features.names)) if watched else None
        self._pending: list[dict[str, Any]] = []
        self._closed: list[tuple[Rows, Answers, list[Any]]] = []  # with the naive guesses; not yet scored
        self.waiting: Matrix = np.empty((0, 0))
        """Of a pipe: rows that wait for their label, in the layout of `LiveRun`."""

    @property
    def features(self) -> Features:
        """The stream's features."""
        assert self.stream.features is not None
        return self.stream.features

    @property
    def scores(self) -> ScoreTable:
        """Scores of the model and of the naive guesses."""
        self._score_closed()
        return self._scores

    @property
    def pending(self) -> list[dict[str, Any]]:
        """Tables of the rows that were recorded; whoever wrote them empties the list."""
        self._score_closed()
        return self._pending

    def play(self, rows: Rows) -> list[Event]:
        """Predict and learn rows that have come, and record them; return what changed."""
        if self.watch is None:
            answers = self.play_block(rows)
        else:
            answers, before = self.watch.play(self, rows), len(self.watch.events)
        self.keep_rows(rows.Z)
        self.add(rows, answers)
        return [] if self.watch is None else self.watch.events[before:]

    def play_block(self, rows: Rows) -> Answers:
        """Predict and learn rows, and take the snapshots that are due on the way."""
        blocks, a = [], 0
        while a < len(rows.y):
            rounds = self.stream.rounds
            due = self.snapshots.next_round(rounds)
            b = min(len(rows.y), a + due - rounds)  # a row settles one label at most
            blocks.append(self.stream.close_rows(rows.between(a, b)))
            self.take_due()
            a = b
        return join_answers(blocks)

    @classmethod
    def empty(cls, stream: Stream) -> RunRecorder:
        """Return the record of a stream of which nothing is known yet, to be replaced by one that was saved."""
        blank = object.__new__(cls)
        blank.stream = stream
        return blank

    def take_due(self) -> None:
        """Take a snapshot if one is due after the labels learned so far."""
        rounds, taken = self.stream.rounds, self.snapshots.rows
        if rounds and rounds % self.snapshots.stride == 0 and not (taken and taken[-1].round == rounds):
            self.snapshots.take(self.stream.model)

    def guess(self, count: int = 1) -> list[Any]:
        """Return the naive guesses of the next rows (count, ...); nothing changes."""
        twin = copy.copy(self.baselines)
        twin.state = twin.state.copy()  # the one array that is changed in place
        return self._play_baselines(twin, np.full(count, np.nan))

    def _play_baselines(self, baselines: Baselines | ClassBaselines, y: Vector) -> list[Any]:
        """Return the naive guesses of rows, and take in their labels."""
        if isinstance(baselines, ClassBaselines):
            return baselines.play(y, len(self.features.labels.classes or ()))
        return [*baselines.play(y).T]

    def add_none(self) -> None:
        """Record no row, so that there is a table with the columns of all."""
        rows, answers = self.stream.no_rows()
        self._record(rows, answers, self._play_baselines(self.baselines, rows.y))

    def add(self, rows: Rows, answers: Answers, guesses: Sequence[Any] | None = None) -> None:
        """Record rows that were closed, and what was predicted; the naive guesses by default as of now."""
        if not len(rows.y):
            return
        naive = self._play_baselines(self.baselines, rows.y)
        self._closed.append((rows, answers, naive if guesses is None else list(guesses)))
        if sum(len(part.y) for part, _, _ in self._closed) >= SCORED_AT_ONCE:
            self._score_closed()

    def _score_closed(self) -> None:
        """Score rows that were closed: few at a time would take as long as learning them."""
        closed, self._closed = self._closed, []
        if not closed:
            return
        rows, answers, guesses = zip(*closed, strict=True)
        K = len(self.features.labels.classes or ()) if self.several else 0
        naive = [
            np.concatenate([_widen(part, K) if K else part for part in parts]) for parts in zip(*guesses, strict=True)
        ]
        self._record(join_rows(rows), join_answers(answers), naive)

    def _record(self, rows: Rows, answers: Answers, naive: Sequence[Any]) -> None:
        judged = np.where(answers.known, rows.y, np.nan)  # not before the first label was known
        if self.several:
            K = len(self.features.labels.classes or ())
            p = [_widen(one, K) for one in (answers.probabilities, *naive)]
            self._scores.add_classes(judged, p)
            self._pending.append(self._class_columns(rows, answers.yhat, [most_likely(one) for one in p[1:]], p[0]))
            return
        every = np.column_stack([answers.yhat, *naive])
        self._scores.add(judged, every)
        yhat, *guessed = np.where(answers.known, every.T, np.nan)  # nothing is predicted before the first label
        if answers.classes is None:
            self._pending.append(self._number_columns(rows, answers, yhat, guessed))
            return
        likelier = [np.where(np.isnan(odds), np.nan, odds > 0.0) for odds in (yhat, *guessed)]
        columns = self._class_columns(rows, likelier[0], likelier[1:], answers.probabilities)
        self._pending.append(columns | {LOG_ODDS: yhat})

    def _number_columns(self, rows: Rows, answers: Answers, yhat: Vector, naive: Sequence[Vector]) -> dict[str, Any]:
        out = self._places(rows) | {"y": rows.y, "yhat": yhat, "lower": answers.lower, "upper": answers.upper}
        if answers.quantiles is not None:
            out |= {quantile_column(q): answers.quantiles[:, k] for k, q in enumerate(answers.levels)}
        return out | dict(zip(self.baseline_names, naive, strict=True))

    def _class_columns(self, rows: Rows, yhat: Vector, naive: Sequence[Vector], p: Matrix) -> dict[str, Any]:
        """Return the columns of classes by name: those of each class last, as more of them may follow."""
        decode, classes = self.features.labels.decode, self.features.labels.classes or []
        out = self._places(rows) | {"y": _texts(decode(rows.y)), "yhat": _texts(decode(yhat))}
        out |= {name: _texts(decode(guess)) for name, guess in zip(self.baseline_names, naive, strict=True)}
        return out | {probability_column(label): p[:, k] for k, label in enumerate(classes)}

    def _places(self, rows: Rows) -> dict[str, Any]:
        return {"line": rows.line} | ({} if rows.time is None else {"time": rows.time})

    def keep_rows(self, Z: Matrix) -> None:
        """Keep rows that have come, whether their labels are known or not, while they are among the first or the last.

        In earlier rows, features that came later are missing.
        """
        names, given = self.features.names, self.stream.settings.candidate
        learned = [name for name in names if name not in given]
        if self._kept != names:  # columns that came later may stand before others
            before = [name for name in self._kept if name not in given]
            then, now = self.then_and_now.then, self.then_and_now.now
            self.then_and_now.then = _move_columns(then, before, learned)
            self.then_and_now.now = _move_columns(now, before, learned)
            self._kept = names
        self.then_and_now.add(Z[:, np.array([name not in given for name in names], dtype=bool)])

    def effects(self) -> dict[str, float]:
        """Return how far each group of features moves the predictions of the last rows, by its name."""
        model = self.stream.model
        if not len(self.features.recent) or model.names is None:
            return {}
        learned = {name: group for name, group in self.features.groups.items() if set(group) <= {*model.names}}
        found = model.effects(Table(self.features.names, self.features.recent), [*learned.values()])
        return dict(zip(learned, found.tolist(), strict=True))

    def latest_scores(self) -> dict[str, dict[str, float | None]]:
        """Return the scores of the model and of the naive guesses that some row could have."""
        known = baseline_names(self.stream.task, [lag for lag in self.lags if lag < self.features.rows])
        return {name: score for name, score in self.scores.as_dict().items() if name in ("model", *known)}

    def state(self) -> tuple[dict[str, Any], dict[str, Vector]]:
        """Return what the next row depends on besides the stream: values for JSON, and arrays."""
        values = {"scores": self.scores.state(), "snapshots": self.snapshots.names} | (
            {} if self.watch is None else {"watch": self.watch.state()}
        )
        arrays = {f"baselines.{name}": getattr(self.baselines, name) for name in ("state", "waiting", "past")}
        arrays |= {**self.snapshots.arrays(), **self.then_and_now.arrays()}
        return values, arrays | ({"live.waiting": self.waiting} if len(self.waiting) else {})

    def resume(
        self, values: Mapping[str, Any], arrays: Mapping[str, Vector], events: Sequence[Mapping[str, Any]]
    ) -> None:
        """Go on where `state` left off."""
        for name in ("state", "waiting", "past"):
            setattr(self.baselines, name, arrays[f"baselines.{name}"])
        self.scores.resume(values["scores"])
        self.snapshots.resume(values["snapshots"], arrays)
        self.then_and_now.resume(arrays)
        self._kept = self.features.names
        if self.watch is not None:
            self.watch.resume(values["watch"], events)


def _move_columns(rows: Matrix, before: Sequence[str], names: Sequence[str]) -> Matrix:
    """Return rows with the columns `names` in place of those of before; what was not there is NaN."""
    out = np.full((len(rows), len(names)), np.nan)
    out[:, [names.index(name) for name in before]] = rows
    return out


def _texts(labels: Sequence[str | None]) -> Any:
    return np.array(labels, dtype=object)


def _widen(rows: Matrix, width: int) -> Matrix:
    """Return rows with so many columns, NaN in those that came later."""
    if rows.shape[1] == width:
        return rows
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=np.nan)


MOST_ROWS, MOST_CELLS = 1000, 100_000
"""Rows kept at either end: so many, and fewer where rows are wide."""
SCORED_AT_ONCE = 256
"""Rows that are scored together where they are closed a few at a time."""
MOST_PARTS = 100
"""Batches of rows that wait to be joined to the last ones."""


class ThenAndNow:
    """The first and the last rows; what they hold depends on the rows alone, however they are cut into batches."""

    def __init__(self) -> None:
        self.then: Matrix = np.empty((0, 0))
        self._now: Matrix = np.empty((0, 0))
        self._new: list[Matrix] = []  # rows after those of `_now`: few rows come often, and `_now` is large

    @property
    def now(self) -> Matrix:
        """The last rows."""
        self._join()
        return self._now

    @now.setter
    def now(self, rows: Matrix) -> None:
        self._now, self._new = rows, []

    def add(self, Z: Matrix) -> None:
        """Take in rows; a feature that came later is missing before."""
        most = _most(Z.shape[1])
        if len(self.then) < most:
            then = _widen(self.then, Z.shape[1])
            self.then = np.concatenate([then, Z[: most - len(then)]])
        elif self.then.shape[1] < Z.shape[1]:
            self.then = _widen(self.then, Z.shape[1])[:most]
        self._new.append(Z[-most:].copy())
        if len(self._new) > MOST_PARTS:
            self._join()

    def _join(self) -> None:
        if self._new:
            width = self._new[-1].shape[1]
            self._now = np.concatenate([_widen(part, width) for part in (self._now, *self._new)])[-_most(width) :]
            self._new = []

    def arrays(self) -> dict[str, Vector]:
        """Return what the next row depends on."""
        return {"then": self.then, "now": self.now}

    def resume(self, arrays: Mapping[str, Vector]) -> None:
        """Go on where `arrays` left off."""
        self.then, self.now = arrays["then"], arrays["now"]


def _most(width: int) -> int:
    return max(1, min(MOST_ROWS, MOST_CELLS // max(1, width)))


MOST = 500
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
        self.names: dict[str, list[str]] = {"weights": [], "combination": []}
        """Names of the candidates and of the families, of which wider rows may have others."""

    def next_round(self, rounds: int) -> int:
        """Return the next round after which one is due."""
        return (rounds // self.stride + 1) * self.stride

    def take(self, model: OnlineEstimator) -> None:
        """Read the model."""
        view = model.inspect
        spectrum, coef, combination = view.spectrum(), np.zeros(0), dict[str, float]()
        if self._lines:
            line, combination = view.line(), view.combination()
            coef = np.append(line.coef, line.intercept)
        self.half_lives = spectrum.half_lives
        self._rename(weights=view.candidates, combination=[*combination])
        shares = np.array([*combination.values()])
        row = Snapshot(float(model.rounds), spectrum.weights, view.weights, shares, coef)
        if self.rows and self.rows[-1].round == row.round:
            return
        self.rows.append(row)
        if len(self.rows) > self.most:
            self.stride *= 2
            self.rows = [one for one in self.rows if one.round % self.stride == 0.0]

    def _rename(self, **names: list[str]) -> None:
        """Let earlier snapshots have the columns that the model has now; what was not there weighed nothing."""
        for field, now in names.items():
            before = self.names[field]
            if now == before:
                continue
            at = [before.index(name) if name in before else -1 for name in now]
            moved: list[dict[str, Any]] = [{field: np.append(getattr(row, field), 0.0)[at]} for row in self.rows]
            self.rows = [row._replace(**change) for row, change in zip(self.rows, moved, strict=True)]
            self.names[field] = now

    def arrays(self) -> dict[str, Vector]:
        """Return everything as arrays; coefficients of features that were not there yet are NaN."""
        out = {"half_lives": self.half_lives, "stride": np.array([float(self.stride)])}
        if not self.rows:
            return {**out, "round": np.zeros(0), **{name: np.zeros((0, 0)) for name in Snapshot._fields[1:]}}
        rounds, spectrum, weights, combination, coef = zip(*self.rows, strict=True)
        wide = np.full((len(rounds), max(len(line) for line in coef)), np.nan)
        for k, line in enumerate(coef if self._lines else ()):
            wide[k, : len(line) - 1], wide[k, -1] = line[:-1], line[-1]
        out |= {"round": np.array(rounds), "spectrum": np.array(spectrum), "weights": np.array(weights)}
        return {**out, "combination": np.array(combination), "coef": wide}

    def resume(self, names: Mapping[str, Sequence[str]], arrays: Mapping[str, Vector]) -> None:
        """Go on where `arrays` left off; `names` are those of the candidates and families then."""
        self.names = {field: list(names[field]) for field in self.names}
        self.stride, self.half_lives = int(arrays["stride"][0]), arrays["half_lives"]
        columns = (arrays[name] for name in Snapshot._fields)
        self.rows = [Snapshot(float(each[0]), *each[1:]) for each in zip(*columns, strict=True)]
        if self.rows and self.rows[-1].round % self.stride:  # of the end of a run that goes on now
            self.rows.pop()


ROWS_PER_LOOK = 10
"""Rows between two looks at the model's memory."""


class RunWatch:
    """Plays the rows of a run in small blocks, which changes no bit, and looks at each."""

    def __init__(self, stream: Stream, known_features: int) -> None:
        task = stream.task
        self._binary, self._known = task == "classification", known_features
        what = "the predicted class" if task == "multiclass" else "the positive label"
        self.watch = Watch(level=stream.settings.level, binary=task != "regression", what=what)
        self.events: list[Event] = []
        self._names: list[str] = []  # of the number columns that are watched

    def play(self, recorder: RunRecorder, rows: Rows) -> Answers:
        """Predict and learn rows; keep what changed in `events`."""
        self.add_categories(recorder.features, rows)
        blocks = []
        for a in range(0, len(rows.y), ROWS_PER_LOOK):
            part = rows.between(a, min(a + ROWS_PER_LOOK, len(rows.y)))
            answers = recorder.play_block(part)
            self.look(recorder.features, part, answers)
            self.add_memory(int(part.line[-1]), recorder.stream.model.spectrum())
            blocks.append(answers)
        return join_answers(blocks)

    def look(self, features: Features, rows: Rows, answers: Answers) -> None:
        """Look at rows and their rounds; of a row, what its features show comes first."""
        before, places = len(self.events), {line: t for t, line in enumerate(rows.line.tolist())}
        self.add_rows(features, rows)
        self.add_rounds(rows, answers)
        self.events[before:] = sorted(self.events[before:], key=lambda event: places[event.row])

    def add_rows(self, features: Features, rows: Rows, *, quiet: bool = True) -> list[Event]:
        """Look at rows that have come, and unless `quiet` at texts that are new; return what changed."""
        before = len(self.events)
        self._names = self._names or list(features.schema.numbers)  # the calendar, lags and texts are looked at apart
        if self._names:
            at = [features.schema.numbers.index(name) for name in self._names]
            self.events += self.watch.add_rows(rows.line.tolist(), self._names, rows.Z[:, at])
        if quiet:
            self._known = max(self._known, len(features.names))
        else:
            self.add_categories(features, rows)
        return self.events[before:]

    def add_rounds(self, rows: Rows, answers: Answers) -> list[Event]:
        """Look at rows whose labels came; return what changed."""
        before = len(self.events)
        for t, (line, label) in enumerate(zip(rows.line.tolist(), rows.y.tolist(), strict=True)):
            if not answers.known[t] or label != label:
                continue
            ends: tuple[float | None, float | None] = (None, None)
            shown = float(answers.yhat[t])
            if answers.several is not None:  # whether the most likely class came, and its probability
                shown, label = float(np.nanmax(answers.several[t])), float(label == shown)
            elif self._binary:
                shown = float(sigmoid(np.array(shown)))
            elif answers.lower is not None and answers.upper is not None:
                ends = float(answers.lower[t]), float(answers.upper[t])
            self.events += self.watch.add_round(line, label, shown, *ends)
        return self.events[before:]

    def add_memory(self, line: int, spectrum: Any) -> list[Event]:
        """Look at the model's memory; return what changed."""
        events = self.watch.add_memory(line, spectrum)
        self.events += events
        return events

    def add_categories(self, features: Features, rows: Rows) -> None:
        """Look at texts that became features in these rows."""
        means, fixed = features.text_features.means, len(features.names) - len(features.text_features.names)
        for j in range(self._known, len(features.names)):
            if j >= fixed and j - fixed in means:
                continue  # it stands for many texts
            column, _, text = features.names[j].partition("=")
            first = int(np.argmax(rows.Z[:, j] == 1.0))
            self.events += self.watch.add_category(int(rows.line[first]), column, text)
        self._known = len(features.names)

    def state(self) -> dict[str, Any]:
        """Return what later rows depend on, as JSON values."""
        return {"watch": self.watch.state(), "known": self._known, "names": self._names}

    def resume(self, state: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> None:
        """Go on where `state` left off."""
        self.watch.resume(state["watch"])
        self._known, self._names = state["known"], list(state["names"])
        self.events = [Event.from_dict(one) for one in events]
