"""Random and adversarial runs of composites with the certificate of each, for the tests and `make stress-certify`."""

import numpy as np

import undrift as ud
from undrift.regret import certify

BETAS = (0.01, 0.1, 0.3, 0.6, 0.9, 0.99, 1.0)
KINDS = ("random", "dead", "doubled", "frozen", "scaled", "one-hot", "silent", "waking", "spikes")


def rows(rng, T, d):
    """A random or adversarial design."""
    kind = rng.choice(KINDS)
    Z = rng.normal(size=(T, d))
    if kind == "dead":
        Z[:, -1] = 0.0
    elif kind == "doubled":
        Z[:, -1] = Z[:, 0]
    elif kind == "frozen":
        Z[T // 4 :] = Z[T // 4]
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
        return np.repeat(rng.normal(size=(T, d)), rng.integers(1, 30), axis=0)[:T]
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
    return u * min(1.0, most / max(float(np.abs(u @ Z.T).max()), 1e-300))


def shape(rng):
    """Mostly a few rounds: an instance should cost milliseconds."""
    return int(rng.integers(1, 60)), int(rng.integers(1, 5))


def linear(rng):
    T, d = shape(rng)
    Z, u = rows(rng, T, d), path(rng, T, d) * 10.0 ** rng.integers(-1, 2)
    y = numbers(rng, Z, u)
    hint = str(rng.choice(["zero", "last", "ridge"]))
    model = ud.linear_ensemble(horizon=int(rng.integers(1, 100)), reg=10.0 ** rng.uniform(-4, 2), hint=hint)
    return certify(model, Z, y, model.play(Z, y), u)


def logistic(rng):
    T, d = shape(rng)
    Z, u = rows(rng, T, d), path(rng, T, d)
    radius, bound = max(float(np.linalg.norm(Z, axis=1).max()), 1e-3), 10.0 ** rng.uniform(-1, 1)
    u *= min(1.0, bound / max(float(np.linalg.norm(u, axis=1).max()), 1e-300))
    y = signs(rng, Z, u)
    model = ud.logistic_ensemble(bound=bound, radius=radius, horizon=int(rng.integers(1, 100)))
    return certify(model, Z, y, model.play(Z, y), u)


def mixed(rng):
    """Short memories, so that pivots are raised, baselines without a promise, and an ensemble inside an ensemble."""
    T, d = shape(rng)
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
    return certify(model, Z, y, model.play(Z, y), u)


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
    return certify(model, Z, y, trace, u)


def regressor(rng):
    return estimator(rng, ud.OnlineRegressor)


def classifier(rng):
    return estimator(rng, ud.OnlineClassifier)


FAMILIES = {
    "linear ensemble": linear,
    "logistic ensemble": logistic,
    "mixed ensemble": mixed,
    "OnlineRegressor": regressor,
    "OnlineClassifier": classifier,
}
