"""Weights of rows and times between them: exactly what they are said to mean, learner by learner."""

import mpmath
import numpy as np
import pytest

import undrift as ud
from tests.helpers import draw_stream
from undrift.errors import InputError
from undrift.losses import logistic, softmax, squared

T, D = 60, 3
LINEAR = [
    ud.DiscountedVAW(beta=0.9),
    ud.DiscountedVAW(half_life=30, hint="last"),
    ud.DiscountedVAW(beta=0.97, hint="ridge"),
    ud.DriftVAW(20.0, reg=0.5, hint="last"),
]
BINARY = [ud.DiscountedAIOLI(beta=0.9), ud.DiscountedAIOLI(beta=1.0, bound=3.0)]
CLASSES = [ud.DiscountedSoftmax(3, beta=0.9, bound=2.0), ud.OneVsRest(3, beta=0.9)]
OTHERS = [
    ud.DiscountedNewton("absolute", beta=0.9),
    ud.DiscountedNewton("squared", beta=0.9, gamma=0.1, reg=2.0),
    ud.linear_ensemble(),
    ud.Ensemble([ud.DiscountedVAW(beta=0.9), ud.DriftVAW(10.0), ud.Persistence(), ud.Zero()]),
]
BASELINES = [ud.BaseRate(beta=0.9), ud.Persistence(binary=True, beta=0.9), ud.logistic_ensemble(1.0, 1.0)]
EVERY = [*LINEAR, *OTHERS, *BINARY, *BASELINES, *CLASSES, ud.softmax_ensemble(3)]


def labelled_rows(learner, seed=0, rounds=T):
    Z, y = draw_stream(rounds, D, lambda Z: Z[:, 0] - 2.0 * Z[:, 1], seed=seed)
    if learner.outputs > 1:
        return Z, np.digitize(y, [-1.0, 1.0]).astype(float)
    return Z, np.where(y > 0.0, 1.0, -1.0) if learner.binary else y


def weights(seed=1, rounds=T):
    rng = np.random.default_rng(seed)
    weight = np.where(rng.random(rounds) < 0.4, 1.0, rng.choice([0.0, 0.5, 2.0, 3.0], rounds))
    elapsed = np.where(rng.random(rounds) < 0.4, 1.0, rng.choice([0.0, 0.5, 2.0, 30.0], rounds))
    return weight, elapsed


def names(learner):
    return repr(learner)[:60]


@pytest.mark.parametrize("learner", EVERY, ids=names)
def test_ones_are_rows_to_the_bit_and_blocks_are_their_rows(learner):
    Z, y = labelled_rows(learner)
    weight, elapsed = weights()
    plain, ones = learner.clone(), learner.clone()
    trace, same = plain.play(Z, y), ones.play(Z, y, weight=np.ones(T), elapsed=np.ones(T))
    assert plain == ones
    assert trace.yhat.tobytes() == same.yhat.tobytes()
    whole, cut, single = (learner.clone() for _ in range(3))
    trace = whole.play(Z, y, weight=weight, elapsed=elapsed)
    for a, b in ((0, 1), (1, 17), (17, 40), (40, T)):
        part = cut.play(Z[a:b], y[a:b], weight=weight[a:b], elapsed=elapsed[a:b])
        assert part.yhat.tobytes() == trace.yhat[a:b].tobytes()
        if part.stability is not None:
            assert part.stability.tobytes() == trace.stability[a:b].tobytes()
            np.testing.assert_allclose(part.potential, trace.potential[a:b], rtol=1e-13)
    for t in range(T):
        predicted = single.predict(Z[t], elapsed=elapsed[t])
        assert np.asarray(predicted).tobytes() == np.asarray(trace.yhat[t]).tobytes()
        single.learn(Z[t], y[t], weight=weight[t], elapsed=elapsed[t])
    assert whole == cut == single


