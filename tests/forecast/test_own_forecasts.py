"""Forecasts of the user's own: weighed by what they said of values to come, silent where they say nothing."""

import html
import pickle

import numpy as np
import polars as pl
import pytest

from tests.forecast.series import errors, random_walk, seasonal
from tests.run.forecast.test_forecast_files import assert_same as assert_same_folders
from tests.run.forecast.test_forecast_files import hours, state, write
from undrift.cli.app import run
from undrift.errors import InputError
from undrift.forecast import Forecaster, align_candidate
from undrift.forecast.weights import StepWeights

pytestmark = pytest.mark.filterwarnings("error")
STEPS, ROWS = 4, 40


def truth_and_noise(y, noise, *, seed=1):
    """Return forecasts (T, STEPS) of every next step: the value itself and noise."""
    rng = np.random.default_rng(seed)
    column = np.concatenate([y, np.full(STEPS, np.nan)]) + noise * rng.normal(size=len(y) + STEPS)
    return align_candidate(column, len(y), STEPS)


def assert_same(a, b):
    for one, other in zip(a, b, strict=True):
        assert one.tobytes() == other.tobytes()


def test_a_good_forecast_of_ones_own_is_believed():
    y = random_walk(220)  # nobody can forecast it, but for someone who knows more
    own = truth_and_noise(y, 0.1)
    model = Forecaster(STEPS, candidates=["oracle"])
    off, _ = errors(model.play(y, candidates=own), y, 100)
    alone, _ = errors(Forecaster(STEPS).play(y), y, 100)
    assert np.mean(off**2) < 0.05 * np.mean(alone**2)
    assert np.mean(off**2) < 1.1 * 0.1**2
    assert model.candidates[-1] == "oracle"
    assert (model.weights()[-1] > 0.9).all()


def test_a_bad_forecast_of_ones_own_costs_next_to_nothing():
    y = seasonal(300, 12)
    off, _ = errors(Forecaster(STEPS, candidates=["bad"]).play(y, candidates=truth_and_noise(y, 5.0)), y, 100)
    alone, _ = errors(Forecaster(STEPS).play(y), y, 100)
    assert np.mean(off**2) < 1.01 * np.mean(alone**2)


def test_who_is_always_silent_hardly_matters():
    """It is believed as any other before the first loss, which the better naive forecast is told to outweigh."""
    y = seasonal(160, 12)
    silent = Forecaster(STEPS, candidates=["nobody"]).play(y)
    alone = Forecaster(STEPS).play(y)
    np.testing.assert_allclose(silent.yhat[100:], alone.yhat[100:], atol=0.02)


def test_the_silent_say_what_the_others_say_together():
    answers = np.array([1.0, 3.0, np.nan]).reshape(1, 3, 1)
    others = 1.0 * 0.4 + 3.0 * 0.6
    mixed, _ = StepWeights(1, (0.2, 0.3, 0.5), (0,), 1, 1).mix(answers)
    assert answers[0, 2, 0] == pytest.approx(others)
    assert mixed[0, 0] == pytest.approx(others)
    assert answers[0, :2, 0].tolist() == [1.0, 3.0]


def test_what_was_said_of_later_rows_counts_only_when_they_come():
    y = seasonal(120, 12)
    own = truth_and_noise(y, 0.01)
    other = own.copy()
    other[100:] = 1e6
    one = Forecaster(STEPS, candidates=["a"]).play(y, candidates=own)
    two = Forecaster(STEPS, candidates=["a"]).play(y, candidates=other)
    for a, b in zip(one, two, strict=True):
        assert a[:100].tobytes() == b[:100].tobytes()
    assert (one.yhat[100] != two.yhat[100]).any()


@pytest.mark.parametrize("how", ["plain", "pickle", "file"])
def test_cutting_anywhere_changes_no_bit(tmp_path, how):
    y = seasonal(90, 7)
    own = np.stack([truth_and_noise(y, 0.1), truth_and_noise(y, 1.0, seed=2)], axis=1)
    own[10:30, 0] = np.nan
    whole = Forecaster(STEPS, candidates=["a", "b"])
    trace = whole.play(y, candidates=own)
    model, parts = whole.clone(), []
    for a, b in ((0, 5), (5, 33), (33, 90)):
        if how == "pickle":
            model = pickle.loads(pickle.dumps(model))
        elif how == "file":
            model.save(tmp_path / "model")
            model = Forecaster.load(tmp_path / "model")
        parts.append(model.play(y[a:b], candidates=own[a:b]))
    assert_same([np.concatenate(column) for column in zip(*parts, strict=True)], trace)
    assert model == whole
    rows = whole.clone()
    for value, said in zip(y, own, strict=True):
        rows.observe(value, candidates=said)
    assert rows == whole


