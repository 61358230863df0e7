"""softmax, one-vs-rest: quadratics lie below the loss, prices are exact and equal, no run exceeds its certificate."""

import numpy as np
import pytest

import undrift as ud
from tests.twins import softmax as twin
from undrift.ensemble import MixableProbabilities
from undrift.errors import ConditionError, InputError
from undrift.learners.softmax import class_basis, class_curvature
from undrift.losses import log_softmax, logistic, softmax
from undrift.regret import certify


def divergence(b, a):
    """The loss at a less its tangent at b, which no label changes."""
    p = np.exp(log_softmax(b))
    return np.sum(p * (log_softmax(b) - log_softmax(a)))


def test_the_quadratic_lies_below_the_loss_for_logits_within_reach():
    rng = np.random.default_rng(0)
    tightest = np.inf
    for _ in range(1500):
        K, C = int(rng.integers(2, 9)), 10.0 ** rng.uniform(-2, 1.5)
        a = rng.choice([-C, C], size=K) if rng.integers(2) else rng.uniform(-C, C, size=K)
        b = rng.normal(size=K) * 10.0 ** rng.uniform(-2, 2)
        p = np.exp(log_softmax(b))
        square = p @ (a - b - p @ (a - b)) ** 2
        below = 0.5 * class_curvature(K, C) * square
        assert divergence(b, a) >= below * (1.0 - 1e-9) - 1e-13
        if square > 1e-6:
            tightest = min(tightest, divergence(b, a) / below)
    assert tightest < 1.5  # twice the curvature would be refuted


def test_the_scalar_inequality_behind_it():
    x = np.concatenate([-np.geomspace(1e-3, 300.0, 400), np.geomspace(1e-3, 300.0, 400)])
    phi = x - 1.0 + np.exp(-x)
    assert (x**2 <= (2.0 + np.maximum(x, 0.0)) * phi * (1.0 + 1e-9)).all()


def test_prices_are_the_same_for_every_label_and_at_most_half_the_trace():
    rng = np.random.default_rng(1)
    for _ in range(120):
        K = int(rng.integers(2, 9))
        Q, m, k = class_basis(K), K - 1, float(rng.uniform(0.05, 0.9))
        X = rng.normal(size=(m, m))
        M0, m0 = X @ X.T * 10.0 ** rng.uniform(-4, 2) / m, rng.normal(size=m) * 10.0 ** rng.uniform(-1, 1)
        v = twin.equal_prices(m0, M0, k, Q)
        p = twin.softmax(Q @ (m0 - M0 @ v))
        H = Q.T @ (np.diag(p) - np.outer(p, p)) @ Q
        M = np.linalg.inv(np.linalg.inv(M0) + k * H)
        prices = [0.5 * (Q.T @ p - q - v) @ M @ (Q.T @ p - q - v) - 0.5 * v @ M0 @ v for q in Q]
        size = 0.5 * float(np.trace(M0))
        assert np.ptp(prices) <= 1e-6 * size
        assert max(prices) <= 0.5 * np.trace(M @ H) + 1e-6 * size


