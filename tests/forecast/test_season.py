"""Seasons are found where there are some, and nowhere else."""

import numpy as np
import pytest

from tests.forecast.series import random_walk, seasonal
from undrift.forecast.season import find_seasons


@pytest.mark.parametrize("season", [4, 7, 12, 24, 52])
@pytest.mark.parametrize("seed", range(3))
def test_a_noisy_season_is_found(season, seed):
    found = find_seasons(seasonal(6 * season + 60, season, seed=seed)[:, None])
    assert found[:1] == (season,)


def test_a_week_around_the_day_is_found():
    t = np.arange(1200)
    weekend = (t // 24) % 7 >= 5
    y = seasonal(1200, 24, noise=0.1) * np.where(weekend, 0.2, 1.0)
    assert find_seasons(y[:, None]) == (24, 168)


@pytest.mark.parametrize("rows", [32, 128, 512, 2048])
def test_drift_and_noise_have_no_season(rows):
    found = [find_seasons(random_walk(rows, seed=seed)[:, None]) for seed in range(20)]
    found += [find_seasons(np.random.default_rng(seed).normal(size=(rows, 1))) for seed in range(20)]
    assert sum(one != () for one in found) <= 2


@pytest.mark.parametrize(
    "values", [np.zeros((50, 1)), np.full((50, 2), 1e75), np.ones((1, 1)), np.arange(40.0)[:, None]]
)
def test_constants_and_lines_have_no_season(values):
    assert find_seasons(values) == ()
