"""newton: a learner driven by gradients never exceeds its certificate, whatever the convex loss."""

import numpy as np
import pytest

import undrift as ud
from undrift.errors import ConditionError, InputError
from undrift.learners import newton
from undrift.losses import (
    Huber,
    LogWealth,
    Loss,
    Poisson,
    Quantile,
    absolute,
    log_wealth,
    logistic,
    loss_named,
    poisson,
    squared,
)
from undrift.regret import certify

NAMES = ["absolute", "quantile(0.9)", "huber(1)", "poisson", "log_wealth", "squared"]


def labels(rng, name, T):
    if name == "poisson":
        return rng.poisson(2.0, size=T).astype(float)
    return (
        np.exp(0.1 * rng.normal(size=T)) if name == "log_wealth" else rng.normal(size=T) * 10.0 ** rng.integers(-1, 2)
    )


@pytest.mark.parametrize("loss", [absolute, Quantile(0.2), Huber(0.7), poisson, log_wealth, squared], ids=repr)
def test_slopes_are_derivatives_and_losses_are_convex(loss):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4000)) * 3.0
    y = np.abs(rng.normal(size=4000)) + 0.1
    assert (loss.value(b, y) >= loss.value(a, y) + loss.slope(a, y) * (b - a) - 1e-9 * (1.0 + loss.value(a, y))).all()
    step = 1e-6
    smooth = np.abs(loss.slope(a + step, y) - loss.slope(a - step, y)) < 1e-3  # away from kinks
    numeric = (loss.value(a + step, y) - loss.value(a - step, y)) / (2.0 * step)
    np.testing.assert_allclose(loss.slope(a, y)[smooth], numeric[smooth], rtol=1e-4, atol=1e-4)
    assert smooth.mean() > 0.5


