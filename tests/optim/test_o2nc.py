"""Algorithm 2 as a user meets it: outputs, certificate, refusals."""

import math
import warnings

import numpy as np
import pytest

from undrift.errors import InputError, UndriftWarning
from undrift.optim import Objective, Problem, Tuning, core, o2nc, tune
from undrift.optim.o2nc import RegretMeter
from undrift.optim.stationarity import StationarityMeter

BY_HAND = Tuning(gamma=0.01, gap1=0.1, gap2=0.01, nu=1e-3, clip_norm=0.05, c=1.0, noise=0.0)


def quadratic(x):
    return x / (1.0 + np.abs(x))


def test_averages_and_certificate_are_those_of_the_whole_trajectory():
    seen, gradients = [], []
    rng = np.random.default_rng(4)

    def gradient(x):
        seen.append(x)
        gradients.append(quadratic(x) + 0.1 * rng.choice([-1.0, 1.0], size=2))
        return gradients[-1]

    run = o2nc(gradient, [2.0, -1.0], BY_HAND, 80, seed=3, noise=0.1 * math.sqrt(2), c=0.6)
    x, g = np.array(seen), np.array(gradients)
    np.testing.assert_array_equal(x[0], [2.0, -1.0])  # Delta_1 = 0
    values, averages = [], []
    for t in range(1, 81):
        w = 0.1 * 0.9 ** (t - np.arange(1, t + 1)) / (1 - 0.9**t)
        averages.append(w @ x[:t])
        spread = w @ np.sum((x[:t] - averages[-1]) ** 2, axis=1)
        values.append(np.linalg.norm(w @ g[:t]) + 0.6 * spread)
    np.testing.assert_allclose(run.average, averages[-1], rtol=1e-13)
    np.testing.assert_allclose(run.sample, averages[run.sample_round - 1], rtol=1e-13)
    assert run.certificate.value == pytest.approx(values[-1], rel=1e-12)
    assert run.certificate.mean == pytest.approx(np.mean(values), rel=1e-12)
    assert run.certificate.bound == run.certificate.mean + run.certificate.slack
    assert "in expectation" in str(run.certificate)
    assert run.realised is None
    assert run.diagnostics.largest_gradient == pytest.approx(np.linalg.norm(g, axis=1).max(), rel=1e-15)
    assert run.diagnostics.assumption_holds is None


def test_the_sample_is_uniform_over_rounds():
    wave = Objective("saturated", 1)
    rounds = np.array([o2nc(wave, [1.0], BY_HAND, 10, seed=s).sample_round for s in range(4000)])
    counts = np.bincount(rounds, minlength=11)[1:]
    assert ((counts - 400) ** 2 / 400).sum() < 27.9  # chi-square, 9 degrees, p = 0.001


def test_the_noise_slack_bounds_the_averaged_noise():
    rng = np.random.default_rng(0)
    noise = rng.choice([-1.0, 1.0], size=(4000, 60))
    m, warmth = np.zeros(4000), 0.0
    for t in range(60):
        m, warmth = core.ema(m, noise[:, t], 0.05), core.ema(warmth, 1.0, 0.05)
    rms = math.sqrt(np.mean((m / warmth) ** 2))
    assert rms == pytest.approx(core.noise_slack(1.0, warmth, 0.05), rel=0.05)


def test_progress_reports_rounds_and_certificate():
    seen = []
    run = o2nc(quadratic, [1.0], BY_HAND, 2500, progress=lambda t, certificate: seen.append((t, certificate)))
    assert [t for t, _ in seen] == [1024, 2048, 2500]
    assert seen[-1][1] == run.certificate


def test_same_seed_same_run_and_inputs_are_not_kept():
    x0 = np.array([1.0, 2.0])
    a = o2nc(Objective("well", 2, 0.1), x0, BY_HAND, 500, seed=7)
    b = o2nc(Objective("well", 2, 0.1), x0, BY_HAND, 500, seed=7)
    c = o2nc(Objective("well", 2, 0.1), x0, BY_HAND, 500, seed=8)
    np.testing.assert_array_equal(a.x, b.x)
    assert not np.array_equal(a.x, c.x)
    np.testing.assert_array_equal(x0, [1.0, 2.0])
    assert not np.shares_memory(a.sample, a.average)
    assert a.coverage == "one second moment and one clip for all parameters together: what the four theorems cover"
    d = o2nc(Objective("well", 2, 0.1), x0, BY_HAND, 500, seed=7, norm="coord")
    assert "covered in the l1 norm" in d.coverage


