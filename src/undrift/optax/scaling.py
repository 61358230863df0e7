"""Random scaling as an optax transform: the same draws as in torch and in the core, from a seed and the round."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from undrift import _check
from undrift.optax.leader import Tree
from undrift.optim import core


class ExponentialState(NamedTuple):
    """State of `scale_by_exponential`."""

    t: jax.Array
    """Finished rounds; with the seed, all there is."""


def scale_by_exponential(seed: Any = 0) -> optax.GradientTransformation:
    """Multiply each update by s ~ Exp(1), which the theorems need and training mostly does not.

    `seed` is in [0, 2^64), or an array of it if injected; s depends on it and the count alone, so that every device
    and every resumed run draws the same.
    """
    if not isinstance(seed, jax.Array):
        seed = _check.integer("scale_by_exponential", "seed", seed, 0, 2**64 - 1)

    def init(params: Tree) -> ExponentialState:
        return ExponentialState(jnp.zeros([], jnp.uint32))

    def update(updates: Tree, state: ExponentialState, params: Tree | None = None) -> tuple[Tree, ExponentialState]:
        if isinstance(seed, int):
            key = jnp.uint32(seed & core.MASK), jnp.uint32(seed >> 32)
        else:
            key = seed.astype(jnp.uint32), jnp.uint32(0)
        mask = jnp.uint32(core.MASK)
        # the step that closes round t makes the move of round t + 1
        word, _ = core.threefry(*key, state.t + jnp.uint32(2), jnp.uint32(0), mask)
        s = core.exponential(word, jnp.log, jnp.log1p, mask)
        scaled = jax.tree.map(lambda u: (s * u).astype(u.dtype), updates)
        return scaled, ExponentialState(state.t + jnp.uint32(1))

    return optax.GradientTransformation(init, update)
