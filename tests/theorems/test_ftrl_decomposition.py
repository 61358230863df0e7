"""ftrl-decomposition: the corrected Lemmas 14 and 15 and Eq 9; the printed ones are refuted."""

import math

import numpy as np
import pytest

from undrift.optim import Objective, Tuning, core, o2nc
from undrift.optim.o2nc import RegretMeter
from undrift.theory import adam_lemmas as lemmas


def instance(rng):
    T, d = int(rng.integers(1, 25)), int(rng.integers(1, 4))
    gap = rng.uniform(0.01, 0.9)
    eta = 10.0 ** rng.uniform(-2, 1, size=T + 1)
    radius = None if rng.random() < 0.5 else 10.0 ** rng.uniform(-2, 1)
    g = rng.normal(size=(T, d))
    u = rng.normal(size=(T, d)) * 10.0 ** rng.uniform(-2, 1)
    if radius is not None:
        u *= np.minimum(1.0, radius / np.linalg.norm(u, axis=1))[:, None]
    return g, eta, u, gap, radius


@pytest.mark.parametrize("option", [1, 2])
def test_the_shifted_decomposition_holds(option):
    rng = np.random.default_rng(option)
    for _ in range(1000):
        g, eta, u, gap, radius = instance(rng)
        sides = lemmas.decomposition(g, eta, u, gap, radius, option=option)
        assert sides.left <= sides.right + 1e-11 * (abs(sides.left) + abs(sides.right) + 1)


def test_it_is_tight_for_one_round_and_the_best_comparator():
    """T = 1, x_1 = 0: regret -<g, u>; with u = -e_1 g and equal step sizes the bound is met exactly."""
    b, e = 0.9, 0.225
    sides = lemmas.decomposition(np.ones((1, 1)), np.array([b * e, e]), np.array([[-e]]), 1 - b, None, option=1)
    assert sides.left == pytest.approx(e, rel=1e-15)
    assert sides.right == pytest.approx(sides.left, rel=1e-12)


def test_the_printed_decomposition_is_false():
    """d = T = 1, g = 1, beta = .9, eta_0 = 1, eta_1 = .225, u = -eta_0 g / beta: 1.111 > 1.014."""
    b = 0.9
    eta = np.array([1.0, 0.225 / b])  # present-day units: eta_t beta^-t
    g, u = np.ones((1, 1)), np.array([[-1.0 / b]])
    printed = lemmas.decomposition(g, eta, u, 1 - b, None, option=1, printed=True)
    assert (round(printed.left, 3), round(printed.right, 3)) == (1.111, 1.014)
    assert printed.left > printed.right
    assert lemmas.decomposition(g, eta, u, 1 - b, None, option=1).right >= printed.left
    second = lemmas.decomposition(g, eta, u, 1 - b, None, option=2, printed=True)
    composite = lemmas.composite_decomposition(g, eta, u, 1 - b, 0.01, None, printed=True)
    for false in (second, composite):
        assert false.left > false.right


def test_the_composite_decomposition_holds():
    rng = np.random.default_rng(7)
    for _ in range(1000):
        g, eta, u, gap, radius = instance(rng)
        sides = lemmas.composite_decomposition(g, eta, u, gap, 10.0 ** rng.uniform(-3, 2), radius)
        assert sides.left <= sides.right + 1e-11 * (abs(sides.left) + abs(sides.right) + 1)


def adam_eta(g, c):
    """Present-day step sizes of Adam: gamma (1 - b1) / A_t."""
    v, steps = 0.0, [c.gamma * c.gap1 / c.nu]
    for row in g:
        v = core.ema(v, float(row @ row), c.gap2)
        steps.append(c.gamma * c.gap1 / (c.nu + math.sqrt(v)))
    return np.array(steps)


@pytest.mark.parametrize("clips", [True, False])
def test_the_measured_terms_are_the_decomposition_and_bound_the_regret(clips):
    """RegretMeter's O(1) sums against Lemmas 14 and 15 evaluated on the whole trajectory, |u_t| = D."""
    rng = np.random.default_rng(9)
    for _ in range(60):
        T, d = int(rng.integers(2, 60)), 3
        c = Tuning(
            gamma=10.0 ** rng.uniform(-2, 1),
            gap1=10.0 ** rng.uniform(-2, -0.3),
            gap2=10.0 ** rng.uniform(-2, -0.3),
            nu=10.0 ** rng.uniform(-4, 0),
            clip_norm=10.0 ** rng.uniform(-2, 0),
            clips=clips,
            mu=0.0 if clips else 10.0 ** rng.uniform(-2, 2),
        )
        g = rng.normal(size=(T, d)) * 10.0 ** rng.uniform(-2, 1, size=(T, 1))
        u = rng.normal(size=(T, d))
        u *= c.clip_norm / np.linalg.norm(u, axis=1)[:, None]
        meter, m, v, warmth = RegretMeter(c), np.zeros(d), 0.0, 0.0
        for row in g:
            before = (v, warmth, math.sqrt(m @ m))
            warmth, m, v = core.ema(warmth, 1.0, c.gap1), core.ema(m, row, c.gap1), core.ema(v, row @ row, c.gap2)
            delta = core.leader(m, core.rate(v, warmth, c), math.sqrt(m @ m), c.ball)
            meter.observe(
                square=float(row @ row),
                old_v=before[0],
                v=v,
                old_warmth=before[1],
                warmth=warmth,
                old_length=before[2],
                moved=float(delta @ delta),
            )
        unit = c.clip_norm * T
        terms, eta = meter.terms, adam_eta(g, c)
        S = np.zeros(d)
        path = 0.0
        for t in range(T - 1):
            S = (1 - c.gap1) * S + g[t]
            path += (1 - c.gap1) * float(S @ (u[t + 1] - u[t]))
        rest = terms.regularizer + terms.comparator + terms.last
        if clips:
            first = lemmas.decomposition(g, eta, u, c.gap1, c.ball, option=1)
            second = lemmas.decomposition(g, eta, u, c.gap1, c.ball, option=2)
            assert (second.right - path) / unit == pytest.approx(terms.scale_free + rest, rel=1e-8)
        else:
            first = lemmas.composite_decomposition(g, eta, u, c.gap1, c.mu, None)
        assert (first.right - path) / unit == pytest.approx(terms.stability + rest, rel=1e-8)
        assert (first.left - path) / unit <= terms.total + 1e-9 * (abs(terms.total) + abs(rest) + terms.stability)


