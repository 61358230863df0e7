"""mixing: weights stay a distribution for 10 million rounds, and a member that talks nonsense changes nothing."""

import math

import numpy as np
import pytest

import undrift as ud
from undrift.learners.base import Columns

MIXERS = ["Mixable", "RangeMean", "Aggregating", "SelfConfident", "ResidualScale"]
BLOCK, TURNS = 100_000, 100


def made(name, members, **parameters):
    mixer = getattr(ud.ensemble, name)(**parameters)
    mixer.begin(np.ones(members))
    return mixer


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 1e-3])
@pytest.mark.parametrize("name", MIXERS)
def test_weights_are_a_distribution_after_ten_million_rounds(name, share):
    rng = np.random.default_rng(6)
    mixer = made(name, 4, share=share)
    y, noise = rng.normal(size=BLOCK), rng.normal(size=(BLOCK, 4))
    said = y[:, None] + noise * [0.5, 1.0, 2.0, 1000.0]
    if mixer.binary:
        y = np.sign(y)
        said = y[:, None] * (1.0 + noise) * [1.0, 0.5, 3.0, 1000.0]
    turned = [np.roll(said, k, axis=1) for k in range(4)]  # so that each member is the best one for a while
    for turn in range(TURNS):
        mixer.play(turned[turn % 4], y)
        weights, logs = mixer.weights, mixer.arrays()["log_weights"]
        assert np.isfinite(logs).all()
        assert np.max(logs) == 0.0
        assert np.sum(weights) == pytest.approx(1.0, abs=1e-15)
        assert np.all(weights >= 0.25 * share * (1 - 1e-12))
    assert np.isfinite(mixer.losses).all()
    assert np.isfinite(mixer.cost()).all()


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan, 1e308, 1e75])
@pytest.mark.parametrize("name", MIXERS)
def test_a_member_that_talks_nonsense_is_left_out(name, bad):
    rng = np.random.default_rng(0)
    mixer, alone = made(name, 3, share=0.0), made(name, 1, share=0.0)
    y = rng.normal(size=3000)
    good = y + 0.1 * rng.normal(size=3000)
    if mixer.binary:
        y = np.sign(y)
        good = 2.0 * y
    yhat = mixer.play(np.column_stack([good, np.full(3000, bad), np.full(3000, -bad)]), y)
    assert np.isfinite(yhat).all()
    assert np.isfinite(mixer.weights).all()
    assert mixer.weights[0] > 1.0 - 1e-9
    np.testing.assert_allclose(yhat[2000:], alone.play(good[:, None], y)[2000:], atol=1e-6)


class Rogue(ud.Learner):
    """Says what no number should be."""

    def __init__(self, *, says: str) -> None:
        super().__init__(says=says)
        self.says = float(says)

    def _begin(self, dim):
        pass

    def _predict(self, Z, elapsed=1.0):
        return np.full(len(Z), self.says)

    def _play(self, Z, y, context):
        return Columns(self._predict(Z))

    def _arrays(self):
        return {}


@pytest.mark.parametrize("says", ["inf", "-inf", "nan", "1e300"])
def test_an_ensemble_survives_a_rogue_member(says):
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(1500, 3))
    y = Z @ [1.0, 2.0, 3.0]
    model = ud.Ensemble([ud.DiscountedVAW(beta=1.0), Rogue(says=says)])
    yhat = model.play(Z, y).yhat
    assert np.isfinite(yhat).all()
    assert model.weights[0] > 1.0 - 1e-9
    assert np.mean((yhat - y)[500:] ** 2) < 1e-3 * np.var(y)
    assert np.isfinite(model.predict(Z[0]))
