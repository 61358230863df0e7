"""Ensembles are certified through their members, the Online estimators through learners beside them."""

import numpy as np

import undrift as ud
from undrift.regret import Through, certify


def test_ensembles_and_estimators_never_exceed_their_certificates():
    rng = np.random.default_rng(0)
    for _ in range(15):
        T, d = int(rng.integers(20, 200)), int(rng.integers(1, 4))
        Z, u = rng.normal(size=(T, d)), np.repeat(rng.normal(size=(5, d)), -(-T // 5), axis=0)[:T]
        y = np.sum(Z * u, axis=1) + rng.normal(size=T)
        signs, radius = np.where(y > 0, 1, -1), float(np.linalg.norm(Z, axis=1).max())
        near = u * min(1.0, 2.0 / np.abs(u @ Z.T).max())
        vaws = Through([ud.DiscountedVAW(beta=b, hint="ridge") for b in (0.9, 0.99, 1.0)])
        aiolis = Through([ud.DiscountedAIOLI(beta=b, bound=2.0) for b in (0.9, 0.99, 1.0)])
        linear, odds = ud.linear_ensemble(), ud.logistic_ensemble(bound=2.0 / radius, radius=radius)
        for cert in (
            certify(linear, Z, y, linear.play(Z, y), u),
            certify(odds, Z, signs, odds.play(Z, signs), near),
            certify(vaws, Z, y, ud.OnlineRegressor().play(Z, y), u),
            certify(aiolis, Z, signs, ud.OnlineClassifier().play(Z, signs), near),
        ):
            assert cert.slack >= -1e-12 * cert.scale
            assert cert.leaf  # the learner it goes through, Zero among them
