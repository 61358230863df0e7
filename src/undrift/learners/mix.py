"""Mix: forecasts made elsewhere, combined so as to be as good as the best convex combination of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, kernels
from undrift._internal import plot, thread_lock
from undrift._typing import Arrays, Matrix, Vector
from undrift.errors import InputError, ModelFileError
from undrift.kernels.definitions import GivenLoss, GivenMember, GivenNumber
from undrift.learners.base import Columns, Learner
from undrift.learners.row_context import Delay, RowContext
from undrift.learners.save_point import SavePoint
from undrift.learners.served import ServedPrediction
from undrift.losses import Loss, Quantile, absolute, squared
from undrift.trace import Trace

LOSSES = ("squared", "absolute", "quantile")
MOST_STEPS = 10_000
COMBINED = ("mean", "median")
"""Candidates made of the given ones."""
KNOWN, YHAT, SERIAL, HEAD = 0, 1, 2, 3
"""A record: whether a label was known, the prediction, the row's number; then the weights, and the row."""


class MixCertificate(NamedTuple):
    """How a `Mix` compares with the best convex combination of all candidates that never changes."""

    total_loss: float
    """Sum of the losses of what was served, but for rows in which all candidates were missing."""
    bound: float
    """The excess over every convex combination is at most this: the largest entry of `cost()`."""
    excess: float | None
    """The total loss minus that of the best convex combination in hindsight; None but for squared loss."""
    combination: Vector | None
    """That combination, by candidate; None but for squared loss."""


