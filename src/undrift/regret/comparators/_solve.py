"""Minimise a total loss over one comparator, inside bounds on its norm and on its predictions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from undrift import _check
from undrift._typing import Matrix, Vector
from undrift.losses import Loss, Squared

RIDGE = 1e-9
"""Share of the rows' energy added to the Hessian where the logistic loss has no minimiser."""
GAP = 1e-6
"""A bounded minimum is found to this share of the loss."""
BATCH = 256
"""Violated predictions added to the working set at a time."""
POLISH = 3
"""Full Newton steps at the end of the path, where they converge quadratically: the forces need them, u does not."""


class Limits(NamedTuple):
    """Bounds on a comparator: its norm, and its predictions on every row."""

    bound: float
    margin: float

    @classmethod
    def of(cls, who: str, bound: float | None, margin: float | None) -> Limits:
        """Return checked limits; None is no limit."""
        return cls(
            math.inf if bound is None else _check.interval(who, "bound", bound, "(0, inf]"),
            math.inf if margin is None else _check.interval(who, "margin", margin, "(0, inf]"),
        )

    def shrink(self, u: Vector, rows: Matrix) -> float:
        """Return the largest factor <= 1 that brings u inside."""
        size = float(np.linalg.norm(u))
        widest = float(np.abs(rows @ u).max(initial=0.0)) if math.isfinite(self.margin) else 0.0
        factor = min(1.0, self.bound / size if size > self.bound else 1.0)
        return min(factor, self.margin / widest if widest > self.margin else 1.0)


class Minimum(NamedTuple):
    """A minimiser, and the rows whose margin holds it back."""

    u: Vector
    """The minimiser (d,)."""
    rows: Matrix
    """Rows s z, s the sign of u.z, on which u predicts as far as it may (k, d)."""
    force: Vector
    """Lagrange multipliers of their margins, >= 0 (k,): the gradient at u is about -force @ rows."""


def find_minimum(
    Z: Matrix,
    y: Vector,
    loss: Loss,
    limits: Limits,
    rows: Matrix,
    centre: Vector | None = None,
    pull: Matrix | None = None,
) -> Minimum:
    """Return the minimiser of the total loss with |u| <= bound and |u.z| <= margin on every one of `rows`.

    Where the data leave a choice, the one nearest to `centre` (0), in units of the features' sizes over all of `rows`:
    a feature that is almost silent in a short stretch must not stand in for one that speaks. `pull` (k, d) adds
    |pull (u - centre)|^2 / 2 to the loss.
    """
    middle = np.zeros(Z.shape[1]) if centre is None else centre
    free = (np.zeros((0, Z.shape[1])), np.zeros(0))
    if not len(Z):
        return Minimum(middle, *free)
    size = np.sqrt(np.einsum("td,td->d", rows, rows))
    size[size == 0.0] = 1.0
    towards = np.zeros((0, Z.shape[1])) if pull is None else pull
    u = _minimise_free(Z, y, loss, middle, size, towards)
    if limits.shrink(u, rows) == 1.0:
        return Minimum(u, *free)
    total = _Total(Z, y, loss, middle, towards)
    working, gap = _widest(rows, u, limits), 1e-2
    found = Minimum(np.zeros(Z.shape[1]), *free)
    for _ in range(60):
        found = _minimise_within(total, limits, working, 0.9 * limits.shrink(found.u, rows) * found.u, gap)
        more = _widest(rows, found.u, limits)
        if not len(more) and gap == GAP:
            break
        gap = gap if len(more) else GAP
        working = np.concatenate([working, more])
    return found._replace(u=found.u * limits.shrink(found.u, rows))


def _widest(rows: Matrix, u: Vector, limits: Limits) -> Matrix:
    """Return the rows on which u predicts furthest outside the margin."""
    wide = np.abs(rows @ u)
    over = np.flatnonzero(wide > limits.margin * (1.0 + 1e-9))
    return rows[over[np.argsort(-wide[over])[:BATCH]]]