@pytest.mark.parametrize("learner", EVERY, ids=names)
def test_weights_survive_files_and_late_labels(learner, tmp_path):
    Z, y = labelled_rows(learner, 3)
    weight, elapsed = weights(4)
    half = T // 2
    one = learner.clone()
    one.play(Z[:half], y[:half], weight=weight[:half], elapsed=elapsed[:half])
    one.save(tmp_path / "model.undrift")
    again, rest = ud.load(tmp_path / "model.undrift"), slice(half, T)
    assert again == one
    kept = one.play(Z[rest], y[rest], weight=weight[rest], elapsed=elapsed[rest])
    loaded = again.play(Z[rest], y[rest], weight=weight[rest], elapsed=elapsed[rest])
    assert again == one
    assert kept.yhat.tobytes() == loaded.yhat.tobytes()
    if kept.potential is not None:
        assert kept.potential.tobytes() == loaded.potential.tobytes()
    prompt, told = learner.clone(), learner.clone()
    prompt.play(Z, y, weight=weight, elapsed=elapsed)
    for t in range(T):
        told.tell(told.ask(Z[t], elapsed=elapsed[t]), y[t], weight=weight[t])
    assert told._arrays().keys() == prompt._arrays().keys()
    for name, array in told._arrays().items():
        np.testing.assert_allclose(array, prompt._arrays()[name], rtol=1e-12, atol=1e-12)
    late, singly = learner.clone(), learner.clone()
    late.play(Z[:20], y[:20], delay=3, weight=weight[:20], elapsed=elapsed[:20])
    late.save(tmp_path / "late.undrift")
    late = ud.load(tmp_path / "late.undrift")
    late.play(Z[20:], y[20:], delay=3, weight=weight[20:], elapsed=elapsed[20:])
    served = []
    for t in range(T):
        served.append(singly.ask(Z[t], elapsed=elapsed[t]))
        if t >= 3:
            singly.tell(served[t - 3], y[t - 3], weight=weight[t - 3])
    assert late.rounds == singly.rounds == T - 3
    assert all(late._arrays()[name].tobytes() == array.tobytes() for name, array in singly._arrays().items())


@pytest.mark.parametrize("learner", LINEAR, ids=names)
def test_squared_loss_state_is_that_of_copies_at_elapsed_0(learner):
    Z, y = labelled_rows(learner)
    rng = np.random.default_rng(5)
    weight, elapsed = rng.integers(0, 4, T).astype(float), rng.choice([0.0, 1.0, 2.5], T)
    weighted, copies = learner.clone(), learner.clone()
    trace = weighted.play(Z, y, weight=weight, elapsed=elapsed)
    waited = 0.0
    for t in range(T):
        waited += elapsed[t]
        assert copies.predict(Z[t], elapsed=waited if t else elapsed[0]) == pytest.approx(trace.yhat[t], rel=1e-9)
        for copy in range(int(weight[t])):
            copies.learn(Z[t], y[t], elapsed=waited if copy == 0 else 0.0)
            waited = 0.0
        if not weight[t] and learner.parameters.get("hint") == "last":
            copies._last[0] = y[t]  # the last label is known, although nothing is learned from it
    np.testing.assert_allclose(weighted.coef, copies.coef, rtol=1e-9, atol=1e-10)
    assert weighted.predict(Z[0]) == pytest.approx(copies.predict(Z[0], elapsed=1.0 + waited), rel=1e-9)


@pytest.mark.parametrize("learner", [*LINEAR, *BINARY, *CLASSES, OTHERS[1]], ids=names)
def test_weight_0_is_served_and_not_learned(learner):
    Z, y = labelled_rows(learner)
    one = learner.clone()
    one.play(Z, y)
    before = one.coef.copy() if hasattr(one, "coef") else np.array([other.coef for other in one.learners])
    trace = one.play(Z[:1], y[:1] if learner.outputs > 1 else -y[:1], weight=[0.0])
    after = one.coef if hasattr(one, "coef") else np.array([other.coef for other in one.learners])
    assert one.rounds == T + 1
    assert np.isfinite(trace.yhat).all()
    np.testing.assert_allclose(after, before, rtol=1e-12, atol=1e-14)


def expansions(m, h, k, a, sign, weight):
    """Return where a row's loss is expanded and how often it counts there, from the definition, with 60 digits.

    Up to one copy at the prediction a; the others where they are least on top of the past and of that one.
    """
    sigma = lambda x: 1 / (1 + mpmath.exp(-x))  # noqa: E731  # a formula
    found = [(a, mpmath.mpf(min(weight, 1.0)))]
    if weight > 1.0:
        curved = k * sigma(a) * sigma(-a)
        least = (m + h * (curved * a + sign * sigma(-sign * a))) / (1 + h * curved)
        n, left = mpmath.mpf(weight) - 1, h / (1 + h * curved)
        ends = sorted([least, least + sign * n * left])
        p = mpmath.findroot(lambda p: p - least - n * left * sign * sigma(-sign * p), ends, solver="anderson")
        found.append((p, n))
    return found


