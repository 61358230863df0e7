"""The best comparators in hindsight that never change (`fixed`), or K - 1 times (`piecewise`)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift import _check
from undrift._typing import Matrix, Rounds, Vector
from undrift.errors import InputError
from undrift.losses import Loss, squared
from undrift.regret._input import check_stream
from undrift.regret.comparators._solve import Limits, find_minimum

CELLS = 512
"""Cells between candidate cuts, at most."""
SEARCH_WORK = 3e10
"""Operations of the search for cuts, about: wide rows have fewer candidates, so that it takes seconds."""
WHO = "comparators.piecewise"


def fixed(
    Z: ArrayLike, y: ArrayLike, loss: Loss = squared, *, bound: float | None = None, margin: float | None = None
) -> Matrix:
    r"""Return the u that minimises the total loss, repeated for every round.

    Parameters
    ----------
    Z, y
        Rows (T, d) and labels (T,).
    loss
        `undrift.losses.squared` or `logistic`.
    bound
        Largest |u|, in units of label per feature; None: no limit.
    margin
        Largest $|u\cdot z_s|$ over all rows: what AIOLI with $BR$ = `margin` can be certified against; None: no limit.

    Returns
    -------
    (T, d), a read-only view of one row.

    Notes
    -----
    Squared loss: least squares, of least norm where the data leave a choice. Logistic loss: Newton's method; on
    separable data, where no minimiser exists, a ridge of 1e-9 of the rows' energy decides. Bounds: a barrier method,
    to 1e-6 of the loss of predicting 0.

    Examples
    --------
    >>> u = fixed([[1.0], [1.0], [1.0]], [1.0, 2.0, 6.0])
    >>> u.shape, round(float(u[0, 0]), 9)
    ((3, 1), 3.0)
    >>> round(float(fixed([[1.0], [1.0]], [2.0, 2.0], bound=0.5)[0, 0]), 4)
    0.5
    """
    Z, y = check_stream("comparators.fixed", Z, y, loss)
    limits = Limits.of("comparators.fixed", bound, margin)
    return np.broadcast_to(find_minimum(Z, y, loss, limits, Z).u, Z.shape)


def piecewise(
    Z: ArrayLike,
    y: ArrayLike,
    loss: Loss = squared,
    *,
    segments: int | None = None,
    penalty: float | None = None,
    pull: float = 0.0,
    bound: float | None = None,
    margin: float | None = None,
) -> Matrix:
    r"""Return the best piecewise constant comparator (T, d); for logistic loss a good one.

    Parameters
    ----------
    Z, y, loss
        Rows (T, d), labels (T,), `undrift.losses.squared` or `logistic`.
    segments
        K, how many pieces; or
    penalty
        in its place, what a further piece must save in loss to be worth it.
    pull
        Rounds, >= 0: each piece is fitted as if it had, besides its own, this many average rounds of the stream on
        which the best fixed comparator is right. 0 gives the best pieces. Short pieces then fit noise in directions
        their own rows hardly show, and are far off on all others: a certificate pays for that in `variation`. 1 costs
        the pieces a few percent of their loss at most and makes certificates useful (see the notes).
    bound, margin
        Largest |u| and $|u\cdot z_s|$ over all rows, as for `fixed`.

    Notes
    -----
    Cuts are optimal among at most 511 evenly spaced candidates (every round when T <= 512), by dynamic programming over
    the exact cost of every stretch; rows of more than 70 columns have fewer candidates, at least K / 2 more than cuts,
    so that the search takes seconds. Logistic costs come from the quadratic at the best fixed comparator, so that cuts
    may be off; every piece is then refitted to the true loss. Cuts are chosen without the bounds, pieces are fitted
    within them. Where a piece leaves a choice, it stays near the best fixed comparator, in units of the features' sizes
    over the whole stream.

    Key `frontier`; its page has figures for `pull`.

    Examples
    --------
    >>> u = piecewise([[1.0]] * 6, [1.0, 1.0, 1.0, 5.0, 5.0, 5.0], segments=2)
    >>> np.round(u[:, 0], 9).tolist()
    [1.0, 1.0, 1.0, 5.0, 5.0, 5.0]
    """
    Z, y = check_stream(WHO, Z, y, loss)
    limits = Limits.of(WHO, bound, margin)
    if (segments is None) == (penalty is None):
        raise InputError(f"{WHO}: give segments or penalty, one of them")
    if segments is not None:
        count = _check.integer(WHO, "segments", segments, 1)
    pull = _check.interval(WHO, "pull", pull, "[0, inf)")
    price = 0.0 if penalty is None else _check.interval(WHO, "penalty", penalty, "[0, inf)")
    if not len(y):
        return Z.copy()
    centre = find_minimum(Z, y, loss, Limits.of(WHO, None, None), Z).u
    least = 1 if segments is None else count + count // 2
    cells = max(least, min(CELLS, int(math.sqrt(3.0 * SEARCH_WORK / Z.shape[1] ** 3))))  # cells^2 / 2 solves
    edges = np.unique(np.round(np.linspace(0, len(y), min(cells, len(y)) + 1)).astype(np.int64))
    costs = _costs(Z, y, loss, centre, edges, pull)
    cuts = _with_penalty(costs, price) if segments is None else _with_count(costs, min(count, len(edges) - 1))
    return refit_pieces(Z, y, loss, edges[cuts], limits, centre, pull)


def refit_pieces(
    Z: Matrix, y: Vector, loss: Loss, starts: Rounds, limits: Limits, centre: Vector, pull: float
) -> Matrix:
    """Return the comparator fitted anew on each stretch that begins at `starts`."""
    u = np.empty_like(Z)
    if not len(y):
        return u
    weight = np.sqrt(pull / max(len(y), 1) * loss.curvature(Z @ centre, y))
    average = np.linalg.qr(Z * weight[:, None]).R
    for begin, end in zip(starts, [*starts[1:], len(y)], strict=True):
        u[begin:end] = find_minimum(Z[begin:end], y[begin:end], loss, limits, Z, centre, average).u
    return u


def _costs(Z: Matrix, y: Vector, loss: Loss, centre: Vector, edges: Rounds, pull: float) -> Matrix:
    """Return the quadratic cost, relative to the centre's, of every stretch from edge i to j; infinite for j <= i."""
    at = Z @ centre
    slope, bend = loss.slope(at, y), loss.curvature(at, y)
    cells, dim = len(edges) - 1, Z.shape[1]
    size = np.sqrt(np.einsum("td,td->d", Z, Z))
    scaled = Z / np.where(size > 0.0, size, 1.0)
    hessians, slopes = np.zeros((cells + 1, dim, dim)), np.zeros((cells + 1, dim))
    for i in range(cells):
        part = slice(edges[i], edges[i + 1])
        hessians[i + 1] = hessians[i] + (scaled[part] * bend[part, None]).T @ scaled[part]
        slopes[i + 1] = slopes[i] + scaled[part].T @ slope[part]
    ridge = (1e-12 + 1e-10 * float(np.trace(hessians[-1])) / dim) * np.eye(dim) + pull / len(y) * hessians[-1]
    costs = np.full((cells, cells + 1), np.inf)
    for i in range(cells):
        H, g = hessians[i + 1 :] - hessians[i] + ridge, slopes[i + 1 :] - slopes[i]
        costs[i, i + 1 :] = -0.5 * np.einsum("nd,nd->n", g, np.linalg.solve(H, g[:, :, None])[:, :, 0])
    return costs


def _with_count(costs: Matrix, count: int) -> Rounds:
    """Return where `count` pieces begin, as numbers of edges."""
    best = costs[0].copy()
    back: list[NDArray[np.intp]] = []
    for _ in range(count - 1):
        total = best[:-1, None] + costs
        back.append(np.argmin(total, axis=0))
        best = total.min(axis=0)
    starts, end = [], costs.shape[1] - 1
    for choice in reversed(back):
        end = int(choice[end])
        starts.append(end)
    return np.array([0, *reversed(starts)], dtype=np.int64)


def _with_penalty(costs: Matrix, penalty: float) -> Rounds:
    """Return where the pieces begin that minimise cost plus `penalty` a piece."""
    cells = costs.shape[0]
    best, back = np.full(cells + 1, np.inf), np.zeros(cells + 1, dtype=np.int64)
    best[0] = 0.0
    for j in range(1, cells + 1):
        total = best[:j] + costs[:j, j] + penalty
        back[j] = int(np.argmin(total))
        best[j] = total[back[j]]
    starts, end = [], cells
    while end > 0:
        end = int(back[end])
        starts.append(end)
    return np.array(starts[::-1], dtype=np.int64)
