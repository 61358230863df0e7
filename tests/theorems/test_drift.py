"""drift: for every path the regret is at most start + movement + prices, with equality at the best path."""

import mpmath as mp
import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError
from undrift.learners import drift
from undrift.learners.drift import least_path_cost
from undrift.losses import squared
from undrift.regret import ReferenceLearners, certify, comparators
from undrift.trace import Trace


def best_path(Z, y, tau, reg):
    """The path that minimises losses + start + movement, by one dense solve: no recursion anywhere."""
    T, d = Z.shape
    H, g = np.zeros((T * d, T * d)), np.zeros(T * d)
    for t in range(T):
        own = slice(t * d, (t + 1) * d)
        H[own, own] += np.outer(Z[t], Z[t]) + (reg if t == 0 else 0.0) * np.eye(d)
        g[own] += y[t] * Z[t]
        if t:
            before = slice((t - 1) * d, t * d)
            H[own, own] += 2.0 * tau * np.eye(d)
            H[before, before] += 2.0 * tau * np.eye(d)
            H[own, before] -= 2.0 * tau * np.eye(d)
            H[before, own] -= 2.0 * tau * np.eye(d)
    return np.linalg.solve(H, g).reshape(T, d)


def paid(Z, y, u, tau, reg):
    """Losses + start + movement of a path."""
    return (
        squared.value(np.sum(Z * u, axis=1), y).sum() + 0.5 * reg * u[0] @ u[0] + tau * np.sum(np.diff(u, axis=0) ** 2)
    )


def problem(rng):
    T, d = int(rng.integers(1, 40)), int(rng.integers(1, 4))
    return rng.normal(size=(T, d)), rng.normal(size=T), 10.0 ** rng.uniform(-2, 4), 10.0 ** rng.uniform(-2, 2)


@pytest.mark.parametrize("hint", ["zero", "last", "ridge"])
def test_the_certificate_is_an_equality_at_the_best_path_and_never_below_others(hint):
    rng = np.random.default_rng(0)
    for _ in range(100):
        Z, y, tau, reg = problem(rng)
        learner = ud.DriftVAW(tau, reg=reg, hint=hint)
        trace = learner.play(Z, y)
        smooth = best_path(Z, y, tau, reg)
        tight = certify(learner.clone(), Z, y, trace, smooth)
        assert abs(tight.slack) <= 1e-9 * tight.scale
        assert tight.rounding <= 1e-10 * tight.scale
        assert learner.lower_bound == pytest.approx(paid(Z, y, smooth, tau, reg), rel=1e-8)
        for u in (rng.normal(size=Z.shape), np.tile(rng.normal(size=Z.shape[1]), (len(y), 1)), 100.0 * smooth):
            cert = certify(learner.clone(), Z, y, trace, u)
            assert cert.slack >= -1e-12 * cert.scale
            terms = cert.start + cert.stability + cert.variation + cert.potential_drift
            assert cert.bound == pytest.approx(terms, abs=1e-12 * cert.scale)
            assert cert.variation == pytest.approx(tau * np.sum(np.diff(u, axis=0) ** 2), rel=1e-12)
            assert learner.lower_bound <= paid(Z, y, u, tau, reg) * (1.0 + 1e-9)


