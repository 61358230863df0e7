"""The watch over a run: what changed on the way, row by row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from undrift.events import Event, Watch
from undrift.losses import sigmoid
from undrift.run.play.run_model import LEVEL, BlockPredictions, RunModel, join_predictions
from undrift.run.prepare.encoder import EncodedRows, Encoder

ROWS_PER_LOOK = 10
"""Rows between two looks at the model's memory."""


class RunWatch:
    """Plays the rows of a run in small blocks, which changes no bit, and looks at each."""

    def __init__(self, task: str, known_features: int) -> None:
        self._binary, self._known = task == "classification", known_features
        what = "the predicted class" if task == "multiclass" else "the positive label"
        self.watch = Watch(level=LEVEL, binary=task != "regression", what=what)
        self.events: list[Event] = []

    def play(self, run_model: RunModel, encoder: Encoder, rows: EncodedRows) -> BlockPredictions:
        """Predict and learn rows; keep what changed in `events`."""
        self._add_categories(encoder, rows)
        blocks = []
        for a in range(0, len(rows.y), ROWS_PER_LOOK):
            part = slice(a, a + ROWS_PER_LOOK)
            both = (None if one is None else one[part] for one in (rows.weight, rows.elapsed))
            block = run_model.play(encoder.features, rows.Z[part], rows.y[part], encoder.classes, *both)
            self._look(encoder, EncodedRows(rows.line[part], None, rows.Z[part], rows.y[part]), block)
            self.events += self.watch.add_memory(int(rows.line[part][-1]), run_model.model.spectrum())
            blocks.append(block)
        return join_predictions(blocks)

    def _look(self, encoder: Encoder, rows: EncodedRows, block: BlockPredictions) -> None:
        names = encoder.roles.numbers  # the calendar, lags and texts are ours, or have their own word
        shown, labels = block.yhat, rows.y
        if block.probabilities is not None:  # of several classes: whether the most likely one came, and its probability
            some = np.where(np.isnan(block.probabilities), 0.0, block.probabilities)
            shown = np.max(some, axis=1, initial=0.0)
            labels = np.where(np.isnan(rows.y), np.nan, block.yhat == rows.y)
        elif self._binary:
            shown = sigmoid(block.yhat)
        for i, line in enumerate(rows.line.tolist()):
            if names:
                self.events += self.watch.add_row(line, names, rows.Z[i, : len(names)])
            if block.known[i] and not np.isnan(labels[i]):
                ends = (None, None) if block.lower is None or block.upper is None else (block.lower[i], block.upper[i])
                self.events += self.watch.add_round(line, float(labels[i]), float(shown[i]), *ends)

    def _add_categories(self, encoder: Encoder, rows: EncodedRows) -> None:
        """Tell of texts that became features in these rows."""
        means, fixed = encoder.text_features.means, len(encoder.features) - len(encoder.text_features.names)
        for j in range(self._known, len(encoder.features)):
            if j >= fixed and j - fixed in means:
                continue  # it stands for many texts
            column, _, text = encoder.features[j].partition("=")
            first = int(np.argmax(rows.Z[:, j] == 1.0))
            self.events += self.watch.add_category(int(rows.line[first]), column, text)
        self._known = len(encoder.features)

    def state(self) -> dict[str, Any]:
        """Return what later rows depend on, as JSON values."""
        return {"watch": self.watch.state(), "known": self._known}

    def resume(self, state: Mapping[str, Any], events: list[dict[str, Any]]) -> None:
        """Go on where `state` left off."""
        self.watch.resume(state["watch"])
        self._known = state["known"]
        self.events = [Event.from_dict(one) for one in events]