def test_a_price_is_the_loss_less_what_the_round_adds_to_the_least_objective():
    rng = np.random.default_rng(2)
    T, d, K, beta = 25, 2, 4, 0.9
    Z, y = rng.normal(size=(T, d)), rng.integers(0, K, size=T)
    learner = ud.DiscountedSoftmax(K, beta=beta, reg=0.7, bound=2.0)
    trace, Q = learner.play(Z, y), class_basis(K)
    n, k = (K - 1) * d, learner.curvature
    A, r, c, least = 0.7 * np.eye(n), np.zeros(n), 0.0, 0.0
    for t in range(T):
        design, b, p = np.kron(np.eye(K - 1), Z[t]), Q.T @ trace.yhat[t], np.exp(log_softmax(trace.yhat[t]))
        H, g, loss = k * Q.T @ (np.diag(p) - np.outer(p, p)) @ Q, Q.T @ (p - np.eye(K)[y[t]]), -np.log(p[y[t]])
        A = beta * A + design.T @ H @ design
        r = beta * r + design.T @ (H @ b - g)
        c = beta * c + loss - g @ b + 0.5 * b @ H @ b
        before, least = least, c - 0.5 * r @ np.linalg.solve(A, r)
        assert trace.stability[t] == pytest.approx(loss - (least - beta * before), abs=1e-10)
    np.testing.assert_allclose(learner.coef, Q @ np.linalg.solve(A, r).reshape(K - 1, d), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(trace.potential, 0.7 * beta ** np.arange(1.0, T + 1.0), rtol=1e-12)


@pytest.mark.parametrize("beta", [0.9, 1.0])
def test_the_closed_form_bounds_the_prices(beta):
    rng = np.random.default_rng(3)
    for K in (2, 3, 6):
        T, d, reg = 120, 3, 0.5
        Z = rng.normal(size=(T, d))
        learner = ud.DiscountedSoftmax(K, beta=beta, reg=reg, bound=1.5)
        y = np.empty(T, dtype=int)
        for t in range(T):  # always the least probable class
            y[t] = np.argmin(learner.predict(Z[t]))
            learner.learn(Z[t], y[t])
        trace, k = learner.clone().play(Z, y), learner.curvature
        ages = beta ** np.arange(T - 1.0, -1.0, -1.0)
        inside = 1.0 + k * np.sum(ages * np.sum(Z * Z, axis=1)) / (reg * K * d)
        bound = (K - 1) * d / (2.0 * k) * (np.log(inside) - T * np.log(beta))
        assert np.sum(ages * trace.stability) <= bound
        assert np.sum(trace.stability) <= bound


def instance(rng):
    K, T, d = int(rng.integers(2, 6)), int(rng.integers(1, 50)), int(rng.integers(1, 4))
    Z = rng.normal(size=(T, d)) * 10.0 ** rng.uniform(-3, 1.5)
    if rng.integers(5) == 0:
        Z[rng.random(T) < 0.2] *= 100.0
    if rng.integers(5) == 0:
        Z[:, 0] = Z[:, -1] * (1.0 + 1e-9 * rng.normal(size=T))
    u = np.repeat(rng.normal(size=(T, K, d)), rng.integers(1, max(2, T)), axis=0)[:T] * 10.0 ** rng.uniform(-3, 2)
    beta, reg = float(rng.choice([0.3, 0.9, 0.99, 1.0])), 10.0 ** rng.uniform(-4, 3)
    model = ud.DiscountedSoftmax(K, beta=beta, reg=reg, bound=10.0 ** rng.uniform(-2, 2))
    kind = rng.integers(4)
    y = [rng.integers(0, K, T), np.zeros(T, int), np.argmax(np.einsum("tkd,td->tk", u, Z), axis=1)][kind % 3]
    if kind == 3:
        follower = model.clone()
        for t in range(T):
            y[t] = np.argmin(follower.predict(Z[t]))
            follower.learn(Z[t], y[t])
    return model, Z, y, u


def test_no_run_exceeds_its_certificate():
    rng = np.random.default_rng(4)
    tight = 0
    for _ in range(200):
        model, Z, y, u = instance(rng)
        trace = model.play(Z, y)
        path = np.broadcast_to(model.coef, u.shape) if rng.integers(3) == 0 else u
        cert = certify(model.clone(), Z, y, trace, path)
        regret = np.sum(softmax.value(trace.yhat, y) - softmax.value(np.einsum("tkd,td->tk", path, Z), y))
        assert cert.regret == pytest.approx(regret, abs=1e-9 * cert.scale)
        assert cert.bound - regret >= -1e-12 * cert.scale
        assert cert.holds
        total = cert.start + cert.stability + cert.variation + cert.potential_drift
        assert cert.bound == pytest.approx(total, abs=1e-9 * cert.scale)
        tight += cert.bound - regret < 0.1 * cert.scale
    assert tight > 10


def test_an_ensemble_is_certified_through_its_best_member_and_near_all_of_them():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(400, 2))
    W = np.repeat(rng.normal(size=(4, 3, 2)) * 3.0, 100, axis=0)
    y = np.argmax(np.einsum("tkd,td->tk", W, Z) + rng.gumbel(size=(400, 3)), axis=1)
    model = ud.softmax_ensemble(3)
    trace = model.play(Z, y)
    mine = softmax.value(trace.yhat, y).sum()
    members = [softmax.value(one.clone().play(Z, y).yhat, y).sum() for one in model.members]
    np.testing.assert_allclose(model.losses, members, rtol=1e-12)
    assert mine <= min(members) + np.log(6.0) + 1e-9
    np.testing.assert_allclose(model.cost(), np.log(6.0))
    cert = certify(model.clone(), Z, y, trace, W)
    assert cert.holds
    assert cert.leaf.startswith("DiscountedSoftmax")
    assert cert.bound >= mine - softmax.value(np.einsum("tkd,td->tk", W, Z), y).sum()
    assert 10.0 <= model.half_life <= 1000.0


def test_mixing_loses_exactly_the_mix_loss():
    rng = np.random.default_rng(6)
    E, y = rng.normal(size=(200, 5, 4)) * 10.0 ** rng.uniform(-1, 2.5, size=(200, 1, 1)), rng.integers(0, 4, size=200)
    mixer = MixableProbabilities()
    prior = rng.uniform(0.1, 1.0, size=5)
    mixer.begin(prior)
    lost = softmax.value(mixer.play(E, y.astype(float)), y)
    each = np.stack([softmax.value(E[:, i], y) for i in range(5)], axis=1)
    logs = np.log(prior / prior.sum()) - np.vstack([np.zeros(5), np.cumsum(each, axis=0)])
    mix = np.logaddexp.reduce(logs[:-1], axis=1) - np.logaddexp.reduce(logs[1:], axis=1)
    np.testing.assert_allclose(lost, mix, rtol=1e-9, atol=1e-9)
    assert (lost.sum() <= each.sum(axis=0) + mixer.cost() + 1e-9).all()
    np.testing.assert_allclose(np.exp(mixer.predict(E)).sum(axis=1), 1.0)