def test_the_state_agrees_with_multi_precision():
    """Discounted least squares and the surrogates of AIOLI from their definitions, with 60 digits."""
    Z, y = labelled_rows(LINEAR[0], 7)
    weight, elapsed = weights(8)
    linear, binary, signs = ud.DiscountedVAW(beta=0.9), ud.DiscountedAIOLI(beta=0.9, bound=2.0), np.sign(y)
    trace = linear.play(Z, y, weight=weight, elapsed=elapsed)
    odds = binary.play(Z, signs, weight=weight, elapsed=elapsed).yhat
    with mpmath.workdps(60):
        A, b = mpmath.eye(D), mpmath.zeros(D, 1)
        H, g, k = mpmath.eye(D), mpmath.zeros(D, 1), mpmath.mpf(binary.curvature)
        for t in range(T):
            z, w, beta = mpmath.matrix(Z[t]), mpmath.mpf(weight[t]), mpmath.mpf(0.9) ** mpmath.mpf(elapsed[t])
            A, b, H, g = beta * A, beta * b, beta * H, beta * g
            yhat = (z.T * mpmath.lu_solve(A + z * z.T, b))[0]
            assert abs(yhat - trace.yhat[t]) <= 1e-12 * (1 + abs(yhat))
            A, b = A + w * z * z.T, b + w * mpmath.mpf(y[t]) * z
            m0, h = (z.T * mpmath.lu_solve(H, g))[0], (z.T * mpmath.lu_solve(H, z))[0]
            a = mpmath.findroot(lambda m, m0=m0, h=h: m + h * mpmath.tanh(m / 2) - m0, mpmath.mpf(odds[t]))
            assert abs(a - odds[t]) <= 1e-12 * (1 + abs(a))
            for at, copies in expansions(m0, h, k, a, mpmath.mpf(signs[t]), weight[t]):
                p = 1 / (1 + mpmath.exp(-at))
                curved, slope = k * p * (1 - p), mpmath.mpf(1.0 if signs[t] > 0.0 else 0.0) - p
                H, g = H + copies * curved * z * z.T, g + copies * (curved * at + slope) * z
        np.testing.assert_allclose(linear.coef, [float(x) for x in mpmath.lu_solve(A, b)], rtol=1e-11)
        np.testing.assert_allclose(binary.coef, [float(x) for x in mpmath.lu_solve(H, g)], rtol=1e-11)


def test_drift_adds_movement_for_the_time_that_passed():
    Z, y = labelled_rows(LINEAR[0], 9)
    _, elapsed = weights(10)
    tau, reg, learner = 5.0, 0.5, ud.DriftVAW(5.0, reg=0.5, hint="ridge")
    trace = learner.play(Z, y, elapsed=elapsed)
    P, x = np.eye(D) / reg, np.zeros(D)
    for t in range(T):
        P = P + (elapsed[t] / (2.0 * tau) * np.eye(D) if t else 0.0)
        assert trace.yhat[t] == pytest.approx(Z[t] @ x, rel=1e-9, abs=1e-12)
        K = P @ Z[t] / (1.0 + Z[t] @ P @ Z[t])
        x, P = x + K * (y[t] - Z[t] @ x), P - np.outer(K, Z[t] @ P)
    np.testing.assert_allclose(learner.coef, x, rtol=1e-9)


@pytest.mark.parametrize(("learner", "loss"), [(LINEAR[0], squared), (LINEAR[3], squared), (BINARY[0], logistic)])
def test_the_price_of_a_weighted_round_is_its_loss_less_the_leaders(learner, loss):
    """The sum of prices is the weighted loss less the least value of what the learner keeps, by the definition."""
    Z, y = labelled_rows(learner, 11)
    weight, elapsed = weights(12)
    one = learner.clone()
    trace = one.play(Z, y, weight=weight, elapsed=elapsed)
    loose = float(np.sum(weight * loss.value(trace.yhat, y)) - np.sum(trace.stability))
    if learner is LINEAR[3]:
        assert loose == pytest.approx(one.lower_bound, rel=1e-9)
        return
    least, A, b, c = 0.0, np.eye(D), np.zeros(D), 0.0
    total = 0.0
    for t in range(T):
        beta = learner.beta ** elapsed[t]
        A, b, c = beta * A, beta * b, beta * c
        kept = [(1.0, y[t], 0.0, weight[t])]
        if loss is logistic:
            m, h, yhat = Z[t] @ np.linalg.solve(A, b), Z[t] @ np.linalg.solve(A, Z[t]), trace.yhat[t]
            kept = []
            for at, copies in expansions(m, h, learner.curvature, mpmath.mpf(yhat), mpmath.mpf(y[t]), weight[t]):
                point = float(at)
                k, slope = learner.curvature * logistic.curvature(point, y[t]), logistic.slope(point, y[t])
                kept.append((k, point - slope / k, logistic.value(point, y[t]) - 0.5 * slope**2 / k, float(copies)))
        for k, target, value, copies in kept:
            A, b = A + copies * k * np.outer(Z[t], Z[t]), b + copies * k * target * Z[t]
            c += copies * (0.5 * k * target**2 + value)
        now = c - 0.5 * b @ np.linalg.solve(A, b)
        total += now - beta * least
        least = now
    assert loose == pytest.approx(total, rel=1e-8)


