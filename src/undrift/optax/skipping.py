"""Skip a step whose gradients are not finite: nothing inside advances."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from undrift.optax.leader import Tree, over, scalar, square


class SkipState(NamedTuple):
    """State of `skip_nonfinite`."""

    skipped: jax.Array
    """Steps skipped so far."""
    inner: Any
    """State of what is wrapped."""


def skip_nonfinite(inner: optax.GradientTransformation, axis_name: Any = None) -> optax.GradientTransformationExtraArgs:
    """Wrap a transform: with a gradient that is not finite the update is zero and the inner state stays as it was."""
    wrapped = optax.with_extra_args_support(inner)

    def init(params: Tree) -> SkipState:
        return SkipState(jnp.zeros([], jnp.uint32), wrapped.init(params))

    def update(updates: Tree, state: SkipState, params: Tree | None = None, **extra: Any) -> tuple[Tree, SkipState]:
        total = sum((over(axis_name, square(leaf)) for leaf in jax.tree.leaves(updates)), scalar())
        good = jnp.isfinite(total)
        new, after = wrapped.update(updates, state.inner, params, **extra)
        new = jax.tree.map(lambda u: jnp.where(good, u, jnp.zeros_like(u)), new)
        after = jax.tree.map(lambda a, b: jnp.where(good, a, b), after, state.inner)
        return new, SkipState(state.skipped + jnp.where(good, 0, 1).astype(jnp.uint32), after)

    return optax.GradientTransformationExtraArgs(init, update)