def test_gradients_above_g_are_reported():
    tuning = tune(Problem(0.5, 0.0, 1.0, 1.0, epsilon=0.5))
    with pytest.warns(
        UndriftWarning, match=r"^o2nc: the largest gradient, 0.99.*, exceeds lipschitz = 0.5; the theorem"
    ):
        run = o2nc(quadratic, [300.0], tuning, 20)
    assert run.diagnostics.assumption_holds is False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert o2nc(quadratic, [0.5], tuning, 20).diagnostics.assumption_holds is True


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"gradient": 3}, r"^o2nc: gradient must be an Objective or a function, got a int"),
        ({"x0": [math.nan]}, r"^o2nc: x0 must be finite, got nan"),
        ({"x0": [[1.0]]}, r"^o2nc: x0 must have shape \(n\), got \(1, 1\)"),
        ({"x0": []}, r"^o2nc: x0 must have at least one coordinate, got none"),
        ({"gradient": Objective("well", 3)}, r"^o2nc: x0 must have shape \(3\), got \(2,\)"),
        ({"steps": 0}, r"^o2nc: steps must be an integer in \[1, 9007199254740992\], got 0"),
        ({"steps": None}, r"^o2nc: steps is missing; give it, or a tuning"),
        ({"seed": -1}, r"^o2nc: seed must be an integer in \[0, 18446744073709551615\], got -1"),
        ({"norm": "l2"}, r"^o2nc: norm must be one of all, tensor, coord, got 'l2'"),
        ({"norm": "tensor"}, r"^o2nc: sizes go with norm='tensor' and only with it, got norm='tensor', sizes=None"),
        ({"norm": "tensor", "sizes": (1, 2)}, r"^o2nc: sizes must add up to the 2 coordinates of x0, got 3"),
        ({"norm": "tensor", "sizes": (2, 0)}, r"^o2nc: sizes must be an integer >= 1, got 0"),
        ({"gradient": lambda x: x[:1]}, r"^o2nc: gradient must return an array of shape \(2,\), got \(1,\)"),
        (
            {"gradient": lambda x: x * math.nan},
            r"^o2nc: gradient must be finite and at most 1e75 in size, got nan in round 1",
        ),
        ({"gradient": lambda x: x + 1e80}, r"^o2nc: gradient must be finite .* got 1e\+80 in round 1"),
        ({"tuning": Tuning(gamma=0.1, gap1=0.1, gap2=0.1, nu=0.0)}, r"^o2nc: tuning.nu must be in \[1e-150, 1e150\]"),
        ({"tuning": Tuning(gamma=0.1, gap1=1.5, gap2=0.1, nu=1.0)}, r"^o2nc: tuning.gap1 must be in \(0, 1\), got 1.5"),
        (
            {"tuning": Tuning(gamma=0.1, gap1=0.1, gap2=0.1, nu=1.0)},
            r"^o2nc: c is missing for the certificate; give c=",
        ),
        (
            {"tuning": Tuning(gamma=0.1, gap1=0.1, gap2=0.1, nu=1.0, c=1.0)},
            r"^o2nc: noise is missing for the certificate",
        ),
        (
            {"tuning": Tuning(gamma=1e150, gap1=0.1, gap2=0.1, nu=1e-9, c=1e150, noise=0.0)},
            r"^o2nc: the iterates left the range of float64 in round \d+; gamma is too large",
        ),
        (
            {
                "gradient": Objective("kinks", 2),
                "tuning": Tuning(gamma=1e150, gap1=0.1, gap2=0.1, nu=1e-9, c=1e150),
                "x0": [0.5, 1.0],
                "steps": 100,
            },
            r"^o2nc: the iterates left the range of float64 in round \d+; gamma is too large",
        ),
    ],
)
def test_bad_arguments_are_refused_with_the_reason(arguments, text):
    call = {"gradient": quadratic, "x0": [1.0, 2.0], "tuning": BY_HAND, "steps": 5} | arguments
    with np.errstate(over="ignore", invalid="ignore"), pytest.raises(InputError, match=text):
        o2nc(**call)


def test_meters_start_empty_and_stay_finite():
    assert StationarityMeter(1.0, 0.0, 0.1).certificate.bound == 0.0
    assert RegretMeter(BY_HAND).terms is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"name": "bowl"}, r"^Objective: name must be one of saturated, kinks, well, basins, got 'bowl'"),
        ({"name": "well", "dim": 0}, r"^Objective: dim must be an integer in"),
        ({"name": "well", "noise": -1.0}, r"^Objective: noise must be in \[0, 1e75\], got -1.0"),
    ],
)
def test_objectives_refuse_what_makes_no_sense(arguments, text):
    with pytest.raises(InputError, match=text):
        Objective(**arguments)


def test_the_meter_means_every_round():
    """The certificate of several rounds: means of the point values and of the noise slacks, the last point value."""
    meter, warmth, values, slacks = StationarityMeter(c=2.0, noise=0.3, gap1=0.2), 0.0, [], []
    for t in range(1, 8):
        warmth = core.ema(warmth, 1.0, 0.2)
        meter.observe(length=0.5 * warmth / t, warmth=warmth, spread=0.01 * t)
        values.append(0.5 / t + 2.0 * 0.01 * t)
        slacks.append(core.noise_slack(0.3, warmth, 0.2))
    found = meter.certificate
    assert found.rounds == 7
    assert found.value == pytest.approx(values[-1], rel=1e-12)
    assert found.mean == pytest.approx(np.mean(values), rel=1e-12)
    assert found.slack == pytest.approx(np.mean(slacks), rel=1e-12)
    assert found.bound == found.mean + found.slack
