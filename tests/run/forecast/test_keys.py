"""`undrift forecast --key`: every key is a series by itself, day by day as in one file, whatever is killed."""

import json
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from tests.forecast.series import random_walk, seasonal
from tests.helpers import edit_state
from tests.run.forecast.test_forecast_files import hours, state, write
from undrift import store
from undrift.cli.app import run
from undrift.errors import InputError, ModelFileError
from undrift.report.formatting import number
from undrift.run.forecast import certify, keys
from undrift.run.forecast.forecast_folder import ForecastFolder
from undrift.run.forecast.keys import read_shard

STEPS = 4
SERIES = {"a": seasonal(80, 12), "b": 5.0 * seasonal(80, 7, seed=1), "c": random_walk(80)}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(keys, "SHARD_KEYS", 2)


def write_keys(path, rows, *, series=SERIES, begin=None):
    """Write a long file: times outermost, keys innermost; `begin` says from which row on a key has values."""
    times, lines = hours(200), ["time,shop,value"]
    for t in rows:
        lines += [f"{times[t]},{key},{float(y[t])!r}" for key, y in series.items() if t >= (begin or {}).get(key, 0)]
    path.write_text("\n".join(lines) + "\n")
    return path


def forecast(path, out, *more):
    return run(["forecast", str(path), "-t", "value", "-k", "shop", "-H", str(STEPS), "-o", str(out), "-q", *more])


def forecasts(folder):
    assert state(folder)["parts"] == []
    return pl.read_parquet(folder / state(folder)["files"]["forecasts"]).sort("series", "origin", "step")


def contents(folder):
    """Return what must be equal in two folders: forecasts, next steps, scores and states of every key."""
    one, found = ForecastFolder(folder), state(folder)
    models = [one for shard in found["shards"] for one in read_shard(folder / shard["name"])]
    tables = [forecasts(folder), one.read_table(found, "ahead").sort("series", "step"), one.read_table(found, "keys")]
    return tables, {model.key: model for model in models}


def assert_same(a, b):
    (tables, models), (tables2, models2) = contents(a), contents(b)
    for one, other in zip(tables, tables2, strict=True):
        assert one.equals(other)
    assert models.keys() == models2.keys()
    for key, one in models.items():
        assert one.model == models2[key].model
        for name, array in one.scores.arrays().items():
            assert array.tobytes() == models2[key].scores.arrays()[name].tobytes()


def test_every_key_is_forecast_as_if_it_were_alone(tmp_path, capsys):
    path, out = write_keys(tmp_path / "all.csv", range(80)), tmp_path / "out"
    assert forecast(path, out) == 0
    assert "3 keys, 240 rows, 240 of them new" in capsys.readouterr().out
    assert len(state(out)["shards"]) == 2
    found = forecasts(out)
    for key, y in SERIES.items():
        one = write(tmp_path / f"{key}.csv", hours(80), y)
        alone = tmp_path / key
        assert run(["forecast", str(one), "-t", "value", "-H", "4", "-o", str(alone), "--no-report", "-q"]) == 0
        table = pl.read_parquet(alone / state(alone)["files"]["forecasts"])
        mine = found.filter(pl.col("series") == key)
        assert mine.columns == table.columns
        for name in ("origin", "step", "time", "yhat", "lower", "upper"):
            assert mine[name].to_list() == table[name].to_list()
        ahead = ForecastFolder(out).read_table(state(out), "ahead").filter(pl.col("series") == key)
        assert ahead["yhat"].to_list() == table.tail(STEPS)["yhat"].to_list()
        assert ahead["time"].to_list() == table.tail(STEPS)["time"].to_list()


def test_scores_of_a_key_are_those_of_its_forecasts(tmp_path):
    out = tmp_path / "out"
    assert forecast(write_keys(tmp_path / "all.csv", range(80)), out) == 0
    keys_table = ForecastFolder(out).read_table(state(out), "keys")
    for row in keys_table.iter_rows(named=True):
        y = SERIES[row["key"]]
        mine = forecasts(out).filter(pl.col("series") == row["key"])
        yhat, lower, upper = (mine[name].to_numpy().reshape(-1, STEPS) for name in ("yhat", "lower", "upper"))
        at = [(t, h) for t in range(80) for h in range(1, STEPS + 1) if t + h < 80]
        assert row["judged"] == len(at)
        assert row["mse"] == pytest.approx(np.mean([(yhat[t, h - 1] - y[t + h]) ** 2 for t, h in at]))
        assert row["mse_last_time"] == pytest.approx(np.mean([(y[t] - y[t + h]) ** 2 for t, h in at]))
        assert row["mae_last_time"] == pytest.approx(np.mean([abs(y[t] - y[t + h]) for t, h in at]))
        inside = [lower[t, h - 1] <= y[t + h] <= upper[t, h - 1] for t, h in at]
        assert row["coverage"] == pytest.approx(np.mean(inside))
        ends = [(y[t + h] - e, p) for t, h in at if t for e, p in ((lower[t, h - 1], 0.05), (upper[t, h - 1], 0.95))]
        lost = sum(max(p * off, (p - 1.0) * off) for off, p in ends)
        assert row["pinball"] == pytest.approx(lost / 2.0 / len(at))