def test_mixers_count_every_row_once():
    Z, y = labelled_rows(LINEAR[0], 13)
    weight, elapsed = weights(14)
    model = ud.Ensemble([ud.DiscountedVAW(beta=0.9), ud.DiscountedVAW(beta=0.99)])
    yhat = [one.play(Z, y, weight=weight, elapsed=elapsed).yhat for one in (m.clone() for m in model._prototypes)]
    model.play(Z, y, weight=weight, elapsed=elapsed)
    np.testing.assert_allclose(model.losses, [np.sum(squared.value(one, y)) for one in yhat], rtol=1e-12)


def test_what_has_no_meaning_is_refused_in_one_sentence():
    model = ud.DiscountedVAW()
    with pytest.raises(InputError, match=r"DiscountedVAW: weight must be in \[0, 1e\+50\], got -1 in row 0"):
        model.learn([1.0], 2.0, weight=-1.0)
    with pytest.raises(InputError, match=r"elapsed must be in \[0, 1e\+50\], got -3 in row 1"):
        model.play([[1.0], [2.0]], [1.0, 2.0], elapsed=[1.0, -3.0])
    with pytest.raises(InputError, match="weight"):
        model.play([[1.0], [2.0]], [1.0, 2.0], weight=[1.0])
    with pytest.raises(InputError, match="DiscountedMean: weight is not supported; leave it out, or use a"):
        ud.DiscountedMean().learn([], 1.0, weight=2.0)
    with pytest.raises(InputError, match="weight and elapsed are not supported; leave them out, or use a learner"):
        ud.DiscountedMean().play([[]], [1.0], weight=[2.0], elapsed=[3.0])
    ensemble = ud.Ensemble([ud.DiscountedVAW(), ud.DiscountedMean()])
    with pytest.raises(InputError, match="Ensemble: elapsed is not supported"):
        ensemble.learn([1.0], 1.0, elapsed=2.0)
    assert model.rounds == ensemble.rounds == 0


@pytest.mark.parametrize("classes", [2, 3, 40])
@pytest.mark.parametrize("beta", [0.9, 0.99])
def test_large_weights_do_not_diverge(classes, beta):
    """Random labels, a tenth of the rows with weight W: the loss grows with ln W, as a row counts as W rows say."""
    rng = np.random.default_rng(5)
    rounds = 400 if classes > 3 else 2000
    Z, y = np.ones((rounds, 1)), rng.integers(0, classes, rounds).astype(float)
    plain = {}
    for W in (1.0, 10.0, 50.0, 100.0, 1000.0, 1e5):
        weight = np.where(rng.random(rounds) < 0.1, W, 1.0)
        learners = [ud.DiscountedSoftmax(classes, beta=beta), ud.OneVsRest(classes, beta=beta)]
        labels, loss, still = y, softmax, np.log(classes)
        if classes == 2:
            learners, labels, loss = [ud.DiscountedAIOLI(beta=beta)], 2.0 * y - 1.0, logistic
        for learner in learners:
            trace = learner.play(Z, labels, weight=weight)
            ratio = np.sum(weight * loss.value(trace.yhat, labels)) / (still * np.sum(weight))
            most = np.abs(trace.yhat).max()
            before = plain.setdefault(type(learner), (ratio, most))
            assert ratio <= before[0] + 0.5 * np.log(W)
            assert most <= before[1] + 3.0 * np.log(W)