def test_a_share_follows_the_best_member_of_the_moment():
    E = np.log(np.array([[[0.9, 0.1], [0.1, 0.9]]] * 400))
    y = np.repeat([0.0, 1.0], 200)
    slow, quick = MixableProbabilities(), MixableProbabilities(share=1e-2)
    lost = []
    for mixer in (slow, quick):
        mixer.begin([1.0, 1.0])
        lost.append(softmax.value(mixer.play(E, y), y).sum())
        assert lost[-1] <= (mixer.losses + mixer.cost()).min() + 1e-9
    assert lost[1] < 0.5 * lost[0]


def test_two_classes_are_as_good_as_the_binary_learner():
    rng = np.random.default_rng(7)
    Z = rng.normal(size=(3000, 4))
    w = np.array([2.0, -1.0, 0.0, 1.0]) + np.cumsum(0.05 * rng.normal(size=(3000, 4)), axis=0)
    y = (rng.random(3000) < 1.0 / (1.0 + np.exp(-np.sum(Z * w, axis=1)))).astype(int)
    binary = ud.DiscountedAIOLI(half_life=200.0, bound=5.0).play(Z, y)
    both = ud.DiscountedSoftmax(2, half_life=200.0, bound=2.5, reg=2.0).play(Z, y)
    theirs = logistic.value(binary.yhat, 2.0 * y - 1.0).mean()
    assert softmax.value(both.yhat, y).mean() <= theirs + 1e-3


def test_one_vs_rest_loses_at_most_what_its_binary_learners_lose():
    rng = np.random.default_rng(8)
    for _ in range(2000):
        K = int(rng.integers(2, 8))
        b, y = rng.normal(size=K) * 10.0 ** rng.uniform(-1, 2), int(rng.integers(K))
        binary = logistic.value(b, np.where(np.arange(K) == y, 1.0, -1.0)).sum()
        assert softmax.value(b, y)[0] <= binary + 1e-12
    sure = np.array([3.0, -60.0, -60.0])  # where the other coins are certain, only "no coin at all" is lost
    assert logistic.value(sure, [1.0, -1.0, -1.0]).sum() == pytest.approx(np.log1p(np.exp(-3.0)))
    assert softmax.value(sure, 0)[0] < 1e-12
    Z, y = rng.normal(size=(300, 3)), rng.integers(0, 4, size=300)
    model = ud.OneVsRest(4, half_life=50.0)
    trace = model.play(Z, y)
    total = sum(
        logistic.value(ud.DiscountedAIOLI(half_life=50.0).play(Z, y == k).yhat, np.where(y == k, 1.0, -1.0))
        for k in range(4)
    )
    assert (softmax.value(trace.yhat, y) <= total + 1e-12).all()
    assert [one.rounds for one in model.learners] == [300] * 4


def test_wrong_input_is_one_sentence():
    model = ud.DiscountedSoftmax(3)
    with pytest.raises(InputError, match=r"y must be class numbers 0 to 2, got 3; number the classes from 0"):
        model.learn([1.0], 3)
    with pytest.raises(InputError, match="classes must be"):
        ud.DiscountedSoftmax(1)
    with pytest.raises(InputError, match=r"100 classes and 1000 features need a matrix of 99000 rows; use OneVsRest"):
        ud.DiscountedSoftmax(100).learn(np.ones(1000), 0)
    for members, text in (
        ([], "members must be learners of classes"),
        ([ud.DiscountedVAW()], "members must be learners of classes"),
        ([model, ud.OneVsRest(4)], "the same number of classes"),
    ):
        with pytest.raises(InputError, match=text):
            ud.ClassEnsemble(members)
    model.learn([1.0], 2)
    with pytest.raises(InputError, match="members must be fresh"):
        ud.ClassEnsemble([model])
    with pytest.raises(InputError, match="prior must be positive for every member"):
        MixableProbabilities().begin([0.0])
    Z, y = np.ones((5, 1)), np.array([0, 1, 2, 0, 1])
    with pytest.raises(InputError, match=r"u must be one comparator \(3, 1\) or one a round \(5, 3, 1\)"):
        certify(model.clone(), Z, y, u=np.ones((2, 1)))
    with pytest.raises(ConditionError, match="OneVsRest makes no promise against softmax regression"):
        certify(ud.OneVsRest(3), Z, y, u=np.ones((3, 1)))
    with pytest.raises(ConditionError, match="labels that came at once"):
        certify(model.clone(), Z, y, model.clone().play(Z, y, delay=1), np.ones((3, 1)))
    far = np.array([[1.0], [1e9], [1.0]])
    with pytest.raises(ConditionError, match=r"started afresh 1 times.*rescale the rows"):
        certify(ud.DiscountedSoftmax(3), far, y[:3], u=np.ones((3, 1)))
