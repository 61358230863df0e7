"""`--alert` and `--quantiles` of forecasts, of series together and by key."""

import json

import numpy as np
import polars as pl
import pytest

from tests.run.forecast.test_forecast_files import hours, state
from undrift.cli.app import run
from undrift.errors import InputError
from undrift.forecast import Forecaster
from undrift.run import forecast_file
from undrift.stream.settings import ForecastSettings

ROWS = 320


def write(path, rows, series):
    lines = [f"{hours(ROWS)[t]},{key},{float(y[t])!r}" for t in rows for key, y in series.items()]
    path.write_text("\n".join(["time,shop,value", *lines]) + "\n")
    return str(path)


def make_series(changed=("b",)):
    """Noise whose spread grows in some series after row 200."""
    out = {}
    for k, key in enumerate("abc"):
        noise = np.random.default_rng(k).normal(size=ROWS)
        out[key] = 10.0 + noise * (1.0 + 9.0 * ((np.arange(ROWS) > 200) & (key in changed)))
    return out


@pytest.mark.parametrize("by", ["--key", "--series"])
def test_a_series_that_changes_is_told_day_by_day_as_in_one_file(tmp_path, by, capsys):
    words = ["-t", "value", by, "shop", "-H", "2", "--season", "0", "--alert"]
    series = make_series()
    assert run(["forecast", write(tmp_path / "all.csv", range(ROWS), series), *words, "-o", str(tmp_path / "a")]) == 6
    said = capsys.readouterr().err
    events = state(tmp_path / "a")["events"]
    assert {event["key"] for event in events} == {"b"}
    assert all(201 < event["row"] < 260 for event in events[:1])
    assert f"undrift: row {events[0]['row']} of b: {events[0]['sentence']}\n" in said
    page = (tmp_path / "a" / "report.html").read_text()
    assert "What changed" in page
    assert events[0]["sentence"] in page
    codes = []
    capsys.readouterr()
    for k, (begin, end) in enumerate(((0, 150), (150, 201), (201, ROWS))):
        file = write(tmp_path / f"{k}.csv", range(begin, end), series)
        command = ["update", str(tmp_path / "b"), file] if k else ["forecast", file, *words, "-o", str(tmp_path / "b")]
        codes.append(run([*command, "--no-report", "--json"]))
        found = json.loads(capsys.readouterr().out)["changes"]
    assert codes == [0, 0, 6]
    assert state(tmp_path / "b")["events"] == events
    assert found == len(events)


def test_series_that_do_not_change_are_left_alone(tmp_path):
    out = tmp_path / "out"
    file = write(tmp_path / "all.csv", range(ROWS), make_series(changed=()))
    for by in ("--key", "--series"):
        assert run(["forecast", file, "-t", "value", by, "shop", "-H", "2", "-o", str(out), "--alert", "--force"]) == 0
        assert state(out)["events"] == []
        assert "What changed" not in (out / "report.html").read_text()


def test_many_series_together_are_not_watched(tmp_path):
    names = [f"s{k}" for k in range(201)]
    (tmp_path / "a.csv").write_text("\n".join([",".join(names), *[",".join(["1"] * 201)] * 3]) + "\n")
    settings = ForecastSettings(target=tuple(names), horizon=1, alert=True)
    with pytest.raises(InputError, match="--alert watches at most 200 series together, got 201; forecast each by"):
        forecast_file(str(tmp_path / "a.csv"), tmp_path / "out", settings)


@pytest.mark.parametrize("key", [[], ["--key", "shop"]])
def test_quantiles_are_the_ends_of_intervals(tmp_path, key):
    series, out = {"a": make_series()["a"]}, tmp_path / "out"
    words = ["-t", "value", "-H", "2", "--quantiles", "0.05,0.3,0.5,0.95", "-o", str(out), "--no-report", "-q", *key]
    assert run(["forecast", write(tmp_path / "a.csv", range(300), series), *words]) == 0
    assert run(["update", str(out), write(tmp_path / "b.csv", range(300, ROWS), series), "--no-report", "-q"]) == 0
    table = pl.read_parquet(out / "forecasts.parquet")
    assert table.columns[7:] == ["q0.05", "q0.3", "q0.5", "q0.95"]
    for mine, end in (("q0.05", "lower"), ("q0.5", "yhat"), ("q0.95", "upper")):
        np.testing.assert_allclose(table[mine].to_numpy(), table[end].to_numpy(), rtol=1e-15)
    truth = np.array([[series["a"][t + h] if t + h < ROWS else np.nan for h in (1, 2)] for t in range(ROWS)]).ravel()
    below = truth[200:-3] < table["q0.3"].to_numpy()[200:-3]
    assert 0.24 < below.mean() < 0.36
    ahead = pl.read_csv(out / "next.csv")
    assert ahead.columns[6:] == ["q0.05", "q0.3", "q0.5", "q0.95"]
    assert ahead["q0.3"].to_list() == table["q0.3"].tail(2).to_list()


def test_quantiles_of_the_library_go_with_several_series_and_have_a_floor():
    Y = np.abs(np.random.default_rng(0).normal(size=(200, 2)))
    model = Forecaster(3)
    trace = model.play(Y, quantiles=(0.01, 0.75))
    assert trace.quantiles.shape == (200, 2, 2, 3)
    np.testing.assert_array_equal(model.quantiles((0.01, 0.75)), trace.quantiles[-1])
    assert (trace.quantiles >= 0.0).all()
    assert (trace.quantiles[20:, :, 1] > trace.yhat[20:]).all()
    with pytest.raises(InputError, match="there is no value to forecast from yet"):
        Forecaster(3).quantiles((0.5,))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--quantiles", "0.001"], "Forecaster: quantiles must be in [0.01, 0.99], got 0.001\n"),
        (["--quantiles", "10"], "Forecaster: quantiles must be in [0.01, 0.99], got 10.0; 10% is 0.1\n"),
        (["--quantiles", "0.1,0.1"], "settings: quantiles must not have 0.1 twice\n"),
        (["--missing", "skip"], "settings: missing must be 'fill' or 'indicators', got 'skip'\n"),
        (["--weight", "w"], "undrift forecast: --weight is not supported: a value is also what later forecasts look"),
        (["--elapsed"], "undrift forecast: --elapsed is not supported: steps ahead need evenly spaced rows, and"),
    ],
)
def test_what_is_refused_is_one_sentence(tmp_path, options, sentence, capsys):
    file = write(tmp_path / "a.csv", range(9), {"a": make_series()["a"]})
    assert run(["forecast", file, "-t", "value", "-o", str(tmp_path / "out"), *options]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
