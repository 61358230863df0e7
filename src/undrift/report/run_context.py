"""What all figures of a run share: its data, timeline and certificates, its losses in blocks, the rounds of classes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Vector
from undrift.baselines import BASELINES
from undrift.losses import sigmoid
from undrift.metrics import confusion
from undrift.report.blocks import Blocks, cut_blocks
from undrift.report.certificate_text import CertificateSummary, summarize_certificates
from undrift.report.formatting import half_life_text, number, percent, shorten
from undrift.run import RunData
from undrift.run.finish.run_data import OWN
from undrift.stream.cells import Times

POINTS = 1000
"""Points of a curve through the whole run, at most."""


@dataclass(frozen=True)
class RunContext:
    """A run as its figures see it."""

    data: RunData
    """The run."""
    timeline: Timeline
    """Its horizontal axis."""
    certificates: list[CertificateSummary]
    """What is proven about it."""

    @property
    def binary(self) -> bool:
        """Whether labels are two classes."""
        return self.data.task == "classification"

    @property
    def several(self) -> bool:
        """Whether labels are several classes."""
        return self.data.task == "multiclass"

    @property
    def numbers(self) -> bool:
        """Whether labels are numbers."""
        return self.data.task == "regression"

    @property
    def loss_name(self) -> str:
        """The loss that is added up, in the units of certificates."""
        return "squared error / 2" if self.numbers else "log-loss"

    def memory_text(self, half_life: float) -> str:
        """Return a half-life of the run in words: in rows and as time, or as time alone if it forgets by that."""
        return half_life_text(half_life, self.timeline.spacing, self.data.memory_unit)

    @cached_property
    def class_rounds(self) -> ClassRounds | None:
        """Labels and probabilities of two or several classes; None for numbers."""
        return read_class_rounds(self.data)

    @cached_property
    def shown_baselines(self) -> list[str]:
        """The baselines that figures draw: those of the task, and the best of those that repeat an earlier row."""
        usual = len(BASELINES[self.data.task])
        names = list(self.data.baselines)
        best = sorted(names[usual:], key=lambda name: float(np.sum(self.data.losses(name))))[:1]
        return names[:usual] + best

    @cached_property
    def block_hits(self) -> dict[str, Vector]:
        """Like `block_losses`, of the rounds in which the most likely class came."""
        data, some, out = self.data, self.data.predicted, {}
        for name in (OWN, *self.shown_baselines):
            yhat = data.yhat if name == OWN else data.baselines[name]
            hits = np.zeros(data.rounds)
            hits[some] = (yhat[some] > 0.0) == (data.y[some] > 0.0) if self.binary else yhat[some] == data.y[some]
            out[name] = self.blocks.sum(hits)
        return out

    @cached_property
    def blocks(self) -> Blocks:
        """The blocks of rounds that curves of losses are made of."""
        return cut_blocks(self.data.rounds, POINTS)

    @cached_property
    def block_predicted(self) -> Vector:
        """How many rounds of each block were predicted; nothing is before the first label is known."""
        return self.blocks.sum(self.data.predicted.astype(np.float64))

    @cached_property
    def block_losses(self) -> dict[str, Vector]:
        """Sums of losses by block, of the run and the baselines shown; rounds before any label count for nobody."""
        data = self.data
        some, out = data.predicted, {}
        for name in (OWN, *self.shown_baselines):
            losses = np.zeros(data.rounds)
            losses[some] = data.losses(name)
            out[name] = self.blocks.sum(losses)
        return out


def make_context(data: RunData) -> RunContext:
    """Return what the figures of a run share."""
    return RunContext(data, make_timeline(data), summarize_certificates(data))


Axis = dict[str, list[int] | list[str] | None]
"""The same points by round and by time."""


@dataclass(frozen=True)
class Timeline:
    """The rounds of a run and, where every one has a time and none goes back, their times."""

    time: Times | None
    """Times of all rounds, or None."""
    spacing: float | None = None
    """Typical distance between two rounds in seconds."""
    warning: str | None = None
    """Why times are not used although the source has some."""

    def axis(self, rounds: NDArray[np.int64]) -> Axis:
        """Return the points after these rounds, counted from 1."""
        return {"round": rounds.tolist(), "time": None if self.time is None else iso_times(self.time[rounds - 1])}

    def round_text(self, rounds: int) -> str:
        """Return a round by its row number and its date."""
        text = f"row {rounds:,}"
        return text if self.time is None else f"{text} ({iso_times(self.time[rounds - 1 : rounds])[0][:10]})"


def make_timeline(data: RunData) -> Timeline:
    """Return the timeline of a run."""
    time = data.time
    if time is None or not len(time):
        return Timeline(None)
    missing = int(np.count_nonzero(np.isnat(time)))
    if missing:
        return Timeline(None, warning=f"{missing:,} rows have no time, so the figures count rows instead")
    steps = np.diff(time).astype(np.int64)
    if (steps < 0).any():
        line = data.line[int(np.argmax(steps < 0)) + 1]
        return Timeline(None, warning=f"time goes back at line {line:,}, so the figures count rows instead")
    return Timeline(time, _mean_spacing(steps))


def _mean_spacing(steps: NDArray[np.int64]) -> float | None:
    """Return the mean of steps (microseconds) in seconds, where a gap counts as at most 100 median steps."""
    forward = steps[steps > 0]
    if not len(forward):
        return None
    return float(np.mean(np.minimum(steps, 100.0 * np.median(forward)))) / 1e6


def iso_times(time: Times) -> list[str]:
    """Return times in ISO form, with fractions of seconds only where one has some."""
    whole = time == time.astype("datetime64[s]")
    return [str(t) for t in np.datetime_as_string(time, unit="s" if whole.all() else "us")]


COMMON = 20
"""Rows of a class that is worth a word, and a curve."""
CLASS_COLUMNS = ("Class", "rows", "share", "predicted", "recall", "precision", "F1")
"""Titles of the table of scores by class."""


@dataclass(frozen=True)
class ClassRounds:
    """Rounds in which something was predicted (n)."""

    names: list[str]
    """Labels of the classes by number (K)."""
    y: Vector
    """Class numbers that came (n,)."""
    yhat: Vector
    """Class numbers that were most likely (n,)."""
    p: Matrix
    """Probabilities (n, K), 0 where a class was not known yet."""
    shown: NDArray[np.bool_]
    """Which of the run's rounds these are (T,)."""

    @cached_property
    def counts(self) -> Matrix:
        """How often each class was predicted (columns) for each that came (rows)."""
        return confusion(self.yhat, self.y, len(self.names))

    @cached_property
    def frequent_first(self) -> list[int]:
        """Classes by how often they came."""
        return [int(k) for k in np.argsort(-self.counts.sum(axis=1), kind="stable")]

    @cached_property
    def recall(self) -> Vector:
        """Part of each class's rows that were predicted as such, NaN for one that never came."""
        return _share(np.diag(self.counts), self.counts.sum(axis=1))

    @cached_property
    def precision(self) -> Vector:
        """Part of the rows predicted as each class in which it came, NaN for one that was never predicted."""
        return _share(np.diag(self.counts), self.counts.sum(axis=0))

    def table(self) -> list[list[str]]:
        """Return the scores by class as text, the most frequent one first."""
        n, came, said = max(len(self.y), 1), self.counts.sum(axis=1), self.counts.sum(axis=0)
        f1 = _share(2.0 * np.diag(self.counts), came + said)
        return [
            [
                shorten(self.names[k]),
                number(float(came[k]), 6),
                percent(float(came[k] / n)),
                percent(float(said[k] / n)),
                percent(float(self.recall[k])),
                percent(float(self.precision[k])),
                percent(float(f1[k])),
            ]
            for k in self.frequent_first
        ]


def _share(part: Vector, whole: Vector) -> Vector:
    return np.where(whole > 0.0, part / np.maximum(whole, 1.0), np.nan)


def read_class_rounds(data: RunData) -> ClassRounds | None:
    """Return the rounds of a run of classes; None for numbers."""
    some = data.predicted
    if data.task == "regression":
        return None
    if data.probabilities is not None:
        p, yhat = np.nan_to_num(data.probabilities[some]), data.yhat[some]
    else:
        odds = data.yhat[some]
        p, yhat = np.column_stack([sigmoid(-odds), sigmoid(odds)]), (odds > 0.0).astype(np.float64)
    return ClassRounds(list(data.classes or ("0", "1")), (data.y[some]).astype(np.float64), yhat, p, some)
