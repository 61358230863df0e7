"""What Python and the compiled kernels must agree on, defined here and nowhere else.

`python tools/kernel_header.py` writes all of it to `native/definitions.h`, and a test compares the two:

| here | there |
|---|---|
| a number in capitals | a constant |
| an `IntEnum` | a struct of indices and their number, `SIZE` |
| a `Layout` | a struct of offsets, made from the dimensions, and their sum, `size` |

Docstrings become comments.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)


class Field(NamedTuple):
    """A part of a record: some consecutive numbers."""

    name: str
    size: int | str
    """How many: a number, the name of a dimension, or "triangle(name)" for d (d - 1) / 2 of that dimension."""
    doc: str

    @property
    def dimension(self) -> str | None:
        """The name of the dimension that the size depends on."""
        return self.size.removeprefix("triangle(").removesuffix(")") if isinstance(self.size, str) else None

    def count(self, dimensions: dict[str, int]) -> int:
        """Return the size for given dimensions."""
        if isinstance(self.size, int) or self.dimension is None:
            return int(self.size)
        d = dimensions[self.dimension]
        return d if self.size == self.dimension else d * (d - 1) // 2

    @property
    def count_text(self) -> str:
        """The size as a C++ expression."""
        d = self.dimension
        return str(self.size) if self.size == d or d is None else f"{d} * ({d} - 1) / 2"


class Layout:
    """Where the parts of a record lie: one after the other, without gaps."""

    def __init__(self, *fields: Field) -> None:
        self.fields = fields

    @property
    def dimensions(self) -> list[str]:
        """The names of the dimensions that sizes depend on, in order of appearance."""
        return list(dict.fromkeys(field.dimension for field in self.fields if field.dimension is not None))

    def slices(self, **dimensions: int) -> dict[str, slice]:
        """Return where each part lies, for given dimensions."""
        found, start = {}, 0
        for field in self.fields:
            found[field.name] = slice(start, start := start + field.count(dimensions))
        return found

    def size(self, **dimensions: int) -> int:
        """Return how many numbers a record takes."""
        return sum(field.count(dimensions) for field in self.fields)

    def split(self, record: NDArray[T], **dimensions: int) -> dict[str, NDArray[T]]:
        """Return the parts of a record, as views; numbers after the last part are left out."""
        return {name: record[where] for name, where in self.slices(**dimensions).items()}


LANES = 8
"""Learners interleaved in one group of a stack."""

INPUT_LIMIT = 1e75
"""Largest |z_j| and |y| that a kernel accepts."""

PIVOT_FLOOR = 1e-24
"""Pivots are kept above this fraction of their feature's energy, ..."""

PIVOT_MIN = 1e-150
"""... and above this number, as are energies."""

FLOOR_PERIOD = 16
"""Floors are applied in rounds whose number is a multiple of this, counting from 0, ..."""

SMALL_BETA = 0.015625
"""... and in every round for discounts below this, whose pivots could underflow in between."""

COLLINEAR = 1e17
"""A feature whose energy exceeds its pivot by this factor is nearly a linear combination of those before it: what is
left of it in a row, p_j, may be rounding, which forgetting would take for information, and counts only above ..."""

RESIDUE_ROUNDING = 2.0**-50
"""... this / (1 - beta), relative to a bound on the terms p_j is the sum of: L follows the rows in steps of 1 - beta,
so it stays wrong by 1 / (1 - beta) roundings."""

CONVEX_SHARE = 0.015625
"""Where less than this share of a column's past stays in it, s_{j-1} < CONVEX_SHARE s_j, the update takes its convex
form. The other form loses the square root of the share in accuracy: three binary digits here, all of them at a leverage
of 1e32. Ordinary rows stay above it, even with a memory of one round (all but 2 pivots in 1000)."""

PREDICTION_LIMIT = 1e150
"""A prediction beyond this, or a leverage beyond its square, means that the numbers have left float64: the learner is
lost and starts afresh in the next floor round."""

MIX_LIMIT = 1e150
"""Mixers bring predictions into +-MIX_LIMIT, and no log-weight falls below -MIX_LIMIT: nothing overflows."""

