"""Real files that were spoiled, a few of those that `tests/stress/spoiled_files.py` makes: a result or one sentence."""

import random
import sys
import warnings

import numpy as np
import pytest

import undrift as ud
from tests.stress import spoiled_files


@pytest.mark.parametrize("seed", range(30))
def test_a_spoiled_file_gives_a_result_or_one_sentence(tmp_path, seed):
    one = spoiled_files.spoil(random.Random(seed), spoiled_files.real_files())
    assert spoiled_files.find_fault(one, tmp_path) is None, one.story


def test_the_check_sees_what_it_looks_for(tmp_path, monkeypatch):
    plain = spoiled_files.real_files()[0]
    one = spoiled_files.SpoiledFile(".csv", plain.text.encode(), ["run", "{}", "-t", plain.target], "")

    def failing(arguments):
        raise ValueError("told")

    def warning(arguments):
        warnings.warn("told", stacklevel=1)
        return 0

    def chatting(arguments):
        print("one\ntwo", file=sys.stderr)
        return 3

    for act, words in ((failing, "ValueError"), (warning, "UserWarning"), (chatting, "not one sentence")):
        monkeypatch.setattr(spoiled_files, "run", act)
        assert words in spoiled_files.find_fault(one, tmp_path)


def test_a_line_over_tiny_features_has_finite_coefficients():
    rng = np.random.default_rng(0)
    Z = np.column_stack([rng.normal(size=80), np.where(rng.random(80) < 0.1, 5e-324, 0.0)])
    model = ud.OnlineRegressor(speed="light")
    model.play(Z, 1e6 * rng.normal(size=80))
    line = model.line()
    assert np.isfinite(line.coef).all()
    assert np.isfinite(line.intercept)
