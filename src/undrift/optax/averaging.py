"""The averaged iterate as an optax transform, and finding it again under any nesting of transforms."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from undrift import _check
from undrift.errors import InputError
from undrift.optax.leader import LeaderState, Tree, check_number, over, scalar, square, wide
from undrift.optim import core
from undrift.optim.stationarity import LiveCertificate, live_certificate


class AverageState(NamedTuple):
    """State of `track_average`."""

    t: jax.Array
    """Finished rounds."""
    warmth: jax.Array
    """1 - beta^t."""
    average: Tree
    """The averaged parameters."""
    spread: jax.Array
    """Weighted variance of the parameters around the average."""
    spread_sum: jax.Array
    """Its sum over rounds."""
    slack_sum: jax.Array
    """Sum over rounds of the root of the sum of squared weights; with a growing horizon, of the last weight."""


def track_average(beta: Any = 0.9, horizon: Any = None, axis_name: Any = None) -> optax.GradientTransformationExtraArgs:
    """Average the parameters at which gradients are taken; updates pass through unchanged. See `eval_params`.

    `horizon` is a number of steps, "growing" for about the last tenth of the run, or None for 1 / (1 - beta).
    """
    check_number("track_average", "beta", beta, "[0, 1)")
    growing = isinstance(horizon, str)
    if growing:
        _check.choice("track_average", "horizon", horizon, ("growing",))
    elif horizon is not None:
        check_number("track_average", "horizon", horizon, "[1, inf)")

    def init(params: Tree) -> AverageState:
        copies = jax.tree.map(lambda p: jnp.array(p, dtype=wide(p.dtype), copy=True), params)
        return AverageState(jnp.zeros([], jnp.int32), scalar(), copies, scalar(), scalar(), scalar())

    def update(
        updates: Tree, state: AverageState, params: Tree | None = None, **extra: Any
    ) -> tuple[Tree, AverageState]:
        if params is None:
            raise InputError("track_average: update needs params; call tx.update(grads, state, params)")
        t = optax.safe_increment(state.t)
        if growing:
            warmth = scalar(1.0)
            weight = core.growing_weight(t.astype(warmth.dtype))
            slack = weight
        else:
            gap = 1.0 - beta if horizon is None else 1.0 / horizon
            warmth = core.ema(state.warmth, 1.0, gap)
            weight = core.averaging_weight(warmth, gap)
            slack = core.noise_slack(1.0, warmth, gap)
        away = jax.tree.map(lambda p, a: square(p.astype(a.dtype) - a), params, state.average)
        distance = sum((over(axis_name, leaf) for leaf in jax.tree.leaves(away)), scalar())
        average = jax.tree.map(
            lambda p, a: core.ema(a, p.astype(a.dtype), weight).astype(a.dtype), params, state.average
        )
        spread = core.spread_after(state.spread, weight, distance)
        return updates, AverageState(t, warmth, average, spread, state.spread_sum + spread, state.slack_sum + slack)

    return optax.GradientTransformationExtraArgs(init, update)


def find(state: Any, kind: type) -> list[Any]:
    """Return our states of one kind wherever they are in an optimizer state."""
    leaves = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, kind))
    return [node for node in leaves if isinstance(node, kind)]


def _is_pair(node: Any) -> bool:
    """Say whether a node is a complex leaf as optax.contrib.split_real_and_imaginary hands it on."""
    return getattr(node, "_fields", None) == ("real", "imaginary")


def _is_end(node: Any) -> bool:
    return isinstance(node, optax.MaskedNode) or _is_pair(node)


def eval_params(state: Any, params: Tree) -> Tree:
    """Return the averaged parameters, found under chain, masked, MultiSteps, inject_hyperparams, multi_transform, ...

    Leaves that nobody averages (masked out, frozen) come back as they are in `params`. Pure; works under jit. `params`
    may be a flax nnx state.
    """
    found = find(state, AverageState)
    if not found:
        raise InputError("eval_params: no averaged parameters in this state; was it made by an undrift optimizer?")

    def replace(average: Any, old: Any) -> Any:
        if isinstance(average, optax.MaskedNode):
            return old
        if _is_pair(average):
            average = average.real + 1j * average.imaginary
        return average.astype(old.dtype)

    for node in found:
        averages = jax.tree.leaves(node.average, is_leaf=_is_end)
        if len(averages) == len(jax.tree.leaves(params)):  # leaf by leaf: hosts may wrap their leaves
            leaves, tree = jax.tree.flatten(params)
            params = jax.tree.unflatten(tree, [replace(a, p) for a, p in zip(averages, leaves, strict=True)])
        else:  # whole branches are masked out
            params = jax.tree.map(replace, node.average, params, is_leaf=_is_end)
    return params


def certificate(state: Any, c: float | None = None, noise: float | None = None) -> LiveCertificate:
    """Return what the state says about the gradient at the averaged parameters, part by part; read on the host.

    With `c` (the price of the spread) and `noise` (sigma) given, and an average with the horizon of the momentum, it
    holds the theory's bound. Needs a state with one leader and one average, as the aliases make it.
    """
    leaders, averages = find(state, LeaderState), find(state, AverageState)
    if len(leaders) != 1 or len(averages) != 1:
        raise InputError(
            f"certificate: needs one optimizer in the state, found {len(leaders)} leaders and {len(averages)} averages"
        )
    leader, average = leaders[0], averages[0]
    rounds, warmth = int(leader.t), float(leader.warmth)
    length = float(sum((square(leaf) for leaf in jax.tree.leaves(leader.m)), scalar())) ** 0.5
    slacks = float(leader.slack_sum), float(average.slack_sum)
    return live_certificate(
        rounds=rounds,
        length=length,
        warmth=warmth,
        slack=float(leader.slack),
        spread=float(average.spread),
        g_mean=float(leader.g_mean),
        sums=(float(leader.gradient_sum), float(average.spread_sum), slacks[0]),
        same_points=abs(slacks[0] - slacks[1]) <= 1e-5 * slacks[0],  # else they grow apart
        c=c,
        noise=noise,
    )
