"""Arguments of kernels that belong together, with names."""

from __future__ import annotations

from typing import NamedTuple

from undrift._typing import Vector


class MixerArguments(NamedTuple):
    """A mixer as kernels see it: its own arrays, changed in place, and its settings."""

    log_weights: Vector
    """By member, up to a constant."""
    log_prior: Vector
    """By member."""
    share: float
    """The part of the weights that returns to the prior each round."""
    state: Vector
    """The numbers of `MixerState`."""
    rule: int
    """One of `MixingRule`; not used for logistic loss."""
    scale: float
    """The factor of the rule RESIDUAL_SCALE."""
    losses: Vector
    """The sum of each member's losses."""
    clipped_losses: Vector
    """The sum of each member's losses with its predictions clipped to the labels' range; not used for logistic loss."""
