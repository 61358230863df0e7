r"""What the learners that keep a discounted information matrix share, and their runs played again.

A replay catches what a trace does not show: raised pivots, and rounds the learner could not use. Raising pivot j by
$\delta$ with $\theta_j$ kept is one observation $\frac\delta2(l_j\cdot u-\theta_j)^2$ that is 0 at
the leader: the learner's promise stays exact when it is added to the potential. What is left of a feature in a row may
be called rounding and dropped (`RESIDUE_ROUNDING`): to the learner the row then is another one, by at most that. A
learner whose numbers left float64's range ignores rounds until it starts afresh: an ignored round costs at most its own
loss, a fresh start at most what 0 would have lost so far.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Self

import numpy as np

from undrift import _check, kernels
from undrift._internal import thread_lock
from undrift._internal.discount import Discount, discounted_sums, forgetting_rates
from undrift._typing import Arrays, Matrix, Scalar, Vector
from undrift.errors import ModelFileError
from undrift.kernels import layout
from undrift.kernels.definitions import (
    COLLINEAR,
    FLOOR_PERIOD,
    INFORMATION,
    PIVOT_FLOOR,
    PIVOT_MIN,
    RESIDUE_ROUNDING,
    SMALL_BETA,
)
from undrift.learners.base import DiscountedLearner
from undrift.learners.row_context import ORDINARY, WEIGHT_AND_TIME, RowContext
from undrift.template import Observations, Template, no_observations
from undrift.trace import Trace


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


CHUNK = 64 * FLOOR_PERIOD
"""Rounds played in one call while no pivot is raised."""


class Replay(NamedTuple):
    """A run played again."""

    trace: Trace
    """The learner's own columns, with the hint of its parameters."""
    floors: Observations
    """Every raised pivot."""
    blur: Matrix | None
    """Bound on what was dropped as rounding, squared, in each round and feature (T, d); None when nothing was."""
    restart_cost: Vector | None
    """What ignored rounds and fresh starts cost, one number a round; None when there were none."""


def replay(learner: InformationLearner, Z: Matrix, y: Vector, context: RowContext) -> Replay:
    """Play the stream with a fresh clone, in whole chunks, and step by step where a pivot was raised."""
    fresh = learner.clone()
    discount = learner.discount
    betas = None if context.ordinary else context.discounts(discount, len(y))
    rates = forgetting_rates(discount, len(y), betas)
    traces: list[Trace] = []
    catches: list[Observations] = []
    ignored: list[int] = []
    restarts: list[int] = []
    blurs: list[Matrix] = []
    for begin in range(0, len(y), CHUNK):
        rows, labels = Z[begin : begin + CHUNK], y[begin : begin + CHUNK]
        some = context.between(begin, begin + CHUNK)
        before = fresh.copy()
        traces.append(fresh.play(rows, labels, weight=some.weight, elapsed=some.elapsed))
        weights = fresh.observation_weights(traces[-1].yhat, some.weights(len(labels)))
        old, restarted = _column(before, Z.shape[1]), fresh.resets > before.resets
        blurs.append(_blur(old, rows, weights, discount, rates[begin : begin + CHUNK], restarted))
        if (fresh.floored, fresh.resets) == (before.floored, before.resets) and not before.resets:
            continue
        single = fresh.resets > 0 or discount.beta < SMALL_BETA or not context.ordinary
        step, times = 1 if single else FLOOR_PERIOD, some.times(len(labels)).tolist()
        for k in range(0, len(rows), step):
            if layout.is_floor_round(discount.beta, begin + k, times[k]):
                column = _column(before, Z.shape[1])
                caught, restarted = _raised_pivots(column, Z.shape[1], discount, begin + k, times[k])
                catches.append(caught)
                restarts += [begin + k] if restarted else []
            part = some.between(k, k + step)
            before.play(rows[k : k + step], labels[k : k + step], weight=part.weight, elapsed=part.elapsed)
            if single and INFORMATION.split(_column(before, Z.shape[1]), dim=Z.shape[1])["lost"]:
                ignored.append(begin + k)
    floors = _join(catches, Z.shape[1])
    trace = Trace(
        np.concatenate([np.empty(0), *(t.yhat for t in traces)]),
        np.concatenate([np.empty(0), *(t.stability for t in traces if t.stability is not None)]),
        np.concatenate([np.empty(0), *(t.potential for t in traces if t.potential is not None)]),
        type(learner).__name__,
        learner.parameters,
    )
    blur = np.concatenate([np.empty((0, Z.shape[1])), *blurs]) if any(one.any() for one in blurs) else None
    if not ignored and not restarts:
        return Replay(trace, floors, blur, None)
    lost, still = (context.weights(len(y)) * learner.loss.value(one, y) for one in (trace.yhat, np.zeros(len(y))))
    return Replay(trace, floors, blur, _restart_cost(lost, still, floors, ignored, restarts, rates))


