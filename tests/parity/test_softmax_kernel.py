"""The compiled rounds of DiscountedSoftmax against their twin."""

import numpy as np
import pytest

from tests.twins import softmax as reference
from undrift import kernels
from undrift.kernels.definitions import SoftmaxNumber
from undrift.learners.softmax import class_basis

pytestmark = pytest.mark.every_level


def state(n, reg):
    numbers = np.zeros(len(SoftmaxNumber))
    numbers[SoftmaxNumber.RIDGE] = reg
    return [np.zeros((n, n)), np.eye(n) / reg, np.zeros(n), np.zeros(n), numbers]


@pytest.mark.parametrize(("K", "d"), [(2, 3), (3, 1), (4, 3), (7, 5), (40, 2)])
def test_compiled_rounds_are_those_of_the_twin(K, d):
    rng = np.random.default_rng(K)
    Q, T, reg, k = class_basis(K), 40, 0.5, 0.4
    Z, y = rng.normal(size=(T, d)), rng.integers(0, K, T).astype(float)
    Z[20] *= 40.0  # a leverage after which the covariance is computed anew
    beta, weight = rng.choice([0.95, 1.0], T), rng.choice([0.0, 1.0, 2.5, 300.0], T)
    ours, twin = state((K - 1) * d, reg), state((K - 1) * d, reg)
    for part in (slice(0, 15), slice(15, T)):
        n = len(y[part])
        outs = [[np.empty((n, K)), np.empty(n), np.empty(n), np.empty((n, K))] for _ in range(2)]
        rest = Q, k, reg, beta[part], weight[part], np.ascontiguousarray(Z[part]), y[part]
        assert kernels.softmax_play(*ours, *rest, *outs[0]) == 0
        assert reference.softmax_play(*twin, *rest, *outs[1]) == 0
        for a, b in zip(outs[0], outs[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)  # Newton's method stops at 1e-9
    for a, b in zip(ours, twin, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
    looks = [np.empty((5, K)) for _ in range(2)]
    kernels.softmax_predict(ours[1], ours[3], Q, k, reg, 0.9, Z[:5], looks[0])
    reference.softmax_predict(twin[1], twin[3], Q, k, reg, 0.9, Z[:5], looks[1])
    np.testing.assert_allclose(looks[0], looks[1], rtol=1e-6, atol=1e-6)


def test_rows_too_far_start_afresh():
    rng = np.random.default_rng(0)
    K, d, T, reg = 4, 2, 30, 1.0
    Q, Z, y = class_basis(K), rng.normal(size=(T, d)), rng.integers(0, K, T).astype(float)
    Z[20] *= 1e9
    Z[25] *= 1e60
    logits, numbers = [], []
    for module in (kernels, reference):
        one, outs = state((K - 1) * d, reg), [np.empty((T, K)), np.empty(T), np.empty(T)]
        assert module.softmax_play(*one, Q, 0.4, reg, np.full(T, 0.9), np.ones(T), Z, y, *outs) == 0
        logits.append(outs[0])
        numbers.append(one[4])
    for which, least in ((SoftmaxNumber.RESTARTS, 2), (SoftmaxNumber.IGNORED, 1)):
        assert numbers[0][which] == numbers[1][which] >= least
    np.testing.assert_allclose(logits[0][26:], logits[1][26:], rtol=1e-6, atol=1e-9)


def test_bad_input_changes_nothing():
    ours, Q = state(4, 1.0), class_basis(3)
    before = [np.array(one) for one in ours]
    Z, outs = np.array([[1.0, 2.0], [1.0, np.nan]]), [np.empty((2, 3)), np.empty(2), np.empty(2)]
    rest = Q, 0.4, 1.0, np.ones(2), np.ones(2), Z
    assert kernels.softmax_play(*ours, *rest, np.zeros(2), *outs) == 4
    assert reference.softmax_play(*ours, *rest, np.zeros(2), *outs) == 4
    assert all((a == b).all() for a, b in zip(ours, before, strict=True))
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.softmax_play(*ours, *rest, np.array([0.0, 3.0]), *outs)
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.softmax_predict(ours[1], ours[3], Q, 0.4, 1.0, 0.9, np.ones((2, 3)), np.empty((2, 3)))
