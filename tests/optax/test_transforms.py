"""The optax front end walks the core's trajectory and survives every wrapper."""

import functools
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.optim.stepper import Stepper, problem
from undrift import optim
from undrift.errors import InputError
from undrift.optim.stationarity import StationarityMeter

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
import jax.numpy as jnp  # noqa: E402  # after the skip

import undrift.optax as uo  # noqa: E402  # after the skip


@pytest.fixture
def wide():
    with jax.enable_x64(True):
        yield


CASES = [
    (uo.clipped_adam, {"clip": 0.3, "eps": 1e-8, "bias_correction": False, "average_horizon": None}),
    (uo.clipped_adam, {"clip": 0.02, "eps": 1e-8, "bias_correction": "v"}),
    (uo.clipped_adam, {"clip": 1e9, "eps": 1e-3, "bias_correction": True, "average_horizon": 3.5}),
    (uo.clip_free_adam, {"mu": 0.0, "eps": 0.0, "average_horizon": None}),
    (uo.clip_free_adam, {"mu": 7.0, "eps": 1e-8}),
]


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("norm", ["all", "tensor", "coord"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].__name__}-{case[1]}")
@pytest.mark.parametrize("seed", [None, (1 << 40) + 11])
def test_agrees_with_the_core(norm, case, seed):
    make, options = case
    start, stream = problem(seed=3, steps=30)
    reference = Stepper(start, lr=0.01, betas=(0.9, 0.99), norm=norm, seed=seed, **options)
    scaling = {} if seed is None else {"random_scaling": "exp", "seed": seed}
    tx = make(0.01, 0.9, 0.99, norm=norm, **options, **scaling)
    params = [jnp.asarray(b) for b in start]
    state = tx.init(params)
    meter = StationarityMeter(c=2.0, noise=0.5, gap1=reference.gap1)

    @functools.partial(jax.jit, donate_argnums=(1, 2))
    def step(gradients, state, params):
        updates, state = tx.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    for gradients in stream:
        params, state = step([jnp.asarray(g) for g in gradients], state, params)
        reference.step(gradients)
        meter.observe(math.sqrt(reference.m_square), reference.warmth, reference.spread)
        average = uo.eval_params(state, params)
        for i in range(len(start)):
            np.testing.assert_allclose(params[i], reference.x[i], rtol=1e-12, atol=1e-11)
            np.testing.assert_allclose(average[i], reference.average[i], rtol=1e-12, atol=1e-11)
    if options.get("clip", 9.0) < 1.0:
        assert reference.clipped > 20
    found = uo.certificate(state, c=2.0, noise=0.5)
    assert found.gradient == pytest.approx(math.sqrt(reference.m_square) / reference.warmth, rel=1e-10)
    assert found.distance == pytest.approx(math.sqrt(reference.spread), rel=1e-10)
    assert found.same_points is (options.get("average_horizon", "growing") is None)
    if found.same_points:
        assert found.theorem == pytest.approx(meter.certificate, rel=1e-10)


PARAMS = {"a": np.array([1.0, -2.0]), "b": {"c": np.array([[0.5]]), "d": np.array([3.0])}}


def gradient(params):
    return jax.tree.map(lambda p: 2.0 * p, params)


def run(tx, steps=6, params=None):
    """Return the last state and parameters, and the mean of the visited points with the average's weights."""
    params = jax.tree.map(jnp.asarray, PARAMS if params is None else params)
    state = tx.init(params)
    update = jax.jit(tx.update)
    visited = []
    for _ in range(steps):
        visited.append(params)
        updates, state = update(gradient(params), state, params)
        params = optax.apply_updates(params, updates)
    w = 0.1 * 0.9 ** np.arange(steps - 1, -1, -1) / (1 - 0.9**steps)
    mean = jax.tree.map(lambda *xs: sum(wi * x for wi, x in zip(w, xs, strict=True)), *visited)
    return state, params, mean


def same(tree, other):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6), tree, other)