def _minimise_free(Z: Matrix, y: Vector, loss: Loss, centre: Vector, size: Vector, pull: Matrix) -> Vector:
    """Return the unbounded minimiser, nearest to the centre."""
    scaled, bent = Z / size, pull / size
    if isinstance(loss, Squared):
        rows = np.concatenate([scaled, bent])
        step = np.linalg.lstsq(rows, np.concatenate([y - Z @ centre, np.zeros(len(bent))]), rcond=1e-11)[0]
        return np.asarray(centre + step / size)
    share = float(np.einsum("td,td->", scaled, scaled)) / len(size) or 1.0
    ridge = RIDGE * share * np.eye(len(size)) + bent.T @ bent
    v = np.zeros(len(size))

    def objective(point: Vector) -> float:
        return float(loss.value(scaled @ point + Z @ centre, y).sum()) + 0.5 * float(point @ ridge @ point)

    value = objective(v)
    for _ in range(100):
        at = scaled @ v + Z @ centre
        gradient = scaled.T @ loss.slope(at, y) + ridge @ v
        hessian = (scaled * loss.curvature(at, y)[:, None]).T @ scaled + ridge
        step = np.linalg.solve(hessian, gradient)
        drop, length = float(gradient @ step), 1.0
        if drop <= 1e-12 * (1e-30 + value):
            break
        while length > 1e-10 and objective(v - length * step) > value - 0.25 * length * drop:
            length *= 0.5
        v = v - length * step
        value = objective(v)
    return np.asarray(centre + v / size)


class _Total:
    """A total loss and its derivatives; squared loss from sufficient statistics, so that a step costs nothing."""

    def __init__(self, Z: Matrix, y: Vector, loss: Loss, centre: Vector, pull: Matrix) -> None:
        self.Z, self.y, self.loss, self.centre, self.pull = Z, y, loss, centre, pull.T @ pull
        self.at_zero = float(loss.value(np.zeros(len(y)), y).sum())
        self.quadratic = (Z.T @ Z, Z.T @ y) if isinstance(loss, Squared) else None

    def value(self, u: Vector) -> float:
        pulled = 0.5 * float((u - self.centre) @ self.pull @ (u - self.centre))
        if self.quadratic:
            hessian, towards = self.quadratic
            return self.at_zero + float(u @ (0.5 * (hessian @ u) - towards)) + pulled
        return float(self.loss.value(self.Z @ u, self.y).sum()) + pulled

    def derivatives(self, u: Vector) -> tuple[Vector, Matrix]:
        pulled = self.pull @ (u - self.centre)
        if self.quadratic:
            hessian, towards = self.quadratic
            return hessian @ u - towards + pulled, hessian + self.pull
        at = self.Z @ u
        bend = (self.Z * self.loss.curvature(at, self.y)[:, None]).T @ self.Z
        return self.Z.T @ self.loss.slope(at, self.y) + pulled, bend + self.pull


def _minimise_within(total: _Total, limits: Limits, working: Matrix, u: Vector, gap: float) -> Minimum:
    """Return the minimiser inside the ball and the working set's slabs: Newton steps along the central path from u."""
    terms = 2.0 * len(working) + (1.0 if math.isfinite(limits.bound) else 0.0)
    scale = total.at_zero + 1e-300
    sharp = 10.0 * terms / scale
    eye = np.eye(len(u))

    def objective(point: Vector) -> float:
        room = limits.margin**2 - (working @ point) ** 2
        ball = limits.bound**2 - float(point @ point)
        if ball <= 0.0 or (room <= 0.0).any():
            return math.inf
        barrier = -float(np.log(room).sum()) - (math.log(ball) if math.isfinite(ball) else 0.0)
        return sharp * total.value(point) + barrier

    def newton_step(point: Vector) -> tuple[Vector, float]:
        """Return the step to take back from the point, and how far the objective drops along it, to first order."""
        slope, bend = total.derivatives(point)
        wide = working @ point
        room = limits.margin**2 - wide**2
        gradient = sharp * slope + working.T @ (2.0 * wide / room)
        hessian = sharp * bend + (working * (2.0 / room + (2.0 * wide / room) ** 2)[:, None]).T @ working
        if math.isfinite(limits.bound):
            push = 2.0 / (limits.bound**2 - float(point @ point))
            gradient = gradient + push * point
            hessian += push * eye + push * push * np.outer(point, point)
        step: Vector = np.asarray(np.linalg.solve(hessian + 1e-13 * float(np.trace(hessian)) * eye, gradient))
        return step, float(gradient @ step)

    while True:
        for _ in range(50):
            step, drop = newton_step(u)
            length, value = 1.0, objective(u)
            if drop <= 1e-3:
                break
            while length > 1e-12 and not objective(u - length * step) <= value - 0.25 * length * drop:
                length *= 0.5
            u = u - length * step
        if terms / sharp <= gap * scale:
            for _ in range(POLISH):
                u = u - newton_step(u)[0]
            wide = working @ u
            force = 2.0 * np.abs(wide) / (sharp * (limits.margin**2 - wide**2))
            return Minimum(u, working * np.sign(wide)[:, None], force)
        sharp *= 30.0
