"""The formulas of optim.core on tensors of torch."""

import numpy as np
import pytest

from tests.optim.test_core import recursion
from undrift.optim import core
from undrift.optim.core import Tuning

torch = pytest.importorskip("torch")


def test_torch_tensors_pass_through():
    c = Tuning(gamma=0.5, gap1=0.1, gap2=0.01, nu=1e-3, clip_norm=0.1)
    g = torch.tensor([1.0, -2.0], dtype=torch.float64)
    m, v = core.ema(torch.zeros(2, dtype=torch.float64), g, c.gap1), core.ema(0.0, g @ g, c.gap2)
    delta = core.leader(m, core.rate(v, c.gap1, c), (m @ m) ** 0.5, c.ball)
    np.testing.assert_allclose(delta.numpy(), recursion(g.numpy()[None, :], c), rtol=1e-15)
