"""Runs in which rounding and restarts matter, and a search that makes each of them worse; for tests and stress runs.

A run is data: rows, labels, a comparator, a learner's parameters. `evaluate` certifies it and computes the regret from
predictions, rows and labels alone; `climb` changes the run step by step to raise (regret - bound) / scale, which no
change may bring above rounding.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

import undrift as ud
from undrift.errors import ConditionError
from undrift.regret import Restarted, certify

HINTS = ("zero", "last", "ridge")
NEWTON_LOSSES = ("absolute", "quantile(0.8)", "huber(0.5)", "squared")
FAMILIES = ("DriftVAW", "DiscountedNewton", "Restarted")
COMPARATORS = ("zero", "last leader", "leaders", "best path", "jumps", "drifts", "large")

WEAKER = {
    "without rounding": lambda cert: cert.certified - cert.rounding,
    "less stability": lambda cert: cert.certified - 1e-3 * abs(cert.stability),
    "less start": lambda cert: cert.certified - 1e-3 * abs(cert.start),
    "less variation": lambda cert: cert.certified - 1e-3 * abs(cert.variation),
}
"""Claims that do not hold, which the search must break."""


@dataclass(frozen=True)
class Run:
    """One run to be certified: everything that decides it."""

    kind: str
    """Class of the learner."""
    parameters: dict
    Z: np.ndarray
    y: np.ndarray
    comparator: str
    """Which path it is compared with, one of `COMPARATORS`."""
    noise: np.ndarray
    """Random numbers (T, d) that comparators are made of."""
    weight: np.ndarray | None = None
    elapsed: np.ndarray | None = None
    starts: tuple | None = None
    """Rounds of fresh starts; None: a learner that is not restarted."""
    delay: int = 0

    @property
    def learner(self):
        return getattr(ud, self.kind)(**self.parameters)

    @property
    def counts(self):
        return {} if self.weight is None else {"weight": self.weight, "elapsed": self.elapsed}


def collinear_rows(rng, T, d):
    """Rows of any size whose columns agree to 1e-4 or better, now and then with an ordinary row or a spike."""
    apart = 10.0 ** rng.uniform(-13, -4)
    Z = rng.normal(size=(T, 1)) * (1.0 + apart * rng.normal(size=(T, d)))
    if rng.integers(3) == 0:
        Z[:, 0] = rng.normal(size=T)
    if rng.integers(3) == 0:
        Z[rng.random(T) < 0.1] = rng.normal(size=d)
    if rng.integers(4) == 0:
        Z[rng.random(T) < 0.1] *= 1e3
    if rng.integers(2):
        Z *= 10.0 ** rng.uniform(-3, 0, size=(T, 1))
    if rng.integers(2):
        Z[0] *= 1e-2  # what is known of the direction in which all rows lie lets the learner take larger ones
    return Z * 10.0 ** rng.uniform(-2, 4)


def make_run(rng, family):
    """Return a random run of a family: DriftVAW, Newton, or Restarted over these and DiscountedVAW."""
    T, d = int(rng.integers(1, 40) if rng.integers(2) else rng.integers(1, 8)), int(rng.integers(1, 5))
    Z = collinear_rows(rng, T, d) if rng.integers(4) else rng.normal(size=(T, d)) * 10.0 ** rng.uniform(-2, 4)
    y = rng.normal(size=T) * 10.0 ** rng.uniform(-3, 4)
    if rng.integers(2):
        y[-1] *= 10.0 ** rng.uniform(0, 4)
    if rng.integers(4) == 0:
        y = y + Z @ rng.normal(size=d)
    reg = 10.0 ** rng.uniform(-12, 2)
    if rng.integers(2):  # leverages about the largest that are learned
        reg = float(np.clip(np.max(np.sum(Z * Z, axis=1)) * 10.0 ** rng.uniform(-14, -6), 1e-12, 1e6))
    kind = family if family != "Restarted" else str(rng.choice(["DriftVAW", "DiscountedNewton", "DiscountedVAW"]))
    if kind == "DriftVAW":
        parameters = {"tau": 10.0 ** rng.uniform(-4, 8), "reg": reg, "hint": str(rng.choice(HINTS))}
    elif kind == "DiscountedVAW":
        parameters = {"beta": float(rng.choice([0.3, 0.9, 0.99, 1.0])), "reg": reg, "hint": str(rng.choice(HINTS))}
    else:
        parameters = {
            "loss": str(rng.choice(NEWTON_LOSSES)),
            "beta": float(rng.choice([0.3, 0.9, 0.99, 1.0])),
            "gamma": float(rng.choice([0.0, 10.0 ** rng.uniform(-3, 1), 10.0 ** rng.uniform(-3, 1)])),
            "reg": reg,
            "radius": None if rng.integers(2) else 10.0 ** rng.uniform(-2, 4),
        }
    weight = elapsed = None
    if rng.integers(3) == 0:
        weight = np.where(rng.random(T) < 0.3, 1.0, rng.choice([0.0, 1e-3, 0.5, 30.0, 1e4], T))
        elapsed = np.where(rng.random(T) < 0.3, 1.0, rng.choice([0.01, 0.5, 2.0, 40.0], T))
    starts = tuple(rng.integers(0, T, rng.integers(0, 4)).tolist()) if family == "Restarted" else None
    delay = int(rng.integers(1, 5)) if weight is None and starts is None and rng.integers(6) == 0 else 0
    comparator = str(rng.choice(COMPARATORS))
    return Run(kind, parameters, Z, y, comparator, rng.normal(size=(T, d)), weight, elapsed, starts, delay)


def evaluate(run):
    """Return the certificate of a run and its regret, computed independently; `ConditionError` if it is refused.

    The losses that the certificate states must be these.
    """
    model = run.learner if run.starts is None else Restarted(run.learner, np.array(run.starts, dtype=np.int64))
    late = {"delay": run.delay} if run.delay else {}
    trace = (model.clone() if run.starts is None else model).play(run.Z, run.y, **late, **run.counts)
    u, loss = _comparator(run), run.learner.loss
    cert = certify(model, run.Z, run.y, trace, u, loss, **run.counts)
    weight = np.ones(len(run.y)) if run.weight is None else run.weight
    mine, theirs = weight * loss.value(trace.yhat, run.y), weight * loss.value(np.sum(run.Z * u, axis=1), run.y)
    off = 1e-14 * np.sum(np.abs(run.Z * u), axis=1)  # a product u.z may cancel, and is added up in another order here
    room = math.fsum((weight * (np.abs(loss.slope(np.sum(run.Z * u, axis=1), run.y)) + off) * off).tolist())
    assert abs(cert.incurred - math.fsum(mine.tolist())) <= 1e-12 * cert.incurred
    assert abs(cert.comparator_loss - math.fsum(theirs.tolist())) <= 1e-12 * cert.comparator_loss + room
    return cert, math.fsum([*mine.tolist(), *(-theirs).tolist()])


def excess(cert, certified=None):
    """Return (regret - bound) / scale; `certified(cert)` is another claim, deliberately too small.

    The comparator's loss is part of both and cancels: it may be far larger than all terms of the certificate.
    """
    return (cert.incurred - (cert.certified if certified is None else certified(cert))) / max(cert.scale, 1e-300)


def climb(run, steps, rng, certified=None):
    """Return the worst run found by random changes that raise the excess, and that excess."""

    def score(one):
        try:
            return excess(evaluate(one)[0], certified)
        except ConditionError:
            return -math.inf

    best, value = run, score(run)
    for _ in range(steps):
        changed = change(best, rng)
        found = score(changed)
        if found >= value:
            best, value = changed, found
    return best, value


def search(family, count, climbs, steps, seed, certified=None):
    """Return (excess, number, run) of the worst `climbs` of `count` runs after so many steps each, the worst first."""
    runs = []
    for k in range(count):
        run = make_run(np.random.default_rng([seed, k]), family)
        try:
            runs.append((excess(evaluate(run)[0], certified), k, run))
        except ConditionError:
            continue
    runs.sort(key=lambda one: one[:2], reverse=True)
    found = [(*climb(run, steps, np.random.default_rng([seed, k, 1]), certified), k) for _, k, run in runs[:climbs]]
    return sorted(((value, k, run) for run, value, k in found), key=lambda one: one[:2], reverse=True)


def change(run, rng):
    """Return the run with one thing changed a little, or a lot."""
    T, d = run.Z.shape
    what, t, size = int(rng.integers(10)), int(rng.integers(T)), 10.0 ** rng.uniform(-8, 1)
    if what == 0:
        return replace(run, Z=_changed(run.Z, t, run.Z[t] * (1.0 + size * rng.normal(size=d))))
    if what == 1:
        return replace(run, y=_changed(run.y, t, run.y[t] * (1.0 + size * rng.normal())))
    if what == 2:
        return replace(run, y=_changed(run.y, t, rng.normal() * np.abs(run.y).max() * 10.0 ** rng.uniform(-2, 1)))
    if what == 3:
        return replace(run, Z=_changed(run.Z, t, run.Z[int(rng.integers(T))] * rng.normal()))
    if what == 4:
        return replace(run, comparator=str(rng.choice(COMPARATORS)), noise=run.noise * (1.0 + size * rng.normal()))
    if what == 5:
        column = run.Z[:, [0]] * (1.0 + size * 1e-4 * rng.normal(size=(T, 1)))
        return replace(run, Z=np.hstack([run.Z[:, : d - 1], column]))
    if what == 6:
        return replace(run, Z=_changed(run.Z, t, run.Z[t] * 10.0 ** rng.normal()))
    scales = [name for name in ("reg", "tau", "gamma", "radius") if run.parameters.get(name)]
    name = str(rng.choice(scales))
    low, high = {"reg": (1e-12, 1e6), "tau": (1e-6, 1e10), "gamma": (1e-4, 1e2), "radius": (1e-3, 1e6)}[name]
    moved = float(np.clip(run.parameters[name] * 10.0 ** rng.normal(), low, high))
    return replace(run, parameters={**run.parameters, name: moved})


def _changed(array, at, value):
    out = array.copy()
    out[at] = value
    return out


def _comparator(run):
    """Return the path (T, d) that the run is compared with, inside the learner's ball."""
    T, d = run.Z.shape
    size = float(np.abs(run.y).max(initial=0.0)) / max(float(np.abs(run.Z).max(initial=0.0)), 1e-300)
    if run.comparator == "zero":
        u = np.zeros((T, d))
    elif run.comparator in ("last leader", "leaders"):
        u = _leaders(run)
        u = np.tile(u[-1], (T, 1)) if run.comparator == "last leader" else u
    elif run.comparator == "best path":
        u = _best_path(run)
    elif run.comparator == "jumps":
        u = size * np.repeat(run.noise, max(1, T // 3), axis=0)[:T]
    elif run.comparator == "drifts":
        u = size * np.cumsum(0.1 * run.noise, axis=0)
    else:
        u = 1e6 * size * np.tile(run.noise[0], (T, 1))
    u = np.where(np.isfinite(u), u, 0.0)
    radius = getattr(run.learner, "radius", math.inf)
    return u * min(1.0, radius / max(float(np.linalg.norm(u, axis=1).max()), 1e-300))


def _segments(run):
    edges = sorted({0, *(run.starts or ())})
    return zip(edges, [*edges[1:], len(run.y)], strict=True)


def _leaders(run):
    """The learner's own points after each round: where a promise with a discount is tight."""
    out = np.zeros(run.Z.shape)
    for a, b in _segments(run):
        learner = run.learner
        for t in range(a, b):
            given = {name: float(column[t]) for name, column in run.counts.items()}
            learner.learn(run.Z[t], run.y[t], **given)
            out[t] = learner.coef
    return out


def _best_path(run):
    """The path of least cost at the learner's prices, by one dense solve: where a price on movement is tight."""
    T, d = run.Z.shape
    tau, reg = run.parameters.get("tau", 1.0), run.parameters["reg"]
    weight = np.ones(T) if run.weight is None else run.weight
    elapsed = np.ones(T) if run.elapsed is None else run.elapsed
    H, g, eye = np.zeros((T * d, T * d)), np.zeros(T * d), np.eye(d)
    firsts = {a for a, _ in _segments(run)}
    for t in range(T):
        own = slice(t * d, (t + 1) * d)
        H[own, own] += weight[t] * np.outer(run.Z[t], run.Z[t])
        g[own] += weight[t] * run.y[t] * run.Z[t]
        if t in firsts:
            H[own, own] += reg * eye
        else:
            before, price = slice((t - 1) * d, t * d), 2.0 * tau / elapsed[t]
            H[own, own] += price * eye
            H[before, before] += price * eye
            H[own, before] -= price * eye
            H[before, own] -= price * eye
    try:
        return np.linalg.solve(H, g).reshape(T, d)
    except np.linalg.LinAlgError:
        return np.zeros((T, d))
