"""The best single comparator in hindsight."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from undrift._typing import Matrix
from undrift.losses import Loss, squared
from undrift.regret._input import check_stream
from undrift.regret.comparators._solve import Limits, minimise


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
    return np.broadcast_to(minimise(Z, y, loss, limits, Z), Z.shape)
