"""certificate: mean + slack bounds E|grad F|_c, for any update and any noise of the assumed size."""

import numpy as np
import pytest

from undrift.optim import Objective, Tuning, o2nc
from undrift.optim.objectives import KINDS


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
