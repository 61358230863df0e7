"""`undrift forecast` and `undrift update`: files into folders, the same bits day by day, one sentence otherwise."""

import json
import re
import runpy
import shutil
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import undrift as ud
from tests.forecast.series import seasonal
from tests.helpers import ROOT
from undrift._internal.folder import Folder
from undrift.cli.app import run
from undrift.errors import UndriftError
from undrift.forecast import Forecaster
from undrift.run.forecast.forecast_folder import ForecastFolder


def hours(rows, start="2024-01-01T00:00:00"):
    return np.datetime64(start, "s") + np.arange(rows) * np.timedelta64(3600, "s")


def write(path, times, values, names=("value",), keep=None):
    """Write a CSV with a time and some columns; `keep` names the rows that are written."""
    values = np.asarray(values, dtype=float).reshape(len(times), -1)
    lines = [",".join(["time", *names])]
    for i in range(len(times)) if keep is None else keep:
        cells = ["" if np.isnan(one) else repr(float(one)) for one in values[i]]
        lines.append(",".join([str(times[i]), *cells]))
    path.write_text("\n".join(lines) + "\n")
    return path


def state(folder):
    return json.loads((folder / "run.json").read_text())


def contents(folder):
    """Return what must be equal in two folders: every table, and the model to the byte."""
    one = ForecastFolder(folder)
    tables = {name: one.read_table(state(folder), name) for name in ("forecasts", "values")}
    return tables, (folder / state(folder)["files"]["model"]).read_bytes(), state(folder)["scores"]


def assert_same(a, b):
    (tables, model, scores), (tables2, model2, scores2) = contents(a), contents(b)
    assert all(tables[name].equals(tables2[name]) for name in tables)
    assert model == model2
    assert scores == scores2


@pytest.fixture
def whole(tmp_path):
    path = write(tmp_path / "whole.csv", hours(150), seasonal(150, 12))
    assert run(["forecast", str(path), "-t", "value", "-H", "5", "-o", str(tmp_path / "whole"), "--no-report"]) == 0
    return tmp_path / "whole"


def test_a_full_disk_is_one_sentence_and_leaves_the_folder_as_it_was(tmp_path, whole, monkeypatch, capsys):
    first = write(tmp_path / "first.csv", hours(150), seasonal(150, 12), keep=range(100))
    words = ["forecast", str(first), "-t", "value", "-H", "5", "-o", str(tmp_path / "out"), "--no-report"]
    update = ["update", str(tmp_path / "out"), str(tmp_path / "whole.csv"), "--no-report"]

    def fill(*_, **__):
        raise pl.exceptions.ComputeError("parquet: underlying IO error: No space left on device (os error 28)")

    for command in (words, update):
        before = {file.name: file.read_bytes() for file in (tmp_path / "out").glob("[!.]*")}
        with monkeypatch.context() as patch:
            patch.setattr(pl.DataFrame, "write_parquet", fill)
            assert run(command) == 1
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.endswith("out: the disk is full; make room, then give the same command again")
        assert {file.name: file.read_bytes() for file in (tmp_path / "out").glob("[!.]*")} == before
        assert run(command) == 0
    assert_same(tmp_path / "out", whole)


