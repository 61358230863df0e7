"""Options of a run: late labels, lags, the calendar, missing values, texts, times; each against a plain computation."""

import json
import math

import numpy as np
import polars as pl
import pytest

import undrift as ud
from tests.helpers import edit_state
from tests.run.row_files import table, write_csv
from undrift.baselines import Baselines
from undrift.cli.run import summary_lines
from undrift.errors import InputError
from undrift.online import Table
from undrift.report.run_text import predicted_rows
from undrift.run import Settings, certify_run, compare_file, play_file, read_run
from undrift.stream.model import make_model

SETTINGS = {"target": "y", "drop": ("hot", "city"), "speed": "fast"}


def played(tmp_path, columns, **settings):
    path = write_csv(tmp_path / "t.csv", columns)
    play_file(str(path), tmp_path / "run", Settings(**(SETTINGS | settings)), force=True)
    return read_run(tmp_path / "run")


def numbers(columns, *names):
    return np.array([[np.nan if v is None else float(v) for v in columns[name]] for name in names]).T


def answers(trace):
    """Return predictions as files hold them: none before the first label was known."""
    return np.where(trace.known, trace.yhat, np.nan)


def test_late_labels_are_learned_when_they_come(tmp_path):
    columns, delay = table(120), 7
    columns["y"][40] = None
    run = played(tmp_path, columns, delay=delay, time="when")
    Z, y = numbers(columns, "a", "b"), numbers(columns, "y")[:, 0]
    model, yhat, low, served = ud.OnlineRegressor(speed="fast"), [], [], []
    for t in range(120):
        served.append(model.ask({"a": Z[t, 0], "b": Z[t, 1]}))
        yhat.append(served[t].yhat if served[t].known else np.nan)
        low.append(served[t].interval(0.9).low)
        if t >= delay:
            model.tell(served[t - delay], y[t - delay])
    known = ~np.isnan(y)
    np.testing.assert_array_equal(run.yhat, np.array(yhat)[known])
    finite = np.where(np.isfinite(low), low, np.nan)
    np.testing.assert_array_equal(run.lower, finite[known])
    saved = ud.load(tmp_path / "run" / "model.undrift").model
    assert (saved.rounds, len(saved.pending)) == (model.rounds, delay), "what waits for its label stays in the folder"
    assert saved.predict(Table(["a", "b"], Z[:5])).tobytes() == model.predict(Table(["a", "b"], Z[:5])).tobytes()
    # the naive guess knows no label earlier either
    last = [np.nan] * (delay + 1) + [y[: t - delay][~np.isnan(y[: t - delay])][-1] for t in range(delay + 1, 120)]
    np.testing.assert_array_equal(run.baselines["last value"], np.array(last)[known])


@pytest.mark.parametrize(("delay", "first"), [(0, "the first row"), (25, "the first 26 rows")])
def test_rows_before_the_first_label_are_not_counted_as_predicted(tmp_path, delay, first):
    run = played(tmp_path, table(120), delay=delay, time="when")
    count = 119 - delay
    assert summary_lines(run, {"folder": "run", "report": None})[0] == (
        f"Predicted 'y' (a number) {count} times in t.csv, each time before it was known."
    )
    assert predicted_rows(run) == f"{count} rows, all but {first}"


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("delay", [0, 1, 9])
def test_naive_guesses_do_not_depend_on_cuts(binary, delay):
    rng = np.random.default_rng(0)
    y = (rng.random(200) < 0.4) * 1.0 if binary else rng.normal(size=200)
    y[rng.random(200) < 0.1] = np.nan
    whole = Baselines(binary=binary, delay=delay).play(y)
    cut = Baselines(binary=binary, delay=delay)
    parts = [cut.play(y[a:b]) for a, b in ((0, 3), (3, 3), (3, 50), (50, 51), (51, 200))]
    assert np.concatenate(parts).tobytes() == whole.tobytes()
    for t in range(200):
        seen = y[: max(0, t - delay)]
        seen = seen[~np.isnan(seen)]
        if binary:
            same, changed = np.count_nonzero(np.diff(seen) == 0), np.count_nonzero(np.diff(seen) != 0)
            sign = 0.0 if not len(seen) else 2.0 * seen[-1] - 1.0
            rate = math.log((np.count_nonzero(seen == 1) + 1) / (np.count_nonzero(seen == 0) + 1))
            assert whole[t] == pytest.approx([sign * math.log((same + 1) / (changed + 1)), rate])
        else:
            assert whole[t] == pytest.approx([seen[-1], seen.mean()] if len(seen) else [0.0, 0.0])


