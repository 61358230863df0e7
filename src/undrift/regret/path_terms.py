r"""The promise of learners that follow a path: the comparator pays for its start and for every step.

$$\sum_tf_t(x_t)\le\sum_tf_t(u_t)+\sum_tL_t+\sum_t\frac{w_t}2|u_t|^2+\tau\sum_t|u_{t+1}-u_t|^2,$$

where $w_t>0$ in rounds in which the learner began or started afresh; movement into such a round is free. Key `drift`.
"""

from __future__ import annotations

import math

import numpy as np

from undrift._typing import Matrix, Vector
from undrift.losses import Loss
from undrift.regret._input import add_exactly, add_sizes, margins
from undrift.regret.d2d import ROUNDING, Certificate
from undrift.template import Template


def path_terms(
    Z: Matrix, y: Vector, u: Matrix, yhat: Vector, stability: Vector, potential: Vector, template: Template, loss: Loss
) -> Certificate:
    """Return the certificate for checked input: arrays of T rounds, the comparator one row a round. O(T d)."""
    counts = np.ones(len(y)) if template.weights is None else template.weights
    incurred, predicted = counts * loss.value(yhat, y), margins(Z, u)
    theirs = counts * loss.value(predicted, y)
    ridge = 0.5 * potential * np.einsum("td,td->t", u, u)
    steps = np.diff(u, axis=0)
    price = math.inf if template.movement is None else template.movement
    squares = np.einsum("td,td->t", steps, steps) * (potential[1:] == 0.0)
    moved = np.multiply(price, squares, out=np.zeros_like(squares), where=squares > 0.0)  # no step costs nothing
    off = Z.shape[1] * ROUNDING * np.einsum("td,td->t", np.abs(Z), np.abs(u))  # rounding of u.z itself
    rounding = add_exactly(counts * (np.abs(loss.slope(predicted, y)) * off + 0.5 * off * off))
    if template.least_cost is not None:  # what rounding in the learner's state took from the prices of the rounds
        rounding += max(0.0, add_exactly(incurred, -stability, np.array([-template.least_cost])))
    terms = (stability, theirs, ridge, moved, np.array([rounding]))
    return Certificate(
        certified=add_exactly(*terms),
        incurred=add_exactly(incurred),
        comparator_loss=add_exactly(theirs),
        regret=add_exactly(incurred, -theirs),
        start=add_exactly(ridge[:1]),
        stability=add_exactly(stability),
        variation=add_exactly(moved),
        potential_drift=add_exactly(ridge[1:], np.array([rounding])),
        scale=add_sizes(*terms, incurred),
        rounding=rounding,
    )