def test_several_series_have_their_own():
    Y = np.column_stack([random_walk(150), random_walk(150, seed=3)])
    own = np.stack([truth_and_noise(Y[:, s], 0.1) for s in range(2)], axis=1)  # (T, series, H): one candidate
    model = Forecaster(STEPS, candidates=["oracle"])
    trace = model.play(Y, candidates=own)
    assert_same(trace, Forecaster(STEPS, candidates=["oracle"]).play(Y, candidates=own[:, :, None]))
    for s in range(2):
        off, _ = errors(type(trace)(*(column[:, s] for column in trace)), Y[:, s], 100)
        assert np.mean(off**2) < 0.02
    again = model.forecast(known=np.empty((STEPS, 0)))  # served once more, from what the candidates said
    assert_same(again, model.forecast())


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Forecaster(4, candidates="ab"), "candidates must be a list of different names, got 'ab'"),
        (lambda: Forecaster(4, candidates=["a", "a"]), "candidates must be a list of different names"),
        (lambda: Forecaster(4, candidates=[1]), "candidates must be a list of different names"),
        (lambda: Forecaster(4).observe(1.0, candidates=[1.0] * 4), "candidates were not named; begin with"),
        (
            lambda: Forecaster(4, candidates=["a"]).observe(1.0, candidates=[1.0]),
            r"candidates must have shape \(1, 4\), got \(1,\)",
        ),
        (
            lambda: Forecaster(4, candidates=["a", "b"]).play([1.0, 2.0], candidates=np.zeros((2, 4))),
            r"candidates must have shape \(2, 2, 4\), got \(2, 4\)",
        ),
        (lambda: Forecaster(1, candidates=["a"]).observe(1.0, candidates=[np.inf]), "candidates"),
        (lambda: align_candidate(np.zeros((2, 2)), 2, 3), r"column must have one axis, got shape \(2, 2\)"),
        (lambda: align_candidate([1.0], 1, 3, ahead=0), "ahead must be"),
    ],
)
def test_what_is_no_forecast_is_one_sentence(call, says):
    with pytest.raises(InputError, match=says):
        call()


def forecast(path, out, *more):
    return run(["forecast", str(path), "-t", "value", "-H", str(STEPS), "-o", str(out), "--no-report", "-q", *more])


@pytest.fixture
def columns():
    """Times, values, and one column of forecasts that goes on after the last value."""
    y = random_walk(ROWS)
    own = np.concatenate([y, np.zeros(STEPS)]) + 0.1 * np.random.default_rng(5).normal(size=ROWS + STEPS)
    values = np.column_stack([np.concatenate([y, np.full(STEPS, np.nan)]), own])
    return hours(ROWS + STEPS), values


def test_a_column_beside_the_target_is_a_candidate(tmp_path, columns, capsys):
    times, values = columns
    path, out = write(tmp_path / "a.csv", times, values, ("value", "mine")), tmp_path / "out"
    assert run(["forecast", str(path), "-t", "value", "-H", "4", "-o", str(out), "--candidate", "mine"]) == 0
    shown = capsys.readouterr()
    assert "'mine' is taken to be known 4 rows before the row it stands in" in shown.err
    assert "mine (where it forecasts)" in shown.out
    own = align_candidate(values[:, 1], ROWS, STEPS)
    model = Forecaster(STEPS, candidates=["mine"])
    trace = model.play(values[:ROWS, :1], times=times[:ROWS], candidates=own[:, None, None])
    table = pl.read_parquet(out / state(out)["files"]["forecasts"])
    assert table["yhat"].to_numpy().tobytes() == trace.yhat.tobytes()
    assert np.array_equal(table["candidate mine"].to_numpy().reshape(-1, STEPS), own)
    found = state(out)["candidates"][0]
    at = [(t, h) for t in range(ROWS) for h in range(1, STEPS + 1) if t + h < ROWS]
    assert found["judged"] == len(at)
    assert found["mse"] == pytest.approx(np.mean([(own[t, h - 1] - values[t + h, 0]) ** 2 for t, h in at]))
    assert found["undrift_mse"] == pytest.approx(
        np.mean([(trace.yhat[t, 0, h - 1] - values[t + h, 0]) ** 2 for t, h in at])
    )
    assert "than those of 'mine', in" in html.unescape((out / "report.html").read_text())


