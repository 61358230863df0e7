"""Level 2 of several classes: softmax regression over the log-odds of one estimator for each class."""

from __future__ import annotations

import numpy as np

from undrift import _check, kernels
from undrift._typing import Matrix, Vector
from undrift.discount import Discount, make_discount
from undrift.kernels.definitions import SoftmaxNumber
from undrift.learners.base import Arrays
from undrift.learners.row_weights import RowWeights
from undrift.learners.softmax import LEAST_DISCOUNT, class_basis, class_curvature

REACH = 2.0
"""Logits of the corrections that level 2 is careful about."""
RIDGE = 10.0
"""How firmly it begins with the log-odds as they are, in rows."""
MOST_LOG_ODDS = 30.0
SCALE = 0.5
"""Log-odds are cut at the one and counted in units of the inverse of the other."""


class ClassLevel2:
    """Logits a_k = c s_k + c_k s_k + d_k from the log-odds s_k of each class, the coefficients learned and forgotten.

    It begins at a_k = s_k. A class that is added begins there too.
    """

    def __init__(self, half_life: float | None, classes: int) -> None:
        self._discount = Discount(1.0, 0.0) if half_life is None else make_discount(self, None, half_life)
        self._set_classes(classes)
        n = 1 + 2 * classes
        self._information, self._covariance = np.zeros((n, n)), np.eye(n) / RIDGE
        self._leader = np.zeros(n)
        self._leader[0] = 1.0 / SCALE
        self._pull = RIDGE * self._leader
        self._numbers = np.zeros(len(SoftmaxNumber))
        self._numbers[SoftmaxNumber.RIDGE] = RIDGE

    def _set_classes(self, classes: int) -> None:
        self.classes, self._basis = classes, class_basis(classes)
        self._curvature = class_curvature(classes, REACH)

    def arrays(self) -> Arrays:
        """Return the state by name, the very arrays."""
        return {
            "information": self._information,
            "covariance": self._covariance,
            "pull": self._pull,
            "leader": self._leader,
            "numbers": self._numbers,
        }

    def add_class(self) -> None:
        """Make room for another class, about which nothing is known: the ridge alone holds its coefficients."""
        n, ridge = len(self._pull), max(float(self._numbers[SoftmaxNumber.RIDGE]), 1e-3 * RIDGE)
        information, covariance = np.zeros((n + 2, n + 2)), np.eye(n + 2) / ridge
        information[:n, :n], covariance[:n, :n] = self._information, self._covariance
        information[n:, n:] = np.eye(2) * (ridge - self._numbers[SoftmaxNumber.RIDGE])  # what the ridge lacks there
        self._information, self._covariance = information, covariance
        self._pull, self._leader = np.append(self._pull, [0.0, 0.0]), np.append(self._leader, [0.0, 0.0])
        self._set_classes(self.classes + 1)

    def own_coefficients(self) -> Vector:
        """Return the coefficient c + c_k of each class's log-odds in its logit (K,)."""
        return np.asarray(SCALE * (self._leader[0] + self._leader[1::2]))

    def predict(self, designs: Matrix, elapsed: float | Vector = 1.0) -> Matrix:
        """Return logits (rows, K) from the `designs` of rows that might come next, after this time."""
        logits = np.empty((len(designs), self.classes))
        times = np.broadcast_to(np.asarray(elapsed, np.float64), len(designs))
        for time in [float(elapsed)] if np.ndim(elapsed) == 0 else np.unique(times).tolist():
            some, beta = times == time, float(self._discounts(np.array([time]))[0])
            part = np.empty((int(some.sum()), self.classes))
            state = (self._covariance, self._leader, self._basis, self._curvature, RIDGE, beta)
            _check.raise_on_status(self, kernels.softmax_predict(*state, designs[some], part), len(self._pull))
            logits[some] = part
        return logits

    def _discounts(self, elapsed: Vector) -> Vector:
        """Return beta^dt, but no less than a float64 ridge can stand."""
        return np.maximum(RowWeights(np.ones(len(elapsed)), elapsed).discounts(self._discount), LEAST_DISCOUNT)

    def play(self, designs: Matrix, y: Vector, rows: RowWeights) -> Matrix:
        """Close rounds with the `designs` of log-odds and class numbers; return the logits."""
        logits, columns = np.empty((len(y), self.classes)), np.empty((2, len(y)))
        status = kernels.softmax_play(
            self._information,
            self._covariance,
            self._pull,
            self._leader,
            self._numbers,
            self._basis,
            self._curvature,
            RIDGE,
            self._discounts(rows.elapsed),
            rows.weight,
            designs,
            y,
            logits,
            columns[0],
            columns[1],
        )
        _check.raise_on_status(self, status, len(self._pull))
        return logits

    def designs(self, S: Matrix) -> Matrix:
        """Return the designs of log-odds (rows, K), each (K - 1, 1 + 2 K), as the kernels take them.

        They are the same for all memories. Sums go from class to class, so that a row alone gives the same bits.
        """
        K, Q = self.classes, self._basis.T
        along = SCALE * np.clip(S, -MOST_LOG_ODDS, MOST_LOG_ODDS)[:, None, :] * Q
        designs = np.zeros((len(S), K - 1, 1 + 2 * K))
        designs[:, :, 1::2], designs[:, :, 2::2] = along, Q
        for k in range(K):
            designs[:, :, 0] += along[:, :, k]
        return designs.reshape(len(S), (K - 1) * (1 + 2 * K))
