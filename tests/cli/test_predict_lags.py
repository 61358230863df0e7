"""undrift predict of many rows: intervals are those of the next row, and what is not known yet is said."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest


@pytest.fixture
def walk(call):
    """A random walk, learned with lags 1 and 3; the rows after it, as a file."""
    y = np.cumsum(np.random.default_rng(0).normal(size=600))
    x = np.random.default_rng(1).normal(size=600)
    pl.DataFrame({"x": x[:500], "y": y[:500]}).write_csv("past.csv")
    pl.DataFrame({"x": x[500:], "y": y[500:]}).write_csv("known.csv")
    pl.DataFrame({"x": x[500:]}).write_csv("future.csv")
    pl.DataFrame({"x": x[500:], "y": [*y[500:540], *[None] * 60]}).write_csv("some.csv")
    for name, lag in (("one", "1,3"), ("three", "3")):
        assert (
            call("run", "past.csv", "-t", "y", "--lag", lag, "--speed", "fast", "-q", "-o", name, "--no-report")[0] == 0
        )
    return call


def predicted(call, run, file, *options):
    code, out, err = call("predict", run, file, *options)
    assert code == 0
    return pl.read_csv(out.encode()), err


LATER = "intervals hold one row ahead; after the first row they are too narrow if 'y' drifts meanwhile"


@pytest.mark.parametrize(
    ("run", "file", "count"),
    [
        ("one", "future.csv", 1),
        ("one", "known.csv", 100),
        ("one", "some.csv", 41),  # labels 0 to 39 are in the file
        ("three", "future.csv", 3),
        ("three", "known.csv", 100),
        ("three", "some.csv", 43),
    ],
)
def test_rows_whose_lagged_labels_are_known_have_an_interval(walk, run, file, count):
    frame, err = predicted(walk, run, file)
    for end in ("lower", "upper"):
        assert frame[end].is_null().to_list() == [False] * count + [True] * (100 - count)
    assert frame["prediction"].is_finite().all()
    assert (frame["lower"] < frame["prediction"])[:count].all()
    assert (frame["prediction"] < frame["upper"])[:count].all()
    assert f"undrift: {LATER}\n" in err
    assert predicted(walk, run, file, "-q")[1] == ""


@pytest.mark.parametrize("run", ["one", "three"])
def test_the_first_row_has_an_interval_in_any_case(walk, run):
    """Where the run's own last labels are missing, the last one known stands in for them."""
    past = pl.read_csv("past.csv").with_columns(y=pl.when(pl.int_range(500) < 490).then(pl.col("y")))
    past.write_csv("holes.csv")
    lag = "1,3" if run == "one" else "3"
    options = ("-t", "y", "--lag", lag, "--speed", "fast", "-q", "-o", f"{run}-holes", "--no-report")
    assert walk("run", "holes.csv", *options)[0] == 0
    frame, _ = predicted(walk, f"{run}-holes", "future.csv")
    assert frame["lower"].is_null().to_list() == [False] + [True] * 99


def test_lags_that_are_not_known_are_said(walk):
    sentence = (
        "{} of 100 rows, from line {} on, need 'y' of earlier rows (lag {}), which is not known yet; "
        "the last one known stands in for it, and they have no interval; for several steps ahead use undrift forecast"
    )
    for run, lag, file, count, line in (
        ("one", "1, 3", "future.csv", 99, 3),
        ("three", "3", "future.csv", 97, 5),
        ("one", "1, 3", "some.csv", 59, 43),
    ):
        said = sentence.format(count, line, lag)
        assert predicted(walk, run, file)[1].splitlines() == [f"undrift: {said}", f"undrift: {LATER}"]
        answer = json.loads(walk("predict", run, file, "--json", "-q")[1])
        assert answer["notes"] == [said, LATER]
        assert answer["predictions"]["lower"][100 - count :] == [None] * count
    assert predicted(walk, "one", "known.csv")[1] == f"undrift: {LATER}\n"


def test_one_row_needs_no_sentence(walk):
    Path("next.csv").write_text("x\n0.5\n")
    frame, err = predicted(walk, "one", "next.csv")
    assert (len(frame), frame["lower"].null_count(), err) == (1, 0, "")


def test_without_lags_intervals_are_said_to_hold_one_row_ahead(walk):
    assert walk("run", "past.csv", "-t", "y", "--speed", "fast", "-q", "-o", "none", "--no-report")[0] == 0
    frame, err = predicted(walk, "none", "future.csv")
    assert frame["lower"].null_count() == 0
    assert err == (
        "undrift: intervals hold one row ahead; after the first row they are too narrow if 'y' drifts meanwhile\n"
    )


def test_two_classes_are_told_too(call):
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(200) < 0.5, "yes", "no")
    pl.DataFrame({"x": rng.normal(size=200), "y": labels}).write_csv("past.csv")
    pl.DataFrame({"x": rng.normal(size=10)}).write_csv("future.csv")
    assert call("run", "past.csv", "-t", "y", "--lag", "1", "--speed", "fast", "-q", "--no-report")[0] == 0
    code, _, err = call("predict", "past-run", "future.csv")
    assert code == 0
    assert "9 of 10 rows, from line 3 on" in err
    assert "undrift forecast" not in err  # which is for numbers
    assert "interval" not in err