def test_columns_by_step_and_columns_known_some_rows_ahead_are_the_same(tmp_path, columns):
    times, values = columns
    one = write(tmp_path / "one.csv", times, values, ("value", "mine"))
    shifted = np.column_stack([values[:, 0], np.append(values[1:, 1], np.nan), np.append(values[2:, 1], [np.nan] * 2)])
    two = write(tmp_path / "two.csv", times, shifted, ("value", "mine_1", "mine_2"))
    assert forecast(one, tmp_path / "one", "--candidate", "mine:2") == 0
    assert forecast(two, tmp_path / "two", "--candidate", "mine") == 0
    tables = [pl.read_parquet(tmp_path / out / state(tmp_path / out)["files"]["forecasts"]) for out in ("one", "two")]
    assert tables[0].rename({"candidate mine:2": "candidate mine"}).equals(tables[1])


def test_days_whose_files_hold_the_forecasts_to_come_are_the_same_as_one_file(tmp_path, columns):
    times, values = columns
    whole = write(tmp_path / "whole.csv", times, values, ("value", "mine"))
    assert forecast(whole, tmp_path / "whole", "--candidate", "mine") == 0
    for begin, end in ((0, 15), (15, 30), (30, ROWS)):
        day = values.copy()
        day[end:, 0] = np.nan
        path = write(tmp_path / f"{end}.csv", times, day, ("value", "mine"), keep=range(begin, end + STEPS))
        if begin:
            assert run(["update", str(tmp_path / "days"), str(path), "--no-report", "-q"]) == 0
        else:
            assert forecast(path, tmp_path / "days", "--candidate", "mine") == 0
    assert_same_folders(tmp_path / "days", tmp_path / "whole")
    assert state(tmp_path / "days")["candidates"] == state(tmp_path / "whole")["candidates"]


def test_long_files_have_a_candidate_for_every_series(tmp_path):
    Y = np.column_stack([random_walk(60), random_walk(60, seed=3)])
    lines = ["time,name,value,mine"]
    for t, time in enumerate(hours(60)):
        lines += [f"{time},{name},{float(Y[t, s])!r},{float(Y[t, s]) + 0.5!r}" for s, name in enumerate("ab")]
    path, out = tmp_path / "long.csv", tmp_path / "out"
    path.write_text("\n".join(lines) + "\n")
    assert forecast(path, out, "--series", "name", "--candidate", "mine") == 0
    own = np.stack([align_candidate(Y[:, s] + 0.5, 60, STEPS) for s in range(2)], axis=1)
    trace = Forecaster(STEPS, candidates=["mine"]).play(Y, times=hours(60), candidates=own)
    table = pl.read_parquet(out / state(out)["files"]["forecasts"])
    assert table["yhat"].to_numpy().tobytes() == trace.yhat.tobytes()
    assert state(out)["candidates"][0]["mse"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--candidate", "other"], "no column 'other', nor 'other_1', 'other_2', ... for --candidate; columns are"),
        (["--candidate", "value"], "target, series, key, known, candidate and time must be different columns"),
        (["--candidate", "mine", "-t", "mine"], "must be different columns"),
        (["--candidate", "mine", "-t", "time"], "--candidate goes with one --target"),
    ],
)
def test_candidates_that_cannot_be_are_one_sentence(tmp_path, columns, options, says, capsys):
    path = write(tmp_path / "a.csv", *columns, ("value", "mine"))
    assert forecast(path, tmp_path / "out", *options) in (2, 3)
    assert says in capsys.readouterr().err


def test_forecasts_with_candidates_are_not_served(tmp_path, columns):
    from undrift.serve.open_service import open_forecasts

    path = write(tmp_path / "a.csv", *columns, ("value", "mine"))
    assert forecast(path, tmp_path / "out", "--candidate", "mine") == 0
    with pytest.raises(InputError, match="cannot be served yet; use update"), open_forecasts(tmp_path / "out"):
        pass