def test_lags_are_labels_of_earlier_rows(tmp_path):
    columns = table(300)
    columns["y"][10] = None
    run = played(tmp_path, columns, lag=(1, 5))
    assert run.features == ["a", "b", "y 1 row ago", "y 5 rows ago"]
    Z, y = numbers(columns, "a", "b"), numbers(columns, "y")[:, 0]
    for lag in (1, 5):
        Z = np.column_stack([Z, np.concatenate((np.full(lag, np.nan), y[:-lag]))])
    expected = answers(ud.OnlineRegressor(speed="fast").play(Z, y))[~np.isnan(y)]
    assert run.yhat.tobytes() == expected.tobytes()


def test_the_calendar_says_where_in_day_week_and_year_a_row_is(tmp_path):
    columns = table(300)
    columns["weekend"] = [1.0] * 300  # a name that is taken
    run = played(tmp_path, columns, calendar=True, features=("a", "weekend"))
    assert run.features[2:4] == ["hour sin", "hour cos"]
    assert run.features[-1] == "weekend (made)"
    when = [np.datetime64(text) for text in columns["when"]]
    hours = np.array([float(one.astype("datetime64[h]").astype(int) % 24) for one in when])
    weekend = [one.astype("datetime64[D]").astype(object).weekday() >= 5 for one in when]
    days = [one.astype(object).timetuple().tm_yday - 1 for one in when]
    week = np.array([one.astype(object).weekday() for one in when]) + hours / 24.0
    Z = [np.array(columns["a"]), np.ones(300)]
    for turn in (hours / 24, 2 * hours / 24, week / 7, np.array(days) / 365.2425):
        Z += [np.sin(2 * np.pi * turn), np.cos(2 * np.pi * turn)]
    expected = answers(ud.OnlineRegressor(speed="fast").play(np.column_stack([*Z, weekend]), columns["y"]))
    assert run.yhat == pytest.approx(expected, rel=1e-6, abs=1e-6, nan_ok=True)


def test_missing_values_are_filled_told_or_skipped(tmp_path):
    columns = table(300)
    Z, y = numbers(columns, "a", "b"), numbers(columns, "y")[:, 0]
    filled = answers(ud.OnlineRegressor(speed="fast").play(Z, y))
    assert played(tmp_path, columns).yhat.tobytes() == filled.tobytes()
    told = played(tmp_path, columns, missing="indicators")
    assert told.yhat.tobytes() == answers(ud.OnlineRegressor(speed="fast", indicators=True).play(Z, y)).tobytes()
    assert told.coef_names == ["a", "a missing", "b", "b missing", "(intercept)"]
    assert told.coef.shape[1] == 5
    whole = ~np.isnan(Z).any(axis=1)
    run = played(tmp_path, columns, missing="skip")
    assert run.yhat.tobytes() == answers(ud.OnlineRegressor(speed="fast").play(Z[whole], y[whole])).tobytes()
    assert run.line.tolist() == (np.flatnonzero(whole) + 2).tolist()
    skipped = next(one for one in run.problems if one["kind"] == "skipped")
    assert skipped["count"] == np.count_nonzero(~whole)


def test_texts_that_come_late_get_a_feature_of_their_own(tmp_path):
    columns = table(9000)
    columns["city"] = ["Oslo" if k % 2 else "Rome" for k in range(8500)] + ["Lima"] * 500
    run = played(tmp_path, columns, drop=("hot",))
    assert run.features == ["a", "b", "city=Rome", "city=Oslo", "city=Lima"]
    assert np.isnan(run.coef[0, 4])
    assert np.isfinite(run.coef[-1]).all()
    hot = np.array([[city == name for name in ("Rome", "Oslo", "Lima")] for city in columns["city"]], dtype=float)
    Z, names = np.column_stack([numbers(columns, "a", "b"), hot]), ["a", "b", "city=Rome", "city=Oslo", "city=Lima"]
    model, y = ud.OnlineRegressor(speed="fast"), np.array(columns["y"])
    head = answers(model.play(Table(names[:4], Z[:8500, :4]), y[:8500]))
    tail = model.play(Table(names, Z[8500:]), y[8500:]).yhat  # from the row that brings the text
    assert run.yhat.tobytes() == np.concatenate((head, tail)).tobytes()


