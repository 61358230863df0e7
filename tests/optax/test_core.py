"""The formulas of optim.core on arrays of jax."""

import numpy as np
import pytest

from tests.optim.test_core import words
from undrift.optim import core

jnp = pytest.importorskip("jax.numpy")


def test_jax_without_wide_integers_gives_the_same_words_and_scales():
    w = jnp.asarray(words().astype(np.uint32))
    mask = jnp.uint32(core.MASK)
    a, _ = core.threefry(jnp.uint32(5), jnp.uint32(0), w, jnp.zeros_like(w), mask)
    assert [int(k) for k in a] == [core.bits(5, int(t))[0] for t in w]
    s = core.exponential(a, jnp.log, jnp.log1p, mask)
    exact = np.array([core.exponential(int(k)) for k in a])
    assert s.dtype == jnp.float32
    np.testing.assert_array_max_ulp(np.asarray(s), exact.astype(np.float32), maxulp=2)
