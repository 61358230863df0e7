"""Every example runs, and shows what it is meant to show."""

import contextlib
import io
import runpy
from functools import cache

import numpy as np
import pytest

from tests.helpers import ROOT

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"


@cache
def run(name):
    """Run an example as a user would; return its names and what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        names = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return names, said.getvalue()


@pytest.mark.parametrize("name", sorted({path.stem for path in EXAMPLES.glob("*.py")} - {"train_network"}))
def test_every_example_says_something(name):
    assert run(name)[1].strip()


def test_regression_recovers_from_every_change():
    names = run("regression")[0]
    assert names["error"].mean() < 0.5 * names["naive"].mean()
    assert names["after_change"][1] < 0.5 * names["after_change"][0]
    assert abs(names["coverage"].measured - 0.9) < 0.01


def test_classification_beats_the_base_rate_before_and_after():
    names = run("classification")[0]
    for part in (slice(0, 2000), slice(2000, 3000), slice(3000, 4000)):
        assert np.mean(names["loss"][part]) < 0.8 * np.mean(names["naive_loss"][part])


def test_the_river_pipeline_beats_repeating_the_last_month():
    names = run("river_pipeline")[0]
    assert names["measured"].get() < names["naive"].get()


def test_learned_memories_beat_naive_guesses():
    out = run("learners")[1]
    for task, naive in (("Regression", "same as last time"), ("Classification", "base rate")):
        table = out.split(task)[1]
        assert table.index("everything learned") < table.index(naive)


def test_a_learner_of_ones_own_is_certified():
    names = run("certify_your_own")[0]
    certificate = names["certificate"]
    assert certificate.holds
    assert certificate.slack > 0.0
    terms = (certificate.start, certificate.stability, certificate.variation, certificate.potential_drift)
    assert all(term > 0.0 for term in terms)


def test_a_quantile_is_tracked_and_certified():
    names = run("quantile")[0]
    assert 0.87 < names["covered"] < 0.93
    assert names["certificate"].holds
    assert names["certificate"].regret < 0.0


def test_a_portfolio_beats_the_equal_split_and_is_certified():
    names = run("portfolio")[0]
    assert names["wealth"] > names["equal"]
    assert names["certificate"].holds


def test_a_model_of_ones_own_is_trusted_where_it_is_better():
    names = run("your_own_model")[0]
    losses = names["losses"]
    assert losses["own model"] < 0.7 * losses["linear memories"]
    assert losses["both"] <= min(losses.values()) + names["both"].cost().max()


def test_forecasts_of_others_help_and_do_not_hurt():
    figures = list(run("forecasts_of_others")[0]["figures"].values())
    assert figures[2] < 0.7 * min(figures[:2])
