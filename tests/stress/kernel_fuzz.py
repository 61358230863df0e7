"""Random shapes, strides, dtypes and values at the kernels: nothing may crash, hang or yield a non-finite number.

    python -m tests.stress.kernel_fuzz [seconds] [seed]

A call either takes its arrays, and then the layouts agree in bits and all numbers are finite, or refuses them with a
TypeError, a ValueError or a refusal code, and then nothing has changed.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from types import SimpleNamespace

import numpy as np

from undrift import kernels
from undrift.kernels import layout
from undrift.kernels.definitions import MixerState
from undrift.kernels.layout import MixerArguments

VALUES = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 1e-75, 1e-8, 1e8, 1e75, -1e75)
BAD = (np.nan, np.inf, -np.inf, 1.1e75, -1e300)


def numbers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    out = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4)
    odd = rng.random(shape) < rng.choice([0.0, 0.0, 0.05, 0.5])
    out[odd] = rng.choice(VALUES, size=int(odd.sum()))
    return out


def good_call(rng: np.random.Generator) -> None:
    dim, learners, rounds = int(rng.choice([*range(20), 33, 70])), int(rng.integers(1, 71)), int(rng.integers(0, 90))
    first = int(rng.integers(0, 40))
    Z, y = numbers(rng, (rounds, dim)), numbers(rng, (rounds,))
    sign = np.where(rng.random(rounds) < 0.5, -1.0, 1.0)
    if rng.random() < 0.3 and dim > 1:
        Z[:, -1] = Z[:, 0]
    beta = rng.choice([1e-3, 0.02, 0.5, 0.9, 0.999, 1.0], size=learners)
    bend, reg = 1.0 + 10.0 ** rng.uniform(-3, 3, learners), 10.0 ** rng.uniform(-8, 8, learners)
    results = []
    for lanes in (1, 8):
        state = layout.aligned_zeros(-(-learners // lanes), layout.length(dim), lanes)
        state[:, :dim, :] = 1.0
        for i in range(learners):
            one = layout.parts(state, i, dim)
            one["inverse_pivots"][:], one["energy"][:] = 1.0 / reg[i], reg[i]
        other = state.copy()
        a, b, c, e, f = (np.full((rounds, learners), np.nan) for _ in range(5))
        threads = int(rng.integers(1, 4))
        assert kernels.vaw_play(state, beta, first, Z, y, a, b, threads) == 0
        assert kernels.aioli_play(other, beta, bend, first, Z, sign, c, e, threads) == 0
        assert kernels.aioli_predict(other, beta, first + rounds, Z, f, threads) == 0
        for out in (a, b, c, e, f, state, other):
            assert np.isfinite(out).all()
        results.append((a, b, c, e, f))
    for one, two in zip(*results, strict=True):
        assert np.array_equal(one, two)


def bad_call(rng: np.random.Generator) -> None:
    dim, learners, rounds = 5, int(rng.choice([1, 9])), 12
    state = layout.fresh(dim, np.ones(learners))
    before = state.copy()
    arrays = {
        "state": state,
        "beta": np.full(learners, 0.9),
        "Z": rng.normal(size=(rounds, dim)),
        "y": rng.normal(size=rounds),
        "m": np.empty((rounds, learners)),
        "h": np.empty((rounds, learners)),
    }
    victim = str(rng.choice([*arrays]))
    a = arrays[victim]
    spoiled = [
        np.ones(a.shape, np.float32),
        a.astype(">f8"),
        np.ones((*a.shape, 2))[..., 0],
        a[..., None],
        a[:-1],
        np.zeros(a.size + 1)[1:].view(np.uint8)[4:-4] if a.size > 1 else None,
        a.tolist(),
        None,
        a.astype(object),
    ]
    if victim in ("Z", "y"):
        broken = a.copy()
        broken.flat[rng.integers(a.size)] = rng.choice(BAD)
        spoiled.append(broken)
    call = {**arrays, victim: spoiled[rng.integers(len(spoiled))]}
    try:
        code = kernels.vaw_play(call["state"], call["beta"], 0, call["Z"], call["y"], call["m"], call["h"])
    except (TypeError, ValueError):
        code = 1
    fewer = victim in ("beta",) and isinstance(call["beta"], np.ndarray)
    assert code != 0 or fewer, victim
    assert np.array_equal(state, before) or code == 0


def whole_rounds(rng: np.random.Generator) -> None:
    """Ensemble rounds: cut anywhere they are the same, and a row that cannot be used is declined untouched."""
    dim, learners, members = (int(rng.integers(1, high)) for high in (12, 30, 40))
    rounds, binary = int(rng.integers(1, 60)), bool(rng.random() < 0.5)
    Z, y = numbers(rng, (rounds, dim)), numbers(rng, (rounds,))
    if binary:
        y = np.where(y > 0.0, 1.0, -1.0)
    beta = rng.choice([1e-3, 0.5, 0.99, 1.0], size=learners)
    leader, hint = rng.integers(-1, learners, members), rng.integers(0, 3, members)
    prior = np.log(rng.dirichlet(np.ones(members)))
    share, rule, cut = float(rng.choice([0.0, 0.01])), int(rng.integers(4)), int(rng.integers(rounds + 1))
    results = []
    for cuts in ([0, rounds], [0, cut, rounds], range(rounds + 1)):
        state, last, stability = layout.fresh(dim, np.ones(learners)), np.zeros(1), np.zeros(members)
        zeros = np.zeros(members), np.zeros(members)
        mixer = MixerArguments(prior.copy(), prior, share, np.zeros(len(MixerState)), rule, 2.0, *zeros)
        one = kernels.EnsembleKernel(
            binary=binary,
            state=state,
            beta=beta,
            inverse_curvature=np.full(learners if binary else 0, 3.0),
            leader=leader,
            hint=hint,
            last_label=last,
            stability=stability,
            mixer=mixer,
        )
        yhat, weights = np.full(rounds, np.nan), np.full((rounds, members), np.nan)
        for a, b in pairwise(cuts):
            one.play(a, Z[a:b], y[a:b], yhat[a:b], weights[a:b])
        results.append((yhat, weights, state, stability, *(part for part in mixer if isinstance(part, np.ndarray))))
        before = [np.array(part) for part in results[-1]]
        model = SimpleNamespace(rounds=rounds)
        spoiled = Z[0].copy()
        spoiled[rng.integers(dim)] = rng.choice(BAD)
        for z, label in ((spoiled, 1.0), (Z[0], rng.choice(BAD)), (np.ones(dim + 1), 1.0), (Z[0][:0], 1.0)):
            assert not one.learn(model, z, float(label))
        assert one.predict(model, spoiled) is None
        assert np.isfinite(one.predict(model, Z[0]))
        assert all(np.array_equal(a, b) for a, b in zip(before, results[-1], strict=True))
    for parts in zip(*results, strict=True):
        assert np.isfinite(parts[0]).all()
        assert all(np.array_equal(parts[0], other) for other in parts[1:])
    assert np.allclose(np.sum(results[0][1], axis=1), 1.0), (binary, share, rule, results[0][4:])
    assert np.max(results[0][4]) <= 0.0


def fuzz(seconds: float = 60.0, seed: int = 0) -> int:
    rng, end, calls = np.random.default_rng(seed), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        with kernels.use_level(str(rng.choice(kernels.levels()))):
            good_call(rng)
            whole_rounds(rng)
            for _ in range(20):
                bad_call(rng)
        calls += 1
    print(
        f"{calls} streams in both layouts, {calls} ensembles in three cuts and {20 * calls} spoiled calls "
        f"on levels {', '.join(kernels.levels())}: nothing found"
    )
    return 0


if __name__ == "__main__":
    sys.exit(fuzz(*map(int, sys.argv[1:])))
