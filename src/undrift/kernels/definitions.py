"""What Python and the compiled kernels must agree on, defined here and nowhere else.

`python tools/kernel_header.py` writes all of it to `native/definitions.h`, and a test compares the two. A number in
capitals becomes a constant, an `IntEnum` a struct of indices; the docstrings become comments.
"""

from __future__ import annotations

from enum import IntEnum

MIX_LIMIT = 1e150
"""Mixers bring predictions into +-MIX_LIMIT, and no log-weight falls below -MIX_LIMIT: nothing overflows."""

RESIDUAL_ROUNDS = 1000.0
"""Rounds over which a mixer averages squared residuals, once it has seen as many."""


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
