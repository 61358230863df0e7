"""The two optimizers, as chains."""

from __future__ import annotations

import math
from typing import Any

import jax
import optax

from undrift.errors import InputError
from undrift.optax.averaging import track_average
from undrift.optax.leader import Rate, Tree, check_number, scale_by_leader
from undrift.optax.scaling import scale_by_exponential
from undrift.optax.skipping import skip_nonfinite
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
