"""The model of a run: it predicts each row before its label, and learns the label when it becomes known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

import undrift
from undrift._typing import Matrix, Vector
from undrift.errors import ModelFileError
from undrift.online import OnlineClassifier, OnlineRegressor, Table
from undrift.online.base import OnlineLearner
from undrift.run.play.snapshots import Snapshots
from undrift.run.settings import Settings

LEVEL = 0.9
"""Part of the labels that the intervals are made to hold."""


class BlockPredictions(NamedTuple):
    """Predictions of some rows."""

    yhat: Vector
    """Predictions (n,)."""
    lower: Vector | None
    """Intervals; None for two classes."""
    upper: Vector | None


def make_model(settings: Settings, task: str) -> OnlineLearner:
    """Return the model the settings ask for."""
    cls = OnlineRegressor if task == "regression" else OnlineClassifier
    model: OnlineLearner = cls(
        speed=settings.model,
        indicators=settings.missing == "indicate",
        seed=settings.seed,
        half_life=settings.half_life,
    )
    return model


class RunModel:
    """A model, the rows that still wait for their label, and snapshots of what it believed."""

    def __init__(self, model: OnlineLearner, delay: int, width: int) -> None:
        self.model, self.delay = model, delay
        self.snapshots = Snapshots(width)
        self.waiting = np.zeros((0, width + 1))  # features and label, oldest first

    def play(self, names: list[str], Z: Matrix, y: Vector) -> BlockPredictions:
        """Predict rows, and learn those whose label becomes known on the way."""
        if self.delay:
            return self._play_late(names, Z, y)
        blocks = []
        a = 0
        while a < len(y):
            due = self.snapshots.next_round(self.model.rounds)
            reached = np.cumsum(~np.isnan(y[a:])) >= due - self.model.rounds
            full = bool(reached.any())
            b = a + int(np.argmax(reached)) + 1 if full else len(y)
            blocks.append(self._play_block(Table(names, Z[a:b]), y[a:b]))
            if full:
                self.snapshots.take(self.model)
            a = b
        return _join_predictions(blocks)

    def _play_block(self, rows: Table, y: Vector) -> BlockPredictions:
        if isinstance(self.model, OnlineRegressor):
            trace = self.model.play(rows, y, interval=LEVEL)
            return BlockPredictions(trace.yhat, trace.lower, trace.upper)
        return BlockPredictions(self.model.play(rows, y).yhat, None, None)

    def _play_late(self, names: list[str], Z: Matrix, y: Vector) -> BlockPredictions:
        """Row by row: a label is learned `delay` rows after its row was predicted."""
        added = Z.shape[1] + 1 - self.waiting.shape[1]
        if added:  # texts that came up since: 0 in the rows that wait
            kept = self.waiting
            self.waiting = np.concatenate((kept[:, :-1], np.zeros((len(kept), added)), kept[:, -1:]), axis=1)
        queue = np.concatenate((self.waiting, np.column_stack([Z, y])))
        ahead = len(self.waiting)
        blocks, learned = [], 0
        for t in range(len(y)):
            row = Table(names, Z[t : t + 1])
            if isinstance(self.model, OnlineRegressor):
                yhat, half = self.model.predict(row), self.model.half_width(LEVEL)
                blocks.append(BlockPredictions(yhat, yhat - half, yhat + half))
            else:
                blocks.append(BlockPredictions(self.model.predict(row), None, None))
            if ahead + t + 1 - learned > self.delay:
                self._learn(names, queue[learned])
                learned += 1
        self.waiting = queue[learned:].copy()
        return _join_predictions(blocks)

    def _learn(self, names: list[str], row: Vector) -> None:
        before = self.model.rounds
        self.model.play(Table(names, row[None, :-1]), row[-1:])
        if self.model.rounds > before and self.model.rounds == self.snapshots.next_round(before):
            self.snapshots.take(self.model)

    def finish(self, names: list[str]) -> None:
        """Learn what still waits, and take a last snapshot."""
        for row in self.waiting:
            self._learn(names, row)
        self.waiting = self.waiting[:0]
        self.snapshots.take(self.model)

    def arrays(self) -> dict[str, Vector]:
        """Return what the next row depends on, besides the model."""
        return {"waiting": self.waiting, **self.snapshots.arrays()}

    def resume(self, arrays: Mapping[str, Vector]) -> None:
        """Go on where `arrays` left off."""
        self.waiting = arrays["waiting"]
        self.snapshots.resume(arrays)


def _join_predictions(blocks: list[BlockPredictions]) -> BlockPredictions:
    yhat, lower, upper = zip(*blocks, strict=True) if blocks else ((), (), ())
    if not blocks or lower[0] is None:
        return BlockPredictions(np.concatenate([np.empty(0), *yhat]), None, None)
    return BlockPredictions(np.concatenate(yhat), np.concatenate(lower), np.concatenate(upper))


def load_model(path: str) -> OnlineLearner:
    """Return a saved model of a run."""
    model = undrift.load(path)
    if not isinstance(model, OnlineLearner):
        raise ModelFileError(f"{path}: a {type(model).__name__}, not the model of a run; start the run again")
    return model
