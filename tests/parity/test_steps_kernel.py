"""How candidates are judged and mixed: the compiled kernels against their twins, and what must hold for both."""

import mpmath
import numpy as np
import pytest

from tests.parity.tolerances import TOLERANCES
from tests.twins import steps as reference_steps
from tests.twins.constants import STEP_BETA, STEP_CUT, STEP_FEW, STEP_MOST_MOVE, STEP_MOST_REGRET, STEP_RECENT
from undrift import kernels
from undrift.kernels import dispatch
from undrift.kernels.definitions import StepSum

BOTH = (kernels, reference_steps)
CANDIDATES, NAIVE, FOLLOWED = 6, 3, (0, 1, 2, 4)


class Steps:
    """The arrays of a forecaster's weights, played as it does: judge a row, then mix what is forecast after it."""

    def __init__(self, module, horizon, series=2, candidates=CANDIDATES):
        self.module, self.horizon = module, horizon
        self.regrets = np.zeros((series, 3, candidates, horizon))
        self.sums = np.zeros((series, len(StepSum), horizon))
        self.losses = np.zeros((series, len(FOLLOWED), horizon))
        self.followed = np.array(FOLLOWED, np.int64)
        self.prior = np.arange(1.0, candidates + 1.0) / np.arange(1.0, candidates + 1.0).sum()
        self.answers = np.zeros((horizon, series, candidates, horizon))
        self.mixed = np.full((horizon, series, horizon), np.nan)
        self.weights = np.empty((series, candidates, horizon))

    def judge(self, row, y):
        self.module.steps_judge(
            self.regrets, self.sums, self.losses, self.followed, self.answers, self.mixed, row, np.array(y, np.float64)
        )

    def mix(self, row, said, naive=NAIVE):
        """Return what is served after a row."""
        served, place = np.empty(said.shape[::2]), row % self.horizon
        self.answers[place] = said
        state = self.regrets, self.sums, self.losses
        arrays = self.answers[place], self.weights, self.mixed[place], served
        self.module.steps_mix(*state, self.prior, naive, *arrays)
        return served

    def arrays(self):
        return self.regrets, self.sums, self.losses, self.answers, self.mixed, self.weights