def test_a_large_price_is_plain_vaw():
    rng = np.random.default_rng(1)
    Z, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    drifting, plain = ud.DriftVAW(1e15, reg=0.5), ud.DiscountedVAW(beta=1.0, reg=0.5)
    a, b = drifting.play(Z, y), plain.play(Z, y)
    np.testing.assert_allclose(a.yhat, b.yhat, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(a.stability, b.stability, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(drifting.coef, plain.coef, rtol=1e-9)


def test_predictions_are_those_of_multi_precision():
    rng = np.random.default_rng(2)
    Z = np.column_stack([np.ones(400), rng.normal(size=(400, 2)) * [1.0, 1e-3]])
    y = np.cumsum(0.1 * rng.normal(size=400)) + Z[:, 1]
    trace = ud.DriftVAW(5.0, hint="ridge").play(Z, y)
    with mp.workdps(60):
        P, x = mp.eye(3), mp.zeros(3, 1)
        for t in range(400):
            if t:
                P += mp.eye(3) / 10
            z = mp.matrix([mp.mpf(float(v)) for v in Z[t]])
            w = P * z
            h, m = (z.T * w)[0], (z.T * x)[0]
            assert abs(trace.yhat[t] - float(m)) <= 1e-9 * np.abs(y).max()
            x += w * ((mp.mpf(float(y[t])) - m) / (1 + h))
            P -= w * w.T / (1 + h)


def exact_run(Z, y, tau, reg):
    """Predictions of the leader, leverages and the least cost of a path, in 80 digits."""
    d = Z.shape[1]
    with mp.workdps(80):
        P, x, least, columns = mp.eye(d) / mp.mpf(reg), mp.zeros(d, 1), mp.mpf(0), []
        for t in range(len(y)):
            if t:
                P += mp.eye(d) / (2 * mp.mpf(tau))
            z = mp.matrix([mp.mpf(float(v)) for v in Z[t]])
            w = P * z
            h, m = (z.T * w)[0], (z.T * x)[0]
            e = mp.mpf(float(y[t])) - m
            columns.append((float(m), float(h)))
            least += e * e / (2 * (1 + h))
            x += w * (e / (1 + h))
            P -= w * w.T / (1 + h)
        return np.array(columns).T, float(least)


COLLINEAR = np.array([[-0.0094, -0.009395], [2.75296, 2.752961], [-0.57855, -0.5785495], [-1.36331, -1.363312]])


def test_columns_that_are_nearly_the_same_leave_a_definite_covariance():
    """Joseph's form of the covariance had negative leverages here, and a lower bound above what 0 pays."""
    y = np.array([0.0, -2.2, 3.4, 11744.0])
    learner = ud.DriftVAW(35000.0, reg=1e-12, hint="ridge")
    trace = learner.play(COLLINEAR, y)
    (m, h), least = exact_run(COLLINEAR, y, 35000.0, 1e-12)
    np.testing.assert_allclose(trace.yhat, m, rtol=1e-7, atol=1e-7 * np.abs(y).max())
    stability = 0.5 * h / (1.0 + h) * (y - m) ** 2
    np.testing.assert_allclose(trace.stability, stability, rtol=1e-6)
    assert learner.lower_bound == pytest.approx(least, rel=1e-7)
    assert learner.lower_bound <= 0.5 * y @ y
    for u in ([0.0, 0.0], learner.coef, [1e6, -1e6]):
        cert = certify(learner.clone(), COLLINEAR, y, trace, u)
        assert cert.regret <= cert.bound
        assert cert.rounding <= 1e-7 * cert.scale


@pytest.mark.parametrize("seed", range(40))
def test_nearly_collinear_rows_are_learned_to_the_digits_of_the_factor(seed):
    rng = np.random.default_rng(seed)
    T, d, apart, size = 25, int(rng.integers(2, 5)), 10.0 ** rng.uniform(-7, -4), 10.0 ** rng.uniform(-1, 4)
    Z = size * rng.normal(size=(T, 1)) * (1.0 + apart * rng.normal(size=(T, d)))
    y, tau = rng.normal(size=T) * 10.0 ** rng.uniform(-2, 4), 10.0 ** rng.uniform(-2, 6)
    reg = max(10.0 ** rng.uniform(-12, 0), 1e-11 * float(np.max(np.sum(Z * Z, axis=1))))  # no restart
    learner = ud.DriftVAW(tau, reg=reg, hint="ridge")
    trace = learner.play(Z, y)
    assert learner.restarts == 0
    (m, _), least = exact_run(Z, y, tau, reg)
    np.testing.assert_allclose(trace.yhat, m, atol=1e-6 * np.abs(y).max())
    assert learner.lower_bound == pytest.approx(least, rel=1e-8)
    bound = least_path_cost(reg, tau, Z, y)
    assert least * (1.0 - 1e-9) <= bound <= least * (1.0 + 1e-14)


def test_no_path_pays_less_than_the_dual_says_even_where_the_learner_is_wrong(monkeypatch):
    """The bound holds for any residuals: gains that are off make it smaller, never larger than the least cost."""
    rng = np.random.default_rng(9)
    Z, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    _, least = exact_run(Z, y, 3.0, 0.1)
    right = drift._play
    assert least_path_cost(0.1, 3.0, Z, y) == pytest.approx(least, rel=1e-12)
    for off in (1e-3, 0.1, 1.0):
        monkeypatch.setattr(
            drift, "_play", lambda *given, off=off: (run := right(*given))._replace(gains=run.gains * (1.0 + off))
        )
        assert least_path_cost(0.1, 3.0, Z, y) <= least * (1.0 + 1e-13)


def test_rows_beyond_the_largest_leverage_restart_are_counted_and_paid_for():
    rng = np.random.default_rng(3)
    Z, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    Z[20] *= 1e9  # too large even for a fresh learner: ignored
    Z[40] *= 1e5  # the covariance has grown where tau is tiny: a fresh learner can learn it
    learner = ud.DriftVAW(1e-4, reg=1.0)
    trace = learner.play(Z, y)
    assert learner.restarts == 2
    assert np.flatnonzero(trace.potential).tolist() == [0, 20, 40]
    assert trace.stability[20] == pytest.approx(0.5 * y[20] ** 2)
    for _ in range(50):
        cert = certify(learner.clone(), Z, y, trace, rng.normal(size=(60, 2)) * 10.0 ** rng.uniform(-9, 2))
        assert cert.slack >= -1e-12 * cert.scale
    assert np.isfinite(trace.yhat).all()
    u = np.zeros((60, 2))
    u[20:], u[30:] = 1.0, 3.0  # one step into a fresh start, which is free, and one elsewhere, which is not
    cert = certify(learner.clone(), Z, y, trace, u)
    assert cert.variation == pytest.approx(1e-4 * 2.0 * 2.0**2, rel=1e-9)


def test_the_ensemble_learns_the_drift_rate_and_its_stack_is_its_members():
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(600, 2))
    slopes = np.cumsum(0.1 * rng.normal(size=(600, 2)), axis=0)
    y = np.sum(Z * slopes, axis=1) + 0.1 * rng.normal(size=600)
    model = ud.drift_ensemble(1e4, 1e-2, hint="ridge")
    trace = model.play(Z, y)
    alone = [ud.DriftVAW(float(tau), hint="ridge") for tau in np.geomspace(1e4, 1e-2, 7)]
    traces = [one.play(Z, y) for one in alone]
    losses = [squared.value(one.yhat, y).sum() for one in traces]
    assert model.members == alone
    np.testing.assert_allclose(model.losses, losses, rtol=1e-12)
    assert squared.value(trace.yhat, y).sum() <= np.min(losses + model.cost()) + 1e-9
    assert 0 < int(np.argmin(losses)) < 6  # neither end
    assert certify(model.clone(), Z, y, trace, slopes).holds
    with pytest.raises(InputError, match=r"drift_ensemble: fastest must be at most slowest = 1, got 2"):
        ud.drift_ensemble(1.0, 2.0)


def test_against_a_smooth_comparator_the_bound_is_nearly_the_regret():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(800, 2))
    y = np.sum(Z * np.cumsum(0.02 * rng.normal(size=(800, 2)), axis=0), axis=1) + rng.normal(size=800)
    u = comparators.smooth(Z, y, tau=100.0)
    someone = Trace(y + rng.normal(size=800))
    leaf = ud.DriftVAW(100.0, reg=1e-4, hint="ridge")
    cert = certify(ReferenceLearners([leaf]), Z, y, someone, u)
    assert cert.regret <= cert.bound <= cert.regret + 0.05 * cert.comparator_loss
