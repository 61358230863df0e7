"""Regressors: `OnlineRegressor` for many keys at once."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.mixer import Mixer
from undrift.ensemble.squared import SquaredMixer
from undrift.kernels.reference_rows import BOUND, CUT, LAST, NEVER
from undrift.online.design import REFITS
from undrift.online.intervals import DOWN, UP
from undrift.online.many import Integers, Many, Runs, Views
from undrift.online.regression import LARGEST, RegressionCore, label_scale
from undrift.online.regressor import OnlineRegressor
from undrift.streams.scaling import Despiker, usual_jump


class Regressors(Many):
    """Slots with an `OnlineRegressor` each."""

    def __init__(self, begun: OnlineRegressor) -> None:
        super().__init__(begun)
        self.heart: RegressionCore = begun._heart  # type: ignore[assignment]  # what `_core` of this very class makes

    @staticmethod
    def _mixed(views: Views, name: str, mixer: Mixer, runs: Runs, E: Matrix, y: Vector) -> Vector:
        assert isinstance(mixer, SquaredMixer)
        yhat, none, mix = np.empty(len(y)), np.empty((0, E.shape[1])), kernels.mix_squared
        weights, losses, charged, rate = (views[f"{name}.{x}"] for x in ("log_weights", "losses", "charged", "rate"))
        prior, share, rule, scale = mixer._log_prior, mixer.share, mixer.rule, mixer._scale
        for i, _, a, b in runs.each:
            mix(
                weights[i], prior, share, rate[i], rule, scale,
                E[a:b], y[a:b], yhat[a:b], losses[i], charged[i], none,
            )  # fmt: skip
        return yhat

    @staticmethod
    def _swept(state: Views, name: str, beta: Vector, runs: Runs, Z: Matrix, y: Vector) -> tuple[Matrix, Matrix]:
        """Return m and h of the keys' memories of this name."""
        m, h, play = np.empty((len(y), len(beta))), np.empty((len(y), len(beta))), kernels.vaw_play
        memories = state[f"{name}.information"]
        for i, first, a, b in runs.each:
            status = play(memories[i], beta, first, Z[a:b], y[a:b], m[a:b], h[a:b])
            _check.raise_on_status("OnlineRegressor", status, Z.shape[1])
        return m, h

    def _play(self, views: Views, runs: Runs, X: Matrix, y: Vector) -> Matrix:
        core, state = self.heart, views["core.state"]
        last = runs.shifted(state[runs.key, 0], y)
        mixtures = []
        for (name, family), Z in zip(core.families.items(), core.inputs(X), strict=True):
            m, h = self._swept(views, f"core.{name}", family.leaders.beta, runs, Z, y)
            mixtures.append(self._mixed(views, f"core.{name}", family.mixer, runs, family._answers(m, h, last), y))
        error = y - mixtures[-1]
        scale = self._scale(state, runs, y)
        each = runs.spread(scale)
        before = runs.shifted(state[runs.key, 1], error)
        F = np.column_stack([*mixtures, last, mixtures[-1] + before]) / each[:, None]
        F = np.minimum(np.maximum(F, -LARGEST), LARGEST)
        m, h = self._swept(views, "core.level2", core.level2.beta, runs, F, np.clip(y / each, -LARGEST, LARGEST))
        E, answers = np.empty_like(m), kernels.hinted_answers
        for (_, _, a, b), s in zip(runs.each, scale.tolist(), strict=True):
            answers(m[a:b], h[a:b], mixtures[-1][a:b], s, E[a:b])
        state[runs.key, 0], state[runs.key, 1] = y[runs.end - 1], error[runs.end - 1]
        return np.column_stack([self._mixed(views, "core.level2", core.mixer, runs, E, y), *mixtures])

    @staticmethod
    def _scale(state: Matrix, runs: Runs, y: Vector) -> Vector:
        """Return the keys' label scales; a key that has none yet takes the size of its first label that is not 0."""
        scale = state[runs.key, 2]
        for k in np.flatnonzero(scale == 0.0).tolist():
            _, _, a, b = runs.each[k]
            scale[k] = next((abs(one) for one in y[a:b].tolist() if one != 0.0), 0.0)
        state[runs.key, 2] = scale
        return np.where(scale == 0.0, 1.0, scale)

    def _softened(self, views: Views, runs: Runs, y: Vector) -> Vector:
        soft, state = y.copy(), views["despiker"]
        for i, first, a, b in runs.each:
            if first >= REFITS[0]:
                kernels.despike_labels(state[i], Despiker.FACTOR, first, y[a:b], soft[a:b])
        return soft

    def _refitted(self, views: Views, runs: Runs, y: Vector) -> Vector:
        soft, state, series = np.empty_like(y), views["despiker"], y.reshape(len(runs.key), -1)
        state[runs.key, LAST], state[runs.key, CUT] = series[:, 0], NEVER
        state[runs.key, BOUND] = Despiker.FACTOR * usual_jump(series)
        for i, _, a, b in runs.each:
            kernels.despike_labels(state[i], Despiker.FACTOR, 0, y[a:b], soft[a:b])
        views["core.state"][runs.key, 2] = label_scale(soft.reshape(series.shape))
        return soft

    def _baseline_play(self, views: Views, runs: Runs, y: Vector) -> Matrix:
        state = views["baseline"]
        last, total, count = state[runs.key].T
        sums: list[float] = []
        for start, (_, _, a, b) in zip(total.tolist(), runs.each, strict=True):
            sums += accumulate(y[a:b].tolist(), initial=start)
        at: Integers = np.arange(len(y)) + np.repeat(np.arange(len(runs.key)), runs.count)  # one sum more than rows
        every = np.array(sums)
        said = np.empty((len(y), 2))
        said[:, 0] = runs.shifted(last, y)
        np.divide(every[at], np.maximum(runs.spread(count) + runs.within(), 1.0), out=said[:, 1])
        ends = runs.end - 1
        state[runs.key] = np.column_stack([y[ends], every[at[ends] + 1], count + runs.count])
        return said

    def _closed(self, views: Views, runs: Runs, E: Matrix, soft: Vector, yhat: Vector, y: Vector) -> None:
        cut = np.flatnonzero(soft != y)
        if len(cut):
            spikes, slots = views["spikes"], runs.spread(runs.key)[cut].tolist()
            for i, t in zip(slots, cut.tolist(), strict=True):
                s, label = soft[t], y[t]
                spikes[i, 0] += (s - label) * (E[t] - 0.5 * (s + label))
                spikes[i, 1] += (s - label) * (yhat[t] - E[t])
        residual, state, play = np.abs(y - yhat), views["intervals"], kernels.interval_play
        for i, _, a, b in runs.each:
            play(state[i], UP, DOWN, residual[a:b])