def _column(learner: InformationLearner, dim: int) -> Vector:
    """Return a learner's stored numbers, also before its first row."""
    if learner.dim is None:
        return layout.column(layout.fresh(dim, np.array([learner.reg])), 0)
    return learner.information


def _raised_pivots(one: Vector, dim: int, discount: Discount, at: int, elapsed: float) -> tuple[Observations, bool]:
    """Return what the floor of round `at` adds to a stored column, and whether the learner starts afresh there."""
    part, (beta, between) = INFORMATION.split(one, dim=dim), layout.aged_discount(discount.beta, at, elapsed)
    with np.errstate(over="ignore"):
        inverse = part["inverse_pivots"] * (1.0 / beta)
    least = np.maximum(PIVOT_FLOOR * np.maximum(part["energy"] * beta, PIVOT_MIN), PIVOT_MIN)
    if part["lost"]:
        return Observations(np.full(dim, at), np.eye(dim), np.zeros(dim), least), True
    ceiling = np.clip(inverse * between, 1.0 / least, 1.0 / PIVOT_MIN)
    low, least = np.flatnonzero(inverse > ceiling), 1.0 / ceiling
    L = np.eye(dim)
    L[layout.factor_indices(dim, 1)] = part["factor"]
    weight = least[low] - 1.0 / inverse[low]
    return Observations(np.full(len(low), at), L[:, low].T.copy(), part["theta"][low].copy(), weight), False


def _blur(one: Vector, Z: Matrix, weights: Vector, discount: Discount, rates: Vector, restarted: bool) -> Matrix:
    r"""Bound what a learner that begins a chunk with the column `one` can drop as rounding in each of its rounds.

    A residual $p_j$ is dropped only where the energy of feature j exceeds its pivot by `COLLINEAR`, and only if
    $p_j^2\le b\,h\,\text{energy}_j$; the observation it belongs to has weight at most $1/(1+h)$ by then. The product
    of energy and inverse pivot does not change by forgetting, and rows only lower inverse pivots: those of the chunk's
    beginning bound the later ones. The first feature has nothing to be explained by.
    """
    part = INFORMATION.split(one, dim=Z.shape[1])
    with np.errstate(over="ignore"):
        squares = discounted_sums(weights[:, None] * Z * Z, rates, part["energy"])
        before = np.concatenate((part["energy"][None, :], squares[:-1]))
        energy = np.maximum(np.exp(-rates)[:, None] * before, PIVOT_MIN)
        inverse = part["inverse_pivots"] * np.exp(np.cumsum(rates))[:, None]
        faint = np.full(Z.shape, True) if restarted else ~(inverse * energy <= COLLINEAR)
    faint[:, 0] = False
    blur = (RESIDUE_ROUNDING / max(discount.one_minus_beta, 1e-5)) ** 2
    return np.asarray(np.where(faint, blur * energy, 0.0) * np.count_nonzero(faint, axis=1)[:, None])


def _join(parts: list[Observations], dim: int) -> Observations:
    if not parts:
        return no_observations(dim)
    return Observations(
        np.concatenate([p.round for p in parts]),
        np.concatenate([p.row for p in parts]),
        np.concatenate([p.target for p in parts]),
        np.concatenate([p.weight for p in parts]),
    )


def _restart_cost(
    lost: Vector, still: Vector, floors: Observations, ignored: list[int], restarts: list[int], rates: Vector
) -> Vector:
    """Price ignored rounds at their loss, a fresh start at the discounted loss of 0 before it, floors included.

    `lost` and `still` are the losses of the learner and of 0.
    """
    price, age = np.zeros(len(lost)), np.cumsum(rates)
    price[ignored] = lost[ignored]
    for at in restarts:
        earlier = floors.round < at
        held = 0.5 * floors.weight[earlier] * floors.target[earlier] ** 2
        price[at] += float(still[:at] @ np.exp(age[:at] - age[at]))
        price[at] += float(held @ np.exp(age[floors.round[earlier]] - age[at]))
    return price
