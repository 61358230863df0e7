"""What the learners that forget share: a discount, given by its factor or by a half-life."""

from __future__ import annotations

from typing import ClassVar

from undrift import _check
from undrift._typing import Scalar, Vector
from undrift.discount import Discount, make_discount
from undrift.learners.base import Learner
from undrift.learners.row_weights import RowWeights


class DiscountedLearner(Learner):
    """A learner in which a round of age $k$ counts $\\beta^k$."""

    _ridges: ClassVar[str] = "[1e-140, 1e140]"  # the values `reg` may take

    def __init__(self, *, beta: float | None, half_life: float | None, reg: float, **parameters: Scalar) -> None:
        if beta is None and half_life is None:
            beta = 0.99
        self._discount = make_discount(self, beta, half_life)
        self.reg = _check.interval(self, "reg", reg, self._ridges)
        super().__init__(beta=beta, half_life=half_life, reg=reg, **parameters)

    def _potential(self, count: int, rows: RowWeights | None = None) -> Vector:
        """Return the ridge after each of the coming rounds: it is forgotten like the data."""
        age = self.rounds + self._extra_age
        return self._discount.potential(self.reg, age, count, None if rows is None else rows.elapsed)

    @property
    def discount(self) -> Discount:
        """The discount with 1 - beta to full precision."""
        return self._discount

    @property
    def beta(self) -> float:
        """Discount factor."""
        return self._discount.beta

    @property
    def half_life(self) -> float:
        """Rounds after which a round counts half; infinity for beta = 1."""
        return self._discount.half_life
