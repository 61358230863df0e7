"""Trace: what a block of finished rounds leaves behind, column by column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from undrift._typing import Matrix, Scalar, Vector


@dataclass(frozen=True, eq=False)
class Trace:
    """Columns of the rounds closed by one `play`, with who closed them.

    A certificate needs `stability` and `potential`; learners without a guarantee leave them None.
    """

    yhat: Vector
    """Predictions, made before the label was seen (T,)."""
    stability: Vector | None = None
    """Price of each round, $\\beta^t\\Lambda_t$ (T,): the exact one, which may be negative and is never above the
    paper's (`lemmas.paper_stability`), whose sums ensembles keep as `stabilities`."""
    potential: Vector | None = None
    """Weight $w_t$ in $\\beta^t\\phi_t(u) = w_t|u|^2/2$ (T,), before pivot floors, which `certify` replays."""
    learner: str = ""
    """Class of the learner."""
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    """Its parameters."""
    first: int = 0
    """Rounds the learner had closed before this block; 0 for a whole run."""
    weights: Matrix | None = None
    """Ensembles, on request: the members' weights before each round (T, N)."""
    lower: Vector | None = None
    """Lower ends of the intervals asked for, made before the label was seen (T,)."""
    upper: Vector | None = None
    """Their upper ends (T,)."""
    known: NDArray[np.bool_] | None = None
    """Whether any label had been learned before each prediction (T,); one made before says nothing."""
    delay: int = 0
    """Rows that were served before a row's label was learned; 0: it was learned at once."""

    def __len__(self) -> int:
        return len(self.yhat)
