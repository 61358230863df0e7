"""certificate: mean + slack bounds E|grad F|_c, for any update and any noise of the assumed size."""

import numpy as np
import pytest

from undrift.optim import Objective, Tuning, core, o2nc
from undrift.optim.objectives import KINDS
from undrift.optim.stationarity import StationarityMeter


@pytest.mark.parametrize("name", KINDS)
def test_the_mean_certificate_covers_the_true_gradients(name):
    """Over seeds: certificate with noisy gradients plus slack >= the same with the true ones."""
    c = Tuning(gamma=0.02, gap1=0.02, gap2=0.01, nu=1e-3, clip_norm=0.01, c=1.0)
    runs = [o2nc(Objective(name, 3, 0.5), [0.9, -0.4, 0.3], c, 2000, seed) for seed in range(40)]
    bounds = np.array([run.certificate.bound for run in runs])
    truth = np.array([run.realised for run in runs])
    error = 3 * (bounds - truth).std() / np.sqrt(len(runs))
    assert bounds.mean() >= truth.mean() - error
    assert (bounds - truth).mean() <= 2 * np.mean([run.certificate.slack for run in runs]) + error


def test_a_single_value_is_no_bound():
    """What the label says: one run's certificate may lie below its own true value."""
    c = Tuning(gamma=0.02, gap1=0.05, gap2=0.01, nu=1e-3, clip_norm=0.01, c=1.0)
    runs = [o2nc(Objective("saturated", 2, 0.5), [2.0, -1.0], c, 10, seed) for seed in range(60)]
    assert any(run.certificate.mean < run.realised for run in runs)


@pytest.mark.parametrize("name", KINDS)
def test_it_covers_steps_that_no_theorem_does(name):
    """The certificate asks nothing of the update: here the second moment is corrected for its bias, and no scaling."""
    gap1, gap2, noise, rounds = 0.05, 0.01, 0.5, 400
    bounds, truths = [], []
    for seed in range(30):
        objective = Objective(name, 3, noise)
        x = np.array([0.9, -0.4, 0.3])
        average, m, truth, v = x.copy(), np.zeros(3), np.zeros(3), 0.0
        warmth = warmth2 = spread = 0.0
        meter = StationarityMeter(c=1.0, noise=noise, gap1=gap1)
        total = 0.0
        for t in range(1, rounds + 1):
            g = objective.noisy_gradient(x, seed, t)
            warmth, warmth2 = core.ema(warmth, 1.0, gap1), core.ema(warmth2, 1.0, gap2)
            weight = core.averaging_weight(warmth, gap1)
            spread = core.spread_after(spread, weight, float(np.sum((x - average) ** 2)))
            average = core.ema(average, x, weight)
            m, truth = core.ema(m, g, gap1), core.ema(truth, objective.gradient(x), gap1)
            v = core.ema(v, g @ g, gap2)
            meter.observe(float(np.linalg.norm(m)), warmth, spread)
            total += core.stationarity(float(np.linalg.norm(truth)), warmth, spread, 1.0)
            rate = core.rate(v / warmth2, warmth, core.Unit(0.02, 1e-3, 0.0))
            x = x + core.leader(m, rate, float(np.linalg.norm(m)), 0.02)
        bounds.append(meter.certificate.bound)
        truths.append(total / rounds)
    bounds, truths = np.array(bounds), np.array(truths)
    assert bounds.mean() >= truths.mean() - 3 * (bounds - truths).std() / np.sqrt(len(bounds))
    assert (bounds > truths).any()
