"""Certificates of runs with weights of rows and times between them: never below the regret of the weighted losses."""

import math

import numpy as np
import pytest

import undrift as ud
from tests.regret import instances
from undrift import losses
from undrift.errors import ConditionError
from undrift.regret import certify


def counts(rng, rounds):
    """Weights and times, some of them 0, some very large."""
    weight = np.where(rng.random(rounds) < 0.3, 1.0, rng.choice([0.0, 1e-6, 0.5, 3.0, 1e4], rounds))
    elapsed = np.where(rng.random(rounds) < 0.3, 1.0, rng.choice([0.0, 0.01, 0.5, 2.0, 40.0, 1e5], rounds))
    return weight, elapsed


def regret(yhat, y, Z, u, loss, weight):
    mine, theirs = weight * loss.value(yhat, y), weight * loss.value(np.sum(Z * u, axis=1), y)
    return math.fsum([*mine.tolist(), *(-theirs).tolist()])


def run(rng, model, Z, y, u):
    weight, elapsed = counts(rng, len(y))
    trace = model.play(Z, y, weight=weight, elapsed=elapsed)
    if rng.integers(4) == 0 and model.dim is not None and not isinstance(model, ud.DriftVAW):
        u = np.tile(model.coef, (len(y), 1))
    if isinstance(model, ud.DriftVAW):
        for t in range(1, len(y)):  # where no time passes, nothing can move
            u[t] = u[t - 1] if elapsed[t] == 0.0 else u[t]
    if math.isfinite(reach := getattr(model, "reach", math.inf)) and len(y):
        u = instances.within(u, Z, reach * rng.uniform())
    cert = certify(model.clone(), Z, y, trace, u, weight=weight, elapsed=elapsed)
    return cert, regret(trace.yhat, y, Z, u, model.loss, weight)


def vaw(rng):
    T, d = instances.short(rng)
    Z, u = instances.rows(rng, T, d, instances.EXTREME_KINDS), instances.far(rng, T, d)
    y = np.clip(instances.numbers(rng, Z, u) * 10.0 ** rng.choice([0.0, rng.uniform(-20, 20)]), -1e75, 1e75)
    beta, reg = float(rng.choice(instances.EXTREME_BETAS)), 10.0 ** rng.choice([0.0, rng.uniform(-30, 10)])
    return run(rng, ud.DiscountedVAW(beta=beta, reg=reg, hint=str(rng.choice(["zero", "last", "ridge"]))), Z, y, u)


def aioli(rng):
    T, d = instances.short(rng)
    Z, u = instances.rows(rng, T, d, instances.EXTREME_KINDS), instances.far(rng, T, d)
    beta, reg = float(rng.choice(instances.EXTREME_BETAS)), 10.0 ** rng.choice([0.0, rng.uniform(-30, 10)])
    model = ud.DiscountedAIOLI(beta=beta, reg=reg, bound=10.0 ** rng.uniform(-1, 2))
    return run(rng, model, Z, instances.signs(rng, Z, u), u)


def drift(rng):
    T, d = instances.short(rng)
    Z, u = instances.rows(rng, T, d), instances.far(rng, T, d)
    tau, reg = 10.0 ** rng.uniform(-6, 6), 10.0 ** rng.uniform(-6, 6)
    model = ud.DriftVAW(tau, reg=reg, hint=str(rng.choice(["zero", "last", "ridge"])))
    return run(rng, model, Z, np.clip(instances.numbers(rng, Z, u), -1e75, 1e75), u.copy())


def newton(rng):
    T, d = instances.short(rng)
    Z, u = instances.rows(rng, T, d), instances.path(rng, T, d)[:T]
    beta, reg = float(rng.choice(instances.EXTREME_BETAS)), 10.0 ** rng.uniform(-6, 6)
    name = str(rng.choice(["absolute", "quantile(0.8)", "huber(0.5)"]))
    model = ud.DiscountedNewton(name, beta=beta, gamma=float(rng.choice([0.0, 0.3])), reg=reg)
    return run(rng, model, Z, instances.numbers(rng, Z, u), u)


def classes(rng):
    K, (T, d) = int(rng.integers(2, 5)), instances.shape(rng)
    Z = instances.rows(rng, T, d) * 10.0 ** rng.uniform(-3, 0)
    u = np.stack([instances.path(rng, T, d)[:T] for _ in range(K)], axis=1) * 10.0 ** rng.integers(-2, 2)
    y = np.argmax(np.einsum("tkd,td->tk", u, Z), axis=1) if rng.integers(2) else rng.integers(0, K, T)
    model = ud.DiscountedSoftmax(K, beta=float(rng.choice([0.3, 0.9, 1.0])), reg=10.0 ** rng.uniform(-3, 3), bound=2.0)
    weight = np.where(rng.random(T) < 0.3, 1.0, rng.choice([0.0, 0.5, 3.0], T))
    elapsed = np.where(rng.random(T) < 0.3, 1.0, rng.choice([0.0, 0.5, 2.0], T))
    if rng.integers(4) == 0:
        model = ud.ClassEnsemble([model, ud.DiscountedSoftmax(K, beta=0.5)])
    trace = model.play(Z, y, weight=weight, elapsed=elapsed)
    theirs = losses.softmax.value(np.einsum("tkd,td->tk", u, Z), y)
    measured = float(np.sum(weight * (losses.softmax.value(trace.yhat, y) - theirs)))
    return certify(model, Z, y, trace, u, weight=weight, elapsed=elapsed), measured


