"""What the learners that keep a discounted information matrix share."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np

from undrift import _check, kernels
from undrift._internal import thread_lock
from undrift._typing import Arrays, Matrix, Scalar, Vector
from undrift.errors import ModelFileError
from undrift.kernels import layout
from undrift.learners.base import DiscountedLearner
from undrift.learners.replay import replay
from undrift.learners.row_context import ORDINARY, WEIGHT_AND_TIME, RowContext
from undrift.template import Template


class InformationLearner(DiscountedLearner):
    """A learner whose past is the matrix A = L D L' and the vector theta, discounted by beta each round."""

    supports = WEIGHT_AND_TIME

    def __init__(self, *, beta: float | None, half_life: float | None, reg: float, **parameters: Scalar) -> None:
        super().__init__(beta=beta, half_life=half_life, reg=reg, **parameters)
        self._betas = np.array([self._discount.beta])
        self._state: layout.State = np.empty((0, 0, 0))

    @property
    @thread_lock.hold_shared
    def information(self) -> Vector:
        """What the learner knows, a copy: pivots, theta, energy, counters and L, as `undrift.kernels.layout` says."""
        return np.zeros(0) if self.dim is None else layout.column(self._state, 0).copy()

    @property
    @thread_lock.hold_shared
    def coef(self) -> Vector:
        """The leader after the last round, without the optimistic term; zeros before any data."""
        return np.zeros(0) if self.dim is None else layout.leader(self._state, 0, self.dim)

    @property
    @thread_lock.hold_shared
    def floored(self) -> int:
        """Pivots that were kept from vanishing so far: directions in which forgetting was suspended."""
        return 0 if self.dim is None else int(layout.parts(self._state, 0, self.dim)["floored"][0])

    @property
    @thread_lock.hold_shared
    def resets(self) -> int:
        """How often the numbers left float64's range and the learner started afresh; 0 on any sane data."""
        if self.dim is None:
            return 0
        one = layout.parts(self._state, 0, self.dim)
        return int(one["lost"][0] + one["resets"][0])

    def template(self, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> Template:
        """Return the promise that covers a run over these rows and labels: raised pivots and restarts are replayed."""
        return Template(self.discount, **self._terms_of_promise(Z, y, context))

    def _terms_of_promise(self, Z: Matrix, y: Vector, context: RowContext) -> dict[str, Any]:
        """Return what the template of a run says besides its discount."""
        again = replay(self, Z, y, context)
        return {
            "betas": None if context.ordinary else context.discounts(self.discount, len(y)),
            "weights": context.weight,
            "loss": self.loss,
            "limit": self.reach,
            "floors": again.floors,
            "blur": again.blur,
            "restart_cost": again.restart_cost,
            "replayed": again.trace,
        }

    def paper_stability(self, Z: Matrix, y: Vector) -> Vector:
        """Return the paper's price of each round of a run from the first round on."""
        raise NotImplementedError

    def observation_weights(self, yhat: Vector, weight: Vector) -> Vector:
        """Return the weight with which each round's row entered the information matrix, at most: its own here."""
        return weight

    @property
    def reach(self) -> float:
        """Largest $|u\\cdot z|$ on the rows so far of comparators that the promise covers."""
        return math.inf

    def _begin(self, dim: int) -> None:
        self._state = layout.fresh(dim, np.array([self.reg]))
        self._kernel = self._make_kernel()

    def clone_with_state(self, state: layout.State, i: int, dim: int, rounds: int) -> Self:
        """Return a fresh learner with these parameters and the state of learner i of a stack after so many rounds."""
        one = self.clone()
        one._begin(dim)
        one.dim, one.rounds = dim, rounds
        one._state[...] = layout.single_state(state, i, dim)
        return one

    def _min_array_size(self, dim: int) -> int:
        return layout.length(dim)

    def _make_kernel(self) -> kernels.EnsembleKernel:
        """Return whole rounds over this learner's own arrays, the short way for one row at a time."""
        raise NotImplementedError

    def _kernel_of_one(self, inverse_curvature: Vector, hint: int, last_label: Vector) -> kernels.EnsembleKernel:
        """Return an ensemble of this learner alone."""
        return kernels.EnsembleKernel(
            binary=self.binary,
            state=self._state,
            beta=self._betas,
            inverse_curvature=inverse_curvature,
            leader=np.zeros(1, dtype=np.int64),
            hint=np.array([hint], dtype=np.int64),
            last_label=last_label,
            stability=np.zeros(1),
            mixer=None,
            lock=self._exclusive_lock,
        )

    def _arrays(self) -> Arrays:
        return {"information": self._state[0, :, 0]}

    def _load_arrays(self, arrays: Arrays) -> None:
        super()._load_arrays(arrays)
        one = layout.parts(self._state, 0, self.dim or 0)
        not_negative = ("energy", "floored", "lost", "resets")
        if not (one["inverse_pivots"] > 0.0).all() or not all((one[name] >= 0.0).all() for name in not_negative):
            raise ModelFileError(f"{_check.name_of(self)}: the saved information matrix is not positive definite")
