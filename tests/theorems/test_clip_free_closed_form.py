"""clip-free-closed-form: Eq 10 is the minimiser of the discounted composite objective (Lemma 4)."""

import numpy as np
import pytest

from undrift.optim import Tuning
from undrift.theory import adam_lemmas as lemmas


@pytest.mark.parametrize("gap1", [1e-12, 1e-4, 0.1, 0.8])
def test_both_sides_agree(gap1):
    rng = np.random.default_rng(0)
    for _ in range(50):
        c = Tuning(
            gamma=10.0 ** rng.uniform(-4, 2),
            gap1=gap1,
            gap2=10.0 ** rng.uniform(-6, -0.1),
            nu=10.0 ** rng.uniform(-8, 1),
            mu=10.0 ** rng.uniform(-4, 4),
            clips=False,
        )
        left, right = lemmas.clip_free_closed_form(rng.normal(size=(int(rng.integers(1, 60)), 3)), c)
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-12 * np.abs(left).max())
