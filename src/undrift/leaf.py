"""Leaf: one certifiable learner inside a composite, with the stream as that learner saw it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from undrift._typing import Matrix, Rounds, Vector
from undrift.trace import Trace


@dataclass(frozen=True, eq=False)
class Leaf:
    """One certifiable learner inside a composite, with the stream as that learner saw it."""

    name: str
    """How the certificate calls it."""
    learner: object
    """A certifiable learner or a `Template`."""
    Z: Matrix
    """Rows in the leaf's own coordinates (n, d')."""
    y: Vector
    """Labels in the leaf's own units (n,)."""
    trace: Trace
    """The leaf's own predictions, stability and potential over those rounds."""
    comparator: Matrix | None = None
    """The caller's comparator in the leaf's coordinates (n, d'), when it has one; None: the leaf cannot express it."""
    rounds: Rounds | None = None
    """Which rounds of the composite the leaf played (n,); None: all of them. The others count as measured."""
    unit: float = 1.0
    """Loss of the composite per loss of the leaf: s^2 when the leaf's labels are y / s under squared loss."""
    labels: Vector | None = None
    """The true labels (n,), in the leaf's units, where it learned from others: comparators are scored with them."""


@runtime_checkable
class Composite(Protocol):
    """A pipeline made of certifiable leaves: a mixture, two levels, a scaler before a learner."""

    def leaves(self, Z: Matrix, y: Vector, u: Matrix | None) -> list[Leaf]:
        """Return the leaves over the rounds (Z, y), the comparator translated where that is exact."""
        ...


@runtime_checkable
class Designed(Composite, Protocol):
    """A composite that prepares raw rows itself: comparators live in its design, not in the rows it was given."""

    def design(self, Z: Any, y: Any) -> tuple[Any, ...]:
        """Return the rows and labels comparators are for, first of all, of the rounds that count."""
        ...
