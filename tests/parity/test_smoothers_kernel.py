"""Banks of smoothers: the compiled rounds against their twin, and what must hold for both."""

import itertools

import mpmath
import numpy as np
import pytest

from tests.parity.tolerances import TOLERANCES
from tests.twins import smoothers as reference_smoothers
from tests.twins.constants import SMOOTHER_BETA, SMOOTHER_MOST_LOSS
from undrift import kernels
from undrift.kernels import dispatch
from undrift.kernels.definitions import INPUT_LIMIT, SmootherHead

GAINS = ((0.02, 0.0, 0.0, 0.0), (0.3, 0.1, 0.95, 0.1), (0.1, 0.3, 1.0, 0.01), (0.7, 0.0, 1.0, 0.01))
SETS = ((0, 0), (4, 0), (7, 0), (5, 35), (60, 0), (3, 60))
BOTH = (kernels, reference_smoothers)
HORIZONS = (1, 2, 3, 5, 48)


class Bank:
    """A fresh state and the settings of a bank: every gain with every set of seasons."""

    def __init__(self, horizon, sets=SETS, gains=GAINS):
        pairs = list(itertools.product(gains, sets))
        self.gains = np.array([gain for gain, _ in pairs])
        self.periods = np.array([periods for _, periods in pairs], np.int64)
        self.reach = np.cumsum(self.gains[:, 2:3] ** np.arange(1.0, horizon + 1.0), axis=1)
        self.horizon = horizon
        self.state = np.zeros(kernels.smoothers_size(self.periods, horizon))

    def play(self, module, y, first=0):
        """Return the forecasts after each row, and the status."""
        out = np.full((len(y), 2, self.horizon), np.nan)
        settings = self.gains, self.periods, self.reach
        return out, module.smoothers_play(self.state, *settings, first, np.ascontiguousarray(y), out)