def test_a_file_becomes_forecasts_scores_and_a_report(tmp_path, capsys):
    path = write(tmp_path / "a.csv", hours(120), seasonal(120, 12))
    out = tmp_path / "out"
    assert run(["forecast", str(path), "--target", "value", "--horizon", "4", "-o", str(out), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["rows"] == 120
    table = ForecastFolder(out).read_table(state(out), "forecasts")
    assert table.columns == ["series", "origin", "step", "time", "yhat", "lower", "upper"]
    assert len(table) == 120 * 4
    last = table.tail(4)
    model = Forecaster.load(out / state(out)["files"]["model"])
    assert last["yhat"].to_list() == model.forecast().yhat[0].tolist()
    assert last["time"].to_list() == hours(124)[-4:].astype("datetime64[us]").tolist()
    assert set(last["series"]) == {"value"}
    scores = shown["scores"]
    assert scores["predictors"][1] == "same as last time"
    assert 0.0 < scores["pinball"] < 1.0  # without intervals that have no ends yet
    y = seasonal(120, 12)
    season = model.seasons[-1]
    origins = [o for o in range(120) for h in [1] if o + 1 < 120 and o + 1 - season >= 0]
    naive = np.mean([(y[o] - y[o + 1]) ** 2 for o in origins])
    assert scores["mse_by_step"][1][0] == pytest.approx(naive)
    page = (out / "report.html").read_text()
    assert "The next steps" in page
    assert "Error by step" in page
    figures = json.loads(page.split('id="figures">')[1].split("</script>")[0])
    (inside,) = [one["views"][0]["layout"]["yaxis"] for one in figures if one["key"] == "inside"]
    low, high = inside["range"]
    assert low <= 0.85  # a percent beside the level is not the whole figure
    assert high >= 0.95


def test_day_by_day_is_the_same_as_one_file(tmp_path, whole):
    y, out = seasonal(150, 12), tmp_path / "days"
    first = write(tmp_path / "first.csv", hours(150), y, keep=range(70))
    assert run(["forecast", str(first), "-t", "value", "-H", "5", "-o", str(out), "--no-report", "-q"]) == 0
    for day, begin in enumerate(range(70, 150, 16)):
        rows = range(begin - 3, min(begin + 16, 150))  # three rows of yesterday again
        more = write(tmp_path / f"day{day}.csv", hours(150), y, keep=rows)
        assert run(["update", str(out), str(more), "--no-report", "-q"]) == 0
    assert_same(out, whole)
    assert sum(one["skipped"] for one in state(out)["learned"]) == 15


def test_days_with_missing_hours_and_a_kill_are_the_same_as_one_file(tmp_path):
    """A week of what `python -m tools stress forecast` does with a year."""
    script = runpy.run_path(str(ROOT / "tests" / "stress" / "forecast_days.py"))
    assert "every bit equal" in script["check"](tmp_path, 7, 2)


def test_a_file_that_grew_is_continued_behind_what_was_learned(tmp_path, capsys):
    y, path = seasonal(60, 12), tmp_path / "a.csv"
    path.write_text("value\n" + "".join(f"{one!r}\n" for one in y[:40].tolist()))
    out, other = tmp_path / "out", tmp_path / "other"
    assert run(["forecast", str(path), "-t", "value", "-H", "3", "-o", str(out), "--no-report"]) == 0
    path.write_text("value\n" + "".join(f"{one!r}\n" for one in y.tolist()))
    assert run(["update", str(out), str(path), "--no-report"]) == 0
    assert "40 learned before" in capsys.readouterr().out
    assert run(["forecast", str(path), "-t", "value", "-H", "3", "-o", str(other), "--no-report"]) == 0
    assert_same(out, other)


def test_a_file_that_was_learned_changes_nothing(tmp_path, whole, capsys):
    before = {file.name: file.read_bytes() for file in whole.iterdir() if file.is_file()}
    assert run(["update", str(whole), str(tmp_path / "whole.csv")]) == 0
    assert "was learned already; nothing was changed" in capsys.readouterr().err
    assert {file.name: file.read_bytes() for file in whole.iterdir() if file.is_file()} == before


def test_an_update_that_is_killed_changes_nothing_or_all(tmp_path, whole):
    y, out = seasonal(150, 12), tmp_path / "out"
    first = write(tmp_path / "first.csv", hours(150), y, keep=range(100))
    assert run(["forecast", str(first), "-t", "value", "-H", "5", "-o", str(out), "--no-report", "-q"]) == 0
    more = write(tmp_path / "more.csv", hours(150), y, keep=range(100, 150))
    code = (
        "import os, signal, sys\n"
        "from undrift import store\n"
        "from undrift.cli.app import run\n"
        "count, real = [0], os.replace\n"
        "def replace(a, b):\n"
        "    count[0] += 1\n"
        "    if count[0] == int(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(a, b)\n"
        "os.replace = replace\n"
        "run(['update', sys.argv[2], sys.argv[3], '--no-report', '-q'])\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, "4", str(out), str(more)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert state(out)["rows"] in (100, 150)
    if state(out)["rows"] == 100:
        assert run(["update", str(out), str(more), "--no-report", "-q"]) == 0
    assert_same(out, whole)


def test_several_series_in_long_and_wide_files_are_the_same(tmp_path):
    Y = np.column_stack([seasonal(80, 8), seasonal(80, 8, seed=1)])
    Y[10, 1] = np.nan
    wide = write(tmp_path / "wide.csv", hours(80), Y, ("a", "b"))
    times, lines = hours(80), ["unique_id,ds,y"]
    lines += [f"{name},{times[i]},{Y[i, s]!r}" for s, name in enumerate("ab") for i in range(80) if Y[i, s] == Y[i, s]]
    (tmp_path / "long.csv").write_text("\n".join(lines).replace("np.float64(", "").replace(")", "") + "\n")
    assert run(["forecast", str(wide), "-t", "a,b", "-H", "3", "-o", str(tmp_path / "w"), "--no-report"]) == 0
    long = str(tmp_path / "long.csv")
    arguments = ["-t", "y", "--series", "unique_id", "-H", "3", "-o", str(tmp_path / "l"), "--no-report"]
    assert run(["forecast", long, *arguments]) == 0
    assert_same(tmp_path / "w", tmp_path / "l")


def test_missing_and_repeated_times_are_counted(tmp_path, capsys):
    y = seasonal(60, 12)
    keep = [*range(20), 19, 18, *range(25, 60)]
    path = write(tmp_path / "a.csv", hours(60), y, keep=keep)
    out = tmp_path / "out"
    assert run(["forecast", str(path), "-t", "value", "-H", "3", "-o", str(out), "--no-report"]) == 0
    err = capsys.readouterr().err
    assert "2 rows repeat a time" in err
    assert "5 of 60 rows are missing" in err
    holes = y.copy()
    holes[20:25] = np.nan
    model = Forecaster(3)
    model.play(holes[:, None], times=hours(60))
    assert Forecaster.load(out / state(out)["files"]["model"]) == model


@pytest.mark.parametrize(
    "text",
    [
        "value\n1\n",
        "value\n1\n2\n3\n",
        "time,value\n2024-01-01,5\n",
        "time,value\n2024-01-01,5\n2024-01-02,5\n2024-01-03,5\n",
        "time,value\n2024-01-01,5\n2024-01-02,\n2024-01-03,5\n",
        "time,value\n" + "".join(f"20{y:02d}-{m:02d}-01,{m}\n" for y in range(10, 16) for m in range(1, 13)),
    ],
)
@pytest.mark.parametrize("more", [[], ["--season", "5000"], ["--season", "0"]])
def test_tiny_files_give_a_forecast(tmp_path, text, more, capsys):
    (tmp_path / "a.csv").write_text(text)
    out = ["-t", "value", "-o", str(tmp_path / "out"), "--json", *more]
    assert run(["forecast", str(tmp_path / "a.csv"), *out]) == 0
    table = ForecastFolder(tmp_path / "out").read_table(state(tmp_path / "out"), "forecasts")
    assert not table["yhat"].is_null().any()
    assert table["yhat"].is_finite().all()
    assert json.loads(capsys.readouterr().out)["rows"] >= 1


@pytest.mark.parametrize(
    ("text", "arguments", "code", "sentence"),
    [
        ("time,value\n2024-01-01,\n", ["-t", "value"], 3, "is empty in every row"),
        ("time,value\n2024-01-01,x\n", ["-t", "value"], 3, "is a column of numbers"),
        ("time,value\n", ["-t", "value"], 3, "no rows"),
        ("time,value\n2024-01-01,1e80\n", ["-t", "value"], 3, "infinite or larger"),
        ("time,value\n2024-01-01,1\n,2\n2024-01-03,2\n", ["-t", "value"], 3, "'time' is empty"),
        (
            "time,value\n2024-01-01,1\n2024-01-02,1\n2024-01-03,1\n2024-01-03T07:00,1\n",
            ["-t", "value"],
            3,
            "between two",
        ),
        ("time,value\n2024-01-01,1\n", ["-t", "valeu"], 2, "Did you mean 'value'"),
        (
            "id,time,value,price,shop\n1,2024-01-01,1,2,a\n2,2024-01-02,2,2,a\n",
            [],
            2,
            "undrift forecast: name the column to forecast with --target; columns of numbers are value, price\n",
        ),
        (
            "time,shop\n2024-01-01,a\n",
            [],
            2,
            "with --target; there is no column of numbers, columns are time, shop\n",
        ),
        ("time,value\n2024-01-01,1\n", ["-t", "value", "-H", "0"], 2, "horizon must be an integer"),
        ("time,value\n2024-01-01,1\n", ["-t", "value", "--level", "80"], 2, "[0.5, 0.98], got 80.0; 80% is 0.8\n"),
        ("time,value\n2024-01-01,1\n", ["-t", "value", "--season", "day"], 2, "--season must be whole numbers"),
        ("time,value\n2024-01-01,1\n", ["-t", "value", "--known", "value"], 2, "must be different columns"),
        ("s,value\na,1\nb,2\n", ["-t", "value", "--series", "s"], 3, "need a column with times"),
        (
            "value,price\n" + "1,2\n" * 50 + "1,free\n",
            ["-t", "value", "--known", "price"],
            3,
            "pass --na 'free' if it means missing, or leave it out of --known",
        ),
        (
            "value,mine_1\n1,2\n1,high\n",
            ["-t", "value", "--candidate", "mine"],
            3,
            "pass --na 'high' if it means missing, or leave it out of --candidate",
        ),
        (
            "s,time,value\n" + "".join(f"{s},2024-01-0{d},1\n" for d in range(1, 5) for s in "ab"),
            ["-t", "value"],
            3,
            "4 of 8 rows repeat a time; if they are several series, name the column that tells them apart",
        ),
    ],
)
def test_files_that_cannot_be_used_are_one_sentence(tmp_path, text, arguments, code, sentence, capsys):
    (tmp_path / "a.csv").write_text(text)
    assert run(["forecast", str(tmp_path / "a.csv"), *arguments, "-o", str(tmp_path / "out")]) == code
    err = capsys.readouterr().err
    assert sentence in err
    assert "undrift: undrift" not in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_folders_are_not_overwritten_and_resume_finds_them(tmp_path, whole, capsys):
    arguments = ["forecast", str(tmp_path / "whole.csv"), "-t", "value", "-H", "5", "-o", str(whole), "--no-report"]
    assert run(arguments) == 2
    assert "there are forecasts already" in capsys.readouterr().err
    assert run([*arguments, "--resume"]) == 0
    assert "nothing to do" in capsys.readouterr().err
    assert run([*arguments, "--force"]) == 0
    assert run(["update", str(tmp_path / "nowhere"), str(tmp_path / "whole.csv")]) == 2
    assert "nothing to go on with" in capsys.readouterr().err


def test_a_season_longer_than_the_file_is_left_out_of_the_scores(tmp_path, capsys):
    path = write(tmp_path / "a.csv", hours(60), seasonal(60, 12))
    assert run(["forecast", str(path), "-t", "value", "-H", "3", "--season", "500", "-o", str(tmp_path / "o")]) == 0
    shown = capsys.readouterr().out
    assert "than those of the best naive guess, same as last time." in shown
    assert "same as last season" not in shown


def test_the_first_sentence_compares_with_the_better_naive_guess(tmp_path, capsys):
    walk = np.cumsum(np.random.default_rng(2).normal(size=300))
    for name, values, best, other in (
        ("seasonal", seasonal(300, 24), "season", "time"),
        ("walk", walk, "time", "season"),
    ):
        path = write(tmp_path / f"{name}.csv", hours(300), values)
        command = ["forecast", str(path), "-t", "value", "-H", "12", "--season", "24", "-o", str(tmp_path / name)]
        assert run([*command, "--json"]) == 0
        mse = dict(
            zip(("undrift", "time", "season"), json.loads(capsys.readouterr().out)["scores"]["mse"], strict=True)
        )
        assert mse[best] < mse[other]
        assert run([*command, "--force"]) == 0
        first = f"than those of the best naive guess, same as last {best}; "
        assert re.search(rf"Squared errors were [\d.]+% (less|more) {first}", capsys.readouterr().out)
        page = (tmp_path / name / "report.html").read_text()
        assert re.search(rf"Squared errors were [\d.]+% (less|more) {first}", page)


@pytest.mark.parametrize("every", [1, 12])
def test_mase_is_in_units_of_the_season_and_says_so(tmp_path, capsys, every):
    y = seasonal(120, 12)
    path = write(tmp_path / "a.csv", hours(120), y)
    command = ["forecast", str(path), "-t", "value", "-H", "3", "--every", str(every), "-o", str(tmp_path / "o")]
    for season, unit, title in (
        ("12", np.mean(np.abs(y[12:] - y[:-12])), "MASE (season of 12 rows)"),
        ("0", np.mean(np.abs(np.diff(y))), "MASE (unit: one row's move)"),
    ):
        assert run([*command, "--season", season, "--force"]) == 0
        assert title in capsys.readouterr().out
        assert title.replace("'", "&#39;") in (tmp_path / "o" / "report.html").read_text()
        scores = state(tmp_path / "o")["scores"]
        assert scores["mase_rows"] == max(int(season), 1)
        for mae, mase in list(zip(scores["mae"], scores["mase"], strict=True))[: 3 if int(season) else 2]:
            assert mase == pytest.approx(mae / unit)


def test_the_last_season_of_a_missing_value_is_the_one_before(tmp_path):
    y = np.tile([0.0, 5.0, 1.0], 20)
    y[30:33] = np.nan
    path = write(tmp_path / "a.csv", hours(60), y)
    command = ["forecast", str(path), "-t", "value", "-H", "2", "--season", "3", "-o", str(tmp_path / "o")]
    assert run([*command, "--no-report"]) == 0
    assert state(tmp_path / "o")["scores"]["mse"][2] == 0.0


def test_a_season_that_repeats_exactly_is_called_exact(tmp_path, capsys):
    path = write(tmp_path / "a.csv", hours(120), np.sin(2.0 * np.pi * np.arange(120) / 24.0))
    assert run(["forecast", str(path), "-t", "value", "-H", "3", "-o", str(tmp_path / "o"), "--no-report"]) == 0
    assert "same as last season was exact" in capsys.readouterr().out


def test_files_without_a_header_are_forecast(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("".join(f"{k % 7}\n" for k in range(40)))
    arguments = ["-H", "2", "-o", str(tmp_path / "out"), "--no-report"]
    assert run(["forecast", str(tmp_path / "a.csv"), "-t", "0", *arguments]) == 3
    assert "pass --no-header to call the columns c1, c2" in capsys.readouterr().err
    assert run(["forecast", str(tmp_path / "a.csv"), "-t", "c1", "--no-header", *arguments]) == 0
    assert state(tmp_path / "out")["rows"] == 40


def test_a_column_that_counts_rows_is_left_out_without_advice_for_runs(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("id,value\n" + "".join(f"{k},{k % 7}\n" for k in range(40)))
    assert run(["forecast", str(tmp_path / "a.csv"), "-t", "value", "-H", "2", "-o", str(tmp_path / "out")]) == 0
    assert "--features" not in capsys.readouterr().err


@pytest.mark.parametrize("key", [[], ["--key", "shop"]])
def test_the_only_column_of_numbers_is_forecast_without_being_named(tmp_path, key, capsys):
    rows = [f"{k},{when},{k % 2},{k % 5},a" for k, when in enumerate(hours(40))]
    (tmp_path / "a.csv").write_text("\n".join(["id,time,promo,sold,shop", *rows]) + "\n")
    out, named = tmp_path / "out", tmp_path / "named"
    arguments = ["forecast", str(tmp_path / "a.csv"), "--known", "promo", "-H", "2", "--no-report", *key]
    assert run([*arguments, "-o", str(out)]) == 0
    assert (
        "undrift: 'sold' is forecast, the only column of numbers; --target names another\n" in capsys.readouterr().err
    )
    assert run([*arguments, "-t", "sold", "-o", str(named)]) == 0
    assert state(out)["settings"] == state(named)["settings"]
    assert state(out)["settings"]["target"] == ["sold"]


def test_the_target_is_not_looked_for_in_the_standard_input(tmp_path, capsys):
    assert run(["forecast", "-", "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("undrift forecast: name the column to forecast with --target; ")


def test_every_keeps_fewer_origins(tmp_path):
    path, out = write(tmp_path / "a.csv", hours(60), seasonal(60, 12)), tmp_path / "out"
    arguments = ["-t", "value", "-H", "3", "--every", "7", "-o", str(out), "--no-report"]
    assert run(["forecast", str(path), *arguments]) == 0
    table = ForecastFolder(out).read_table(state(out), "forecasts")
    assert table["origin"].unique().sort().to_list() == hours(60)[::7].astype("datetime64[us]").tolist()
    more = write(tmp_path / "b.csv", hours(80), seasonal(80, 12), keep=range(60, 80))
    shutil.copytree(out, tmp_path / "copy")
    assert run(["update", str(out), str(more), "--no-report"]) == 0
    table = ForecastFolder(out).read_table(state(out), "forecasts")
    assert table["origin"].unique().sort().to_list() == hours(80)[::7].astype("datetime64[us]").tolist()


def test_columns_known_in_advance_reach_beyond_the_last_value(tmp_path):
    rng = np.random.default_rng(0)
    known = (rng.random(203) < 0.3).astype(float)
    y = np.append(4.0 * known[:200] + 0.05 * rng.normal(size=200), np.full(3, np.nan))
    path = write(tmp_path / "a.csv", hours(203), np.column_stack([y, known]), ("value", "holiday"))
    out = tmp_path / "out"
    arguments = ["-t", "value", "--known", "holiday", "-H", "3", "-o", str(out), "--no-report"]
    assert run(["forecast", str(path), *arguments]) == 0
    model = Forecaster.load(out / state(out)["files"]["model"])
    assert model.rows == 200
    np.testing.assert_allclose(model.forecast().yhat[0], 4.0 * known[200:], atol=0.8)


@pytest.mark.parametrize("key", [False, True])
def test_two_texts_known_in_advance_are_0_and_1_in_later_files_too(tmp_path, key):
    rng = np.random.default_rng(0)
    known = (rng.random(203) < 0.3).astype(float)
    known[198:] = 1.0
    y = np.append(4.0 * known[:200] + 0.05 * rng.normal(size=200), np.full(3, np.nan))

    def forecast(name, words):
        """Forecast a file, and update it with rows that hold the second text alone."""
        out = tmp_path / name
        rows = [
            f"{when},a,{'' if np.isnan(v) else v},{words[int(k)]}"
            for when, v, k in zip(hours(203), y, known, strict=True)
        ]
        for part, some in (("a", rows[:198]), ("b", rows[198:])):
            (tmp_path / f"{name}-{part}.csv").write_text("\n".join(["time,shop,value,promo", *some]) + "\n")
        options = ["-t", "value", "--known", "promo", "-H", "3", "-o", str(out), *(["--key", "shop"] if key else [])]
        assert run(["forecast", str(tmp_path / f"{name}-a.csv"), *options]) == 0
        assert run(["update", str(out), str(tmp_path / f"{name}-b.csv")]) == 0
        if key:
            return ForecastFolder(out).read_table(state(out), "ahead")["yhat"].to_list()
        return Forecaster.load(out / state(out)["files"]["model"]).forecast().yhat[0].tolist()

    numbers = forecast("numbers", ["0", "1"])
    assert forecast("texts", ["No", "yes"]) == numbers
    assert forecast("later", ["a", "b"]) == numbers  # the later of two other texts is 1


def test_the_table_is_read_by_others(whole):
    name = state(whole)["files"]["forecasts"]
    assert pl.scan_parquet(whole / name).select(pl.len()).collect().item() == 150 * 5


def test_files_mean_what_their_names_say_after_every_command(tmp_path, capsys):
    """Also after an update whose last step failed, as a full disk lets it."""
    rng = np.random.default_rng(0)
    lines = [f"2024-01-{1 + t // 24:02d} {t % 24:02d}:00,{10.0 + np.sin(t) + rng.normal():.6f}" for t in range(120)]
    (tmp_path / "first.csv").write_text("\n".join(["time,load", *lines[:96]]) + "\n")
    (tmp_path / "more.csv").write_text("\n".join(["time,load", *lines[96:]]) + "\n")
    folder = tmp_path / "out"
    words = ["forecast", str(tmp_path / "first.csv"), "-t", "load", "-H", "3", "-o", str(folder), "--no-report"]
    assert run(words) == 0
    names = {"forecasts.parquet", "values.parquet", "model.undrift", "next.csv", "run.json"}
    assert {file.name for file in folder.iterdir()} - {".undrift"} == names
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Folder, "link", lambda *args, **options: (_ for _ in ()).throw(UndriftError("the disk is full")))
        assert run(["update", str(folder), str(tmp_path / "more.csv"), "--no-report"]) == 0
    assert {file.name for file in folder.iterdir()} & names == {"next.csv", "run.json"}
    assert Forecaster.load(folder / ForecastFolder(folder).read_state()["files"]["model"]).rows == 120
    (tmp_path / "last.csv").write_text("time,load\n2024-01-06 00:00,9.5\n")
    assert run(["update", str(folder), str(tmp_path / "last.csv"), "--no-report"]) == 0
    assert {file.name for file in folder.iterdir()} - {".undrift"} == names
    assert ud.load(folder / "model.undrift").rows == 121