def test_eq_9_as_printed_is_violated_on_adam():
    """It drops the initial term: one round, g = 1, the theorem's own gamma = b1 D / sqrt(1 - b1)."""
    gap, D = 0.1, 1.0
    b = 1 - gap
    c = Tuning(gamma=b * D / math.sqrt(gap), gap1=gap, gap2=0.1, nu=1.0, clip_norm=D)
    g, u = np.ones((1, 1)), np.array([[-D]])
    eta = adam_eta(g, c)
    alpha = eta / (c.gamma * gap)
    step = min(D, eta[1])
    printed = gap / b * c.gamma * alpha[0] + (b / alpha[0] - 1 / alpha[1]) * step**2 / (2 * c.gamma * gap)
    true = lemmas.decomposition(g, eta, u, gap, D, option=1)
    assert true.left == D  # x_1 = 0, so the regret is -<g, u>
    assert printed < 0.35
    assert true.right >= D


def test_eq_9_lacks_beta1_even_with_the_initial_term():
    """A constant gradient and steps half as long as the comparator: regret grows by D / 2 a round, Eq. 9 falls."""
    gap, D, T = 0.1, 1.0, 200
    b, g, u = 1 - gap, np.ones((T, 1)), np.full((T, 1), -D)
    c = Tuning(gamma=1.0, gap1=gap, gap2=0.1, nu=1.0, clip_norm=D)  # A -> 2, so that the step is D / 2
    eta = adam_eta(g, c)
    inverse = c.gamma * gap / eta  # 1 / alpha_0, ..., 1 / alpha_T
    x = []
    total = 0.0
    for step, row in zip(eta[1:], g[:, 0], strict=True):
        total = b * total + row
        x.append(min(D, step * total))
    moved = np.array(x) ** 2
    unit = 2 * c.gamma * gap
    first = gap / b * c.gamma * np.sum(1.0 / inverse[:-1])
    second = np.sum((b * inverse[:-1] - inverse[1:]) * moved) / unit
    third = b * D**2 * np.sum(inverse[1:-1] - inverse[:-2]) / unit
    initial = D**2 * inverse[1] / unit
    true = lemmas.decomposition(g, eta, u, gap, D, option=1)
    assert true.left > 0.4 * D * T
    assert first + second + third + initial < 0.1 * true.left
    assert true.left <= true.right
    missing = gap * D**2 * np.sum(inverse[1:-1]) / unit  # b / alpha_{t-1} for 1 / alpha_{t-1}, one round later
    assert first + second + third + initial + missing >= true.left


def test_the_stability_term_has_half_a_root_where_theorem_5_prints_a_quarter():
    """Term A of its proof is sqrt(1 - beta1) / 2 times the mean of alpha_{t-1} |g_t|^2."""
    gap, D, T = 0.01, 0.3, 50
    c = Tuning(gamma=(1 - gap) * D / math.sqrt(gap), gap1=gap, gap2=0.2, nu=0.5, clip_norm=D)
    meter, v = RegretMeter(c), 0.0
    lagged = []
    for _ in range(T):
        old, v = v, core.ema(v, 1.0, c.gap2)
        lagged.append(1.0 / (c.nu + math.sqrt(old)))
        meter.observe(square=1.0, old_v=old, v=v, old_warmth=1.0, warmth=1.0, old_length=0.0, moved=0.0)
    assert meter.terms.stability == pytest.approx(math.sqrt(gap) / 2 * np.mean(lagged), rel=1e-12)


def test_a_quadratic_over_2_eta_is_strongly_convex_with_one_over_eta():
    """psi = |x|^2 / (2 eta): psi(y) = psi(x) + <psi'(x), y - x> + |y - x|^2 / (2 eta), no less."""
    rng = np.random.default_rng(3)
    x, y, eta = rng.normal(size=3), rng.normal(size=3), 0.7
    rest = (y @ y - x @ x) / (2 * eta) - x @ (y - x) / eta
    assert rest == pytest.approx((1 / eta) * 0.5 * (y - x) @ (y - x), rel=1e-12)
    assert rest > 1.9 * (1 / (2 * eta)) * 0.5 * (y - x) @ (y - x)


def test_a_run_reports_terms_that_bound_its_regret_part():
    wave = Objective("kinks", 2, 0.2)
    c = Tuning(gamma=0.02, gap1=0.05, gap2=0.01, nu=1e-3, clip_norm=0.01, c=1.0, noise=0.2)
    terms = o2nc(wave, [1.5, 0.7], c, 3000).diagnostics.terms
    assert terms.regularizer < 0.0 < terms.stability
    assert terms.total == min(terms.stability, terms.scale_free) + terms.regularizer + terms.comparator
