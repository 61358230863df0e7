"""The references themselves: against rational arithmetic, and against each other."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arf, ctx, fmpq, fmpq_mat

from tests.accuracy import measure, wide
from tests.accuracy.closed import closed_loop, logistic_round
from tests.accuracy.exact import Past, exact, identity
from tests.accuracy.streams import NAMES, make


def rational(Z, y, beta, reg, t):
    """m and h before round t, without any rounding."""
    dim, b = Z.shape[1], Fraction(beta)
    G = [[Fraction(reg) * b ** (t + 1) * (i == j) for j in range(dim)] for i in range(dim)]
    q = [Fraction(0)] * dim
    for s in range(t):
        z = [Fraction(v) for v in Z[s].tolist()]
        for i in range(dim):
            q[i] += b ** (t - s) * Fraction(float(y[s])) * z[i]
            for j in range(dim):
                G[i][j] += b ** (t - s) * z[i] * z[j]
    z = [Fraction(v) for v in Z[t].tolist()]
    entries = [fmpq(x.numerator, x.denominator) for row in G for x in row]
    right = [fmpq(x.numerator, x.denominator) for pair in zip(q, z, strict=True) for x in pair]
    solved = fmpq_mat(dim, dim, entries).solve(fmpq_mat(dim, 2, right))
    columns = [[Fraction(int(solved[i, k].p), int(solved[i, k].q)) for i in range(dim)] for k in (0, 1)]
    return tuple(float(sum(a * b for a, b in zip(z, c, strict=True))) for c in columns)


@pytest.mark.parametrize("beta", [0.5, 0.9, 0.999, 1.0])
@pytest.mark.parametrize("dim", [1, 3])
def test_integer_sums_agree_with_rational_arithmetic(beta, dim):
    rng = np.random.default_rng(1)
    Z, y = rng.normal(size=(40, dim)), rng.normal(size=40)
    Z[:, 0] = np.round(Z[:, 0] * 2**20) / 2**20
    Z[10:25] = Z[10]
    asked = [0, 1, 7, 20, 39]
    truth = exact(Past(Z, np.ones(40), y, beta, identity(dim, 0.3)), asked)
    for t in asked:
        m, h = rational(Z, y, beta, 0.3, t)
        assert float(truth[t].m) == pytest.approx(m, rel=1e-15, abs=1e-15)
        assert float(truth[t].h) == pytest.approx(h, rel=1e-15)


def test_rows_beyond_reach_change_nothing_that_is_returned():
    case = make("full", 4, 6000, seed=3)
    past = Past(case.U, np.ones(6000), case.y, 0.9, case.prior())
    late = exact(past, [5999])[5999]  # rows older than some 1300 rounds are a radius
    chained = exact(past, [*range(0, 6000, 500), 5999])[5999]
    assert late.m.overlaps(chained.m)
    assert late.h.overlaps(chained.h)
    assert float(late.m.rad()) < 1e-30


def test_answers_do_not_depend_on_the_precision_that_somebody_left():
    case = make("combination", 6, 60, seed=1)
    found = []
    for left in (20, 4000):
        ctx.prec = left
        answer = exact(Past(case.U, np.ones(60), case.y, 0.5, case.prior()), [6, 12])[12]
        found.append((float(answer.m), float(answer.h)))
    assert found[0] == found[1]


@pytest.mark.parametrize("size", [30, 200, 2000])
def test_both_ways_to_sum_give_the_same_integers(size):
    rng = np.random.default_rng(size)
    z = rng.integers(-(2**46), 2**46, size=60)
    c = [int.from_bytes(rng.bytes(size // 8), "little") for _ in range(20)]
    e = [int(s) * v for s, v in zip(rng.choice([-1, 1], size=20), c, strict=True)]
    assert wide.sums(z, 3, c, e) == wide.sums([int(v) for v in z], 3, c, e)


@pytest.mark.parametrize("kappa", [1e-8, 1.0, 1e8, 1e16])
@pytest.mark.parametrize("m0", [1e-9, 0.5, -3.0, 300.0])
def test_the_scalar_equation_is_solved(kappa, m0):
    with mpmath.workdps(60):
        odds = logistic_round(arf(m0), arf(kappa), 1.0, 2.0)
        m = mpmath.mpf(int(odds.yhat.man_exp()[0])) * mpmath.mpf(2) ** int(odds.yhat.man_exp()[1])
        left = m + kappa * mpmath.tanh(m / 2)
        assert abs(left - m0) <= mpmath.mpf(10) ** -50 * (abs(m0) + abs(m))
        assert float(odds.slope) == pytest.approx(float(1 / (1 + mpmath.exp(m))), rel=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_closed_loop_and_integer_sums_are_the_same_learner(name):
    case = make(name, 4, 300, seed=7)
    yhat = closed_loop(case.U, case.prior(), case.labels, 0.9, measure.INVERSE_CURVATURE)
    errors = measure.open_loop(case, case.labels, yhat, 0.9, [5, 50, 151, 299])
    assert max(e for e, _ in errors) <= 1e-15  # the weights are handed over as float64