def test_names_that_would_meet_are_kept_apart(tmp_path):
    columns = {"a": ["b=c", "d"] * 20, "a=b": ["c", "e"] * 20, "x": list(range(40)), "y": list(np.arange(40.0) % 7)}
    run = played(tmp_path, columns, drop=())
    assert run.features == ["x", "a=b=c", "a=d", "a=b=c (made)", "a=b=e"]


def test_times_are_read_in_the_ways_people_write_them(tmp_path):
    expected = np.datetime64("2024-03-05T06:07:00")
    second = np.timedelta64(60, "s")
    ways = {
        "iso": ("2024-03-05T06:07:00", "2024-03-05T06:08:00", {}),
        "zone": ("2024-03-05 08:07:00+02:00", "2024-03-05 06:08:00Z", {}),
        "epoch": ("1709618820", "1709618880", {"time": "when"}),
        "milliseconds": ("1709618820000", "1709618880000", {"time": "when"}),
        "own": ("05.03.2024 06:07", "05.03.2024 06:08", {"time_format": "%d.%m.%Y %H:%M"}),
    }
    for name, (first, then, settings) in ways.items():
        columns = {"when": [first, then], "x": [1.0, 2.0], "y": [1.5, 2.5]}
        run = played(tmp_path, columns, drop=(), **settings)
        assert run.time.tolist() == [expected.astype(object), (expected + second).astype(object)], name


def test_intervals_of_a_target_that_is_never_negative_are_cut_at_0(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=300).tolist(), "y": rng.poisson(1.0, 300).tolist()}
    free, cut = (played(tmp_path, columns, drop=(), task="regression", nonnegative=on) for on in (False, True))
    assert np.nanmin(free.lower) < 0.0
    np.testing.assert_array_equal(cut.lower, np.maximum(free.lower, 0.0))
    np.testing.assert_array_equal(cut.upper, free.upper)
    with pytest.raises(InputError, match="nonnegative is for targets that are numbers, not for classes; leave it out"):
        make_model(Settings(target="y", nonnegative=True), "classification")


def test_a_row_number_is_no_feature(tmp_path):
    columns = {"time": list(range(100)), "x": [k % 7 for k in range(100)], "y": [k % 5 / 2 for k in range(100)]}
    run = played(tmp_path, columns, drop=())
    assert run.features == ["x"]
    assert "'time' counts the rows and was left out; pass --features to use it" in run.notes
    assert played(tmp_path, columns, drop=(), features=("time", "x")).features == ["time", "x"]


def test_unlabelled_rows_are_predicted_and_stored(tmp_path):
    columns = table(300)
    columns["y"][100:110] = [None] * 10
    run = played(tmp_path, columns)
    frame = pl.read_parquet(tmp_path / "run" / "predictions.parquet")
    assert run.rounds == 290
    assert len(frame) == 300
    assert frame["y"].null_count() == 10
    assert frame["yhat"][1:].is_finite().all()
    assert frame["yhat"][0] is None  # nothing was known yet


def test_a_limit_stops_the_run_and_its_certificate(tmp_path):
    columns = table(300)
    columns["a"][250] = "warm"
    run = played(tmp_path, columns, limit=200)
    assert run.rounds == 200
    certify_run(tmp_path / "run")
    assert read_run(tmp_path / "run").certificates[0]["rounds"] == 200


def test_duplicate_columns_are_found(tmp_path):
    columns = table(300)
    columns["copy"] = columns["a"]
    found = {(one["kind"], one["column"]): one for one in played(tmp_path, columns).problems}
    assert found["duplicate column", "copy"]["note"] == "the same numbers as 'a'"


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("delay", [0, 1, 9])
def test_naive_guesses_of_seasons_repeat_the_label_of_so_many_rows_ago(binary, delay):
    rng, lags = np.random.default_rng(1), [12, 15, 24]
    y = (rng.random(200) < 0.4) * 1.0 if binary else rng.normal(size=200)
    y[rng.random(200) < 0.1] = np.nan
    whole = Baselines(binary=binary, delay=delay, lags=lags).play(y)
    cut = Baselines(binary=binary, delay=delay, lags=lags)
    parts = [cut.play(y[a:b]) for a, b in ((0, 3), (3, 3), (3, 50), (50, 51), (51, 200))]
    assert np.concatenate(parts).tobytes() == whole.tobytes()
    assert whole[:, :2].tobytes() == Baselines(binary=binary, delay=delay).play(y).tobytes()

    def repeat(t, lag):
        if t < lag or np.isnan(y[t - lag]):
            return math.nan
        if not binary:
            return y[t - lag]
        pairs = [(y[i], y[i - lag]) for i in range(lag, t - delay) if not np.isnan(y[i] + y[i - lag])]
        same = sum(a == b for a, b in pairs)
        return (2.0 * y[t - lag] - 1.0) * math.log((same + 1) / (len(pairs) - same + 1))

    for t in range(200):
        half, other, double = (repeat(t, lag) for lag in lags)
        half, other = (whole[t, 0] if math.isnan(guess) else guess for guess in (half, other))
        assert whole[t, 2:] == pytest.approx([half, other, half if math.isnan(double) else double])


