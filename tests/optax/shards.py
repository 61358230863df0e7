"""Work for two host devices, run by test_optax.py in a process of its own, at whose start their number is set."""

import jax
import numpy as np
import optax
from jax.sharding import PartitionSpec as P

import undrift.optax as uo

STEPS = 6
PARAMS = {"w": np.linspace(-1.0, 2.0, 12).reshape(6, 2), "b": np.array([0.3, -0.8])}
BAD = 3  # the step whose gradient is not finite, on one of the devices


def gradients(k):
    rng = np.random.default_rng(k)
    found = {name: rng.normal(size=p.shape) for name, p in PARAMS.items()}
    if k == BAD:
        found["w"][5, 1] = np.nan
    return found


def walk(tx, mapped=lambda f, *_: f):
    """Return parameters, averages, steps skipped and certificate after all steps; nothing outlives its step."""

    def advance(g, state, params):
        updates, state = tx.update(g, state, params)
        return optax.apply_updates(params, updates), state

    params = jax.tree.map(jax.numpy.asarray, PARAMS)
    state = jax.jit(mapped(tx.init, params))(params)
    step = jax.jit(mapped(advance, gradients(0), state, params), donate_argnums=(1, 2))
    for k in range(STEPS):
        params, state = step(gradients(k), state, params)
    return params, uo.eval_params(state, params), state.skipped, uo.certificate(state)


def main():
    mesh = jax.make_mesh((2,), ("shards",), axis_types=(jax.sharding.AxisType.Auto,))

    def specs(tree):
        """Tensors are sharded along their first axis, numbers are the same everywhere."""
        return jax.tree.map(lambda leaf: P("shards") if np.ndim(leaf) else P(), tree)

    for make, options in [
        (uo.clipped_adam, {"norm": "all", "clip": 0.5, "random_scaling": "exp", "seed": 7}),
        (uo.clip_free_adam, {"norm": "tensor", "mu": 0.5}),
        (uo.clipped_adam, {"norm": "coord"}),
    ]:
        whole, shard = make(0.1, **options), make(0.1, axis_name="shards", **options)

        def mapped(f, *arguments, tx=whole):
            state = specs(tx.init(PARAMS))
            out = state if len(arguments) == 1 else (specs(PARAMS), state)
            return jax.shard_map(f, mesh=mesh, in_specs=tuple(map(specs, arguments)), out_specs=out)

        one, two = walk(whole), walk(shard, mapped)
        assert len(two[0]["w"].sharding.device_set) == 2
        assert int(one[2]) == 1
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13), one, two)
    print("done")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