ADAM = functools.partial(uo.clipped_adam, norm="all", average_horizon=None)
WRAPPED = {
    "alone": lambda: ADAM(0.1),
    "chain": lambda: optax.chain(optax.clip_by_global_norm(100.0), ADAM(0.1)),
    "nested chains": lambda: optax.chain(optax.identity(), optax.chain(ADAM(0.1), optax.identity())),
    "inject_hyperparams": lambda: optax.inject_hyperparams(ADAM)(learning_rate=0.1),
    "inject a schedule": lambda: optax.inject_hyperparams(ADAM)(learning_rate=optax.linear_schedule(0.1, 0.0, 10)),
    "schedule": lambda: ADAM(optax.cosine_decay_schedule(0.1, 10)),
    "apply_if_finite": lambda: optax.apply_if_finite(ADAM(0.1), 3),
    "MultiSteps of one": lambda: optax.MultiSteps(ADAM(0.1), 1).gradient_transformation(),
    "masked, all": lambda: optax.masked(ADAM(0.1), True),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_eval_params_is_the_mean_of_the_visited_points_under(name):
    state, params, mean = run(WRAPPED[name]())
    same(uo.eval_params(state, params), mean)
    same(jax.jit(uo.eval_params)(state, params), mean)


def test_masked_leaves_come_back_as_they_are():
    mask = {"a": True, "b": False}  # a whole subtree
    state, params, mean = run(optax.masked(ADAM(0.1), mask))
    found = uo.eval_params(state, params)
    same(found["a"], mean["a"])
    same(found["b"], params["b"])


def test_multi_transform_puts_all_averages_together():
    labels = {"a": "one", "b": {"c": "two", "d": "frozen"}}
    tx = optax.multi_transform(
        {"one": ADAM(0.1), "two": uo.clip_free_adam(0.05, average_horizon=None), "frozen": optax.set_to_zero()}, labels
    )
    state, params, mean = run(tx)
    same(uo.eval_params(state, params), mean)  # a frozen leaf is its own mean
    assert not np.allclose(uo.eval_params(state, params)["b"]["c"], params["b"]["c"])
    with pytest.raises(InputError, match="needs one optimizer in the state, found 2 leaders and 2 averages"):
        uo.certificate(state)


def test_multi_steps_averages_the_points_between_real_steps():
    tx = optax.MultiSteps(ADAM(0.1), 3)
    params = jax.tree.map(jnp.asarray, PARAMS)
    state = tx.init(params)
    plain, other = ADAM(0.1), params
    inner = plain.init(other)
    for _ in range(4):
        for _ in range(3):
            updates, state = tx.update(gradient(params), state, params)
            params = optax.apply_updates(params, updates)
        updates, inner = plain.update(gradient(other), inner, other)
        other = optax.apply_updates(other, updates)
    same(params, other)
    same(uo.eval_params(state, params), uo.eval_params(inner, other))


def test_a_schedule_is_the_learning_rate_of_its_step():
    rates = [0.1, 0.2, 0.3]
    tx = ADAM(lambda count: jnp.asarray(rates)[count], bias_correction=False)
    params = jnp.zeros(4)
    state = tx.init(params)
    for lr in rates:  # a constant gradient with the clip active moves every coordinate by lr
        updates, state = tx.update(jnp.ones(4), state, params)
        np.testing.assert_allclose(updates, -lr, rtol=1e-6)


def test_decoupled_decay_masks_and_ignores_the_scaling():
    tx = uo.clipped_adam(0.1, random_scaling="exp", weight_decay=0.5, mask={"a": True, "b": False})
    params = jax.tree.map(jnp.asarray, PARAMS)
    updates, _ = tx.update(jax.tree.map(jnp.zeros_like, params), tx.init(params), params)
    same(updates["a"], -0.05 * params["a"])
    same(updates["b"], jax.tree.map(jnp.zeros_like, params["b"]))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_changes_nothing(bad):
    tx = uo.clipped_adam(0.1, random_scaling="exp")
    state, params, _ = run(tx, steps=3)
    broken = gradient(params)
    broken["a"] = broken["a"].at[0].set(bad)
    updates, after = jax.jit(tx.update)(broken, state, params)
    jax.tree.map(lambda u: np.testing.assert_array_equal(u, 0.0), updates)
    jax.tree.map(np.testing.assert_array_equal, after.inner, state.inner)
    assert int(after.skipped) == 1


def test_half_precision_parameters_keep_single_precision_state():
    params = jax.tree.map(lambda p: jnp.asarray(p, jnp.bfloat16), PARAMS)
    tx = ADAM(0.01)
    state = tx.init(params)
    updates, state = tx.update(gradient(params), state, params)
    moved = optax.apply_updates(params, updates)
    assert {leaf.dtype for leaf in jax.tree.leaves(moved)} == {jnp.dtype(jnp.bfloat16)}
    (average,) = uo.averaging.find(state, uo.AverageState)
    (leader,) = uo.averaging.find(state, uo.LeaderState)
    assert {leaf.dtype for leaf in jax.tree.leaves((average.average, leader.m))} == {jnp.dtype(jnp.float32)}
    assert uo.eval_params(state, moved)["a"].dtype == jnp.bfloat16


def test_the_norm_is_global_under_shard_map():
    """Two shards (one device, vmap with an axis name plays shard_map) step like the whole."""
    params, g = jnp.arange(6.0) + 1.0, jnp.array([3.0, -1.0, 2.0, 0.5, -4.0, 1.0])
    for norm in ("all", "tensor", "coord"):
        whole = uo.clipped_adam(0.1, norm=norm, clip=0.5)
        state = whole.init(params)
        updates, state = whole.update(g, state, params)
        shard = uo.clipped_adam(0.1, norm=norm, clip=0.5, axis_name="shards")

        def one(g, p, tx=shard):
            first, after = tx.update(g, tx.init(p), p)
            return first, uo.averaging.find(after, uo.LeaderState)[0].gradient_sum

        split, sums = jax.vmap(one, axis_name="shards")(g.reshape(2, 3), params.reshape(2, 3))
        np.testing.assert_allclose(split.reshape(-1), updates, rtol=1e-6)
        expected = uo.averaging.find(state, uo.LeaderState)[0].gradient_sum
        np.testing.assert_allclose(sums, expected, rtol=1e-6)  # the same on every shard


def test_two_devices_walk_the_trajectory_of_one():
    """shard_map and donation on a real mesh; the devices have to be there before jax starts, hence the process."""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    program = Path(__file__).parent / "shards.py"
    found = subprocess.run(
        [sys.executable, str(program)], env={**os.environ, **flags}, capture_output=True, text=True, timeout=300
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.strip() == "done"


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("theorem", ["clipped/nu", "clip-free/margin"])
def test_from_tuning_walks_the_run_of_algorithm_2(theorem):
    tuning = optim.tune(optim.Problem(lipschitz=1.2, noise=0.2, gap=1.0, c=2.0, epsilon=0.5), theorem)
    x0 = np.array([0.7, -0.4, 1.1])
    seen = []

    def pull(x):
        return np.sign(x) * np.minimum(np.abs(x), 0.5)

    def recorded(x, *_):
        seen.append(np.array(x))
        return pull(x)

    optim.o2nc(recorded, x0, tuning, 60, 9)
    params = jnp.asarray(x0)
    tx = uo.from_tuning(params, tuning, seed=9)
    state = tx.init(params)
    for x in seen:
        np.testing.assert_allclose(params, x, rtol=1e-12)
        updates, state = tx.update(jnp.asarray(pull(np.asarray(params))), state, params)
        params = optax.apply_updates(params, updates)


def test_bad_input_is_refused_in_one_sentence():
    for call, text in [
        (lambda: uo.clipped_adam(-0.1), r"learning_rate must be in \[0, inf\), got -0.1"),
        (lambda: uo.clipped_adam(0.1, average_horizon=0.5), r"horizon must be in \[1, inf\), got 0.5"),
        (lambda: uo.clipped_adam(0.1, average_horizon="long"), "horizon must be one of growing, got 'long'"),
        (lambda: uo.clipped_adam(0.1, bias_correction="m"), "bias_correction must be False, 'v' or True, got 'm'"),
        (lambda: uo.clipped_adam(0.1, 1.0), r"b1 must be in \[0, 1\), got 1.0"),
        (lambda: uo.clipped_adam(0.1, clip=0.0), r"clip must be in \(0, inf\), got 0.0"),
        (lambda: uo.clipped_adam(0.1, norm="group"), "norm must be one of all, tensor, coord, got 'group'"),
        (lambda: uo.clip_free_adam(0.1, mu=-1.0), r"mu must be in \[0, inf\), got -1.0"),
        (lambda: uo.clipped_adam(0.1, random_scaling="normal"), "random_scaling must be None or 'exp', got 'normal'"),
        (lambda: uo.scale_by_exponential(-1), "seed must be an integer in"),
        (lambda: uo.clipped_adam(0.1).init(jnp.zeros(2, jnp.complex64)), "need optax.contrib.split_real_and_imaginary"),
        (lambda: uo.eval_params(optax.adam(0.1).init(jnp.zeros(2)), jnp.zeros(2)), "no averaged parameters"),
        (lambda: uo.from_tuning(jnp.zeros(2), optim.Tuning(gamma=1.0, gap1=0.1, gap2=0.1, nu=1.0)), "no clip_norm"),
    ]:
        with pytest.raises(InputError, match=text):
            call()
    tx = uo.clipped_adam(0.1)
    with pytest.raises(InputError, match=r"update needs params; call tx.update\(grads, state, params\)"):
        tx.update(jnp.zeros(2), tx.init(jnp.zeros(2)))


@pytest.mark.parametrize("horizon", [2.0, 30.0, "growing"])
def test_the_certificate_has_no_bound_with_another_horizon_however_long_the_run(horizon):
    tx = uo.clipped_adam(0.01, average_horizon=horizon)
    params = jnp.ones(2)

    def step(carry, _):
        params, state = carry
        updates, state = tx.update(params, state, params)
        return (optax.apply_updates(params, updates), state), None

    (_, state), _ = jax.lax.scan(step, (params, tx.init(params)), length=3000)
    found = uo.certificate(state, c=1.0, noise=0.1)
    assert (found.rounds, found.same_points, found.theorem) == (3000, False, None)


def test_the_certificate_of_a_new_state_and_its_parts():
    assert str(uo.certificate(uo.clipped_adam(0.1).init(jnp.zeros(2)))) == "no round yet"
    state, _, _ = run(ADAM(0.1))
    assert re.match(
        r"mean gradient .* over points at rms distance .*; noise about .* \(estimated\)$", str(uo.certificate(state))
    )
    assert uo.certificate(state, c=1.0, noise=0.0).bound > 0.0


def test_a_learning_rate_of_zero_freezes():
    tx = uo.clipped_adam(0.0)
    updates, _ = tx.update(jnp.ones(2), tx.init(jnp.zeros(2)), jnp.zeros(2))
    assert updates.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("wrap", [lambda tx: tx, lambda tx: optax.apply_if_finite(tx, 3)])
def test_updates_have_the_type_of_the_gradients(dtype, wrap):
    params = jax.tree.map(lambda p: jnp.asarray(p, dtype), PARAMS)
    tx = wrap(uo.clipped_adam(0.1, random_scaling="exp", weight_decay=0.1))
    state = tx.init(params)
    for _ in range(2):
        updates, state = tx.update(gradient(params), state, params)
        assert {leaf.dtype for leaf in jax.tree.leaves(updates)} == {jnp.dtype(dtype)}


def test_averages_of_complex_parameters_are_found():
    params = {"z": jnp.array([1.0 + 2.0j, -1.0j]), "w": jnp.ones(3)}
    state, last, mean = run(optax.contrib.split_real_and_imaginary(ADAM(0.1)), params=params)
    found = uo.eval_params(state, last)
    assert found["z"].dtype == params["z"].dtype
    same(found, mean)


def test_states_have_one_tree_with_and_without_injected_numbers():
    params = jax.tree.map(jnp.asarray, PARAMS)
    plain = uo.clipped_adam(0.1, weight_decay=0.0).init(params)
    injected = optax.inject_hyperparams(uo.clipped_adam)(learning_rate=0.1, weight_decay=0.0).init(params)
    assert jax.tree.structure(injected.inner_state) == jax.tree.structure(plain)
    assert jax.tree.structure(uo.clipped_adam(0.1, weight_decay=0.5).init(params)) == jax.tree.structure(plain)
