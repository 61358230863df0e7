"""Verdicts and plans agree with each other and with the theorems, to the last unit in the last place."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import undrift.optim as optim
from undrift.errors import ConditionError, InputError
from undrift.optim import Problem, amplification, best_epsilon, conditions, judge, rho, tune
from undrift.optim.conditions import _covers
from undrift.optim.theorems import THEOREMS, Setting

KEYS = tuple(THEOREMS)
mp = mpmath.mp.clone()
mp.dps = 50
QUICK = settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.generate))  # shrinking costs minutes


def up(x):
    return math.nextafter(x, math.inf)


def down(x):
    return math.nextafter(x, 0.0)


def verdict(key, problem, tuning, **changes):
    t = replace(tuning, **changes)
    found = conditions(gap1=t.gap1, gap2=t.gap2, nu=t.nu, problem=problem, rho=t.rho, steps=t.steps)
    return next(v for v in found if v.theorem == key)


@st.composite
def problems(draw, smallest=-5.7):
    power = st.floats(-3, 3)
    lipschitz, noise = 10 ** draw(power), draw(st.sampled_from([0.0, 1.0])) * 10 ** draw(power)
    share = 10 ** draw(st.floats(smallest, 0))  # -5.7: down to 1 - beta1 = 1e-15
    epsilon = min((lipschitz + noise) * share, lipschitz + noise)
    return Problem(lipschitz, noise, 10 ** draw(power), 10 ** draw(power), epsilon)


def test_rho_of_the_well_known_settings():
    assert [round(rho(*b), 5) for b in ((0.9, 0.999), (0.9, 0.95), (0.95, 0.95))] == [0.98947, 0.47368, 0.02564]
    assert [round(amplification(*b), 4) for b in ((0.9, 0.999), (0.9, 0.95), (0.95, 0.95))] == [6.9102, 1.1355, 1.0003]


@given(st.floats(1e-15, 0.5), st.floats(1e-15, 0.9))
def test_rho_is_exact_however_close_beta_is_to_one(gap1, gap2):
    b1, b2 = 1 - mp.mpf(gap1), 1 - mp.mpf(gap2)
    exact = abs(2 * b2 - 1 - b1**2) / (1 - b1**2)
    assert rho(gap1=gap1, gap2=gap2) == float(exact)


@QUICK
@given(st.data(), st.sampled_from(KEYS), st.sampled_from([None, 1e-6, 1e-2, 1.0]), st.sampled_from([None, 0.5, 0.99]))
def test_what_tune_returns_conditions_accepts_and_one_ulp_outside_it_refuses(data, key, share, width):
    which = THEOREMS[key]
    problem = data.draw(problems(-4.0 if which.by_margin else -5.7))
    nu = None if share is None else share * problem.scale
    t = tune(problem, key, nu=nu, rho=width if which.by_margin else None)
    assert judge(t, problem).holds
    assert verdict(key, problem, t).holds
    by_beta = conditions(t.beta1, t.beta2, t.nu, problem, steps=t.steps)  # beta says the same as 1 - beta
    assert next(v for v in by_beta if v.theorem == key).holds
    outside = [{"gap1": 1.0 - down(t.beta1)}, {"nu": up(problem.scale)}, {"steps": t.steps - 1}]
    if which.by_margin:
        q = Fraction(t.gap1) * (2 - Fraction(t.gap1))
        m = (1 - Fraction(t.rho)) / 2 * q
        low, high = optim.exact.ceil_float(m), optim.exact.floor_float(q - m)
        for edge, beyond in ((low, down(low)), (high, up(high))):
            if low <= high:
                assert verdict(key, problem, t, gap2=edge, steps=None).holds
            outside.append({"gap2": beyond, "steps": None})
    else:
        q = Fraction(t.gap1) * (2 - Fraction(t.gap1))
        border = min(Fraction(t.nu) / Fraction(problem.scale), 1 - (1 - Fraction(t.gap1)) ** which.power)
        edge = optim.exact.floor_float(border)
        assert verdict(key, problem, t, gap2=edge).holds
        outside += [{"gap2": up(edge)}, {"gap2": 1.0 - down(t.beta2)}]
    limit = which.gap1_limit(Fraction(problem.epsilon), Fraction(problem.scale), Fraction(t.rho or 0.0))
    outside.append({"gap1": up(optim.exact.floor_float(limit))})
    for change in outside:
        refused = verdict(key, problem, t, **change)
        assert not refused.holds
        assert refused.margin <= 0.0
        assert refused.failing is not None


@QUICK
@given(problems(-5.0), st.sampled_from(KEYS))
def test_horizon_and_parameters_are_the_printed_formulas(problem, key):
    t = tune(problem, key)
    G, S, F, c, eps = (mp.mpf(x) for x in (problem.lipschitz, problem.scale, problem.gap, problem.c, problem.epsilon))
    om1, om2, nu = mp.mpf(t.gap1), mp.mpf(t.gap2), mp.mpf(t.nu)
    clipped, margin = key.startswith("clipped"), key.endswith("margin")
    D = om1 * mp.sqrt(eps / ((48 if clipped else 96) * c))
    gamma = (1 - om1) * D / mp.sqrt(om1)
    mu = 0 if clipped else 24 * c * D / om1**2
    first = {
        "clipped/nu": 16 * F * mp.sqrt(48 * c),
        "clipped/margin": 32 * F * mp.sqrt(c),
        "clip-free/nu": 16 * F * mp.sqrt(96 * c),
        "clip-free/margin": 32 * F * mp.sqrt(96 * c),
    }[key]
    terms = [first / eps**1.5 / om1, (16 if clipped else 48) * S / eps / om1, mp.log(2) / om2]
    if margin:
        growth = mp.log(1 + (gamma * mu + G) / nu)
        terms.append(32 * G * growth / (eps * mp.sqrt(om1) * mp.sqrt(1 - mp.mpf(t.rho) ** 2)))
    assert t.steps == int(mp.ceil(max(terms)))
    assert t.clip_norm == pytest.approx(float(D), rel=1e-15)
    assert t.gamma == pytest.approx(float(gamma), rel=1e-15)
    assert t.mu == pytest.approx(float(mu), rel=1e-15)
    assert t.clips == clipped
    if not clipped:  # the damping of the theory: gamma mu = b1 eps / (4 sqrt(om1))
        assert t.gamma * t.mu == pytest.approx(float((1 - om1) * eps / (4 * mp.sqrt(om1))), rel=1e-14)


@pytest.mark.parametrize(
    ("betas", "by_nu", "by_margin"),
    [
        ((0.9, 0.999), 5.06, 140),
        ((0.9, 0.95), 5.06, 23),
        ((0.95, 0.95), 3.58, 14.3),
        ((0.99, 0.999), 1.6, 14.6),
        ((0.999, 0.9999), 0.51, 4.6),
        ((0.9999, 0.99995), 0.16, 0.74),
    ],
)
def test_smallest_epsilon_and_the_word_vacuous(betas, by_nu, by_margin):
    nu_theorem, margin_theorem, _, _ = conditions(*betas, nu=1 - betas[1] + 1e-9)
    assert float(f"{nu_theorem.epsilon:.3g}") == pytest.approx(by_nu, rel=0.02)
    assert float(f"{margin_theorem.epsilon:.3g}") == pytest.approx(by_margin, rel=0.02)
    for v, size in ((nu_theorem, by_nu), (margin_theorem, by_margin)):
        assert v.vacuous == (size > 1)
        assert v.status == ("vacuous" if size > 1 else "covered")
        assert v.holds == (size <= 1)
        assert ("vacuous" in str(v)) == (size > 1)


@QUICK
@given(st.floats(-13, -4), st.floats(0.01, 0.99))
def test_smallest_epsilon_is_the_smallest_accepted(power, share):
    gap1 = 10**power
    gap2 = share * gap1 * (2 - gap1)
    problem = Problem(1.0, 0.5, 1.0, 1.0)
    for v in conditions(gap1=gap1, gap2=gap2, nu=1.5, problem=problem):
        if v.vacuous:
            continue
        for epsilon, fine in ((v.epsilon, True), (down(v.epsilon), False)):
            again = conditions(gap1=gap1, gap2=gap2, nu=1.5, problem=replace(problem, epsilon=epsilon))
            assert next(w for w in again if w.theorem == v.theorem).holds == fine


def test_torch_defaults_fail_the_nu_condition():
    v = conditions(0.9, 0.999, nu=1e-8)[0]
    assert v.status == "not covered"
    assert v.failing.name == "beta2 by nu"
    assert v.failing.margin == pytest.approx(math.log(1e-8 / (1 - 0.999)), rel=1e-9)
    assert str(v).startswith("clipped/nu: 1 - beta2 <= nu / (G + sigma) fails (0.001 against 1e-08)")


@QUICK
@given(st.floats(-9, -0.05), st.floats(-9, -0.05), st.floats(-9, 2), st.floats(-2.5, 0), st.integers(0, 2**32 - 1))
def test_nearest_is_covered_and_nothing_covered_is_nearer(one, two, damping, share, seed):
    rng = np.random.default_rng(seed)
    problem = Problem(1.0, 1.0, 1.0, 1.0, epsilon=2 * 10**share)
    start = np.log([10**one, 10**two, 10**damping])
    for v in conditions(gap1=10**one, gap2=10**two, nu=10**damping, problem=problem):
        near = v.nearest
        checked = conditions(gap1=near.gap1, gap2=near.gap2, nu=near.nu, problem=problem)
        assert next(w for w in checked if w.theorem == v.theorem).holds
        if near.gap1 != 10**one and near.gap2 != 10**two:  # numbers of ours are on the grid of float64 betas
            by_beta = conditions(near.beta1, near.beta2, near.nu, problem)
            assert next(w for w in by_beta if w.theorem == v.theorem).holds
        assert near.distance == pytest.approx(np.linalg.norm(np.log(near[:3]) - start), abs=1e-9)
        assert (near.distance == 0.0) == v.holds
        for size in (1e-3, 1e-1, 1.0):  # covered points around the answer are not nearer
            for point in np.log(near[:3]) + size * rng.normal(size=(12, 3)):
                g1, g2, nu = np.exp(point)
                if not (g1 < 1 and g2 < 1 and np.linalg.norm(point - start) < near.distance * (1 - 1e-6)):
                    continue
                other = Setting(Fraction(g1), Fraction(g2), Fraction(nu))
                assert not _covers(THEOREMS[v.theorem], other, Fraction(2.0), Fraction(problem.epsilon))


@QUICK
@given(problems(), st.sampled_from(KEYS), st.integers(10**6, 10**12))
def test_best_epsilon_uses_its_steps_and_a_smaller_one_does_not_fit(problem, key, steps):
    free = replace(problem, epsilon=None)
    if tune(replace(problem, epsilon=problem.scale), key).steps > steps:
        with pytest.raises(ConditionError, match="steps even for epsilon"):
            best_epsilon(free, key, steps)
        return
    best = best_epsilon(free, key, steps)
    assert best.steps <= steps
    assert judge(best, replace(problem, epsilon=best.epsilon)).holds
    assert tune(replace(problem, epsilon=best.epsilon * (1 - 1e-9)), key).steps > steps


def test_given_discounts_are_kept_or_refused_with_the_clause():
    problem = Problem(1.0, 0.0, 1.0, 1.0, epsilon=0.5)
    limit = (0.5 / 16) ** 2
    t = tune(problem, "clipped/nu", gap1=limit / 2, gap2=limit)
    assert (t.gap1, t.gap2) == (limit / 2, limit)
    with pytest.raises(
        ConditionError, match=r"^tune: clipped/nu needs 1 - beta1 <= .* which is 0.000976562 here, got 0.1"
    ):
        tune(problem, "clipped/nu", beta1=0.9)
    with pytest.raises(ConditionError, match=r"^tune: clip-free/nu needs 1 - beta2 <= 1 - beta1\^2, which is"):
        tune(problem, "clip-free/nu", beta2=0.9, nu=1.0)
    with pytest.raises(
        ConditionError, match=r"^tune: clipped/nu needs 1 - beta2 <= nu / \(G \+ sigma\), which is 1e-08"
    ):
        tune(problem, "clipped/nu", gap2=1e-4, nu=1e-8)
    with pytest.raises(ConditionError, match=r"^tune: clipped/margin admits no beta1 with 1 - beta2 = 0.001"):
        tune(problem, "clipped/margin", gap2=1e-3)
    for key in ("clipped/margin", "clip-free/margin"):
        assert tune(problem, key, gap1=1e-7).gap1 == 1e-7
        with pytest.raises(ConditionError, match=rf"^tune: {key} needs 1 - beta1 <= .* got 0.1"):
            tune(problem, key, beta1=0.9)
    with pytest.raises(ConditionError, match=r"^tune: clipped/margin needs 1 - beta2 >= m"):
        tune(problem, "clipped/margin", gap2=1e-9, rho=0.5)


def test_beta2_alone_finds_the_largest_gap1():
    problem = Problem(1.0, 0.0, 1.0, 1.0, epsilon=0.5)
    t = tune(problem, "clipped/margin", gap2=1e-6)
    assert judge(t, problem).holds
    larger = 1.0 - math.nextafter(t.beta1, 0.0)
    assert not conditions(gap1=larger, gap2=1e-6, nu=t.nu, problem=problem)[1].holds


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"epsilon": 3.0}, r"^Problem: epsilon must be at most lipschitz \+ noise = 2, got 3; above it every point"),
        ({"lipschitz": 0.0}, r"^Problem: lipschitz must be in \[1e-150, 1e150\], got 0.0"),
        ({"noise": -1.0}, r"^Problem: noise must be in \[0, 1e150\], got -1.0"),
        ({"gap": -2}, r"^Problem: gap must be in \[1e-150, 1e150\], got -2"),
        ({"c": math.nan}, r"^Problem: c must be a number, got nan"),
        ({"epsilon": 0}, r"^Problem: epsilon must be in \[1e-150, 1e150\], got 0"),
        ({"epsilon": "x"}, r"^Problem: epsilon must be a number, got 'x'"),
        ({"lipschitz": math.inf}, r"^Problem: lipschitz must be in \[1e-150, 1e150\], got inf"),
    ],
)
def test_problems_that_make_no_sense_are_refused(arguments, text):
    with pytest.raises((InputError, ConditionError), match=text):
        Problem(**{"lipschitz": 1.0, "noise": 1.0, "gap": 1.0, "c": 1.0, "epsilon": 0.5} | arguments)


@pytest.mark.parametrize("key", KEYS)
def test_a_beta1_that_rounds_to_one_is_refused(key):
    with pytest.raises(ConditionError, match=r"^tune: beta1 = 1 - .* rounds to 1 in float64; 1 - beta1 must be"):
        tune(Problem(1.0, 0.0, 1.0, 1.0, epsilon=1e-8), key)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: conditions(1.0, 0.9), r"^conditions: beta1 must be in \(0, 1\), got 1.0"),
        (lambda: conditions(0.9, math.nan), r"^conditions: beta2 must be a number, got nan"),
        (lambda: conditions(0.9, 0.9, nu=0.0), r"^conditions: nu must be in \[1e-150, 1e150\], got 0.0"),
        (lambda: conditions(0.9), r"^conditions: beta2 is missing; give beta2 or gap2"),
        (lambda: conditions(0.9, 0.9, gap1=0.1), r"^conditions: give beta1 or gap1 \(1 - beta1\), not both"),
        (lambda: conditions(0.9, gap2=1e-17), r"^conditions: beta2 = 1 - 1e-17 rounds to 1"),
        (lambda: conditions(0.9, 0.9, steps=5), r"^conditions: steps need a problem; give problem="),
        (lambda: conditions(0.9, 0.9, rho=1.0), r"^conditions: rho must be in \[0, 1\), got 1.0"),
        (lambda: tune(Problem(1, 0, 1, 1, 0.5), "adam"), r"^tune: theorem must be one of clipped/nu, .*, got 'adam'"),
        (lambda: tune(Problem(1, 0, 1, 1), "clipped/nu"), r"^tune: problem.epsilon is missing; give it, or a number"),
        (lambda: tune(Problem(1, 0, 1, 1, 0.5), "clipped/nu", rho=0.5), r"^tune: rho belongs to the margin theorems"),
        (
            lambda: tune(Problem(1, 0, 1, 1, 0.5), "clipped/nu", nu=-1),
            r"^tune: nu must be in \[1e-150, 1e150\], got -1",
        ),
        (
            lambda: tune(Problem(1, 0, 1, 1, 0.5), "clipped/nu", nu=2),
            r"^tune: clipped/nu needs nu <= G \+ sigma, which",
        ),
        (
            lambda: best_epsilon(Problem(1, 0, 1, 1), "clipped/nu", 10),
            r"^best_epsilon: clipped/nu needs at least .* got 10",
        ),
        (lambda: best_epsilon(Problem(1, 0, 1, 1), "clipped/nu", 1.5), r"^best_epsilon: steps must be an integer >= 1"),
        (
            lambda: judge(optim.Tuning(gamma=1, gap1=0.1, gap2=0.1, nu=1), Problem(1, 0, 1, 1)),
            r"^judge: tuning.theorem",
        ),
        (lambda: optim.conditions.__globals__["covered_norm"]("l2"), r"^covered_norm: norm must be one of all, tensor"),
    ],
)
def test_bad_arguments_are_refused_with_the_reason(call, text):
    with pytest.raises((InputError, ConditionError), match=text):
        call()


def test_smooth_reductions_reach_their_target():
    smooth = Problem.smooth(1.0, 0.5, 1.0, smoothness=3.0, target=0.4)
    assert 1.25 * smooth.epsilon == pytest.approx(0.4)
    assert smooth.c == pytest.approx(9.0 / smooth.epsilon)
    second = Problem.second_order_smooth(1.0, 0.5, 1.0, smoothness=3.0, target=0.4)
    assert (second.epsilon, second.c) == (0.4, 1.5)


@pytest.mark.parametrize("key", KEYS)
def test_every_term_of_the_horizon_decides_it_somewhere(key):
    """One number made extreme at a time, so that its term is the largest: the printed formula of that term alone."""
    usual = {"lipschitz": 1.3, "noise": 0.4, "gap": 1e-9, "c": 1e-9, "epsilon": 0.8}
    clipped, margin = key.startswith("clipped"), key.endswith("margin")
    roots = {"clipped/nu": 48, "clipped/margin": 1, "clip-free/nu": 96, "clip-free/margin": 96}[key]

    far = tune(Problem(**{**usual, "gap": 1e9, "c": 3.0}), key)
    start = (32 if margin else 16) * mp.mpf(1e9) * mp.sqrt(roots * mp.mpf(3)) / mp.mpf(0.8) ** 1.5 / mp.mpf(far.gap1)
    assert far.steps == int(mp.ceil(start))

    if margin:
        faint = tune(Problem(**usual), key, nu=1e-140)
        om1 = mp.mpf(faint.gap1)
        damping = 0 if clipped else (1 - om1) * mp.mpf(0.8) / (4 * mp.sqrt(om1))
        growth = mp.log(1 + (damping + mp.mpf(1.3)) / mp.mpf(1e-140))
        assert faint.steps == int(mp.ceil(32 * mp.mpf(1.3) * growth / (mp.mpf(0.8) * mp.sqrt(om1))))
        late = tune(Problem(**usual), key, nu=1e-140, rho=0.999)
        assert late.steps > 10 * faint.steps
    else:
        short = tune(Problem(**usual), key, nu=1e-12)
        assert short.steps == int(mp.ceil(mp.log(2) / mp.mpf(short.gap2)))

    near = tune(Problem(**usual), key, nu=1.7 if not margin else 1.0)
    assert near.steps == int(
        mp.ceil((16 if clipped else 48) * (mp.mpf(1.3) + mp.mpf(0.4)) / mp.mpf(0.8) / mp.mpf(near.gap1))
    )


def test_the_margin_theorems_stop_short_of_beta1_squared():
    for key in ("clipped/margin", "clip-free/margin"):
        at, inside = (
            next(v for v in conditions(gap1=0.5, gap2=gap2, nu=1e-3) if v.theorem == key) for gap2 in (0.75, 0.749)
        )
        clauses = {clause.name: clause.holds for clause in at.clauses}
        assert not clauses["beta2 by beta1"]
        assert {clause.name: clause.holds for clause in inside.clauses}["beta2 by beta1"]


def test_beta2_alone_may_be_as_far_from_one_as_the_theorem_goes():
    """1 - beta2 = y (1 - beta1^2) with 1 - beta1 = 4 y (1 - y) limit is largest at y = 2/3."""
    problem = Problem(1.0, 0.0, 1.0, 1.0, epsilon=0.9)
    limit = (0.9 / 64) ** 2
    for y in (0.2, 0.5, 0.65):
        gap1 = 4 * y * (1 - y) * limit
        found = tune(problem, "clipped/margin", gap2=y * gap1 * (2 - gap1))
        assert found.gap1 == pytest.approx(gap1, rel=1e-9)
    with pytest.raises(ConditionError, match=r"admits no beta1 with 1 - beta2"):
        tune(problem, "clipped/margin", gap2=0.68 * 4 * (2 / 9) * limit * 2)
