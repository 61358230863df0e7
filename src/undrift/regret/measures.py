"""Regret as the paper measures it: dynamic, discounted, and the identity that links the two."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from undrift import _check
from undrift._internal.discount import Discount, as_discount
from undrift._typing import Vector
from undrift.losses import Loss, squared
from undrift.regret._input import check_comparator, check_stream, margins, moves
from undrift.regret.past_losses import history_values


def dynamic_regret(incurred: ArrayLike, comparator_losses: ArrayLike) -> float:
    r"""Return $\sum_t f_t(x_t) - f_t(u_t)$, correctly rounded whatever cancels.

    Parameters
    ----------
    incurred
        The learner's loss in each round (T,).
    comparator_losses
        The comparator's loss in each round (T,).

    Notes
    -----
    Key `d2d`. Exact summation: one rounding in all, where subtracting two totals would lose their common digits.

    Examples
    --------
    >>> dynamic_regret([1e16, 3.0, 2.0], [1e16, 1.0, 1.0])
    3.0
    """
    mine = _check.finite_array("dynamic_regret", "incurred", incurred, (None,))
    theirs = _check.finite_array("dynamic_regret", "comparator_losses", comparator_losses, (len(mine),))
    return math.fsum([*mine.tolist(), *(-theirs).tolist()])


def discounted_regret(incurred: ArrayLike, comparator_losses: ArrayLike, beta: float | Discount) -> Vector:
    r"""Return $\sum_{s\le t}\beta^{t-s}(f_s(x_s) - f_s(u))$ for every t, against one comparator u.

    Parameters
    ----------
    incurred, comparator_losses
        Losses of the learner and of the comparator in each round (T,).
    beta
        Discount in (0, 1], a number or a `Discount`; 1 gives the ordinary cumulative regret.

    Notes
    -----
    Key `d2d`. By the recursion r <- beta r + difference: O(T), nothing overflows.

    Examples
    --------
    >>> discounted_regret([1.0, 1.0, 4.0], [0.0, 2.0, 0.0], beta=0.5).tolist()
    [1.0, -0.5, 3.75]
    """
    mine = _check.finite_array("discounted_regret", "incurred", incurred, (None,))
    theirs = _check.finite_array("discounted_regret", "comparator_losses", comparator_losses, (len(mine),))
    b = as_discount("discounted_regret", beta).beta
    steps = accumulate((mine - theirs).tolist(), lambda total, step: b * total + step)
    return np.fromiter(steps, dtype=np.float64, count=len(mine))


class Parts(NamedTuple):
    """The three parts of dynamic regret in terms of discounted regret (key `d2d`)."""

    moves: float
    """beta sum_{t<T} Reg_t(u_t) - Reg_t(u_{t+1}): what the comparator gains by moving; 0 when it stands still."""
    average: float
    """(1 - beta) sum_t Reg_t(u_t)."""
    last: float
    """beta Reg_T(u_T)."""

    @property
    def total(self) -> float:
        """The sum of the three, which is the dynamic regret."""
        return math.fsum(self)


def d2d_identity(
    Z: ArrayLike, y: ArrayLike, yhat: ArrayLike, u: ArrayLike, beta: float | Discount, loss: Loss = squared
) -> Parts:
    """Split the dynamic regret of predictions `yhat` against comparators `u` into its three discounted parts.

    Parameters
    ----------
    Z, y
        Rows (T, d) and labels (T,).
    yhat
        The learner's predictions (T,); any learner, no assumption.
    u
        Comparators (T, d), or one (d,).
    beta
        Discount in (0, 1]; the identity holds for every one of them.
    loss
        `undrift.losses.squared` or `logistic`.

    Notes
    -----
    Key `d2d`. An identity, no inequality anywhere. Costs T loss evaluations for each move of the comparator; rounds
    where it stands still are free.

    Examples
    --------
    >>> parts = d2d_identity([[1.0], [1.0]], [1.0, 3.0], [0.0, 1.0], [[1.0], [3.0]], beta=0.5)
    >>> parts, parts.total
    (Parts(moves=1.0, average=0.875, last=0.625), 2.5)
    """
    who = "d2d_identity"
    Z, y = check_stream(who, Z, y, loss)
    predictions = _check.finite_array(who, "yhat", yhat, (len(y),))
    u = check_comparator(who, u, *Z.shape)
    d = as_discount(who, beta)
    incurred = loss.value(predictions, y)
    gained = (incurred - loss.value(margins(Z, u), y)).tolist()
    # History of a new comparator at the round before it enters, each from its definition, not from the recursion below.
    at = moves(u)
    mine = accumulate(incurred.tolist(), lambda total, step: d.beta * total + step)
    own = np.fromiter(mine, dtype=np.float64, count=len(y))
    old, new = history_values(Z, y, u, at, d, loss)
    entering = dict(zip((at + 1).tolist(), (own[at] - new).tolist(), strict=True))

    regret = 0.0
    held: list[float] = []
    for t, step in enumerate(gained):
        regret = d.beta * entering.get(t, regret) + step
        held.append(regret)
    return Parts(
        moves=d.beta * math.fsum((new - old).tolist()),
        average=d.one_minus_beta * math.fsum(held),
        last=d.beta * (held[-1] if held else 0.0),
    )


def path_length(u: ArrayLike) -> float:
    r"""Return $\sum_t |u_{t+1} - u_t|$, the comparator's movement in decision space.

    Examples
    --------
    >>> path_length([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]])
    5.0
    """
    path = _check.finite_array("path_length", "u", u, (None, None))
    return math.fsum(np.linalg.norm(np.diff(path, axis=0), axis=1).tolist())