@pytest.mark.parametrize(("loss", "yhat"), [(poisson, [49.0, 50.5, 60.0, 1e3]), (log_wealth, [-2.0, -1.5, 0.5])])
def test_straight_lines_beyond_the_largest_arguments_have_their_slope(loss, yhat):
    at, y = np.array(yhat), np.ones(len(yhat))
    numeric = (loss.value(at + 1e-3, y) - loss.value(at - 1e-3, y)) / 2e-3
    np.testing.assert_allclose(loss.slope(at, y), numeric, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("radius", [None, 1.5])
def test_no_run_exceeds_its_certificate(name, gamma, radius):
    rng = np.random.default_rng(NAMES.index(name))
    loss, bound = loss_named("test", name), 0
    for _ in range(40):
        T, d = int(rng.integers(1, 60)), int(rng.integers(1, 4))
        Z, y = rng.normal(size=(T, d)) * (0.05 if name == "log_wealth" else 0.5), labels(rng, name, T)
        u = np.repeat(rng.normal(size=(T, d)), rng.integers(1, 20), axis=0)[:T]
        if radius is not None:
            u *= np.minimum(1.0, radius / np.linalg.norm(u, axis=1))[:, None]
        learner = ud.DiscountedNewton(
            name,
            beta=float(rng.choice([0.3, 0.9, 0.99, 1.0])),
            gamma=gamma,
            reg=10.0 ** rng.uniform(-1, 1),
            radius=radius,
        )
        trace = learner.play(Z, y)
        cert = certify(learner.clone(), Z, y, trace, u)
        mine, theirs = loss.value(trace.yhat, y).sum(), loss.value(np.sum(Z * u, axis=1), y).sum()
        assert cert.regret == pytest.approx(mine - theirs, abs=1e-9 * (abs(mine) + abs(theirs)))
        assert cert.bound - (mine - theirs) >= -1e-11 * cert.scale
        assert cert.rounding <= 1e-10 * cert.scale  # the prices are right by themselves
        if radius is not None:
            assert np.linalg.norm(learner.coef) <= radius * (1.0 + 1e-9)
            bound += np.linalg.norm(learner.coef) > 0.999 * radius
    assert radius is None or bound > 0  # the ball was felt


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_the_price_of_a_round_is_its_loss_less_what_it_adds_to_the_least_objective(gamma):
    rng = np.random.default_rng(3)
    T, d, beta = 30, 2, 0.9
    Z, y = rng.normal(size=(T, d)), rng.normal(size=T)
    learner = ud.DiscountedNewton("huber(0.5)", beta=beta, gamma=gamma)
    points, least = [np.zeros(d)], 0.0
    for z, label in zip(Z, y, strict=True):
        learner.learn(z, label)
        points.append(learner.coef)
    trace, loss = learner.clone().play(Z, y), Huber(0.5)
    slope = loss.slope(trace.yhat, y)

    def objective(t, u):
        miss = np.array([slope[s] * (Z[s] @ u - trace.yhat[s]) for s in range(t + 1)])
        kept = loss.value(trace.yhat[: t + 1], y[: t + 1]) + miss + 0.5 * gamma * miss * miss
        return 0.5 * trace.potential[t] * u @ u + np.sum(beta ** np.arange(t, -1.0, -1.0) * kept)

    for t in range(T):
        before, least = least, objective(t, points[t + 1])
        for _ in range(20):
            assert objective(t, points[t + 1] + 0.1 * rng.normal(size=d)) >= least - 1e-12
        exact = loss.value(trace.yhat[t], y[t]) - (least - beta * before)
        assert trace.stability[t] >= exact - 1e-11
        if not gamma:
            assert trace.stability[t] == pytest.approx(exact, abs=1e-11)


class Power(Loss):
    """|yhat - y|^1.5, a loss of one's own."""

    name, mixability = "power", None

    def value(self, yhat, y):
        return np.abs(np.subtract(yhat, y)) ** 1.5

    def slope(self, yhat, y):
        return 1.5 * np.sign(np.subtract(yhat, y)) * np.sqrt(np.abs(np.subtract(yhat, y)))


def test_a_loss_of_ones_own_is_learned_and_certified_but_not_saved(tmp_path):
    rng = np.random.default_rng(4)
    Z = rng.normal(size=(300, 2))
    y = Z @ [1.0, -2.0] + 0.1 * rng.normal(size=300)
    learner = ud.DiscountedNewton(Power(), beta=0.99, reg=0.5)
    trace = learner.play(Z, y)
    cert = certify(learner.clone(), Z, y, trace, [1.0, -2.0])
    assert cert.holds
    np.testing.assert_allclose(learner.coef, [1.0, -2.0], atol=0.3)
    with pytest.raises(InputError, match=r"a loss of your own cannot be saved"):
        learner.save(tmp_path / "model.undrift")


def test_wrong_parameters_are_one_sentence():
    for loss, text in (("median", r"loss must be one of squared.*got 'median'"), (3, r"loss must be a name or a Loss")):
        with pytest.raises(InputError, match=text):
            ud.DiscountedNewton(loss)
    with pytest.raises(InputError, match=r"quantile\(2\)' cannot be used \(Quantile: level must be in \(0, 1\)"):
        ud.DiscountedNewton("quantile(2)")
    learner = ud.DiscountedNewton("absolute", radius=1.0)
    Z, y = np.ones((5, 1)), np.ones(5)
    with pytest.raises(ConditionError, match=r"comparators with \|u\| <= 1, one has 2"):
        certify(learner, Z, y, learner.clone().play(Z, y), [2.0])
    assert not isinstance(logistic, (Poisson, LogWealth))


def test_the_ensemble_is_near_its_best_member_by_its_cost_and_certified():
    rng = np.random.default_rng(5)
    Z = np.column_stack([np.ones(800), rng.normal(size=800)])
    y = np.repeat([0.0, 5.0, -3.0, 2.0], 200) + Z[:, 1] + 0.3 * rng.standard_t(2, size=800)
    model = ud.newton_ensemble("absolute", reg=0.2)
    trace = model.play(Z, y)
    mine = absolute.value(trace.yhat, y).sum()
    members = [absolute.value(one.clone().play(Z, y).yhat, y).sum() for one in model.members]
    np.testing.assert_allclose(model.losses, members, rtol=1e-12)
    assert mine <= np.min(members + model.cost()) + 1e-9
    assert model.cost().max() <= 0.5 * mine
    u = np.repeat([[0.0, 1.0], [5.0, 1.0], [-3.0, 1.0], [2.0, 1.0]], 200, axis=0)
    cert = certify(model.clone(), Z, y, trace, u)
    assert cert.regret == pytest.approx(mine - absolute.value(np.sum(Z * u, axis=1), y).sum(), rel=1e-9)
    assert cert.regret <= cert.bound


def collinear_run(seed):
    """A run on columns that are nearly the same, in which rounding in the learner's state matters."""
    rng = np.random.default_rng([7, seed])
    T, d = int(rng.integers(3, 60)), int(rng.integers(2, 4))
    size, apart = 10.0 ** rng.uniform(-1, 2), 10.0 ** rng.uniform(-12, -3)
    Z = size * rng.normal(size=(T, 1)) * (1.0 + apart * rng.normal(size=(T, d)))
    y = rng.normal(size=T) * 10.0 ** rng.uniform(-1, 2)
    learner = ud.DiscountedNewton(
        str(rng.choice(["absolute", "huber(0.5)", "squared"])),
        beta=float(rng.choice([0.9, 0.99, 1.0])),
        gamma=10.0 ** rng.uniform(-2, 1),
        reg=10.0 ** rng.uniform(-12, 0),
        radius=None if rng.integers(2) else 10.0 ** rng.uniform(-1, 3),
    )
    trace = learner.play(Z, y)
    u = np.tile(learner.coef, (T, 1)) if rng.integers(2) else rng.normal(size=(T, d))
    u = u * min(1.0, learner.radius / np.linalg.norm(u, axis=1).max())
    return certify(learner.clone(), Z, y, trace, u)


def test_the_rounding_of_the_state_is_priced_on_collinear_streams():
    certificates = [collinear_run(seed) for seed in range(120)]
    assert all(cert.slack >= 0.0 for cert in certificates)
    shares = np.array([cert.rounding / cert.incurred for cert in certificates])
    assert np.median(shares) <= 1e-11  # on ordinary ones it is hardly there ...
    assert shares.max() <= 1e-4  # ... and on the worst it does not decide


def test_a_point_that_is_not_the_minimiser_is_priced(monkeypatch):
    """Whatever the learner does: prices are held against the least values of what it keeps, found from its points."""
    rng = np.random.default_rng(8)
    Z, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    exact, priced = newton._minimise, []
    for radius in (None, 0.3):
        for off in (0.0, 0.01, -0.3, 0.3):
            minimisers = []

            def wrong(A, pull, most, off=off, minimisers=minimisers):
                minimisers.append(exact(A, pull, most))
                u = minimisers[-1] + off
                return u * min(1.0, most / np.linalg.norm(u))

            monkeypatch.setattr(newton, "_minimise", wrong)
            learner = ud.DiscountedNewton("huber(0.5)", beta=0.95, gamma=0.5, reg=0.1, radius=radius)
            trace, u = learner.play(Z, y), np.array(minimisers)  # the comparator with the least slack
            cert = certify(learner.clone(), Z, y, trace, u)
            assert cert.slack >= 0.0
            assert off or cert.rounding <= 1e-10
            priced.append(cert.rounding)
    assert max(priced) > 1e-3


@pytest.mark.parametrize("beta", [1e-300, 1e-12, 1.0])
def test_doubled_features_and_forgotten_pasts_leave_a_system_that_can_be_solved(beta):
    rng = np.random.default_rng(6)
    z = 1e6 * rng.normal(size=(30, 1))
    Z, y = np.hstack([z, z]), np.abs(rng.normal(size=30)) + 0.5
    learner = ud.DiscountedNewton("huber(0.5)", beta=beta, gamma=0.3, reg=1e-6)
    trace = learner.play(Z, y)
    assert np.isfinite(trace.yhat).all()
    assert certify(learner.clone(), Z, y, trace, [1e-6, -1e-6]).holds