def hours(rows, seed=0):
    """A target that repeats by the week, and a feature that says little of it."""
    rng = np.random.default_rng(seed)
    y = np.tile(rng.normal(scale=5.0, size=168), rows // 168 + 1)[:rows] + rng.normal(size=rows)
    when = np.datetime64("2024-01-01T00:00") + np.arange(rows) * np.timedelta64(1, "h")
    return {"when": when.astype(str).tolist(), "x": rng.normal(size=rows).tolist(), "y": y.tolist()}


@pytest.mark.parametrize(("settings", "rows_ago"), [({}, [24, 168]), ({"lag": (1, 3, 24)}, [3, 24, 168]),
                                                    ({"delay": 30}, [48, 168])])  # fmt: skip
def test_a_run_is_held_against_the_last_season(tmp_path, settings, rows_ago):
    columns = hours(1000)
    run = played(tmp_path, columns, drop=(), **settings)
    assert list(run.baselines) == ["last value", "running mean", *(f"same as {lag} rows ago" for lag in rows_ago)]
    for lag in rows_ago:
        np.testing.assert_array_equal(run.baselines[f"same as {lag} rows ago"][lag:], columns["y"][:-lag])
    frame = pl.read_parquet(tmp_path / "run" / "predictions.parquet")
    assert frame["same as 168 rows ago"].to_list()[168:] == columns["y"][:-168]
    told = summary_lines(run, {"folder": "run", "report": None})[1]
    assert "the best naive guess ('same as 168 rows ago': " in told


def test_rows_whose_times_are_not_regular_have_no_season(tmp_path):
    columns = hours(400)
    gaps = np.cumsum(np.random.default_rng(0).integers(1, 5, size=400))
    columns["when"] = (np.datetime64("2024-01-01T00:00") + gaps * np.timedelta64(1, "h")).astype(str).tolist()
    assert list(played(tmp_path, columns, drop=()).baselines) == ["last value", "running mean"]
    short = {name: cells[:100] for name, cells in hours(100).items()}
    assert list(played(tmp_path, short, drop=()).baselines) == ["last value", "running mean", "same as 24 rows ago"]


def test_two_classes_are_held_against_the_last_season_too(tmp_path):
    columns = hours(1000)
    columns["y"] = ["hot" if y > 0.0 else "cold" for y in columns["y"]]
    run = played(tmp_path, columns, drop=())
    losses = {name: float(np.mean(run.losses(name))) for name in run.baselines}
    assert min(losses, key=losses.get) == "same as 168 rows ago"
    state = json.loads((tmp_path / "run" / "run.json").read_text())
    told = {name: scores["log-loss"] for name, scores in state["scores"].items() if name != "model"}
    assert told == pytest.approx(losses)


def test_a_comparison_has_the_seasons_among_the_naive_guesses(tmp_path):
    path = write_csv(tmp_path / "t.csv", hours(1000))
    _, _, results = compare_file(str(path), Settings(target="y"), peers=False)
    naive = [result for result in results if result.kind == "naive"]
    assert naive[0].name == "same as 168 rows ago"
    assert {result.rows for result in naive} == {999}


def test_naive_guesses_that_no_row_could_have_are_not_scored(tmp_path):
    played(tmp_path, hours(100), drop=())
    scores = json.loads((tmp_path / "run" / "run.json").read_text())["scores"]
    assert list(scores) == ["model", "last value", "running mean", "same as 24 rows ago"]


@pytest.mark.parametrize("lags", ["24", [0], [1e9], [10**7], [True], [[24]]])
def test_naive_lags_that_no_run_writes_are_refused(tmp_path, lags):
    played(tmp_path, hours(200), drop=())
    edit_state(tmp_path / "run" / "run.json", naive_lags=lags)
    with pytest.raises(ud.errors.ModelFileError, match="'naive_lags' must hold numbers of rows"):
        read_run(tmp_path / "run")