def make_series(kind, rows=90, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(rows)
    y = (
        3.0
        + 0.05 * t
        + np.sin(2.0 * np.pi * t / 5.0)
        + 0.5 * np.cos(2.0 * np.pi * t / 35.0)
        + 0.2 * rng.normal(size=rows)
    )
    if kind == "missing":
        y[rng.random(rows) < 0.2] = np.nan
        y[:4] = y[40:52] = np.nan
    if kind == "spike":
        y[rows // 2] = 1e6
    if kind == "jump":
        y[rows // 2 :] += 1e3
    if kind == "stuck":
        y[rows // 4 : 3 * rows // 4] = y[rows // 4]
    if kind == "zeros first":
        y[: rows // 2] = 0.0
    if kind == "none":
        y[:] = np.nan
    constants = {"constant": 0.1, "zero": 0.0, "largest": INPUT_LIMIT}
    return np.full(rows, constants[kind]) if kind in constants else y * {"tiny": 1e-70, "huge": 1e74}.get(kind, 1.0)


KINDS = (
    "plain",
    "missing",
    "spike",
    "jump",
    "stuck",
    "zeros first",
    "none",
    "constant",
    "zero",
    "largest",
    "tiny",
    "huge",
)


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_rounds_are_those_of_the_twin(kind):
    for horizon in HORIZONS:
        y = make_series(kind, 60 if horizon == 48 else 90)
        sets = SETS if horizon != 48 else ((0, 0), (7, 0), (5, 35), (60, 0))
        banks = Bank(horizon, sets), Bank(horizon, sets)
        (ours, status), (twin, other) = (bank.play(module, y, 17) for bank, module in zip(banks, BOTH, strict=True))
        assert status == other == 0
        assert np.isfinite(ours).all()
        assert np.isfinite(banks[0].state).all()
        size = np.nanmax(np.abs(y), initial=0.0) or 1.0
        TOLERANCES["smoothers"].check(ours / size, twin / size)
        for one, two in zip(parts(banks[0]), parts(banks[1]), strict=True):
            np.testing.assert_array_equal(one[0], two[0])
            for a, b, unit in ((one[1], two[1], size**2), (one[2], two[2], size)):
                TOLERANCES["smoothers"].check(a / unit, b / unit)


def parts(bank):
    """Return (counts, losses, levels and the rest) of the head and of each smoother."""
    bands = int(np.ceil(np.log2(bank.horizon))) + 1
    begin = len(SmootherHead) + bands
    yield bank.state[:begin], np.zeros(0), np.zeros(0)
    for pair in bank.periods:
        size = 2 + bands + 2 * bank.horizon + sum(p * -(-bank.horizon // p) for p in pair.tolist() if p)
        cells = bank.state[begin : begin + size]
        yield np.zeros(0), cells[2 : 2 + bands], np.concatenate([cells[:2], cells[2 + bands :]])
        begin += size
    assert begin == len(bank.state)


@pytest.mark.parametrize("horizon", HORIZONS)
def test_both_give_a_bank_the_same_size(horizon):
    for sets in (((0, 0),), ((1, 0), (2, 3)), SETS):
        periods = np.array(sets, np.int64)
        assert kernels.smoothers_size(periods, horizon) == reference_smoothers.smoothers_size(periods, horizon)


@pytest.mark.own_levels
@pytest.mark.parametrize("horizon", [1, 3, 48])
def test_levels_and_cuts_change_no_bit(horizon):
    y = make_series("missing", 120)
    whole = Bank(horizon)
    expected, _ = whole.play(kernels, y, 5)
    for level, cuts in ((dispatch.levels()[-1], ()), (dispatch.levels()[0], (1, 2, 3, 44, 60)), ("", range(1, 120))):
        bank, edges, got = Bank(horizon), [0, *cuts, 120], []
        with dispatch.use_level(level or dispatch.level()):
            for a, b in itertools.pairwise(edges):
                got.append(bank.play(kernels, y[a:b], 5 + a)[0])
        assert np.concatenate(got).tobytes() == expected.tobytes()
        assert bank.state.tobytes() == whole.state.tobytes()


@pytest.mark.parametrize("bad", [np.inf, -np.inf, 1.01 * INPUT_LIMIT])
def test_a_refused_value_changes_nothing(bad):
    for module in BOTH:
        bank = Bank(3)
        bank.play(module, make_series("plain", 20))
        before = bank.state.copy()
        assert bank.play(module, np.array([1.0, np.nan, bad, np.inf]), 20)[1] == -3
        assert bank.state.tobytes() == before.tobytes()


def test_arrays_that_do_not_fit_are_refused():
    bank = Bank(3)
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.smoothers_play(
            bank.state[:-1].copy(), bank.gains, bank.periods, bank.reach, 0, np.ones(1), np.ones((1, 2, 3))
        )
    with pytest.raises(ValueError, match="do not fit together"):
        kernels.smoothers_size(bank.periods, -1)
    with pytest.raises(ValueError, match="periods must be 0 to 1000000"):
        kernels.smoothers_size(-bank.periods, 3)


def test_forecasts_move_with_the_series():
    """A constant added to a series is added to its forecasts: smoothers without weight leave no gap in the sum."""
    y = make_series("plain", 400)
    low, high = Bank(5), Bank(5)
    (a, _), (b, _) = low.play(kernels, y), high.play(kernels, y + 2.0**30)
    np.testing.assert_allclose(b[-200:] - 2.0**30, a[-200:], atol=1e-5)


def test_equal_smoothers_share_the_weight():
    """Exact ties: a bank of copies forecasts what one of them does."""
    y = make_series("missing", 60)
    single, copies = Bank(4, ((5, 0),), GAINS[1:2]), Bank(4, ((5, 0),) * 3, GAINS[1:2])
    np.testing.assert_allclose(copies.play(kernels, y)[0], single.play(kernels, y)[0], rtol=1e-13)


def smooth_exactly(y, gain, period, horizon):
    """Return the forecasts after the last row of one smoother with one season, in 60 digits."""
    level_gain, season_gain, phi, trend_gain = (mpmath.mpf(float(g)) for g in gain)
    level, trend, season = mpmath.mpf(float(y[0])), mpmath.mpf(0), [mpmath.mpf(0)] * period
    for t in range(1, len(y)):
        alpha = max(level_gain, mpmath.mpf(1) / (t + 1))
        gamma = max(season_gain, mpmath.mpf(1) / (t // period + 1))
        error = mpmath.mpf(float(y[t])) - level - phi * trend - season[t % period]
        level, trend = level + phi * trend + alpha * error, phi * trend + alpha * trend_gain * error
        season[t % period] += gamma * (1 - alpha) * error
    powers = [mpmath.fsum(phi**k for k in range(1, h + 1)) for h in range(1, horizon + 1)]
    return [level + powers[h] * trend + season[(len(y) + h) % period] for h in range(horizon)]


@pytest.mark.parametrize("gain", GAINS)
def test_one_smoother_is_near_its_multi_precision_value(gain):
    y = make_series("plain", 150)
    bank = Bank(9, ((7, 0),), (gain,))
    with mpmath.workdps(60):
        exact = np.array(smooth_exactly(y, gain, 7, 9), dtype=float)
    np.testing.assert_allclose(bank.play(kernels, y)[0][-1], [exact, exact], rtol=1e-13)


def test_weights_of_two_smoothers_follow_from_their_losses():
    """Two levels without seasons, one step ahead: losses by hand, with the cut, and the shares."""
    y = np.concatenate([make_series("plain", 40), [500.0], make_series("plain", 20, seed=1)])
    bank = Bank(1, ((0, 0),), ((0.02, 0.0, 0.0, 0.0), (0.7, 0.0, 0.0, 0.0)))
    out, _ = bank.play(kernels, y)
    with mpmath.workdps(60):
        levels, losses, rows = [mpmath.mpf(float(y[0]))] * 2, [mpmath.mpf(0)] * 2, mpmath.mpf(0)
        for t in range(1, len(y)):
            most = SMOOTHER_MOST_LOSS * min(losses) / rows if min(losses) else mpmath.inf
            errors = [mpmath.mpf(float(y[t])) - level for level in levels]
            losses = [SMOOTHER_BETA * loss + min(e**2, most) for loss, e in zip(losses, errors, strict=True)]
            rows = SMOOTHER_BETA * rows + 1
            gains = [max(mpmath.mpf(g), mpmath.mpf(1) / (t + 1)) for g in (0.02, 0.7)]
            levels = [level + g * e for level, g, e in zip(levels, gains, errors, strict=True)]
        shares = [(loss / min(losses)) ** (-rows / 2) for loss in losses]
        exact = float(mpmath.fdot(shares, levels) / mpmath.fsum(shares))
        assert min(shares) / max(shares) > 1e-9
    np.testing.assert_allclose(out[-1].ravel(), exact, rtol=1e-12)