def test_keys_are_held_against_the_better_of_both_naive_forecasts(tmp_path, capsys):
    series = {"a": seasonal(120, 12), "b": random_walk(120), "c": 5.0 * seasonal(120, 12, seed=1)}
    path = write_keys(tmp_path / "all.csv", range(120), series=series)
    assert forecast(path, tmp_path / "out", "--season", "12", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    table = ForecastFolder(tmp_path / "out").read_table(state(tmp_path / "out"), "keys")
    naive = table.select("mse_last_time", "mse_last_season").to_numpy()
    assert set(np.argmin(naive, axis=1)) == {0, 1}
    ratio = table["mse"].to_numpy() / naive.min(axis=1)
    assert found["median_ratio_to_best_naive"] == pytest.approx(np.median(ratio))
    assert found["better_than_best_naive"] == np.sum(ratio < 1.0)
    assert forecast(path, tmp_path / "again", "--season", "12") == 0
    assert re.search(r"the better of both, by key.*\n.*same as last time", capsys.readouterr().out)


def test_mase_of_keys_is_in_units_of_the_season(tmp_path, capsys):
    for season in (12, 0):
        out = tmp_path / f"{season}"
        assert forecast(write_keys(tmp_path / "all.csv", range(80)), out, "--season", str(season)) == 0
        table = ForecastFolder(out).read_table(state(out), "keys")
        for row in table.iter_rows(named=True):
            y = SERIES[row["key"]]
            before = [y[t - season] if t >= 12 and season else y[t - 1] for t in range(1, 80)]
            assert row["mase"] == pytest.approx(row["mae"] / np.mean(np.abs(y[1:] - before)))
            assert (row["mae_last_season"] is None) == (not season)
        assert f"median MASE over keys: {number(table['mase'].median())} (unit: " in capsys.readouterr().out


def test_day_by_day_with_new_keys_and_old_rows_is_the_same_as_one_file(tmp_path):
    begin = {"c": 50}
    assert forecast(write_keys(tmp_path / "all.csv", range(80), begin=begin), tmp_path / "whole") == 0
    for first, last in ((0, 30), (30, 60), (60, 80)):
        path = write_keys(tmp_path / f"{last}.csv", range(max(0, first - 5), last), begin=begin)
        if first:
            assert run(["update", str(tmp_path / "days"), str(path), "-q"]) == 0
        else:
            assert forecast(path, tmp_path / "days") == 0
    assert_same(tmp_path / "days", tmp_path / "whole")
    assert [one["skipped"] for one in state(tmp_path / "days")["learned"]] == [0, 10, 15]


def test_a_pass_that_was_killed_goes_on(tmp_path):
    path = write_keys(tmp_path / "all.csv", range(80))
    assert forecast(path, tmp_path / "whole") == 0
    code = (
        "import os, signal, sys\n"
        "from undrift.cli.app import run\n"
        "from undrift.run.forecast import keys\n"
        "keys.SHARD_KEYS, keys.COMMIT_SECONDS = 2, -1.0\n"
        "real = keys._KeyPass.learn_shard\n"
        "def learn_shard(self, shard):\n"
        "    if shard == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(self, shard)\n"
        "keys._KeyPass.learn_shard = learn_shard\n"
        "run(['forecast', sys.argv[1], '-t', 'value', '-k', 'shop', '-H', '4', '-o', sys.argv[2], '-q'])\n"
    )
    out = tmp_path / "out"
    killed = subprocess.run([sys.executable, "-c", code, str(path), str(out)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [one["done"] for one in state(out)["learned"]] == [False]
    assert len(state(out)["shards"]) == 1
    assert forecast(path, out) == 2  # there is something already
    other = write_keys(tmp_path / "other.csv", range(80), series={"a": SERIES["b"]})
    assert run(["update", str(out), str(other), "-q"]) == 2
    assert forecast(path, out, "--resume", "--level", "0.8") == 2
    assert forecast(path, out, "--resume") == 0
    assert_same(out, tmp_path / "whole")
    assert state(out)["rows"] == 240


def test_keys_without_times_go_on_behind_what_was_learned(tmp_path):
    rows = [f"{'ab'[t % 2]},{float(y)!r}" for t, y in enumerate(seasonal(60, 12))]
    path, out = tmp_path / "a.csv", tmp_path / "out"
    path.write_text("shop,value\n" + "\n".join(rows[:40]) + "\n")
    assert forecast(path, out) == 0
    path.write_text("shop,value\n" + "\n".join(rows) + "\n")
    assert run(["update", str(out), str(path), "-q"]) == 0
    assert forecast(path, tmp_path / "whole") == 0
    assert_same(out, tmp_path / "whole")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--series", "shop"], "--series forecasts together, --key each by itself; give one of them"),
        (["-t", "other"], "with --series or --key there is one --target; got several"),
        (["-k", "shopp"], "--key 'shopp': "),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(tmp_path, options, says, capsys):
    assert forecast(write_keys(tmp_path / "all.csv", range(8)), tmp_path / "out", *options) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_file_that_was_learned_changes_nothing_and_the_rest_is_json(tmp_path, capsys):
    path, out = write_keys(tmp_path / "all.csv", range(40)), tmp_path / "out"
    assert forecast(path, out, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["keys"], shown["rows"], shown["judged_keys"]) == (3, 120, 3)
    assert run(["update", str(out), str(path), "-q"]) == 0
    assert "was learned already; nothing was changed" in capsys.readouterr().err
    assert forecast(path, out, "--resume") == 0


def test_a_wrong_time_names_its_key(tmp_path, capsys):
    path = write_keys(tmp_path / "all.csv", range(20))
    path.write_text(path.read_text() + "2024-01-02T00:30:00,b,1.0\n")
    assert forecast(path, tmp_path / "out") == 3
    assert "key 'b': " in capsys.readouterr().err


def test_damaged_models_are_one_sentence(tmp_path):
    out = tmp_path / "out"
    assert forecast(write_keys(tmp_path / "all.csv", range(20)), out) == 0
    shard = out / state(out)["shards"][0]["name"]
    read_shard(shard)[0].model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="not the forecasters of some keys"):
        read_shard(tmp_path / "model")
    header, arrays = store.read(shard)
    store.write(tmp_path / "less", header, {name: one for name, one in arrays.items() if name != "0/scores/counts"})
    with pytest.raises(ModelFileError, match="damaged"):
        read_shard(tmp_path / "less")
    store.write(tmp_path / "short", header, {**arrays, "0/scores/counts": np.zeros(1)})
    with pytest.raises(ModelFileError, match="the scores of a key have a wrong shape"):
        read_shard(tmp_path / "short")


def test_forecasters_of_many_keys_are_not_served(tmp_path):
    from undrift.serve.open_service import open_forecasts

    out = tmp_path / "out"
    assert forecast(write_keys(tmp_path / "all.csv", range(20)), out) == 0
    with pytest.raises(InputError, match="many keys cannot be served yet; use update"), open_forecasts(out):
        pass


def test_the_report_lists_keys_worst_first_and_some_are_certified(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    series = {"<b>": random_walk(150), "=a": seasonal(150, 12), "c": seasonal(150, 12, seed=1)}
    words = ["-t", "value", "-k", "shop", "-H", "2", "-o", str(out)]
    assert run(["forecast", str(write_keys(tmp_path / "all.csv", range(130), series=series)), *words]) == 0
    page = (out / "report.html").read_text()
    assert f"report: {out / 'report.html'}" in capsys.readouterr().out
    table = page.split("Keys, the worst first")[1].split("</table>")[0]
    keys_table = pl.read_parquet(out / "keys.parquet")
    ratio = keys_table["mse"] / keys_table.select(pl.min_horizontal("mse_last_time", "mse_last_season")).to_series()
    ranked = keys_table["key"].gather(ratio.arg_sort(descending=True)).to_list()
    shown = [key.replace("<", "&lt;").replace(">", "&gt;") for key in ranked]
    assert re.findall(r'<th scope="row">(.*?)</th>', table) == shown
    names = [one["name"] for one in json.loads(page.split('id="numbers">')[1].split("</script>")[0])["fan"]["series"]]
    assert names == ranked
    assert run(["certify", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["certificates"]
    assert [(one["series"], one["step"]) for one in found] == [(key, step) for key in series for step in (1, 2)]
    assert run(["update", str(out), str(write_keys(tmp_path / "more.csv", range(130, 150), series=series))]) == 0
    assert (out / "report.html").read_text() != page
    monkeypatch.setattr(certify, "SERIES", 1)
    assert run(["certify", str(out)]) == 0
    assert "certified are 1 of 3 keys, those with most rows" in capsys.readouterr().out


def test_keys_without_a_value_have_a_page_without_steps(tmp_path):
    (tmp_path / "a.csv").write_text("shop,value\n" + "a,\nb,\n" * 5)
    out = tmp_path / "out"
    assert run(["forecast", str(tmp_path / "a.csv"), "-t", "value", "-k", "shop", "-o", str(out)]) == 0
    assert "No forecast could be judged yet" in (out / "report.html").read_text()
    assert run(["certify", str(out)]) != 0


def test_an_update_of_keys_that_is_killed_at_any_write_changes_nothing_or_all(tmp_path):
    first, more = write_keys(tmp_path / "a.csv", range(30)), write_keys(tmp_path / "b.csv", range(30, 50))
    assert forecast(write_keys(tmp_path / "all.csv", range(50)), tmp_path / "whole") == 0
    assert forecast(first, tmp_path / "first") == 0
    code = (
        "import os, signal, sys\n"
        "from undrift.cli.app import run\n"
        "from undrift.run.forecast import keys\n"
        "keys.SHARD_KEYS, keys.COMMIT_SECONDS = 2, -1.0\n"
        "count, real = [0], os.replace\n"
        "def replace(a, b):\n"
        "    count[0] += 1\n"
        "    if count[0] == int(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(a, b)\n"
        "os.replace = replace\n"
        "code = run(['update', sys.argv[2], sys.argv[3], '--no-report', '-q'])\n"
        "print(count[0])\n"
    )
    ended = False
    for at in range(2, 60, 4):
        out = tmp_path / f"{at}"
        shutil.copytree(tmp_path / "first", out)
        words = [sys.executable, "-c", code, str(at), str(out), str(more)]
        ended = subprocess.run(words, check=False, capture_output=True).returncode == 0
        assert run(["update", str(out), str(more), "--no-report", "-q"]) == 0
        assert_same(out, tmp_path / "whole")
        if ended:
            break
    assert ended


def test_a_full_disk_leaves_the_keys_as_they_were(tmp_path, monkeypatch, capsys):
    words = ["-t", "value", "-k", "shop", "-H", "4", "-o", str(tmp_path / "out"), "--no-report"]
    first = ["forecast", str(write_keys(tmp_path / "a.csv", range(30))), *words]
    update = ["update", str(tmp_path / "out"), str(write_keys(tmp_path / "b.csv", range(30, 50))), "--no-report"]
    for command in (first, update):
        before = {file.name: file.read_bytes() for file in (tmp_path / "out").glob("[!.]*")}
        for name in ("write_parquet", "sink_parquet"):
            with monkeypatch.context() as patch:
                frame = pl.DataFrame if name == "write_parquet" else pl.LazyFrame
                patch.setattr(frame, name, fill_disk)
                assert run(command) == 1
            error = capsys.readouterr().err.splitlines()[-1]
            assert error.endswith("out: the disk is full; make room, then give the same command again")
            assert {file.name: file.read_bytes() for file in (tmp_path / "out").glob("[!.]*")} == before
        assert run(command) == 0
    assert forecast(write_keys(tmp_path / "all.csv", range(50)), tmp_path / "whole") == 0
    assert_same(tmp_path / "out", tmp_path / "whole")


def fill_disk(*_, **__):
    raise pl.exceptions.ComputeError("parquet: underlying IO error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    "change",
    [
        {"parts": [3]}, {"shards": {}}, {"shards": [{"name": "models-000000.undrift"}]}, {"events": [{"kind": "x"}]},
        {"events": [{"kind": "error grew", "row": "1", "feature": None, "sentence": "s"}]}, {"files": {"keys": "no"}},
        {"plan": {"names": [], "time": None, "clock": "iso", "spacing": 0, "texts": 3}},
    ],
)  # fmt: skip
def test_a_forged_state_of_keys_is_one_sentence(tmp_path, change, capsys):
    out, file = tmp_path / "out", write_keys(tmp_path / "a.csv", range(80))
    assert forecast(file, out) == 0
    edit_state(out / "run.json", **change)
    capsys.readouterr()
    for command in (["update", str(out), str(write_keys(tmp_path / "b.csv", range(70, 80)))], ["certify", str(out)]):
        code = run(command)
        (sentence, *more) = capsys.readouterr().err.splitlines()
        assert code in (2, 3, 5)
        assert not more
        assert str(out) in sentence