RESIDUAL_ROUNDS = 1000.0
"""Rounds over which a mixer averages squared residuals, once it has seen as many."""


LEVERAGE_LIMIT = 1e12
"""A row of larger leverage would leave too few digits of the covariance of a `DriftVAW`: it starts afresh."""


class DriftEvent(IntEnum):
    """What a row did to a `DriftVAW`."""

    LEARNED = 0
    """It was learned."""
    RESTARTED = 1
    """Its leverage was beyond LEVERAGE_LIMIT: the learner started afresh, and learned it."""
    IGNORED = 2
    """Its leverage was beyond LEVERAGE_LIMIT even for a fresh learner: it was not learned."""


class DriftCount(IntEnum):
    """The sums that a `DriftVAW` keeps."""

    LEAST = 0
    """The least value, over all paths, of their losses so far plus what they pay for start and movement."""
    RESTARTS = 1
    """Fresh starts."""
    IGNORED = 2
    """Rows that were not learned."""


class Hint(IntEnum):
    """A guess of the coming label that discounted VAW is pulled towards where it knows little."""

    ZERO = 0
    """Zero, as in the paper."""
    LAST = 1
    """The last label."""
    RIDGE = 2
    """The leader's own prediction: plain discounted ridge regression."""


class MixingRule(IntEnum):
    """Where the rate of a mixer for squared loss comes from, and what it predicts; see `mix_squared`."""

    RANGE = 0
    """The largest label; predicts the weighted mean."""
    AGGREGATING = 1
    """The largest label; predicts by Vovk's substitution."""
    SELF_CONFIDENT = 2
    """The sum of positive mixability gaps; predicts the weighted mean."""
    RESIDUAL_SCALE = 3
    """The mean squared residual of the mixture; predicts the weighted mean."""


class MixerState(IntEnum):
    """The numbers in the state of a mixer for squared loss. For logistic loss the first one counts rounds."""

    LABEL_MIN = 0
    """The smallest label so far, or -LABEL_MAX under the rules RANGE and AGGREGATING."""
    LABEL_MAX = 1
    """The largest label so far, or the largest |label| under these rules."""
    INVERSE_RATE = 2
    """The inverse rate of the coming round; 0 keeps the prior."""
    POSITIVE_GAPS = 3
    """The sum of the positive mixability gaps: the mixture's loss minus the mix loss, where that is positive."""
    GAPS = 4
    """The sum of all mixability gaps."""
    RATE_RISES = 5
    """The sum of the rises of the inverse rate."""
    SHARE_COST = 6
    """What the fixed share may have cost."""
    MEAN_SQUARED_RESIDUAL = 7
    """The running mean of the mixture's squared residuals."""
    ROUNDS = 8
    """The rounds closed."""


INFORMATION = Layout(
    Field("inverse_pivots", "dim", "1/D of the discounted information matrix A = L D L^T."),
    Field("theta", "dim", "D^-1 L^-1 r, so that the leader is x = L^-T theta."),
    Field("energy", "dim", "The diagonal of A by its own recursion, the yardstick of the pivot floor."),
    Field("floored", 1, "How many pivots were raised to the floor so far."),
    Field("lost", 1, "1 from the round in which the numbers left float64's range until the next floor round."),
    Field("resets", 1, "How often that happened."),
    Field("factor", "triangle(dim)", "L below its diagonal, by rows in a stack, by columns for one or two learners."),
)
"""The state of one learner with `dim` features."""

ENSEMBLE_SLOT = Layout(
    Field("information", "information_size", "The states of all discounts, each of INFORMATION, interleaved in lanes."),
    Field("mixer_state", len(MixerState), "The numbers of MixerState."),
    Field("last_label", 1, "The label of the round before."),
    Field("stability", "members", "Sums of the members' stability."),
    Field("log_weights", "members", "The mixer's log-weights."),
    Field("losses", "members", "Sums of the members' losses."),
    Field("clipped_losses", "members", "The same with predictions clipped to the labels' range."),
)
"""One key's ensemble in the states of `play_keys`: the states of its discounts, its mixer and its sums."""
