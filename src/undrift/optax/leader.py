"""The update itself as an optax transform: moments in, a step in units of the learning rate out."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from undrift import _check
from undrift.errors import InputError
from undrift.optim import core

Tree = Any  # a pytree of arrays: jax gives it no type of its own
Rate = Any  # a number, a traced value, or a schedule from the step count to one


class LeaderState(NamedTuple):
    """State of `scale_by_leader`."""

    t: jax.Array
    """Finished rounds."""
    warmth: jax.Array
    """1 - beta1^t."""
    warmth2: jax.Array
    """1 - beta2^t."""
    m: Tree
    """First moment, like the parameters."""
    v: Tree
    """Second moment: like the parameters (norm "coord"), one number per leaf ("tensor"), or one number ("all")."""
    g_mean: jax.Array
    """|g|^2 averaged like m, to estimate the noise."""
    gradient_sum: jax.Array
    """Sum over rounds of |m| / (1 - beta1^t), for the certificate."""
    slack: jax.Array
    """Root of the sum of squared weights of m."""
    slack_sum: jax.Array
    """Its sum over rounds."""


def wide(dtype: Any) -> Any:
    """Return the type of a leaf's state: single precision for half precision, else its own."""
    return jnp.promote_types(dtype, jnp.float32)


def scalar(value: float = 0.0) -> jax.Array:
    """Return a number in the widest type in use: double precision where jax has it switched on."""
    return jnp.asarray(value, dtype=float)


def square(x: jax.Array) -> jax.Array:
    """Return the sum of squares of one leaf."""
    return jnp.sum(jnp.square(x.astype(scalar().dtype)))


def over(axis_name: Any, value: jax.Array) -> jax.Array:
    """Add up over the devices of a mapped axis; nothing to do under jit, where arrays are whole."""
    return value if axis_name is None else jax.lax.psum(value, axis_name)  # type: ignore[no-untyped-call]  # jax leaves it untyped


def check_number(who: str, name: str, value: Any, allowed: str) -> None:
    """Check a plain number; schedules and traced values (inject_hyperparams) are taken as they are."""
    if not callable(value) and not isinstance(value, jax.Array):
        _check.interval(who, name, value, allowed)


def scale_by_leader(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    *,
    clip: Any = None,
    mu: Any = 0.0,
    learning_rate: Rate = 1.0,
    norm: str = "coord",
    bias_correction: bool | str = False,
    axis_name: Any = None,
) -> optax.GradientTransformationExtraArgs:
    r"""Turn gradients into steps of the discounted leader, to be multiplied by minus the learning rate.

    Parameters
    ----------
    b1, b2, eps
        $\beta_1, \beta_2$ in [0, 1) and $\nu \ge 0$.
    clip
        Largest step in units of $\gamma$, > 0; None does not clip.
    mu
        Curvature of the composite loss, >= 0; its damping is $\gamma\mu(1-\beta_1^t)$.
    learning_rate
        Needed here too where mu > 0: a number or a schedule.
    norm
        "all", "tensor" (a leaf) or "coord". $\gamma$ is the learning rate times the root of the size of the scope.
    bias_correction
        Divide by $1-\beta^t$ neither moment (False, as in the theorems), the second ("v") or both (True).
    axis_name
        Under shard_map or pmap: the axis (or axes) over which *every* leaf is sharded.
    """
    who = "scale_by_leader"
    _check.choice(who, "norm", norm, tuple(core.NORMS))
    check_number(who, "b1", b1, "[0, 1)")
    check_number(who, "b2", b2, "[0, 1)")
    check_number(who, "eps", eps, "[0, inf)")
    check_number(who, "mu", mu, "[0, inf)")
    if clip is not None:
        check_number(who, "clip", clip, "(0, inf)")
    if bias_correction not in (False, True, "v"):
        raise InputError(f"{who}: bias_correction must be False, 'v' or True, got {bias_correction!r}")

    def init(params: Tree) -> LeaderState:
        for leaf in jax.tree.leaves(params):
            if jnp.iscomplexobj(leaf):
                raise InputError(f"{who}: complex parameters need optax.contrib.split_real_and_imaginary around us")
        zeros = jax.tree.map(lambda p: jnp.zeros(p.shape, wide(p.dtype)), params)
        v: Tree = scalar()
        if norm == "coord":
            v = jax.tree.map(jnp.zeros_like, zeros)
        elif norm == "tensor":
            v = jax.tree.map(lambda _: scalar(), zeros)
        return LeaderState(
            jnp.zeros([], jnp.int32), scalar(), scalar(), zeros, v, scalar(), scalar(), scalar(1.0), scalar()
        )

    def update(updates: Tree, state: LeaderState, params: Tree | None = None, **extra: Any) -> tuple[Tree, LeaderState]:
        gap1, gap2 = 1.0 - b1, 1.0 - b2
        lr = learning_rate(state.t) if callable(learning_rate) else learning_rate
        g = jax.tree.map(lambda u: u.astype(wide(u.dtype)), updates)
        warmth, warmth2 = core.ema(state.warmth, 1.0, gap1), core.ema(state.warmth2, 1.0, gap2)
        m_scale = 1.0 / warmth if bias_correction is True else 1.0
        v_scale = 1.0 / warmth2 if bias_correction else 1.0
        m = jax.tree.map(lambda old, new: core.ema(old, new, gap1).astype(old.dtype), state.m, g)
        lengths = jax.tree.map(lambda leaf: over(axis_name, square(leaf)), m)
        total = sum(jax.tree.leaves(lengths), scalar())

        def multiplier(v: Any, length: Any, size: Any) -> Any:
            root = jnp.sqrt(jnp.asarray(size, float)) if norm != "coord" else 1.0
            rate = core.rate(v * v_scale, warmth, core.Unit(1.0, eps, lr * root * mu)) * m_scale
            return root * core.multiplier(rate, length, clip)

        seen = sum((over(axis_name, square(leaf)) for leaf in jax.tree.leaves(g)), scalar())

        def count_entries(leaf: jax.Array) -> jax.Array:
            return over(axis_name, scalar(leaf.size))

        v: Tree
        if norm == "coord":
            v = jax.tree.map(lambda old, new: core.ema(old, new * new, gap2).astype(old.dtype), state.v, g)
            steps = jax.tree.map(lambda mm, vv: multiplier(vv, jnp.abs(mm), 1) * mm, m, v)
        elif norm == "tensor":
            v = jax.tree.map(lambda old, new: core.ema(old, over(axis_name, square(new)), gap2), state.v, g)
            steps = jax.tree.map(lambda mm, vv, ll: multiplier(vv, jnp.sqrt(ll), count_entries(mm)) * mm, m, v, lengths)
        else:
            size = sum((count_entries(leaf) for leaf in jax.tree.leaves(g)), scalar())
            v = core.ema(state.v, seen, gap2)
            k = multiplier(v, jnp.sqrt(total), size)
            steps = jax.tree.map(lambda mm: k * mm, m)
        steps = jax.tree.map(lambda step, u: step.astype(u.dtype), steps, updates)
        slack = core.noise_slack(1.0, warmth, gap1)
        return steps, LeaderState(
            optax.safe_increment(state.t),
            warmth,
            warmth2,
            m,
            v,
            core.ema(state.g_mean, seen, gap1),
            state.gradient_sum + core.stationarity(jnp.sqrt(total), warmth, 0.0, 0.0),
            slack,
            state.slack_sum + slack,
        )

    return optax.GradientTransformationExtraArgs(init, update)