def make_rounds(kind, horizon, rows=80, seed=0):
    """Return the values (rows, series) and forecasts (rows, series, candidates, steps) of a run."""
    rng = np.random.default_rng([seed, horizon])
    y = np.cumsum(rng.normal(size=(rows + horizon, 2)), axis=0)
    if kind == "constant":
        y[:] = 0.1
    if kind == "constant first":
        y[: rows // 2] = y[rows // 2]
    if kind == "spike":
        y[rows // 2] = 1e9
    after = np.stack([y[t + 1 : t + 1 + horizon].T for t in range(rows)])[:, :, None, :]
    said = after + np.arange(CANDIDATES)[:, None] * rng.normal(size=(rows, 2, CANDIDATES, horizon))
    said[:, :, 0] = y[:rows, :, None]
    if kind == "constant":
        said[:] = 0.1
    if kind == "ties":
        said[:, :, 1:] = said[:, :, 1:2]
    if kind == "silent":
        said[:, :, 1:][rng.random(said[:, :, 1:].shape) < 0.4] = np.nan
        said[10:20, :, 1:] = np.nan
    if kind == "missing":
        y[rng.random(y.shape) < 0.3] = np.nan
    size = {"tiny": 1e-70, "huge": 1e74 / np.nanmax(np.abs(said)), "denormal": 1e-160}.get(kind, 1.0)
    return size * y[:rows], size * said


KINDS = ("plain", "constant", "constant first", "spike", "ties", "silent", "missing", "tiny", "huge", "denormal")


def run(module, kind, horizon, unknown=0):
    """Play a run whose first origins have nothing to forecast from; return the arrays and what was served."""
    y, said = make_rounds(kind, horizon)
    steps, served = Steps(module, horizon), []
    for t in range(len(y)):
        steps.judge(t, y[t])
        served.append(steps.mix(t, said[t]))
        if t < unknown:
            steps.mixed[t % horizon] = np.nan
    return steps, np.array(served), np.nanmax(np.abs(said))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("horizon", [1, 2, 3, 48])
def test_compiled_rounds_are_those_of_the_twin(kind, horizon):
    (ours, served, size), (twin, expected, _) = (run(module, kind, horizon, unknown=5) for module in BOTH)
    check = TOLERANCES["steps"].check
    check(served / size, expected / size)
    check(ours.weights, twin.weights)
    check(ours.regrets, twin.regrets)
    check(ours.losses / size**2, twin.losses / size**2)
    check(ours.answers / size, twin.answers / size)
    for place in StepSum:
        unit = size**2 if place in (StepSum.SQUARES, StepSum.RECENT) else 1.0
        check(ours.sums[:, place] / unit, twin.sums[:, place] / unit)
    for array in (*ours.arrays(), served):
        assert np.isfinite(array).all()
    np.testing.assert_allclose(ours.weights.sum(axis=1), 1.0, rtol=1e-14)


@pytest.mark.own_levels
@pytest.mark.parametrize("horizon", [1, 3, 48])
def test_levels_change_no_bit(horizon):
    results = []
    for level in dispatch.levels():
        with dispatch.use_level(level):
            steps, served, _ = run(kernels, "silent", horizon)
        results.append([array.tobytes() for array in (*steps.arrays(), served)])
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("module", BOTH)
def test_nothing_is_judged_before_there_was_a_forecast(module):
    steps = Steps(module, 4)
    steps.judge(0, [1.0, 2.0])
    steps.judge(3, [1.0, 2.0])  # the mixture of no origin is known
    assert not steps.sums.any()
    assert not steps.regrets.any()
    steps.mix(0, np.ones((2, CANDIDATES, 4)))
    steps.judge(1, [3.0, np.nan])
    assert steps.sums[0, StepSum.SEEN].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert not steps.sums[1].any()


@pytest.mark.parametrize("module", BOTH)
def test_without_regrets_the_prior_decides(module):
    steps = Steps(module, 2)
    steps.mix(0, np.zeros((2, CANDIDATES, 2)))
    np.testing.assert_allclose(steps.weights, np.broadcast_to(steps.prior[:, None], steps.weights.shape), rtol=1e-14)


@pytest.mark.parametrize("module", BOTH)
def test_a_silent_candidate_is_made_to_say_what_the_others_do(module):
    steps = Steps(module, 1, series=1)
    said = np.array([1.0, np.nan, 3.0, np.nan, 5.0, np.nan]).reshape(1, CANDIDATES, 1)
    steps.mix(0, said)
    expected = np.average([1.0, 3.0, 5.0], weights=steps.prior[::2])
    np.testing.assert_allclose(steps.answers[0, 0, :, 0], [1.0, expected, 3.0, expected, 5.0, expected], rtol=1e-14)
    steps.judge(1, [9.0])
    assert not steps.regrets[0, 0, 1::2].any()
    assert steps.regrets[0, 0, ::2].all()


@pytest.mark.parametrize("module", BOTH)
def test_of_naive_forecasts_with_equal_losses_the_first_is_served(module):
    steps = Steps(module, 1, series=1)
    said = np.arange(1.0, CANDIDATES + 1.0).reshape(1, CANDIDATES, 1)
    assert steps.mix(0, said)[0, 0] == 1.0
    steps.losses[0, :, 0] = 2.0, 1.0, 1.0, 0.0
    assert steps.mix(0, said)[0, 0] == 2.0, "the fourth one that is followed is not naive"
    assert steps.mix(0, said, naive=1)[0, 0] == 1.0


@pytest.mark.parametrize("module", BOTH)
def test_errors_count_after_a_series_was_constant(module):
    """Exact forecasts must not leave a cut of 0, below which no later error would ever count."""
    steps, rng = Steps(module, 1, series=1), np.random.default_rng(0)
    for t in range(300):
        y = 0.1 if t < 200 else rng.normal()
        steps.judge(t, [y])
        steps.mix(t, np.full((1, CANDIDATES, 1), 0.1))
    assert 0.3 < steps.sums[0, StepSum.RECENT, 0] < 3.0
    assert steps.sums[0, StepSum.SQUARES, 0] > 10.0


@pytest.mark.parametrize("module", BOTH)
def test_an_exact_forecast_among_denormal_errors_is_no_nan(module):
    steps = Steps(module, 1, series=1)
    said = np.zeros((1, CANDIDATES, 1))
    steps.mix(0, said)
    steps.judge(1, [1e-161])
    said[0, 4:, 0] = 1e70, -6e69  # the mixture forecasts about 5e69, and so it comes
    steps.mix(1, said)
    steps.judge(2, steps.mixed[0, :, 0])
    assert np.isfinite(steps.regrets).all()


def judge_exactly(values, said, prior, naive):
    """Return regrets, and what is mixed and served at the end, of one series one step ahead, in 60 digits."""
    beta, C = mpmath.mpf(STEP_BETA), len(prior)
    R, V, E = ([mpmath.mpf(0)] * C for _ in range(3))
    lost = [mpmath.mpf(0)] * naive
    rows = squares = recent = moves = agreement = spread = mpmath.mpf(0)
    p = served = None
    for t, value in enumerate(values):
        y = mpmath.mpf(float(value))
        if t:
            a = [mpmath.mpf(float(x)) for x in said[t - 1]]
            error = p - y
            if rows:
                most = STEP_CUT * mpmath.sqrt(squares / rows)
                error = min(max(error, -most), most)
            y = p - error
            usual = squares / max(rows, 1)
            recent += (error**2 - recent) / min(max(t / 3, min(t, STEP_FEW)), STEP_RECENT)
            unit = max(recent, mpmath.mpf(0.03) * usual)
            r = [min(max(2 * error * (p - x) / unit, -STEP_MOST_REGRET), STEP_MOST_REGRET) for x in a]
            R = [beta * old + new for old, new in zip(R, r, strict=True)]
            V = [beta * old + new**2 for old, new in zip(V, r, strict=True)]
            E = [max(beta * old, abs(new)) for old, new in zip(E, r, strict=True)]
            lost = [beta * old + (x - y) ** 2 for old, x in zip(lost, a, strict=False)]
            rows, squares = beta * rows + 1, beta * squares + error**2
            x, z = (
                min(max((one - a[0]) / mpmath.sqrt(unit), -STEP_MOST_MOVE), STEP_MOST_MOVE) if unit else mpmath.mpf(0)
                for one in (p, y)
            )
            moves, agreement = beta * moves + x**2, beta * agreement + x * z
            slope = min(max(agreement / moves, 0), 1)
            spread = beta * spread + (x * (z - slope * x)) ** 2
        eta = [
            min(1 / (2 * e), mpmath.sqrt(mpmath.log(C) / v)) if e else mpmath.mpf(1) for e, v in zip(E, V, strict=True)
        ]
        w = [mpmath.mpf(float(prior[c])) * eta[c] * mpmath.exp(eta[c] * R[c] - eta[c] ** 2 * V[c]) for c in range(C)]
        a = [mpmath.mpf(float(x)) for x in said[t]]
        p = mpmath.fdot(w, a) / mpmath.fsum(w)
        served = a[0]
        if t:
            J = max(0, 1 - spread / agreement**2) if agreement > 0 else 0
            served = J * (a[0] + slope * (p - a[0])) + (1 - J) * a[lost.index(min(lost))]
    return [R, V, E], p, served


@pytest.mark.parametrize("rows", [2, 3, 12, 50])
def test_a_short_run_is_near_its_multi_precision_value(rows):
    y, said = make_rounds("plain", 1)
    y[30:33] *= 40.0  # errors that are cut
    steps = Steps(kernels, 1, series=1)
    for t in range(rows):
        steps.judge(t, y[t, :1])
        served = steps.mix(t, said[t, :1])
    with mpmath.workdps(60):
        regrets, mixed, expected = judge_exactly(y[:rows, 0], said[:rows, 0, :, 0], steps.prior, NAIVE)
        np.testing.assert_allclose(steps.regrets[0, :, :, 0], np.array(regrets, dtype=float), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(steps.mixed[0, 0, 0], float(mixed), rtol=1e-12)
        np.testing.assert_allclose(served[0, 0], float(expected), rtol=1e-12)


def test_arrays_that_do_not_fit_are_refused():
    steps = Steps(kernels, 3)
    with pytest.raises(ValueError, match="do not fit together"):
        steps.judge(1, [1.0])
    with pytest.raises(ValueError, match="do not fit together"):
        steps.mix(1, np.zeros((2, CANDIDATES, 3)), naive=len(FOLLOWED) + 1)
    steps.followed[0] = CANDIDATES
    with pytest.raises(ValueError, match="do not fit together"):
        steps.judge(1, [1.0, 2.0])
