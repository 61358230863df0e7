"""Several outputs of an ensemble over one design: members share information matrices, each output has a mixer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.ensemble.mixer import Mixer
from undrift.kernels import layout
from undrift.kernels.definitions import INFORMATION, Hint
from undrift.learners import DiscountedVAW, Learner, Zero
from undrift.learners.base import Arrays
from undrift.learners.vaw import HINTS

BLOCK = 256
"""Rounds advanced at a time: answers of all members for all outputs are kept for so many."""

Cube = NDArray[np.float64]


def can_share(members: Sequence[Learner]) -> bool:
    """Whether members can share a design: discounted VAW, and perhaps `Zero`."""
    kinds = {type(one) for one in members}
    return DiscountedVAW in kinds and kinds <= {DiscountedVAW, Zero}


class SharedOutputs:
    """Discounted VAW at several discounts for all outputs, and a mixer for each output.

    Parameters
    ----------
    members
        Discounted VAW and `Zero`.
    mixer
        Copied for each output.
    prior
        Of the members.
    dim
        Width of a row.
    outputs
        Labels of a row.
    """

    def __init__(self, members: Sequence[Learner], mixer: Mixer, prior: Vector, dim: int, outputs: int) -> None:
        vaw = [one for one in members if isinstance(one, DiscountedVAW)]
        self.members, self.dim = len(members), dim
        leaders = list(dict.fromkeys((one.beta, one.reg) for one in vaw))
        self._at = np.array([i for i, one in enumerate(members) if isinstance(one, DiscountedVAW)])
        self._leader = np.array([leaders.index((one.beta, one.reg)) for one in vaw])
        self._hint = np.array([HINTS.index(one.hint) for one in vaw])
        self._beta, reg = np.array(leaders).T.copy()
        at = INFORMATION.slices(dim=dim)
        self.information = np.zeros((len(leaders), layout.length(dim), 1))
        self.information[:, at["inverse_pivots"], 0] = 1.0 / reg[:, None]
        self.information[:, at["energy"], 0] = reg[:, None]
        self.theta = np.zeros((len(leaders), dim, outputs))
        self.last = np.zeros(outputs)
        """The last label of every output, which hints "last" follow."""
        self.mixers = [mixer.clone() for _ in range(outputs)]
        for one in self.mixers:
            one.begin(prior)

    def predict(self, Z: Matrix, rounds: int) -> Matrix:
        """Return the mixtures (rows, outputs) for rows that might come next."""
        out = np.empty((len(Z), len(self.mixers)))
        for part in _blocks(len(Z)):
            m, h = self._leaders(Z[part], rounds, None)
            for k, mixer in enumerate(self.mixers):
                E = self._answer(m[:, :, k], h, np.full(len(h), self.last[k]))
                out[part, k] = mixer.predict(E)
        return out

    def play(self, Z: Matrix, Y: Matrix, rounds: int) -> Matrix:
        """Close rounds with labels (rows, outputs), NaN where missing, but not all of a row; return the mixtures."""
        out = np.empty(Y.shape)
        for part in _blocks(len(Z)):
            m, h = self._leaders(Z[part], rounds + part.start, Y[part])
            for k, mixer in enumerate(self.mixers):
                y = Y[part, k]
                E = self._answer(m[:, :, k], h, self._last_labels(y, k))
                out[part, k] = _mix(mixer, E, y)
        return out

    def _leaders(self, Z: Matrix, rounds: int, Y: Matrix | None) -> tuple[Cube, Matrix]:
        """Return the leaders' predictions m (rows, leaders, outputs) and leverages h; with labels, close the rounds."""
        m, h = np.empty((len(Z), *self.theta.shape[::2])), np.empty((len(Z), len(self._beta)))
        if Y is None:
            status = kernels.vaw_outputs_predict(self.information, self.theta, self._beta, rounds, Z, m, h)
        else:
            labels = np.ascontiguousarray(Y)
            status = kernels.vaw_outputs_play(self.information, self.theta, self._beta, rounds, Z, labels, m, h)
        _check.raise_on_status("MultiOutputRegressor", status, self.dim)
        return m, h

    def _last_labels(self, y: Vector, output: int) -> Vector:
        """Return the label known before each round, and keep the newest."""
        known = np.concatenate(([self.last[output]], y))
        at = np.maximum.accumulate(np.where(np.isnan(known), 0, np.arange(len(known))))
        self.last[output] = known[at[-1]]
        return np.asarray(known[at[:-1]])

    def _answer(self, m: Matrix, h: Matrix, last: Vector) -> Matrix:
        """Return the members' predictions of one output (rows, members): VAW by its hint from the leader's m and h."""
        m, h = np.ascontiguousarray(m[:, self._leader]), np.ascontiguousarray(h[:, self._leader])
        hints = np.zeros_like(m)
        hints[:, self._hint == Hint.LAST] = last[:, None]
        hints[:, self._hint == Hint.RIDGE] = m[:, self._hint == Hint.RIDGE]
        yhat, stability = np.empty_like(m), np.empty_like(m)
        kernels.hinted_predictions(m, h, hints, np.zeros(len(m)), yhat, stability)
        E = np.zeros((len(m), self.members))
        E[:, self._at] = yhat
        return E

    def arrays(self) -> Arrays:
        """Return the state by name, the very arrays."""
        mixing = {
            f"mixer{k}.{name}": array for k, mixer in enumerate(self.mixers) for name, array in mixer.arrays().items()
        }
        return {"information": self.information, "theta": self.theta, "last": self.last, **mixing}


def _blocks(rows: int) -> Iterator[slice]:
    return (slice(a, min(a + BLOCK, rows)) for a in range(0, rows, BLOCK))


def _mix(mixer: Mixer, E: Matrix, y: Vector) -> Vector:
    """Close the rounds that have a label; where it is missing the mixture is served and nothing is judged."""
    missing = np.isnan(y)
    out = np.empty(len(y))
    edges = [0, *(np.flatnonzero(np.diff(missing)) + 1), len(y)]
    for a, b in itertools.pairwise(edges):
        out[a:b] = mixer.predict(E[a:b]) if missing[a] else mixer.play(E[a:b], np.ascontiguousarray(y[a:b]))
    return out
