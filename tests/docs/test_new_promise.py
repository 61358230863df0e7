"""CONTRIBUTING, step 4: a learner with stability and potential is certified, one that returns neither says so."""

import numpy as np
import pytest

import undrift as ud
from undrift._internal.discount import Discount
from undrift.errors import ConditionError
from undrift.learners.base import Columns

pytestmark = pytest.mark.slow


class OwnMean(ud.Learner):
    """The discounted mean with reg = 1, as somebody else would write it, with its promise and its discount."""

    least_dim = 0

    def __init__(self, *, beta=0.9, promises=True):
        super().__init__(beta=beta, promises=promises)
        self.beta, self.promises = beta, promises

    @property
    def discount(self):
        return Discount(self.beta, 1.0 - self.beta)

    def _begin(self, dim):
        self._sums = np.array([1.0, 0.0])

    def _arrays(self):
        return {"sums": self._sums}

    def _predict(self, Z, elapsed=1.0):
        A, b = self._sums
        return np.full(len(Z), self.beta * b / (self.beta * A + 1.0))

    def _play(self, Z, y, context):
        yhat, stability = np.empty_like(y), np.empty_like(y)
        for t, label in enumerate(y):
            A = self.beta * self._sums[0] + 1.0
            yhat[t], stability[t] = self.beta * self._sums[1] / A, 0.5 * label**2 / A
            self._sums[...] = A, self.beta * self._sums[1] + label
        potential = self.beta ** (self.rounds + np.arange(1.0, len(y) + 1.0))
        return Columns(yhat, stability, potential) if self.promises else Columns(yhat)


def levels_that_jump():
    rng = np.random.default_rng(0)
    level = np.repeat([1.0, -2.0, 0.5], 40)
    return np.ones((120, 1)), level + 0.3 * rng.normal(size=120), level[:, None]


def test_a_promise_in_columns_is_a_certificate():
    Z, y, u = levels_that_jump()
    certificate = ud.regret.certify(OwnMean(), Z, y, u=u)
    assert certificate.holds
    same = ud.regret.certify(ud.DiscountedMean(beta=0.9), Z, y, u=u)
    assert certificate.regret == pytest.approx(same.regret)
    assert certificate.bound >= certificate.regret
    assert (
        certificate.bound >= same.bound - 1e-9 * same.scale
    )  # ours states the exact price of a round, this one its bound


def test_without_a_promise_there_is_none():
    Z, y, u = levels_that_jump()
    with pytest.raises(ConditionError, match="OwnMean makes no promise"):
        ud.regret.certify(OwnMean(promises=False), Z, y, u=u)
