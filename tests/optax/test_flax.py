"""flax nnx: its optimizer wraps ours, and the averaged parameters are found in its state."""

import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")
nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")

import numpy as np  # noqa: E402  # after the skips

import undrift.optax as uo  # noqa: E402  # after the skips

pytestmark = pytest.mark.filterwarnings("ignore")  # flax's own


def test_the_average_of_an_nnx_model_is_the_mean_of_the_visited_points():
    model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, uo.clipped_adam(0.1, average_horizon=None), wrt=nnx.Param)
    z = jax.numpy.ones((4, 3))
    visited = []
    for _ in range(5):
        visited.append(np.asarray(model.kernel[...]))
        grads = nnx.grad(lambda m: (m(z) ** 2).mean())(model)
        optimizer.update(model, grads)
    weights = 0.1 * 0.9 ** np.arange(4, -1, -1) / (1 - 0.9**5)
    found = uo.eval_params(optimizer.opt_state, nnx.state(model, nnx.Param))
    np.testing.assert_allclose(found["kernel"][...], np.tensordot(weights, visited, 1), rtol=1e-5)
    average = nnx.merge(nnx.graphdef(model), found)
    assert average(z).shape == (4, 2)
