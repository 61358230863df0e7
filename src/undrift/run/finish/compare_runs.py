"""Two or more runs on the same rows: their scores, and how far their losses really differ."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from undrift import metrics
from undrift._typing import Vector
from undrift.errors import DataError, InputError
from undrift.run.finish.run_data import OWN, RunData, read_run
from undrift.stream.cells import Times

FEWEST = 30
"""Rows that all runs must have predicted."""


@dataclass(frozen=True, eq=False)
class ComparedRun:
    """One of several runs, on the rows that all of them predicted."""

    name: str
    """Its folder's name, or the whole path where names are the same."""
    scores: Mapping[str, float]
    """As `undrift.metrics` names them; the leading one is first."""
    coverage: float | None
    """Part of the labels inside their 90% intervals; None without intervals."""
    seconds: float | None
    """What the whole run took."""
    losses: Vector
    """Loss of each row (T,): squared error / 2, or log-loss."""
    difference: float
    """Mean loss minus that of the first run; below 0 is better."""
    error: float
    """Its standard error, from the means of consecutive parts, since losses of neighbouring rows are alike."""

    @property
    def differs(self) -> bool:
        """Whether the difference is more than two standard errors."""
        return abs(self.difference) > 2.0 * self.error

    def facts(self) -> dict[str, Any]:
        """Return what programs are told of it: all but the losses."""
        return {name: value for name, value in vars(self).items() if name != "losses"} | {"scores": dict(self.scores)}


@dataclass(frozen=True, eq=False)
class RunsComparison:
    """Several runs beside each other."""

    task: str
    """Of all of them."""
    target: str
    """What all predicted."""
    runs: Sequence[ComparedRun]
    """In the order they were given; the first is what the others are held against."""
    line: Vector
    """Where each row stands in the source (T,)."""
    time: Times | None
    """When it was (T,)."""

    @property
    def rows(self) -> int:
        """Rows that all runs predicted, T."""
        return len(self.line)


def compare_runs(folders: Sequence[str | os.PathLike[str]]) -> RunsComparison:
    """Return two or more runs beside each other, on the rows that all of them predicted.

    Rows are the same if they stand on the same line of the source and have the same label.
    """
    if len(folders) < 2:
        raise InputError(f"compare_runs: name the folders of two runs or more, got {len(folders)}")
    paths = [Path(one) for one in folders]
    data = [read_run(path) for path in paths]
    first = data[0]
    for path, other in zip(paths[1:], data[1:], strict=True):
        for what in ("task", "target"):
            mine, theirs = getattr(first, what), getattr(other, what)
            if mine != theirs:
                raise DataError(
                    f"{path}: its {what} is {theirs}, that of {paths[0]} {mine}; compare runs that predict the same"
                )
    places = _same_rows(paths, data)
    short = [path.name for path in paths]
    names = short if len(set(short)) == len(short) else [str(path) for path in paths]
    predicted = [np.cumsum(one.predicted) - 1 for one in data]  # the place of each round among the predicted ones
    losses = [one.losses(OWN)[own[at]] for one, own, at in zip(data, predicted, places, strict=True)]
    runs = [_describe(*each, losses[0]) for each in zip(names, data, places, losses, strict=True)]
    shown = places[0]
    time = None if first.time is None else first.time[shown]
    return RunsComparison(first.task, first.target, runs, first.line[shown].astype(np.float64), time)


def _same_rows(paths: Sequence[Path], data: Sequence[RunData]) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the rounds of each run that are the same rows of the source, and were predicted by all."""
    lines = [one.line[one.predicted] for one in data]
    shared = lines[0]
    for others in lines[1:]:
        shared = shared[np.isin(shared, others)]
    if len(shared) < FEWEST:
        raise DataError(
            f"{paths[0]}: only {len(shared)} rows were predicted by all runs, {FEWEST} are needed; compare runs over "
            "the same file"
        )
    places = [np.flatnonzero(one.predicted & np.isin(one.line, shared)) for one in data]
    for path, one, at in zip(paths[1:], data[1:], places[1:], strict=True):
        wrong = np.flatnonzero(one.y[at] != data[0].y[places[0]])
        if len(wrong):
            raise DataError(
                f"{path}: line {int(one.line[at[wrong[0]]]):,} has another label than in {paths[0]}; compare runs over "
                "the same file"
            )
    return places


def _describe(
    name: str, data: RunData, at: np.ndarray[tuple[int], np.dtype[np.int64]], losses: Vector, first: Vector
) -> ComparedRun:
    if data.probabilities is not None:
        scores = metrics.class_scores(data.probabilities[at], data.y[at])
    else:
        scores = metrics.scores(data.yhat[at], data.y[at], binary=data.task == "classification")
    leading = metrics.LEADING[data.task]
    inside = None
    if data.lower is not None and data.upper is not None:
        inside = metrics.coverage(data.lower[at], data.upper[at], data.y[at])
    seconds = data.provenance.get("seconds")
    return ComparedRun(
        name,
        {leading: scores[leading], **scores},
        inside,
        float(seconds) if isinstance(seconds, (int, float)) else None,
        losses,
        float(np.mean(losses - first)),
        standard_error(losses - first),
    )


def standard_error(values: Vector) -> float:
    """Return the standard error of a mean of numbers that resemble their neighbours, from means of consecutive parts.

    There are about as many parts as each has numbers, and 10 at least.

    >>> round(standard_error(np.tile([1.0, -1.0], 5000)), 6)
    0.0
    """
    parts = max(10, math.isqrt(len(values)))
    means = np.array([np.mean(part) for part in np.array_split(values, parts)])
    return float(np.std(means, ddof=1) / math.sqrt(parts))
