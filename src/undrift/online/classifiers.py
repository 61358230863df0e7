"""Classifiers: `OnlineClassifier` for many keys at once."""

from __future__ import annotations

import numpy as np

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.mixer import Mixer
from undrift.losses import sigmoid
from undrift.online.classification import ClassificationCore, LogisticFamily
from undrift.online.classifier import OnlineClassifier
from undrift.online.many import Many, Runs, Views


class Classifiers(Many):
    """Slots with an `OnlineClassifier` each."""

    def __init__(self, begun: OnlineClassifier) -> None:
        super().__init__(begun)
        self.heart: ClassificationCore = begun._heart  # type: ignore[assignment]  # what `_core` of this class makes

    @staticmethod
    def _mixed(views: Views, name: str, mixer: Mixer, runs: Runs, E: Matrix, y: Vector) -> Vector:
        yhat, none, mix = np.empty(len(y)), np.empty((0, E.shape[1])), kernels.mix_logistic
        weights, losses, prior, share = (
            views[f"{name}.log_weights"],
            views[f"{name}.losses"],
            mixer._log_prior,
            mixer.share,
        )
        for i, _, a, b in runs.each:
            mix(weights[i], prior, share, E[a:b], y[a:b], yhat[a:b], losses[i], none)
        views[f"{name}.rate"][runs.key, 0] += runs.count
        return yhat

    def _family(self, views: Views, name: str, one: LogisticFamily, runs: Runs, Z: Matrix, y: Vector) -> Vector:
        """Do what `LogisticFamily.play` does."""
        shape = len(y), len(one.beta)
        E, stability, play = np.empty(shape), np.empty(shape), kernels.aioli_play
        memories = views[f"{name}.information"]
        for i, first, a, b in runs.each:
            status = play(memories[i], one.beta, one.bend, first, Z[a:b], y[a:b], E[a:b], stability[a:b])
            _check.raise_on_status("OnlineClassifier", status, one.dim)
        return self._mixed(views, name, one.mixer, runs, E, y)

    def _play(self, views: Views, runs: Runs, X: Matrix, y: Vector) -> Matrix:
        core, state, key = self.heart, views["core.state"], runs.key
        mixtures = [
            self._family(views, f"core.{name}", one, runs, Z, y)
            for (name, one), Z in zip(core.families.items(), core.inputs(X), strict=True)
        ]
        label, wrong, stayed, changed = state[key].T
        odds, moves = _no_change(runs, label, stayed, changed, y)
        error = (y > 0.0) - sigmoid(mixtures[-1])
        F = core._level2_rows(mixtures, odds, runs.shifted(wrong, error))
        yhat = self._family(views, "core.level2", core.level2, runs, F, y)
        ends = runs.end - 1
        totals = runs.total(moves > 0.0), runs.total(moves < 0.0)
        state[key] = np.column_stack([y[ends], error[ends], stayed + totals[0], changed + totals[1]])
        return np.column_stack([yhat, *mixtures])

    def _baseline_play(self, views: Views, runs: Runs, y: Vector) -> Matrix:
        state, key = views["baseline"], runs.key
        last, stayed, changed, minus, plus = state[key].T
        up = runs.earlier(y > 0.0)
        down = runs.within() - up
        rate = np.log((runs.spread(plus) + up + 1.0) / (runs.spread(minus) + down + 1.0))
        same, moves = _no_change(runs, last, stayed, changed, y)
        counts = [runs.total(one) for one in (moves > 0.0, moves < 0.0, y < 0.0, y > 0.0)]
        before = (stayed, changed, minus, plus)
        after = [one + more for one, more in zip(before, counts, strict=True)]
        state[key] = np.column_stack([y[runs.end - 1], *after])
        return np.column_stack([rate, same])


def _no_change(runs: Runs, last: Vector, stayed: Vector, changed: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Return the log-odds of "same as last time" before each round, and each label times the one before it."""
    before = runs.shifted(last, y)
    moves = before * y
    same = runs.spread(stayed) + runs.earlier(moves > 0.0)
    other = runs.spread(changed) + runs.earlier(moves < 0.0)
    return np.asarray(before * np.log((same + 1.0) / (other + 1.0))), moves
