"""The averaged iterate as an optax transform, and finding it again under any nesting of transforms."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from undrift.errors import InputError
from undrift.optax.leader import LeaderState, Tree, check_number, over, scalar, square, wide
from undrift.optim import core
from undrift.optim.stationarity import StationarityCertificate


class AverageState(NamedTuple):
    """State of `track_average`."""

    warmth: jax.Array
    """1 - beta^t."""
    average: Tree
    """The averaged parameters."""
    spread: jax.Array
    """Weighted variance of the parameters around the average."""
    spread_sum: jax.Array
    """Its sum over rounds."""
    noise_sum: jax.Array
    """Sum over rounds of the root of the sum of squared weights."""


def track_average(beta: Any = 0.9, axis_name: Any = None) -> optax.GradientTransformationExtraArgs:
    """Average the parameters at which gradients are taken; updates pass through unchanged. See `eval_params`."""
    check_number("track_average", "beta", beta, "[0, 1)")

    def init(params: Tree) -> AverageState:
        copies = jax.tree.map(lambda p: jnp.array(p, dtype=wide(p.dtype), copy=True), params)
        return AverageState(scalar(), copies, scalar(), scalar(), scalar())

    def update(
        updates: Tree, state: AverageState, params: Tree | None = None, **extra: Any
    ) -> tuple[Tree, AverageState]:
        if params is None:
            raise InputError("track_average: update needs params; call tx.update(grads, state, params)")
        gap = 1.0 - beta
        warmth = core.ema(state.warmth, 1.0, gap)
        weight = core.averaging_weight(warmth, gap)
        away = jax.tree.map(lambda p, a: square(p.astype(a.dtype) - a), params, state.average)
        distance = sum((over(axis_name, leaf) for leaf in jax.tree.leaves(away)), scalar())
        average = jax.tree.map(
            lambda p, a: core.ema(a, p.astype(a.dtype), weight).astype(a.dtype), params, state.average
        )
        spread = core.spread_after(state.spread, weight, distance)
        noise = state.noise_sum + core.noise_slack(1.0, warmth, gap)
        return updates, AverageState(warmth, average, spread, state.spread_sum + spread, noise)

    return optax.GradientTransformationExtraArgs(init, update)


def find(state: Any, kind: type) -> list[Any]:
    """Return our states of one kind wherever they are in an optimizer state."""
    leaves = jax.tree.leaves(state, is_leaf=lambda node: isinstance(node, kind))
    return [node for node in leaves if isinstance(node, kind)]


def eval_params(state: Any, params: Tree) -> Tree:
    """Return the averaged parameters, found under chain, masked, MultiSteps, inject_hyperparams, multi_transform, ...

    Leaves that nobody averages (masked out, frozen) come back as they are in `params`. Pure; works under jit.
    """
    found = find(state, AverageState)
    if not found:
        raise InputError("eval_params: no averaged parameters in this state; was it made by an undrift optimizer?")

    def replace(average: Any, old: Any) -> Any:
        return old if isinstance(average, optax.MaskedNode) else average.astype(old.dtype)

    for node in found:
        params = jax.tree.map(replace, node.average, params, is_leaf=lambda leaf: isinstance(leaf, optax.MaskedNode))
    return params


def certificate(state: Any, c: float = 1.0, noise: float = 0.0) -> StationarityCertificate:
    """Return the live stationarity certificate at the averaged parameters; reads the state on the host.

    Needs a state with one leader and one average of the same beta, as the aliases make it.
    """
    leaders, averages = find(state, LeaderState), find(state, AverageState)
    if len(leaders) != 1 or len(averages) != 1:
        raise InputError(
            f"certificate: needs one optimizer in the state, found {len(leaders)} leaders and {len(averages)} averages"
        )
    leader, average = leaders[0], averages[0]
    rounds = int(leader.t)
    if rounds == 0:
        return StationarityCertificate(0.0, 0.0, 0.0, 0, c)
    if abs(float(leader.warmth) - float(average.warmth)) > 1e-6:
        raise InputError("certificate: the average has another beta than the leader; leave ema_beta out")
    length = float(sum((square(leaf) for leaf in jax.tree.leaves(leader.m)), scalar())) ** 0.5
    value = core.stationarity(length, float(leader.warmth), float(average.spread), c)
    mean = (float(leader.gradient_sum) + c * float(average.spread_sum)) / rounds
    return StationarityCertificate(value, mean, noise * float(average.noise_sum) / rounds, rounds, c)
