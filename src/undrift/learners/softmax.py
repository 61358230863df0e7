"""Discounted softmax regression: AIOLI's idea for more than two classes."""

from __future__ import annotations

import math

import numpy as np

from undrift import _check, kernels
from undrift._internal import thread_lock
from undrift._typing import Arrays, Matrix, Vector
from undrift.errors import InputError, ModelFileError
from undrift.kernels.definitions import SoftmaxNumber
from undrift.learners.base import Columns, DiscountedLearner
from undrift.learners.class_learner import ClassLearner
from undrift.learners.row_context import WEIGHT_AND_TIME, RowContext

LEAST_DISCOUNT = 1e-200
"""What is left of the past after however long a time, at least, unless `beta` itself is less."""


def class_basis(classes: int) -> Matrix:
    """Return an orthonormal basis (K, K - 1) of the vectors that sum to 0 (Helmert's)."""
    Q = np.zeros((classes, classes - 1))
    for j in range(1, classes):
        scale = 1.0 / math.sqrt(j * (j + 1.0))
        Q[:j, j - 1], Q[j, j - 1] = scale, -j * scale
    return Q


def class_curvature(classes: int, reach: float) -> float:
    """Return k of the quadratics below the losses, for comparators whose logits are at most `reach` in size."""
    return 2.0 / (2.0 + float(np.logaddexp(0.0, math.log(classes - 1.0) + 2.0 * reach)))


class DiscountedSoftmax(ClassLearner, DiscountedLearner):
    r"""Softmax regression on a drifting stream: a row of age $k$ counts $\beta^k$.

    Each past row is replaced by a quadratic that lies below its loss wherever logits are at most $BR$ in size; the
    coming row's logits are those whose price is the same for every label. Nothing is tuned, nothing diverges.

    Parameters
    ----------
    classes
        Number of classes K; labels are 0 to K - 1.
    beta
        Discount factor in (0, 1], 0.99 if neither it nor `half_life` is given; 1 never forgets.
    half_life
        In place of `beta`: rounds after which a row counts half.
    reg
        Ridge $\lambda > 0$, in squared feature units; it is forgotten like the data.
    bound, radius
        $B$ and $R$: past rows are trusted as far as they are for comparators whose logits $u_k\cdot z$ are at most $BR$
        in size; both 1 by default. Larger is more careful with confident rows.

    Notes
    -----
    Guarantee `softmax`. The information matrix has (K - 1) d rows: O(K^3 d^2) time a round and O(K^2 d^2) memory. From
    34 classes on the prediction is a simpler one, with its own exact price. Where that is too much, `OneVsRest`
    needs O(K d^2).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(500, 2))
    >>> y = np.argmax(Z @ [[3.0, 0.0, -3.0], [0.0, 3.0, -3.0]] + rng.gumbel(size=(500, 3)), axis=1)
    >>> model = DiscountedSoftmax(3, beta=1.0, bound=4.0)
    >>> trace = model.play(Z, y)
    >>> trace.yhat.shape, int(np.argmax(model.predict([0.0, 2.0])))
    ((500, 3), 1)
    """

    supports = WEIGHT_AND_TIME
    _ridges = "[1e-50, 1e50]"

    def __init__(
        self,
        classes: int = 3,
        *,
        beta: float | None = None,
        half_life: float | None = None,
        reg: float = 1.0,
        bound: float | None = None,
        radius: float | None = None,
    ) -> None:
        B = _check.interval(self, "bound", 1.0 if bound is None else bound, "[0, 1e50]")
        R = _check.interval(self, "radius", 1.0 if radius is None else radius, "[0, 1e50]")
        super().__init__(classes=classes, beta=beta, half_life=half_life, reg=reg, bound=bound, radius=radius)
        self.reach = B * R
        self.curvature = class_curvature(self.outputs, self.reach)
        self._basis = class_basis(self.outputs)

    @property
    @thread_lock.hold_shared
    def coef(self) -> Matrix:
        """The leader after the last round (K, d), without the optimistic term; its columns sum to 0."""
        if self.dim is None:
            return np.zeros((self.outputs, 0))
        return np.asarray(self._basis @ self._leader.reshape(self.outputs - 1, self.dim))

    @property
    @thread_lock.hold_shared
    def resets(self) -> int:
        """How often a row was too far from all before it and the learner started afresh; 0 on any sane data."""
        return 0 if self.dim is None else int(self._numbers[SoftmaxNumber.RESTARTS])

    def _begin(self, dim: int) -> None:
        n = (self.outputs - 1) * dim
        if n > 20_000:
            raise InputError(
                f"{_check.name_of(self)}: {self.outputs} classes and {dim} features need a matrix of {n} rows; use "
                "OneVsRest, which needs one of as many rows as features for each class"
            )
        self._information, self._covariance = np.zeros((n, n)), np.eye(n) / self.reg
        self._pull, self._leader = np.zeros(n), np.zeros(n)
        self._numbers = np.zeros(len(SoftmaxNumber))
        self._numbers[SoftmaxNumber.RIDGE] = self.reg

    def _arrays(self) -> Arrays:
        return {
            "information": self._information,
            "covariance": self._covariance,
            "pull": self._pull,
            "leader": self._leader,
            "numbers": self._numbers,
        }

    def _load_arrays(self, arrays: Arrays) -> None:
        super()._load_arrays(arrays)
        diagonals = np.diagonal(self._covariance), np.diagonal(self._information)
        if not (diagonals[0] > 0.0).all() or not (diagonals[1] >= 0.0).all() or not (self._numbers >= 0.0).all():
            raise ModelFileError(f"{_check.name_of(self)}: the saved information matrix is not positive definite")

    def _min_array_size(self, dim: int) -> int:
        return 2 * ((self.outputs - 1) * dim) ** 2

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Matrix:
        logits, beta = np.empty((len(Z), self.outputs)), self._discounts(np.array([elapsed])).item()
        status = kernels.softmax_predict(
            self._covariance, self._leader, self._basis, self.curvature, self.reg, beta, Z, logits
        )
        _check.raise_on_status(self, status, Z.shape[1])
        return logits

    def _discounts(self, elapsed: Vector) -> Vector:
        """Return beta^dt; a past older than a float64 ridge can stand counts as that old."""
        betas = RowContext(elapsed=elapsed).discounts(self._discount, len(elapsed))
        return np.maximum(betas, min(self.beta, LEAST_DISCOUNT))

    def expansion_points(self, Z: Matrix, y: Vector, context: RowContext) -> Matrix:
        """Return the logits (T, K) at which a fresh learner expands the copies of rows of weight above 1.

        For other rows, the logits it plays.
        """
        fresh, points = self.clone(), np.empty((len(y), self.outputs))
        fresh._fix_width(Z.shape[1])
        fresh._play(Z, y, context, points)
        return points

    def _play(self, Z: Matrix, y: Vector, context: RowContext, points: Matrix | None = None) -> Columns:
        logits, stability, potential = np.empty((len(y), self.outputs)), np.empty(len(y)), np.empty(len(y))
        status = kernels.softmax_play(
            self._information,
            self._covariance,
            self._pull,
            self._leader,
            self._numbers,
            self._basis,
            self.curvature,
            self.reg,
            self._discounts(context.times(len(y))),
            context.weights(len(y)),
            Z,
            y,
            logits,
            stability,
            potential,
            points,
        )
        _check.raise_on_status(self, status, Z.shape[1])
        return Columns(logits, stability, potential)
