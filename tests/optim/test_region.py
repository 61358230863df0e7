"""The map's curves are the verdicts' borders."""

import numpy as np
import pytest

from undrift.errors import InputError
from undrift.optim import Problem, conditions, rho
from undrift.optim.conditions import regions, rho_contour


@pytest.mark.parametrize("epsilon", [1.0, 0.2])
@pytest.mark.parametrize("nu", [1e-5, 1e-3, 1.0])
def test_inside_the_curves_a_theorem_holds_and_outside_it_does_not(nu, epsilon):
    rng = np.random.default_rng(1)
    problem = Problem(1.0, 0.0, 1.0, 1.0, epsilon)
    grid = 10.0 ** rng.uniform(-7, -0.05, size=15)
    for region in regions(grid, nu, epsilon):
        held = 0
        for k, gap1 in enumerate(grid):
            low, high = region.low[k], region.high[k]
            tries = 10.0 ** rng.uniform(-9, -0.01, size=3)
            if not np.isnan(high):
                tries = [
                    *tries,
                    high * (1 - 1e-9),
                    high * (1 + 1e-9),
                    low * (1 + 1e-9) + 1e-15,
                    low * (1 - 1e-9) + 1e-16,
                ]
            for gap2 in tries:
                if not 1.2e-16 < gap2 < 1.0:
                    continue
                verdicts = conditions(gap1=gap1, gap2=gap2, nu=nu, problem=problem)
                holds = next(v.holds for v in verdicts if v.theorem == region.theorem)
                assert holds == bool(low <= gap2 <= high)
                held += holds
        assert held > 5


def test_contours_have_their_rho():
    for width in (0.0, 0.5, 0.99):
        for side in rho_contour([1e-6, 0.3], width):
            for gap1, gap2 in zip((1e-6, 0.3), side, strict=True):
                assert rho(gap1=gap1, gap2=float(gap2)) == pytest.approx(width, abs=1e-12)


def test_bad_grids_are_refused():
    with pytest.raises(InputError, match=r"^regions: gap1 must be in \(0, 1\) everywhere"):
        regions([0.5, 1.0])
    with pytest.raises(InputError, match=r"^regions: epsilon must be in \(0, 1\], got 2"):
        regions([0.5], epsilon=2.0)