@pytest.mark.parametrize("learner", [*BINARY, *(ud.DiscountedSoftmax(3, beta=b) for b in (0.9, 1.0))], ids=names)
def test_a_weight_a_little_above_1_is_a_round_a_little_different(learner):
    Z, y = labelled_rows(learner, 21)
    plain, more = learner.clone(), learner.clone()
    trace, near = plain.play(Z, y), more.play(Z, y, weight=np.full(T, 1.0 + 1e-9))
    np.testing.assert_allclose(near.yhat, trace.yhat, atol=1e-7)
    np.testing.assert_allclose(near.stability, trace.stability, atol=1e-7)


@pytest.mark.parametrize("seed", range(40))
def test_certificates_of_extreme_weights_hold_and_are_finite(seed):
    rng = np.random.default_rng(seed)
    rounds, dim = 40, int(rng.integers(1, 4))
    Z = rng.normal(size=(rounds, dim)) * 10.0 ** rng.uniform(-4, 4)
    if seed % 3 == 0:
        Z[:, -1] = Z[:, 0] * (1.0 + 1e-9)
    weight = 10.0 ** rng.uniform(-3, rng.choice([1, 3, 8, 45]), rounds)
    elapsed, beta = rng.choice([0.0, 1.0, 3.0], rounds), float(rng.choice([0.5, 0.9, 1.0]))
    reach = 0.9 / np.abs(Z).sum(axis=1).max()
    y = np.sign(rng.normal(size=rounds))
    binary = ud.DiscountedAIOLI(beta=beta, reg=10.0 ** rng.uniform(-6, 2))
    u = np.repeat(rng.uniform(-reach, reach, (4, dim)), 10, axis=0)
    trace = binary.clone().play(Z, y, weight=weight, elapsed=elapsed)
    found = ud.regret.certify(binary, Z, y, trace, u, weight=weight, elapsed=elapsed)
    assert np.isfinite(found.certified)
    excess = logistic.value(trace.yhat, y) - logistic.value(np.sum(u * Z, axis=1), y)
    assert found.regret == pytest.approx(np.sum(weight * excess), rel=1e-6, abs=1e-9 * found.scale)
    assert found.holds
    classes = ud.DiscountedSoftmax(3, beta=beta, reg=10.0 ** rng.uniform(-2, 2))
    labels = rng.integers(0, 3, rounds).astype(float)
    played = classes.clone()
    trace = played.play(Z, labels, weight=weight, elapsed=elapsed)
    if played.resets:
        return  # its certificate is refused: some row is too far from all before it
    v = np.repeat(rng.normal(size=(4, 3, dim)) * reach, 10, axis=0)
    found = ud.regret.certify(classes, Z, labels, trace, v, weight=weight, elapsed=elapsed)
    assert np.isfinite(found.certified)
    assert found.holds


@pytest.mark.parametrize("seed", [*range(20), 89, 109, 197])
def test_certificates_with_weights_are_finite_at_the_ends_of_the_range(seed):
    rng = np.random.default_rng(seed)
    rounds, dim = int(rng.choice([40, 300])), int(rng.integers(1, 4))
    Z = rng.normal(size=(rounds, dim)) * 10.0 ** rng.uniform(-6, 70)
    if seed % 2:
        Z = np.ones((rounds, dim)) * 10.0 ** rng.uniform(-70, 70, dim)
    y, weight = np.sign(rng.normal(size=rounds)), 10.0 ** rng.uniform(-3, rng.choice([3, 20, 50]), rounds)
    learner = ud.DiscountedAIOLI(beta=float(rng.choice([0.1, 0.5, 0.9, 1.0])), reg=10.0 ** rng.uniform(-12, 6))
    trace = learner.clone().play(Z, y, weight=weight)
    found = ud.regret.certify(learner, Z, y, trace, np.zeros((rounds, dim)), weight=weight)
    assert found.holds
    assert np.isfinite([found.certified, found.regret, found.stability, found.variation, found.scale]).all()


def test_softmax_loss_and_surrogate_count_as_often_as_the_weight_says():
    """Two copies of a row that are predicted once are one row of weight 2: the gradient of its loss doubles."""
    learner = ud.DiscountedSoftmax(3, beta=1.0, reg=1e6)
    Z, y = labelled_rows(learner, 15, 1)
    once, twice = learner.clone(), learner.clone()
    once.play(Z, y)
    twice.play(Z, y, weight=[2.0])
    np.testing.assert_allclose(twice.coef, 2.0 * once.coef, rtol=1e-4)
    assert softmax.value(twice.predict(Z), y)[0] < softmax.value(once.predict(Z), y)[0]
