"""Whatever is legal stays finite: outputs, leaders and traces, in every layout."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.accuracy import absurd
from undrift import kernels
from undrift.kernels import layout


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**63 - 1))
def test_absurd_problems_stay_finite(seed):
    assert absurd.trial(seed) == []


entries = st.one_of(
    st.sampled_from([0.0, 1e75, -1e75, 1e-75, 1.0, 5e-324, 1e-160]),
    st.floats(-1e75, 1e75, allow_nan=False),
)


@settings(max_examples=120, deadline=None)
@given(
    rows=st.lists(st.lists(entries, min_size=3, max_size=3), min_size=1, max_size=40),
    labels=st.lists(entries, min_size=40, max_size=40),
    beta=st.sampled_from([1e-300, 1e-20, 0.01, 0.5, 0.99, 1.0]),
    reg=st.sampled_from([1e-300, 1e-140, 1.0, 1e140, 1e300]),
)
def test_adversarial_rows_stay_finite(rows, labels, beta, reg):
    Z, y = np.array(rows), np.array(labels[: len(rows)])
    for learners in (1, 3):
        state = layout.fresh(3, np.full(learners, reg))
        m, h = np.full((len(Z), learners), np.nan), np.full((len(Z), learners), np.nan)
        assert kernels.vaw_play(state, np.full(learners, beta), 0, Z, y, m, h) == 0
        assert np.isfinite(m).all()
        assert np.isfinite(h).all()
        assert (h >= 0.0).all()
        assert np.isfinite(layout.leader(state, 0, 3)).all()


@pytest.mark.parametrize("learners", [1, 3])
def test_a_learner_that_lost_its_numbers_starts_afresh_and_learns_again(learners):
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(3000, 2))
    y = Z @ [1.0, -2.0]
    Z[100:900] = 0.0  # pivots sink to 1e-150, ...
    Z[905:908] = 1e75  # ... and a leverage of 2e300 follows
    state = layout.fresh(2, np.ones(learners))
    m, h = np.full((3000, learners), np.nan), np.full((3000, learners), np.nan)
    Z[900:905] = 0.0
    assert kernels.vaw_play(state, np.full(learners, 0.5), 0, Z, y, m, h) == 0
    assert np.isfinite(m).all()
    assert np.isfinite(h).all()
    assert (m[905:912] == 0.0).all()
    assert [layout.parts(state, i, 2)["resets"][0] for i in range(learners)] == [1.0] * learners
    assert m[-50:] == pytest.approx(np.repeat(y[-50:, None], learners, axis=1), abs=1e-9)
