"""Discounted VAW: online least squares that forgets, and never blows up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check, kernels
from undrift._internal import thread_lock
from undrift._typing import Matrix, Vector
from undrift.errors import InputError
from undrift.kernels import layout
from undrift.kernels.definitions import Hint
from undrift.learners.base import Columns, Learner, Prediction
from undrift.learners.information import InformationLearner
from undrift.learners.row_context import ORDINARY, Delay, RowContext
from undrift.template import ALIKE, Template, alike
from undrift.trace import Trace

HINTS = tuple(hint.name.lower() for hint in Hint)
"""The hints by name, in the order of their numbers."""
BLOCK = 4096
"""Rounds handed to the kernel at a time."""
EPS = float(np.finfo(np.float64).eps)


class DiscountedVAW(InformationLearner):
    r"""Linear regression on a drifting stream: a row of age $k$ counts $\beta^k$.

    Before each round it solves
    $x_t = \arg\min_x \tfrac{\lambda\beta^t}{2}|x|^2 + \tfrac12(x\cdot z_t - \tilde y_t)^2
    + \tfrac12\sum_{s<t}\beta^{t-s}(x\cdot z_s - y_s)^2$
    and predicts $x_t\cdot z_t$; the hint $\tilde y_t$ is a guess of the coming label, 0 in the paper.

    Parameters
    ----------
    beta
        Discount factor in (0, 1], 0.99 if neither it nor `half_life` is given; 1 never forgets (plain VAW).
    half_life
        In place of `beta`: rounds after which a row counts half.
    reg
        Ridge $\lambda > 0$, in squared feature units; it is forgotten like the data.
    hint
        "zero" (the paper: cautious, shrinks predictions where little is known), "last" (the last label: good when
        labels move slowly) or "ridge" (the leader's own prediction: plain discounted ridge regression). A value for
        the very round may be passed to `predict`, `learn` and `play` instead.

    Notes
    -----
    Guarantee `vaw`; certified by `stability` and `potential` of the trace for every hint. O(d^2) time a round, O(d^2)
    memory. Predictions are exact while every pivot of $A = LDL^\top$ exceeds 1e-24 of its feature's energy; below
    that, forgetting is suspended in that direction (`floored` counts it).

    Examples
    --------
    >>> import numpy as np
    >>> model = DiscountedVAW(half_life=20)
    >>> Z = np.column_stack([np.ones(200), np.sin(np.arange(200))])
    >>> y = Z @ [1.0, 2.0]
    >>> y[100:] = Z[100:] @ [3.0, -1.0]          # the world changes
    >>> trace = model.play(Z, y)
    >>> np.round(model.coef, 1).tolist()
    [2.9, -0.9]
    """

    def __init__(
        self, *, beta: float | None = None, half_life: float | None = None, reg: float = 1.0, hint: str = "zero"
    ) -> None:
        super().__init__(beta=beta, half_life=half_life, reg=reg, hint=hint)
        self.hint = _check.choice(self, "hint", hint, HINTS)
        self._last = np.zeros(1)

    def predict(self, z: ArrayLike, *, hint: ArrayLike | None = None, elapsed: float | None = None) -> Prediction:
        """Return the prediction for the coming round, a vector for several candidate rows; nothing changes.

        `hint`: a guess of each label, in place of the learner's own. `elapsed`: the time since the row before, 1 by
        default.
        """
        if hint is None:
            return Learner.predict(self, z, elapsed=elapsed)  # super() would search the classes between at every row
        with self._shared_lock:
            Z, single = self._rows(z)
            given = _check.column(self, "hint", hint, len(Z))
            yhat = self._predictor(Z)._predict(Z, self._time(elapsed), given)
        return float(yhat[0]) if single else yhat

    def learn(
        self,
        z: ArrayLike,
        y: float,
        *,
        hint: float | None = None,
        weight: float | None = None,
        elapsed: float | None = None,
    ) -> None:
        """Close one round. The hint does not enter the state; it is accepted so that calls can be alike.

        The row counts `weight` times, once by default; `elapsed` is the time since the row before, 1 by default.
        """
        if hint is not None:
            _check.column(self, "hint", hint, 1)
        Learner.learn(self, z, y, weight=weight, elapsed=elapsed)  # likewise

    @thread_lock.hold_exclusive
    def play(
        self,
        Z: ArrayLike,
        y: ArrayLike,
        *,
        hint: ArrayLike | None = None,
        delay: Delay = 0,
        weight: ArrayLike | None = None,
        elapsed: ArrayLike | None = None,
    ) -> Trace:
        """Close a block of rounds; the same bits as `predict` then `learn`, row by row.

        `hint`: a guess of each label made before it was seen, in place of the learner's own. A row counts `weight`
        times, and comes the time `elapsed` after the one before; both have a number for each row.
        """
        block = self._block(Z)
        labels = self._labels(y, len(block))
        given = None if hint is None else _check.column(self, "hint", hint, len(block))
        context = self._check_context(len(block), weight=weight, elapsed=elapsed, delay=delay)
        if self._waits(context):
            if given is not None:
                raise InputError(f"{_check.name_of(self)}: hint and delay cannot be given together; leave one out")
            return self._play_late(block, labels, context)
        return self._close(block, lambda: self._play(block, labels, context, given), context)

    def template(self, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> Template:
        """Return the promise that covers a run over these rows and labels, whatever hints were given."""
        terms = self._terms_of_promise(Z, y, context)
        return _HintedTemplate(self.discount, learner=self, context=context, **terms)

    def _make_kernel(self) -> kernels.EnsembleKernel:
        return self._kernel_of_one(np.empty(0), HINTS.index(self.hint), self._last)

    def _predict(self, Z: Matrix, elapsed: float = 1.0, hint: Vector | None = None) -> Vector:
        m, h = np.empty((len(Z), 1)), np.empty((len(Z), 1))
        status = kernels.vaw_predict(self._state, self._betas, self.rounds, Z, m, h, elapsed=elapsed)
        _check.raise_on_status(self, status, Z.shape[1])
        return self._apply_hint(m[:, 0], h[:, 0], self._hint_values(m[:, 0], hint, self._last))

    def _play(self, Z: Matrix, y: Vector, context: RowContext, hint: Vector | None = None) -> Columns:
        yhat, stability = np.empty(len(y)), np.empty(len(y))
        for a in range(0, len(y), BLOCK):  # what is needed beside the columns stays small
            rounds = slice(a, a + BLOCK)
            m, h, label = yhat[rounds], stability[rounds], y[rounds]
            first = self.rounds + a
            weight, elapsed = context.between(a, a + BLOCK)[:2]
            status = kernels.vaw_play(
                self._state, self._betas, first, Z[rounds], label, m[:, None], h[:, None], 1, weight, elapsed
            )
            _check.raise_on_status(self, status, Z.shape[1])
            last = np.concatenate((self._last, label[:-1]))
            hints = self._hint_values(m, None if hint is None else hint[rounds], last)
            price = exact_stability(m, h, hints, label, weight)
            m[...] = self._apply_hint(m, h, hints)
            h[...] = price
            self._last[0] = label[-1]
        return Columns(yhat, stability, self._potential(len(y), context))

    def _leaders(self, Z: Matrix, y: Vector, context: RowContext = ORDINARY) -> tuple[Vector, Vector]:
        """Return the leader's prediction m and the leverage h of every round of a run from the first round on."""
        m, h = np.empty((len(y), 1)), np.empty((len(y), 1))
        state, counts = layout.fresh(Z.shape[1], np.array([self.reg])), (context.weight, context.elapsed)
        _check.raise_on_status("certify", kernels.vaw_play(state, self._betas, 0, Z, y, m, h, 1, *counts), Z.shape[1])
        return m[:, 0], h[:, 0]

    def paper_stability(self, Z: Matrix, y: Vector) -> Vector:
        """Return the paper's price of each round of a run from the first round on: without the hint's own error."""
        m, h = self._leaders(Z, y)
        hints = self._hint_values(m, None, np.concatenate((np.zeros(1), y))[: len(y)])
        return np.asarray(0.5 * h / (1.0 + h) * (y - hints) ** 2)

    def _settle(self, record: Vector, y: float, context: RowContext, *, newest: bool) -> None:
        last = float(self._last[0])
        super()._settle(record, y, context, newest=newest)
        if not newest:
            self._last[0] = last  # the last label is that of the row served last

    def _hint_values(self, m: Vector, hint: Vector | None, last: Vector) -> Vector:
        """Return the hint of each round: the one given, or the learner's own."""
        if hint is not None:
            return hint
        return {"zero": np.zeros(len(m)), "last": np.broadcast_to(last, len(m)), "ridge": m.copy()}[self.hint]

    @staticmethod
    def _apply_hint(m: Vector, h: Vector, hint: Vector) -> Vector:
        """Return the predictions with these hints."""
        yhat, stability = np.empty((len(m), 1)), np.empty((len(m), 1))
        hints = np.ascontiguousarray(hint)[:, None]
        kernels.hinted_predictions(m[:, None], h[:, None], hints, np.zeros(len(m)), yhat, stability)
        return yhat[:, 0]

    def _arrays(self) -> dict[str, Vector]:
        return {**super()._arrays(), "last": self._last}


@dataclass(frozen=True, eq=False)
class _HintedTemplate(Template):
    """The promise of a VAW run, which hints of the caller's own may have changed."""

    learner: DiscountedVAW
    context: RowContext = ORDINARY

    def fits(self, trace: Trace, Z: Matrix, y: Vector) -> bool:
        """Whether hints exist that give this trace: yhat = m + q (hint - m), and the stability that goes with it."""
        if super().fits(trace, Z, y) or trace.stability is None:
            return True
        m, h = self.learner._leaders(Z, y, self.context)
        q, counts = h / (1.0 + h), self.context.weights(len(y))
        moved = q > 0.0
        hint = m + np.divide(trace.yhat - m, q, out=np.zeros(len(y)), where=moved)
        wide = np.abs(hint) + np.abs(m) + np.abs(y)
        price = exact_stability(m, h, hint, y, counts)
        same = np.abs(trace.stability - price) <= ALIKE * q * wide * wide * np.maximum(counts, counts * counts)
        return bool(same.all()) and alike(trace.yhat[~moved], m[~moved], y)


def exact_stability(m: Vector, h: Vector, hint: Vector, y: Vector, weight: Vector | None = None) -> Vector:
    r"""Return $\frac12(q(y-\tilde y)^2-q(1-q)(m-\tilde y)^2)$ with $q=h/(1+h)$: a round's loss less the leader's.

    The paper drops the second term. A row of weight w is predicted like any other, and its loss counts w times: with
    $e=y-m$ and $\delta=\tilde y-m$ the price is $\frac w2(\frac{wh}{1+wh}e^2-2qe\delta+q^2\delta^2)$.
    """
    part = 1.0 / (1.0 + h)
    price = np.asarray(0.5 * h * part * ((y - hint) ** 2 - part * (m - hint) ** 2))
    if weight is None:
        return price
    q, e, delta, wh = h * part, y - m, hint - m, weight * h
    terms = (wh / (1.0 + wh) * e * e, -2.0 * q * e * delta, (q * delta) ** 2)
    rounding = 4.0 * EPS * (terms[0] + np.abs(terms[1]) + terms[2])
    return np.where(weight == 1.0, price, 0.5 * weight * (sum(terms) + rounding))