class Mix(Learner):
    r"""Combine forecasts made elsewhere: a row holds one forecast by each candidate.

    The candidates, their mean and their median are weighed by what they would have gained in the past. Weights follow
    the regrets, so that nothing has to be tuned; a forecast that is missing (NaN) neither gains nor loses.

    Parameters
    ----------
    loss
        What is to be small: "squared" (half the squared error), "absolute", or "quantile" (pinball loss), for
        candidates that forecast a quantile.
    quantile
        The level of that quantile, in (0, 1); with `loss="quantile"` only.
    horizon
        Steps that are forecast together. 1: a row is (candidates,), its label a number. H > 1: a row is (H,
        candidates), its labels (H,), NaN where one is missing; weights are kept for each step, and steps learn from
        each other. The labels of a row become known together unless `delay` says otherwise. Not in fleets.
    names
        What the candidates are called, in the order of the columns.

    Notes
    -----
    Guarantee `gate`: the losses so far exceed those of any convex combination u of the candidates, mean and median
    included, by at most `u @ cost()`. O(H N) time a forecast for N candidates, and N^2 more for squared loss.

    A forecast farther than 8 mean errors from the weighted median of all counts as that far. If all candidates are
    missing, the prediction is the last label that is known for the step, 0 before any, and the weights are 0; its label
    changes no weight, and the row is left out of `losses`, `cost()` and `certificate()`.

    Examples
    --------
    >>> import undrift as ud
    >>> rng = np.random.default_rng(0)
    >>> y = np.sin(np.arange(1000) / 50)
    >>> forecasts = y[:, None] + rng.normal(size=(1000, 3)) * [0.1, 0.2, 0.8]
    >>> mix = ud.Mix(loss="absolute", names=["good", "fair", "poor"])
    >>> trace = mix.play(forecasts, y)
    >>> error = np.abs(trace.yhat - y).mean()
    >>> bool(error < np.abs(forecasts[:, 0] - y).mean()), bool(error < np.abs(forecasts.mean(axis=1) - y).mean())
    (True, True)
    >>> max(zip(mix.weights.tolist(), mix.candidates))[1]
    'good'
    >>> trace.weights.shape, round(mix.certificate().bound / mix.certificate().total_loss, 2)
    ((1000, 5), 0.13)
    """

    accepts_nan = True
    mixes_columns = True

    def __init__(
        self,
        loss: str = "squared",
        *,
        quantile: float | None = None,
        horizon: int = 1,
        names: Sequence[str] | None = None,
    ) -> None:
        self._kind = _check.choice(self, "loss", loss, LOSSES)
        if (quantile is None) == (self._kind == "quantile"):
            raise InputError(
                f"{_check.name_of(self)}: quantile, a level in (0, 1), goes with loss='quantile' and no other, got "
                f"loss={loss!r} and quantile={quantile!r:.40}"
            )
        self._level = 0.5 if quantile is None else _check.interval(self, "quantile", quantile, "(0, 1)")
        self.horizon = _check.integer(self, "horizon", horizon, 1, MOST_STEPS)
        self.outputs = self.horizon
        self.names = self._check_names(names)
        super().__init__(loss=self._kind, quantile=quantile, horizon=self.horizon, names=self.names)  # type: ignore[arg-type]  # a list of texts is JSON too

    def _check_names(self, names: object) -> list[str] | None:
        if names is None:
            return None
        listed = list(names) if isinstance(names, (list, tuple)) else []
        if not listed or not all(isinstance(name, str) for name in listed) or len({*listed}) < len(listed):
            raise InputError(f"{_check.name_of(self)}: names must be a list of different texts, got {names!r:.60}")
        return listed

    @property
    def loss(self) -> Loss:
        """The loss that is to be small."""
        if self._kind == "squared":
            return squared
        return absolute if self._kind == "absolute" else Quantile(self._level)

    @property
    def _unit(self) -> float:
        """What the kernel's losses are multiplied by: its absolute loss is half the absolute error."""
        return 2.0 if self._kind == "absolute" else 1.0

    @property
    def _settings(self) -> tuple[int, float]:
        return int(GivenLoss.SQUARED if self._kind == "squared" else GivenLoss.PINBALL), self._level

    # ---- state -------------------------------------------------------------------------------------------------

    def _begin(self, dim: int) -> None:
        if self.names is not None and len(self.names) != dim:
            raise InputError(
                f"{_check.name_of(self)}: names has {len(self.names)} names, but rows have {dim} candidates"
            )
        count = dim + len(COMBINED)
        self._numbers = np.zeros((self.horizon + 1, len(GivenNumber)))
        self._last = np.zeros(self.horizon)  # the label that became known last, by step
        self._sums = np.zeros((self.horizon, count, len(GivenMember)))
        self._products = np.zeros((count, count) if self._kind == "squared" else (0, 0))

    def _arrays(self) -> Arrays:
        products = {"products": self._products} if self._products.size else {}
        return {"numbers": self._numbers, "last": self._last, "sums": self._sums, **products}

    def _min_array_size(self, dim: int) -> int:
        count = dim + len(COMBINED)
        return self.horizon * count * len(GivenMember) + (count * count if self._kind == "squared" else 0)

    def _load_arrays(self, arrays: Arrays) -> None:
        super()._load_arrays(arrays)
        regrets, squares = self._sums[..., GivenMember.REGRET], self._sums[..., GivenMember.SQUARES]
        sound = (self._numbers >= 0.0).all() and (squares >= 0.0).all() and (squares[regrets > 0.0] > 0.0).all()
        sound &= (np.abs(self._last) <= _check.LIMIT).all()
        if not sound or self.served_rows % self.horizon:
            raise ModelFileError(f"{_check.name_of(self)}: the saved arrays do not fit together")

    # ---- rows --------------------------------------------------------------------------------------------------

    def _rows(self, z: ArrayLike) -> tuple[Matrix, bool]:
        """Return forecasts as rows (n, candidates), the steps of a row one by one, and whether `z` was a single row."""
        if self.horizon == 1:
            return super()._rows(z)
        array = _check._real_array(self, "z", z)
        if array.ndim not in (2, 3) or array.shape[-2] != self.horizon:
            raise InputError(
                f"{_check.name_of(self)}: z must be one row ({self.horizon}, candidates) or rows (n, {self.horizon}, "
                f"candidates), got an array of shape {array.shape}"
            )
        return super()._rows(array.reshape(-1, array.shape[-1]))[0], array.ndim == 2

    def _row(self, z: ArrayLike, verb: str = "learn") -> Matrix:
        Z, _ = self._rows(z)
        if len(Z) != self.horizon:
            rows = len(Z) // self.horizon
            raise InputError(f"{_check.name_of(self)}: {verb} takes one row, got {rows}; use play(Z, y) for a block")
        return Z

    def _labels(self, y: ArrayLike, count: int) -> Vector:
        if self.horizon > 1 and count > 1:
            array = _check._real_array(self, "y", y)
            shape = (count // self.horizon, self.horizon)
            if array.shape != shape and not (shape[0] == 1 and array.shape == shape[1:]):
                raise InputError(
                    f"{_check.name_of(self)}: y must have a label for each row and step, {shape}, got {array.shape}"
                )
            y = array.ravel()
        return _check.column(self, "y", y, count, nan=True)

    def _delay_in_forecasts(self, delay: Delay, count: int) -> Delay:
        """Return the delay in forecasts; with several steps, `delay` counts rows, and its shape fits (rows, steps)."""
        if self.horizon == 1:
            return delay
        steps, listed = self.horizon, np.asarray(delay)
        try:
            rows = np.broadcast_to(listed, (count // steps, steps))
        except ValueError:
            raise InputError(
                f"{_check.name_of(self)}: delay must be an integer, one for each step ({steps},), or one for each row "
                f"and step {(count // steps, steps)}, got an array of shape {listed.shape}"
            ) from None
        late = [_check.integer(self, "delay", one, 0) for one in rows.ravel().tolist()]
        if not any(late) and not self._pending.scheduled:
            return 0
        return [rows_late * steps + steps - 1 - k % steps for k, rows_late in enumerate(late)]

    # ---- rounds ------------------------------------------------------------------------------------------------

    @thread_lock.hold_shared
    def predict(self, z: ArrayLike, *, elapsed: float | None = None) -> Any:
        """Return the forecast for the coming row, (H,) with several steps, or one for each of several rows."""
        if self.horizon == 1:
            return super().predict(z, elapsed=elapsed)
        self._time(elapsed)
        Z, single = self._rows(z)
        yhat = self._predictor(Z)._predict(Z).reshape(-1, self.horizon)
        return yhat[0] if single else yhat

    @thread_lock.hold_exclusive
    def learn(self, z: ArrayLike, y: Any, *, weight: float | None = None, elapsed: float | None = None) -> None:
        """Close one round: the label of row `z`, or its labels (H,), have become known; NaN for a missing one."""
        context = self._check_context(1, weight=weight, elapsed=elapsed)
        Z = self._row(z)
        labels = self._labels(y, self.horizon)
        self._close(Z, lambda: self._play(Z, labels, context))

    @thread_lock.hold_exclusive
    def play(
        self,
        Z: ArrayLike,
        y: ArrayLike,
        *,
        delay: Delay = 0,
        weight: ArrayLike | None = None,
        elapsed: ArrayLike | None = None,
    ) -> Trace:
        """Close a block of rounds; the trace has the weights before each of them.

        Parameters
        ----------
        Z
            Forecasts (n, candidates), or (n, H, candidates) with several steps; NaN where there is none.
        y
            Labels (n,) or (n, H); NaN where one is missing.
        delay
            Rows that are served before a label is known: one number, or one for each row, `23 - hour` where the labels
            of a day become known together. With several steps also one for each step, `np.arange(H)` where step h of
            a row becomes known h rows later, or one for each row and step.
        weight, elapsed
            Not for this learner; the forecasts say all that is known.
        """
        block = self._block(Z)
        labels = self._labels(y, len(block))
        self._check_context(len(block) // self.horizon, weight=weight, elapsed=elapsed)
        context = self._check_context(len(block), delay=self._delay_in_forecasts(delay, len(block)))
        if self._waits(context):
            return self._by_row(self._play_late(block, labels, context))
        weights = np.empty((len(block), block.shape[1] + len(COMBINED)))
        trace = self._close(block, lambda: self._play(block, labels, context, weights))
        return self._by_row(replace(trace, weights=weights))

    def _by_row(self, trace: Trace) -> Trace:
        """Return a trace of single forecasts with a row for all steps of one round."""
        if self.horizon == 1 or trace.weights is None or trace.known is None:
            return trace
        rows = len(trace.weights) // self.horizon
        return replace(
            trace,
            yhat=trace.yhat.reshape(rows, self.horizon),
            weights=trace.weights.reshape(rows, self.horizon, -1),
            known=trace.known[:: self.horizon],
            delay=trace.delay // self.horizon,
        )

    @thread_lock.hold_exclusive
    def ask(self, z: ArrayLike, *, elapsed: float | None = None) -> Any:
        """Serve a row that has really come, and keep its record until `tell`; with several steps, a list of H records.

        The label of each is told by itself, whenever it is known.
        """
        if self.horizon == 1:
            return super().ask(z, elapsed=elapsed)
        self._time(elapsed)
        Z = self._row(z, "ask")
        with SavePoint(self):
            return [self._ask(Z[h : h + 1]) for h in range(self.horizon)]

    def _predict(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        return self._weigh(Z, 0)[0]

    def _weigh(self, Z: Matrix, step: int) -> tuple[Vector, Matrix]:
        """Return predictions for rows from a step on, and the weights of candidates in each."""
        yhat, weights = np.empty(len(Z)), np.empty((len(Z), self._sums.shape[1]))
        kernels.given_predict(self._numbers, self._last, self._sums, *self._settings, step, Z, yhat, weights)
        return yhat, weights

    def _play(self, Z: Matrix, y: Vector, context: RowContext, weights: Matrix | None = None) -> Columns:
        yhat, before = np.empty(len(y)), np.empty((len(y), self._sums.shape[1])) if weights is None else weights
        kernels.given_play(self._numbers, self._last, self._sums, self._products, *self._settings, Z, y, yhat, before)
        return Columns(yhat)

    def _serve(self, Z: Matrix, elapsed: float = 1.0) -> Vector:
        serial = self.served_rows + 1
        yhat, weights = self._weigh(Z, (serial - 1) % self.horizon)
        return np.concatenate(([float(self.rounds > 0)], yhat, [float(serial)], weights[0], Z[0]))

    def _settle(self, record: Vector, y: float, context: RowContext, *, newest: bool) -> None:
        serial, z = int(record[SERIAL]), np.ascontiguousarray(record[HEAD + self._sums.shape[1] :])
        step, late = (serial - 1) % self.horizon, float(self.served_rows - serial + 1)
        state = self._numbers, self._last, self._sums, self._products
        kernels.given_learn(*state, *self._settings, step, z, float(record[YHAT]), y, late)

    def _fits_record(self, record: Vector) -> bool:
        fits = len(record) == HEAD + self._sums.shape[1] + (self.dim or 0)
        fits = fits and abs(record[YHAT]) <= _check.LIMIT and 1.0 <= record[SERIAL] <= 2.0**53
        return bool(fits and (~(np.abs(record[HEAD:]) > _check.LIMIT)).all())

    def _trace_served(self, served: list[ServedPrediction], first: int, latest: int) -> Trace:
        count = 0 if self.dim is None else self._sums.shape[1]
        weights = np.array([one.record[HEAD : HEAD + count] for one in served]).reshape(-1, count)
        return replace(super()._trace_served(served, first, latest), weights=weights)

    # ---- reading -----------------------------------------------------------------------------------------------

    @property
    def candidates(self) -> list[str]:
        """Names of the candidates: the given ones, and their mean and median."""
        given = self.names or [f"candidate {k}" for k in range(self.dim or 0)]
        return [*given, *COMBINED] if given else []

    @property
    @thread_lock.hold_shared
    def weights(self) -> Matrix:
        """Weights for the coming row by candidate (N + 2,), with several steps (H, N + 2); they sum to 1."""
        if self.dim is None:
            return np.zeros(0)
        return self._by_step(self._weigh(np.zeros((self.horizon, self.dim)), 0)[1])

    @property
    @thread_lock.hold_shared
    def losses(self) -> Matrix:
        """Sum of each candidate's losses (N + 2,), with several steps (H, N + 2).

        A candidate counts as the mixture where it was missing; rows in which all were are left out.
        """
        return np.zeros(0) if self.dim is None else self._by_step(self._unit * self._sums[..., GivenMember.LOSS])

    @thread_lock.hold_shared
    def cost(self) -> Matrix:
        """Return the guarantee (N + 2,), with several steps (H, N + 2): a bound on the excess over each candidate.

        For any convex combination u of the candidates, the losses so far exceed those of u by at most `u @ cost()`, on
        labels and candidates as they came, however late (theory page `gate`). Rows without any forecast are left out.
        """
        return np.zeros(0) if self.dim is None else self._by_step(self._unit * self._sums[..., GivenMember.SLOPES])

    def _by_step(self, columns: Matrix) -> Matrix:
        """Return numbers by step and candidate, or for a single step by candidate."""
        return np.array(columns[0] if self.horizon == 1 else columns)

    @thread_lock.hold_shared
    def certificate(self) -> MixCertificate:
        """Return how far the losses are above those of the best convex combination, and the bound on it.

        The combination is the same for all steps. For squared loss the excess is exact: it follows from sums that are
        kept. For the other losses there is the bound alone.
        """
        if self.dim is None:
            return MixCertificate(0.0, 0.0, None, None)
        slopes = self._sums[..., GivenMember.SLOPES].sum(axis=0)
        total = self._unit * float(self._numbers[: self.horizon, GivenNumber.LOSS].sum())
        bound = self._unit * float(slopes.max())
        if self._kind != "squared":
            return MixCertificate(total, bound, None, None)
        u = _maximise_on_simplex(slopes, self._products)
        return MixCertificate(total, bound, float(u @ slopes - 0.5 * u @ self._products @ u), u)

    def plot(self, trace: Trace, Z: ArrayLike, y: ArrayLike, *, x: ArrayLike | None = None) -> plot.Figure:
        """Return a plotly figure: weights over time, and losses against those of the mean and the best candidate.

        Parameters
        ----------
        trace
            What `play` returned.
        Z, y
            The forecasts and labels that were played.
        x
            Times or numbers of the forecasts; None counts them from 1.
        """
        block = self._block(Z)
        labels = self._labels(y, len(block))
        if trace.weights is None or trace.yhat.size != len(block):
            raise InputError(f"{_check.name_of(self)}: plot takes the trace of these rows, as play returned it")
        there = ~np.isnan(block)
        mean = np.where(there, block, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
        answers = np.column_stack([trace.yhat.ravel(), mean, np.where(there, block, mean[:, None])])
        lost = np.column_stack([self.loss.value(column, labels) for column in answers.T])
        lost[np.isnan(labels) | ~there.any(axis=1)] = 0.0
        best = int(np.argmin(lost[:, 2:].sum(axis=0)))
        mixed, single = np.cumsum(lost[:, [0, 2 + best]] - lost[:, 1:2], axis=0).T
        weights = trace.weights.reshape(len(block), -1)
        return plot.plot_mixture(weights, self.candidates, mixed, single, self.candidates[best], x)

    def _facts(self) -> dict[str, str]:
        facts = super()._facts()
        if not self.rounds:
            return facts
        mean = np.atleast_2d(self.weights).mean(axis=0).tolist()
        leading = sorted(zip(self.candidates, mean, strict=True), key=lambda pair: -pair[1])[:3]
        return facts | {"weights": ", ".join(f"{name} {weight:.0%}" for name, weight in leading if weight >= 0.005)}


def _maximise_on_simplex(slopes: Vector, products: Matrix) -> Vector:
    """Return the convex combination u with the largest u @ slopes - u @ products @ u / 2, by an active set."""
    scale = float(np.max(np.diagonal(products))) or 1.0
    G, D = slopes / scale, products / scale
    u = np.zeros(len(G))
    u[int(np.argmax(G - 0.5 * np.diagonal(D)))] = 1.0
    for _ in range(20 * len(G)):
        gradient = G - D @ u
        entering = int(np.argmax(gradient))
        if gradient[entering] <= u @ gradient + 1e-12 * (np.abs(G).max() + 1.0):
            break
        support = sorted({*np.flatnonzero(u > 0.0).tolist(), entering})
        while True:  # move to the best combination of the support; candidates that reach 0 on the way leave it
            k = len(support)
            system = np.ones((k + 1, k + 1))
            system[:k, :k], system[k, k] = D[np.ix_(support, support)], 0.0
            away = np.linalg.lstsq(system, np.append(G[support], 1.0), rcond=None)[0][:k] - u[support]
            room = np.full(k, np.inf)
            np.divide(u[support], -away, out=room, where=u[support] + away < 0.0)
            u[support] = np.maximum(u[support] + min(1.0, float(room.min())) * away, 0.0)
            if room.min() >= 1.0:
                break
            u[support[int(np.argmin(room))]] = 0.0
            support.pop(int(np.argmin(room)))
        u /= u.sum()
    return u
