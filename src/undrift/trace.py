"""Trace: what a block of finished rounds leaves behind, column by column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift._internal import html, plot
from undrift._typing import Matrix, Scalar, Vector


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """Columns of the rounds closed by one `play`, with who closed them.

    A certificate needs `stability` and `potential`; learners without a guarantee leave them None.

    Examples
    --------
    >>> Trace(np.array([0.0, 1.5, 2.0]), learner="DiscountedMean")
    <Trace: 3 rounds of DiscountedMean; yhat from 0 to 2>
    """

    yhat: Vector
    """Predictions, made before the label was seen (T,)."""
    stability: Vector | None = None
    """Price of each round, $\\beta^t\\Lambda_t$ (T,): the exact one, which may be negative and is never above the
    paper's (`regret_lemmas.paper_stability`), whose sums ensembles keep as `stabilities`."""
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
    quantiles: Matrix | None = None
    """Quantiles asked for, made before the label was seen (T, levels)."""
    known: NDArray[np.bool_] | None = None
    """Whether any label had been learned before each prediction (T,); one made before says nothing."""
    delay: int = 0
    """Rows that were served before a row's label was learned; 0: it was learned at once."""

    def __len__(self) -> int:
        return len(self.yhat)

    def plot(self, y: ArrayLike | None = None, *, x: ArrayLike | None = None, last: int | None = 2000) -> plot.Figure:
        """Return a plotly figure of the predictions, their intervals, and the labels if they are given.

        Parameters
        ----------
        y
            Labels (T,), as they were played; in the units of `yhat`, so not for classes.
        x
            Times or numbers of the rounds (T,); None counts them from 1.
        last
            How many rounds are shown, from the end; None: all.
        """
        return plot.plot_predictions(self.yhat, self.lower, self.upper, y, x, self.first, last)

    def __repr__(self) -> str:
        facts = self._facts()
        return f"<Trace: {facts.pop('rounds')}; {'; '.join(f'{name} {text}' for name, text in facts.items())}>"

    def _repr_html_(self) -> str:
        curves = [(one, "#9db4ee") for one in (self.lower, self.upper) if one is not None]
        picture = html.curves_picture([*curves, (self.yhat, "#2459d6")]) if self.yhat.ndim == 1 else ""
        return html.facts_table("Trace", self._facts(), picture)

    def _facts(self) -> dict[str, str]:
        """Return what to say about the rounds, in short."""
        rounds = f"{len(self):,} round{'' if len(self) == 1 else 's'}"
        before = f" after {self.first:,} before" if self.first else ""
        facts = {"rounds": f"{rounds}{f' of {self.learner}' if self.learner else ''}{before}"}
        finite = self.yhat[np.isfinite(self.yhat)]
        several = f", {self.yhat.shape[1]} classes" if self.yhat.ndim == 2 else ""
        facts["yhat"] = f"from {finite.min():.4g} to {finite.max():.4g}{several}" if len(finite) else "none"
        more = ("stability", "potential", "weights", "lower", "upper")
        columns = [name for name in more if getattr(self, name) is not None]
        return (
            facts
            | ({"with": ", ".join(columns)} if columns else {})
            | ({"labels late by": f"{self.delay:,} rounds"} if self.delay else {})
        )