@pytest.mark.parametrize(("family", "runs"), [(vaw, 120), (aioli, 120), (drift, 120), (newton, 60), (classes, 30)])
def test_no_certificate_is_below_the_regret(family, runs):
    refused = 0
    for seed in range(runs):
        rng = np.random.default_rng([seed, 17])
        try:
            cert, measured = family(rng)
        except ConditionError:  # a comparator beyond float64's range, or a row too far from all others
            refused += 1
            continue
        assert not instances.below(cert, measured), seed
    assert refused < runs // 4


def test_the_certificate_is_the_sum_of_the_definition():
    rng = np.random.default_rng(0)
    for learner in (ud.DiscountedVAW(beta=0.8, reg=0.5), ud.DiscountedAIOLI(beta=0.8, reg=0.5, bound=9.0)):
        T, d = 30, 2
        Z, u = 0.5 * rng.normal(size=(T, d)), np.repeat(rng.normal(size=(6, d)), 5, axis=0)
        y = np.sign(rng.normal(size=T)) if learner.binary else rng.normal(size=T)
        weight, elapsed = rng.choice([0.0, 1.0, 2.5], T), rng.choice([0.5, 1.0, 3.0], T)
        trace = learner.clone().play(Z, y, weight=weight, elapsed=elapsed)
        cert = certify(learner, Z, y, trace, u, weight=weight, elapsed=elapsed)
        betas = 0.8**elapsed
        total, following = trace.stability.sum(), np.append(betas[1:], 0.0)
        for t in range(T):
            ages = np.array([np.prod(betas[s + 1 : t + 1]) for s in range(t + 1)])
            past = float(np.sum(ages * weight[: t + 1] * learner.loss.value(Z[: t + 1] @ u[t], y[: t + 1])))
            total += (1.0 - following[t]) * (0.5 * trace.potential[t] * u[t] @ u[t] + past)
        assert cert.certified == pytest.approx(total, rel=1e-9)
        assert cert.incurred == pytest.approx(np.sum(weight * learner.loss.value(trace.yhat, y)))
        ones = certify(learner, Z, y, u=u, weight=np.ones(T), elapsed=np.ones(T))
        assert ones == certify(learner, Z, y, u=u)


def test_drift_is_tight_at_the_best_path_with_weights_and_times():
    """The sum of prices and the least cost of a path is the weighted loss: at the smoother the bound is an equality."""
    rng = np.random.default_rng(1)
    T, d, tau, reg = 25, 2, 3.0, 0.7
    Z, y = rng.normal(size=(T, d)), rng.normal(size=T)
    weight, elapsed = rng.choice([0.5, 1.0, 4.0], T), rng.choice([0.25, 1.0, 6.0], T)
    A, b = np.zeros((T * d, T * d)), np.zeros(T * d)
    A[:d, :d] += reg * np.eye(d)
    for t in range(T):
        at = slice(t * d, (t + 1) * d)
        A[at, at] += weight[t] * np.outer(Z[t], Z[t])
        b[at] += weight[t] * y[t] * Z[t]
        if t:
            before, price = slice((t - 1) * d, t * d), 2.0 * tau / elapsed[t] * np.eye(d)
            A[at, at] += price
            A[before, before] += price
            A[at, before] -= price
            A[before, at] -= price
    path = np.linalg.solve(A, b).reshape(T, d)
    learner = ud.DriftVAW(tau, reg=reg, hint="last")
    trace = learner.clone().play(Z, y, weight=weight, elapsed=elapsed)
    cert = certify(learner, Z, y, trace, path, weight=weight, elapsed=elapsed)
    assert abs(cert.slack) <= 1e-9 * cert.scale


def test_runs_that_are_not_covered_are_refused_in_one_sentence():
    Z, y = np.ones((4, 1)), np.arange(4.0)
    model = ud.linear_ensemble()
    trace = model.play(Z, y, weight=[1.0, 2.0, 1.0, 1.0])
    sentence = "certificates with weight or elapsed are for single learners whose labels came at once"
    with pytest.raises(ConditionError, match=sentence):
        certify(model, Z, y, trace, [0.0], weight=[1.0, 2.0, 1.0, 1.0])
    late = ud.DiscountedVAW()
    trace = late.play(Z, y, delay=1, weight=[1.0, 2.0, 1.0, 1.0])
    with pytest.raises(ConditionError, match=sentence):
        certify(late, Z, y, trace, [0.0], weight=[1.0, 2.0, 1.0, 1.0])
