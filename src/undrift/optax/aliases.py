"""The two optimizers, as chains, and what they wrap around the leader: random scaling, and skipping bad steps."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from undrift import _check
from undrift.errors import InputError
from undrift.optax.averaging import track_average
from undrift.optax.leader import Rate, Tree, check_number, over, scalar, scale_by_leader, square
from undrift.optim import core
from undrift.optim.core import Tuning


def clipped_adam(
    learning_rate: Rate = 1e-3,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    *,
    clip: Any = 1.0,
    norm: str = "coord",
    bias_correction: bool | str = "v",
    random_scaling: str | None = None,
    seed: Any = 0,
    average: bool = True,
    average_horizon: Any = "growing",
    weight_decay: Any = 0.0,
    mask: Any = None,
    axis_name: Any = None,
) -> optax.GradientTransformationExtraArgs:
    r"""Clipped Adam with averaged weights; see `undrift.torch.ClippedAdam` for what the parameters do.

    Parameters
    ----------
    learning_rate
        Root mean square change of a coordinate per step; a number >= 0 or a schedule.
    b1, b2, eps, clip, norm, bias_correction, random_scaling, seed, average, average_horizon
        $\beta_1$, $\beta_2$, $\nu$, D / $\gamma$, norm scope, False, "v" or True, "exp" or None, its seed, whether to
        keep averages, and for how many steps ("growing", or None for 1 / (1 - b1)).
    weight_decay, mask
        Decoupled decay, on the leaves that `mask` (a tree of booleans or a function of the parameters) selects.
    axis_name
        Under shard_map or pmap, the axis over which every leaf is sharded; under jit nothing is needed.

    Notes
    -----
    Keys `clipped/nu`, `clipped/margin` with norm "all" and random_scaling "exp". `update` needs `params`. A step whose
    gradients are not finite changes nothing. optax.masked makes "all" mean all leaves that are not masked.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> tx = clipped_adam(0.5, norm="all", bias_correction=False)
    >>> state = tx.init(jnp.zeros(4))
    >>> updates, state = tx.update(jnp.ones(4), state, jnp.zeros(4))
    >>> updates.tolist()
    [-0.5, -0.5, -0.5, -0.5]
    """
    leader = scale_by_leader(b1, b2, eps, clip=clip, norm=norm, bias_correction=bias_correction, axis_name=axis_name)
    rest = (random_scaling, seed, average, average_horizon, weight_decay, mask, axis_name)
    return _chain("clipped_adam", leader, learning_rate, b1, *rest)


def clip_free_adam(
    learning_rate: Rate = 3e-4,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    *,
    mu: Any = 0.0,
    norm: str = "coord",
    bias_correction: bool | str = False,
    random_scaling: str | None = None,
    seed: Any = 0,
    average: bool = True,
    average_horizon: Any = "growing",
    weight_decay: Any = 0.0,
    mask: Any = None,
    axis_name: Any = None,
) -> optax.GradientTransformationExtraArgs:
    """Clip-free Adam with averaged weights; `mu` is the curvature of the composite loss, the rest as in `clipped_adam`.

    Without bias correction the first steps are up to 6.6 times Adam's: a third of Adam's learning rate is a good
    start. Keys `clip-free/nu`, `clip-free/margin` with norm "all" and random_scaling "exp".
    """
    options = {"norm": norm, "bias_correction": bias_correction, "axis_name": axis_name}
    leader = scale_by_leader(b1, b2, eps, mu=mu, learning_rate=learning_rate, **options)
    rest = (random_scaling, seed, average, average_horizon, weight_decay, mask, axis_name)
    return _chain("clip_free_adam", leader, learning_rate, b1, *rest)


def from_tuning(params: Tree, tuning: Tuning, *, seed: int = 0) -> optax.GradientTransformationExtraArgs:
    """Return the optimizer of a theorem for parameters of this size: norm "all", random scaling on.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from undrift import optim
    >>> problem = optim.Problem(lipschitz=1.2, noise=0.2, gap=1.0, c=1.0, epsilon=0.25)
    >>> tx = from_tuning(jnp.zeros(9), optim.tune(problem, "clip-free/nu"), seed=1)
    """
    lr = tuning.gamma / math.sqrt(sum(leaf.size for leaf in jax.tree.leaves(params)))
    options: dict[str, Any] = {"norm": "all", "bias_correction": False, "random_scaling": "exp", "seed": seed}
    options["average_horizon"] = None  # that of the momentum
    if not tuning.clips:
        return clip_free_adam(lr, tuning.beta1, tuning.beta2, tuning.nu, mu=tuning.mu, **options)
    if tuning.clip_norm is None:
        raise InputError("from_tuning: the tuning has no clip_norm, the radius D to clip to")
    clip = tuning.clip_norm / tuning.gamma
    return clipped_adam(lr, tuning.beta1, tuning.beta2, tuning.nu, clip=clip, **options)


def _chain(
    who: str,
    leader: optax.GradientTransformationExtraArgs,
    learning_rate: Rate,
    b1: Any,
    random_scaling: str | None,
    seed: Any,
    average: bool,
    average_horizon: Any,
    weight_decay: Any,
    mask: Any,
    axis_name: Any,
) -> optax.GradientTransformationExtraArgs:
    check_number(who, "learning_rate", learning_rate, "[0, inf)")
    check_number(who, "weight_decay", weight_decay, "[0, inf)")
    if random_scaling not in (None, "exp"):
        raise InputError(f"{who}: random_scaling must be None or 'exp', got {random_scaling!r}")
    parts: list[Any] = [track_average(b1, average_horizon, axis_name), leader] if average else [leader]
    if random_scaling == "exp":
        parts.append(scale_by_exponential(seed))
    parts.append(optax.add_decayed_weights(weight_decay, mask))  # always there: one tree of states for all values
    parts.append(optax.scale_by_learning_rate(learning_rate))
    return skip_nonfinite(optax.chain(*parts), axis_name)


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
