"""Random and adversarial runs with the certificate of each, for the tests and `python -m tools stress certify`.

Every family returns the certificate and the regret, which is computed here from predictions, rows and labels alone.
"""

import math

import numpy as np

import undrift as ud
from tests.regret import adversarial
from undrift import losses
from undrift.regret import HindsightLeaves, certify

BETAS = (0.01, 0.1, 0.3, 0.6, 0.9, 0.99, 1.0)
EXTREME_BETAS = (1e-300, 1e-100, 1e-17, 1e-12, 1e-3, 0.5, 0.99, 0.999999, 1.0)
KINDS = ("random", "dead", "doubled", "frozen", "scaled", "one-hot", "silent", "waking", "spikes")
EXTREME_KINDS = (*KINDS, "nearly the same", "codes", "tiny", "huge")


def regret(yhat, y, Z, u, loss):
    """Losses of predictions less those of comparators, one rounding in all."""
    return math.fsum([*loss.value(yhat, y).tolist(), *(-loss.value(np.sum(Z * u, axis=1), y)).tolist()])


def rows(rng, T, d, kinds=KINDS):
    """A random or adversarial design."""
    kind = rng.choice(kinds)
    Z = rng.normal(size=(T, d))
    if kind == "nearly the same":
        Z = Z[:, :1] * (1.0 + 10.0 ** rng.uniform(-15, -6) * rng.normal(size=(T, d)))
    elif kind == "codes":
        Z[rng.random((T, d)) < 0.1] = 10.0 ** rng.uniform(9, 60)
    elif kind in ("tiny", "huge"):
        Z *= 10.0 ** (rng.uniform(-60, -5) if kind == "tiny" else rng.uniform(5, 30))
    if kind == "dead":
        Z[:, -1] = 0.0
    elif kind == "doubled":
        Z[:, -1] = Z[:, 0]
    elif kind == "frozen":
        Z[T // 4 :] = Z[T // 4 : T // 4 + 1]
    elif kind == "scaled":
        Z *= 10.0 ** rng.integers(-5, 6, size=d)
    elif kind == "one-hot":
        Z = np.eye(d)[rng.integers(d, size=T)]
    elif kind == "silent":
        Z[rng.random(T) < 0.8] = 0.0
    elif kind == "waking":
        Z[: T // 2, -1] = 3.0
    elif kind == "spikes":
        Z[rng.random((T, d)) < 0.05] *= 1e6
    return Z


def path(rng, T, d):
    """A comparator that stands still, jumps, or drifts."""
    kind = rng.integers(3)
    if kind == 0:
        return np.tile(rng.normal(size=d), (T, 1))
    if kind == 1:
        return np.repeat(rng.normal(size=(T, d)), rng.integers(1, max(2, T // 2)), axis=0)[:T]
    return rng.normal(size=d) + np.cumsum(0.1 * rng.normal(size=(T, d)), axis=0)


def numbers(rng, Z, u):
    """Labels the comparator explains, or does not, quiet or noisy, with spikes or all alike."""
    y = np.sum(Z * u, axis=1) * rng.integers(2) + rng.normal(size=len(Z)) * rng.choice([0.0, 1e-6, 1.0, 100.0])
    if rng.integers(4) == 0:
        y[rng.random(len(y)) < 0.05] += 1e4 * rng.normal()
    return np.full(len(y), 3.0) if rng.integers(12) == 0 else y


def signs(rng, Z, u):
    """Labels of two classes: noise, what the comparator says, or nearly always the same."""
    kind = rng.integers(3)
    if kind == 0:
        return np.where(rng.random(len(Z)) < 0.5, 1.0, -1.0)
    if kind == 1:
        return np.where(rng.random(len(Z)) < 0.97, 1.0, -1.0)
    return np.where(np.sum(Z * u, axis=1) > 0.0, 1.0, -1.0)


def within(u, Z, most):
    """Shrink comparators until no prediction of theirs exceeds `most` on any row."""
    return u * min(1.0, most / max(float(np.abs(u @ Z.T).max(initial=0.0)), 1e-300))


def shape(rng):
    """A few rounds, so that an instance costs milliseconds, and now and then one or two."""
    return int(rng.integers(1, 50) if rng.integers(8) else rng.integers(1, 3)), int(rng.integers(1, 5))


def linear(rng):
    T, d = shape(rng)
    Z, u = rows(rng, T, d), path(rng, T, d) * 10.0 ** rng.integers(-1, 2)
    y = numbers(rng, Z, u)
    hint = str(rng.choice(["zero", "last", "ridge"]))
    model = ud.linear_ensemble(horizon=int(rng.integers(1, 100)), reg=10.0 ** rng.uniform(-4, 2), hint=hint)
    trace = model.play(Z, y)
    return certify(model, Z, y, trace, u), regret(trace.yhat, y, Z, u, losses.squared)


def logistic(rng):
    T, d = shape(rng)
    Z, u = rows(rng, T, d), path(rng, T, d)
    radius, bound = max(float(np.linalg.norm(Z, axis=1).max()), 1e-3), 10.0 ** rng.uniform(-1, 1)
    u *= min(1.0, bound / max(float(np.linalg.norm(u, axis=1).max()), 1e-300))
    y = signs(rng, Z, u)
    model = ud.logistic_ensemble(bound=bound, radius=radius, horizon=int(rng.integers(1, 100)))
    trace = model.play(Z, y)
    return certify(model, Z, y, trace, u), regret(trace.yhat, y, Z, u, losses.logistic)


def mixed(rng):
    """Short memories, so that pivots are raised, baselines without a promise, and an ensemble inside an ensemble."""
    T, d = int(rng.integers(20, 50)), int(rng.integers(1, 5))
    Z, u = rows(rng, T, d), path(rng, T, d)
    if rng.integers(2):
        y = numbers(rng, Z, u)
        hint = str(rng.choice(["zero", "last", "ridge"]))
        inner = ud.Ensemble([ud.DiscountedVAW(beta=float(b), hint=hint) for b in rng.choice(BETAS, 2, replace=False)])
        beside = [ud.DiscountedVAW(beta=float(rng.choice(BETAS)), reg=10.0 ** rng.uniform(-6, 3)), ud.Persistence()]
        model = ud.Ensemble([inner, *beside])
    else:
        reach = 10.0 ** rng.uniform(-1, 1.5)
        u = within(u, Z, reach)
        y = signs(rng, Z, u)
        members = [ud.DiscountedAIOLI(beta=float(b), bound=reach) for b in rng.choice(BETAS, 2, replace=False)]
        model = ud.Ensemble([*members, ud.BaseRate(), ud.DiscountedAIOLI(beta=0.5, bound=0.1)])
    trace = model.play(Z, y)
    return certify(model, Z, y, trace, u), regret(trace.yhat, y, Z, u, model.loss)


def holes(rng, Z, y):
    """Take numbers away as streams do, but not every label."""
    Z, y = Z.copy(), np.asarray(y, dtype=np.float64).copy()
    if rng.integers(2):
        Z[rng.random(Z.shape) < 0.1] = np.nan
    if rng.integers(3) == 0:
        y[1:][rng.random(len(y) - 1) < 0.2] = np.nan
    return Z, y


def estimator(rng, kind):
    """Raw rows with holes, now and then beyond the warm-up, where labels are cut; comparators in the design."""
    T, d = shape(rng)
    if rng.integers(8) == 0:
        T = int(rng.integers(257, 330))
    Z, u = rows(rng, T, d), path(rng, T, d)
    Z, y = holes(rng, Z, signs(rng, Z, u) if kind is ud.OnlineClassifier else numbers(rng, Z, u))
    half_life = None if rng.integers(4) == 0 else 10.0 ** rng.uniform(-1, 2)  # one memory: cheap, and pivots are raised
    speed = str(rng.choice(["fast", "fast", "best"]))
    model = kind(speed=speed, indicators=bool(rng.integers(4) == 0), half_life=half_life)
    trace = model.play(Z, y)
    design = model.design(Z, y, "waves" if model.speed == "best" and rng.integers(2) else "linear")
    u = path(rng, *design.rows.shape) * 10.0 ** rng.integers(-2, 2)
    if kind is ud.OnlineClassifier:
        u = within(u, design.rows, design.margin * rng.uniform() ** 2)
    elif rng.integers(2):
        u[:, 0] += np.nanmean(y)
    yhat = trace.yhat[~np.isnan(y)]
    return certify(model, Z, y, trace, u), regret(yhat, design.labels, design.rows, u, model.loss)


def regressor(rng):
    return estimator(rng, ud.OnlineRegressor)


def classifier(rng):
    return estimator(rng, ud.OnlineClassifier)


def short(rng):
    """A few rounds, and often none, one or two."""
    T = rng.integers(0, 3) if rng.integers(3) == 0 else rng.integers(3, 50)
    return int(T), int(rng.integers(1, 5))


def far(rng, T, d):
    """A comparator as `path` has them, of any size."""
    return path(rng, T, d)[:T] * 10.0 ** rng.choice([0.0, 0.0, rng.uniform(-12, 12)])


def single(rng, model, Z, y, u):
    """Certify one learner, against its own leader now and then."""
    trace = model.play(Z, y)
    if rng.integers(4) == 0 and model.dim is not None:
        u = np.tile(model.coef, (len(y), 1))
    if math.isfinite(reach := getattr(model, "reach", math.inf)) and len(y):
        u = within(u, Z, reach * rng.uniform())
    return certify(model.clone(), Z, y, trace, u), regret(trace.yhat, y, Z, u, model.loss)


def vaw(rng):
    T, d = short(rng)
    Z, u = rows(rng, T, d, EXTREME_KINDS), far(rng, T, d)
    y = np.clip(numbers(rng, Z, u) * 10.0 ** rng.choice([0.0, rng.uniform(-20, 20)]), -1e75, 1e75)
    beta, reg = float(rng.choice(EXTREME_BETAS)), 10.0 ** rng.choice([0.0, rng.uniform(-30, 10)])
    return single(rng, ud.DiscountedVAW(beta=beta, reg=reg, hint=str(rng.choice(["zero", "last", "ridge"]))), Z, y, u)


def aioli(rng):
    T, d = short(rng)
    Z, u = rows(rng, T, d, EXTREME_KINDS), far(rng, T, d)
    y, reg = signs(rng, Z, u), 10.0 ** rng.choice([0.0, rng.uniform(-30, 10)])
    model = ud.DiscountedAIOLI(beta=float(rng.choice(EXTREME_BETAS)), reg=reg, bound=10.0 ** rng.uniform(-1, 2))
    return single(rng, model, Z, y, u)


def drift(rng):
    T, d = short(rng)
    Z, u = rows(rng, T, d, EXTREME_KINDS), far(rng, T, d)
    tau, reg = 10.0 ** rng.uniform(-20, 20), 10.0 ** rng.uniform(*rng.choice([[-20, 10], [-6, 6]]))
    model = ud.DriftVAW(tau, reg=reg, hint=str(rng.choice(["zero", "last", "ridge"])))
    return single(rng, model, Z, np.clip(numbers(rng, Z, u), -1e75, 1e75), u)


def newton(rng):
    T, d = short(rng)
    name = str(rng.choice(["absolute", "quantile(0.8)", "huber(0.5)", "poisson", "log_wealth"]))
    Z = rows(rng, T, d) * (0.01 if name in ("poisson", "log_wealth") else 1.0)
    u, radius = path(rng, T, d)[:T], None if rng.integers(2) else 3.0
    if radius is not None:
        u = u * np.minimum(1.0, radius / np.maximum(np.linalg.norm(u, axis=1), 1e-300))[:, None]
    y = np.abs(numbers(rng, Z, u)) + 0.5
    gamma = float(rng.choice([0.0, 0.0, 0.3]))
    beta, reg = float(rng.choice(EXTREME_BETAS)), 10.0 ** rng.uniform(-6, 6)
    model = ud.DiscountedNewton(name, beta=beta, gamma=gamma, reg=reg, radius=radius)
    trace = model.play(Z, y)
    return certify(model.clone(), Z, y, trace, u), regret(trace.yhat, y, Z, u, losses.loss_named("test", name))


def classes(rng):
    """Softmax regression of a few classes, against paths of matrices or its own leader, one memory or several."""
    K, (T, d) = int(rng.integers(2, 6)), shape(rng)
    Z = rows(rng, T, d) * 10.0 ** rng.uniform(-3, 0)
    u = np.stack([path(rng, T, d)[:T] for _ in range(K)], axis=1) * 10.0 ** rng.integers(-2, 2)
    y = np.argmax(np.einsum("tkd,td->tk", u, Z), axis=1) if rng.integers(2) else rng.integers(0, K, T)
    beta, reg, bound = float(rng.choice([0.3, 0.9, 0.99, 1.0])), 10.0 ** rng.uniform(-3, 3), 10.0 ** rng.uniform(-2, 2)
    model = ud.DiscountedSoftmax(K, beta=beta, reg=reg, bound=bound)
    if rng.integers(4) == 0:
        model = ud.ClassEnsemble([model, ud.DiscountedSoftmax(K, beta=0.5, reg=reg, bound=bound)])
    elif rng.integers(3) == 0:
        fitted = model.clone()
        fitted.play(Z, y)
        u = np.broadcast_to(fitted.coef, u.shape)
    trace = model.play(Z, y)
    mine, theirs = losses.softmax.value(trace.yhat, y), losses.softmax.value(np.einsum("tkd,td->tk", u, Z), y)
    return certify(model, Z, y, trace, u), float(np.sum(mine - theirs))


def drifts(rng):
    """An ensemble over prices of movement."""
    T, d = short(rng)
    Z, u = rows(rng, T, d, EXTREME_KINDS), far(rng, T, d)
    y = np.clip(numbers(rng, Z, u), -1e75, 1e75)
    hint = str(rng.choice(["zero", "last", "ridge"]))
    model = ud.drift_ensemble(10.0 ** rng.uniform(0, 6), 1.0, reg=10.0 ** rng.uniform(-3, 3), hint=hint)
    trace = model.play(Z, y)
    return certify(model, Z, y, trace, u), regret(trace.yhat, y, Z, u, losses.squared)


def hindsight(rng):
    """Predictions of nobody in particular, through leaves that know the comparator."""
    T, d = shape(rng)
    Z, u = rows(rng, T, d), path(rng, T, d)[:T]
    y = numbers(rng, Z, u)
    trace = ud.trace.Trace(y + rng.normal(size=T))
    return certify(HindsightLeaves(), Z, y, trace, u), regret(trace.yhat, y, Z, u, losses.squared)


def adversarial_family(family):
    """A family of `adversarial.py`: collinear columns, tiny ridges, large rows, restarts, weights, times, delays."""
    return lambda rng: adversarial.evaluate(adversarial.make_run(rng, family))


FAMILIES = {
    "VAW": vaw,
    "AIOLI": aioli,
    "DriftVAW": drift,
    "Newton": newton,
    "softmax": classes,
    "hindsight": hindsight,
    "linear ensemble": linear,
    "logistic ensemble": logistic,
    "mixed ensemble": mixed,
    "drift ensemble": drifts,
    "OnlineRegressor": regressor,
    "OnlineClassifier": classifier,
    "collinear DriftVAW": adversarial_family("DriftVAW"),
    "collinear Newton": adversarial_family("DiscountedNewton"),
    "restarted": adversarial_family("Restarted"),
}


def below(cert, measured):
    """Whether a certificate lies below the regret by more than rounding, or says so of itself wrongly."""
    room = 1e-12 * cert.scale + 1e-15 * (abs(measured) + abs(cert.comparator_loss) + abs(cert.incurred))
    return not cert.holds or not cert.bound - measured >= -room
