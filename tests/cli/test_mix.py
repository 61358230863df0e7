"""undrift mix: forecasts in the columns of a file, combined and scored."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.report.formatting import percent
from undrift.run.mix import mix_file
from undrift.stream.cells import BATCH_ROWS
from undrift.stream.settings import MixSettings

NAMES = ["ours", "supplier", "old"]


def forecasts(rows=300, seed=0):
    """Return labels and forecasts: the last three labels are missing, one further up, and some forecasts."""
    rng = np.random.default_rng(seed)
    y = 50.0 + np.cumsum(rng.normal(size=rows))
    Z = y[:, None] + rng.normal(size=(rows, 3)) * [1.0, 1.5, 4.0]
    y[[20, -3, -2, -1]] = np.nan
    Z[30:60, 1] = np.nan
    Z[70] = np.nan
    return y, Z


def write(y, Z, name="f.csv", **others):
    """Write a file, missing numbers as empty cells."""
    columns = {**others, "y": y} | dict(zip(NAMES, Z.T, strict=True))
    pl.DataFrame(columns).fill_nan(None).write_csv(name)


def mixed(call, *options):
    """Return the predictions and what was printed as JSON."""
    code, out, err = call("mix", "f.csv", "-t", "y", *options, "--json", "-o", "o.parquet")
    assert code == 0, err
    return pl.read_parquet("o.parquet"), json.loads(out)


@pytest.mark.parametrize(
    ("options", "loss", "quantile", "delay"),
    [
        ([], "squared", None, 0),
        (["--loss", "absolute"], "absolute", None, 0),
        (["--loss", "quantile", "--quantile", "0.8"], "quantile", 0.8, 0),
        (["--delay", "7"], "squared", None, 7),
    ],
)
@pytest.mark.parametrize("rows", [300, BATCH_ROWS + 500])
def test_predictions_weights_and_certificate_are_those_of_the_class(call, options, loss, quantile, delay, rows):
    y, Z = forecasts(rows)
    write(y, Z)
    frame, facts = mixed(call, *options, "--candidate", "ours,supplier,old")
    mix = ud.Mix(loss, quantile=quantile, names=NAMES)
    trace = mix.play(Z, y, delay=delay)
    assert frame["yhat"].to_numpy().tobytes() == trace.yhat.tobytes()
    np.testing.assert_array_equal(frame["y"].to_numpy(), y)
    assert frame["line"].to_list() == list(range(2, rows + 2))
    assert [score["weight"] for score in facts["scores"]] == [*mix.weights.tolist(), None]
    assert [score["cost"] for score in facts["scores"]] == [*mix.cost().tolist(), None]
    found = mix.certificate()
    assert [facts["certificate"][name] for name in ("total_loss", "bound", "excess")] == [*found[:3]]
    assert facts["certificate"]["combination"] == (None if loss != "squared" else found.combination.tolist())


def test_delayed_labels_change_the_predictions(call):
    y, Z = forecasts()
    write(y, Z)
    assert mixed(call)[0]["yhat"].to_list() != mixed(call, "--delay", 7)[0]["yhat"].to_list()


def test_scores_are_over_the_rows_in_which_each_has_a_forecast(call):
    y, Z = forecasts()
    write(y, Z)
    _, facts = mixed(call)
    yhat = ud.Mix().play(Z, y).yhat
    present = ~np.isnan(Z).all(axis=1)
    mean, median = np.full(len(y), np.nan), np.full(len(y), np.nan)
    mean[present], median[present] = np.nanmean(Z[present], axis=1), np.nanmedian(Z[present], axis=1)
    answers = [*Z.T, mean, median, np.where(present, yhat, np.nan)]
    assert [score["name"] for score in facts["scores"]] == [*NAMES, "mean", "median", "mix"]
    assert [score["kind"] for score in facts["scores"]] == ["candidate"] * 3 + ["combined"] * 2 + ["mix"]
    for score, answer in zip(facts["scores"], answers, strict=True):
        used = ~np.isnan(answer - y)
        error = (answer - y)[used]
        assert score["rows"] == used.sum()
        assert score["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-12)
        assert score["rmse"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-12)
        assert score["mix_error"] == pytest.approx(np.sqrt(((yhat - y)[used] ** 2).mean()), rel=1e-12)
    assert [score["rows"] for score in facts["scores"]] == [295, 265, 295, 295, 295, 295]
    assert facts["best"] == "ours"


def test_the_score_of_a_quantile_is_its_pinball_loss(call):
    y, Z = forecasts()
    write(y, Z)
    _, facts = mixed(call, "--loss", "quantile", "--quantile", "0.8")
    error = (y - Z[:, 0])[~np.isnan(y - Z[:, 0])]
    assert facts["scores"][0]["pinball"] == pytest.approx(np.maximum(0.8 * error, -0.2 * error).mean(), rel=1e-12)
    assert not {"mae", "rmse"} & set(facts["scores"][0])
    assert (facts["loss"], facts["quantile"]) == ("quantile", 0.8)


def test_a_few_lucky_rows_do_not_make_the_best_candidate(call):
    rng = np.random.default_rng(1)
    y = rng.normal(size=200)
    good, poor, lucky = y + 0.1 * rng.normal(size=200), y + rng.normal(size=200), np.full(200, np.nan)
    lucky[50] = y[50]
    write(y, np.column_stack([good, poor, lucky]))
    _, facts = mixed(call)
    assert facts["scores"][2]["rmse"] == 0.0
    assert facts["best"] == "ours"


def test_the_json_has_these_fields(call):
    y, Z = forecasts()
    write(y, Z, day=[f"2024-{1 + k // 28:02d}-{1 + k % 28:02d}" for k in range(300)])
    _, facts = mixed(call)
    assert list(facts) == [
        "file", "target", "loss", "quantile", "rows", "scored_rows", "best", "scores", "certificate", "next", "out",
        "notes",
    ]  # fmt: skip
    assert (facts["file"], facts["target"], facts["rows"], facts["scored_rows"]) == ("f.csv", "y", 300, 295)
    assert set(facts["scores"][0]) == {"name", "kind", "rows", "rmse", "mae", "mix_error", "weight", "cost"}
    assert set(facts["certificate"]) == {"total_loss", "bound", "excess", "combination"}
    assert facts["out"] == "o.parquet"


def test_rows_without_a_label_at_the_end_are_the_forecast_to_come(call):
    y, Z = forecasts()
    write(y, Z, day=[f"2024-{1 + k // 28:02d}-{1 + k % 28:02d}" for k in range(300)])
    mix = ud.Mix()
    mix.play(Z[:-3], y[:-3])
    expected = mix.predict(Z[-3:]).tolist()
    frame, facts = mixed(call)
    assert facts["next"]["yhat"] == expected
    assert facts["next"]["line"] == [299, 300, 301]
    assert facts["next"]["time"] == ["2024-11-18", "2024-11-19", "2024-11-20"]
    assert frame["yhat"].to_list()[-3:] == expected
    assert frame["y"].to_list()[-3:] == [None] * 3
    code, out, _ = call("mix", "f.csv", "-t", "y")
    assert code == 0
    lines = out.splitlines()
    last = [line.split() for line in lines if line.strip()][-3:]
    assert last == [
        [str(line), day, f"{yhat:.6g}"]
        for line, day, yhat in zip(facts["next"]["line"], facts["next"]["time"], expected, strict=True)
    ]


def test_of_many_rows_to_come_the_first_and_the_last_are_printed(call):
    y, Z = forecasts()
    y[-40:] = np.nan
    write(y, Z)
    _, out, _ = call("mix", "f.csv", "-t", "y")
    shown = [line.split()[0] for line in out.partition("forecast of y")[2].splitlines()[2:] if line.strip()]
    assert shown == ["262", "263", "264", "265", "266", "301"]


def test_without_rows_to_come_none_are_printed(call):
    y, Z = forecasts()
    write(y[:-3], Z[:-3])
    assert mixed(call)[1]["next"] == {"line": [], "yhat": []}
    assert "forecast of y" not in call("mix", "f.csv", "-t", "y")[1]


def test_the_summary_compares_the_mix_and_states_the_bound(call):
    y, Z = forecasts()
    write(y, Z)
    _, facts = mixed(call)
    code, out, err = call("mix", "f.csv", "-t", "y", "--candidate", "ours,supplier,old")
    assert code == 0
    assert err == (
        "undrift: 1 of 300 rows have no forecast at all; the last known label is predicted there, and these rows are "
        "not scored\n"
    )
    assert "'y': 300 rows, 295 with a label and a forecast" in out
    assert "RMSE of the mix there" in out
    ours, _, _, mean, _, mix = (score["rmse"] for score in facts["scores"])
    assert f"The RMSE of the mix is {mix / mean:.3g} times that of the mean of all, and {mix / ours:.3g} times " in out
    bound, excess, total = (facts["certificate"][name] for name in ("bound", "excess", "total_loss"))
    assert excess <= bound < total
    assert f"({percent(bound / total)}); measured:" in out
    assert f"({percent(excess / total)})." in out
    assert "vacuous" not in out


def test_a_bound_above_the_total_loss_is_called_vacuous(call):
    y, Z = forecasts(seed=3)
    write(y[:3], Z[:3])
    mix = ud.Mix()
    mix.play(Z[:3], y[:3])
    assert mix.certificate().bound >= mix.certificate().total_loss
    assert ", which is vacuous; measured:" in call("mix", "f.csv", "-t", "y")[1]


def test_complete_candidates_need_no_column_of_rows(call):
    y, Z = forecasts()
    write(y, np.where(np.isnan(Z), 0.0, Z))
    _, out, _ = call("mix", "f.csv", "-t", "y")
    header = next(line for line in out.splitlines() if "weight now" in line)
    assert header.split() == ["forecast", "RMSE", "MAE", "weight", "now"]


def test_all_other_columns_of_numbers_are_mixed_by_default(call):
    y, Z = forecasts()
    days = [f"2024-{1 + k // 28:02d}-{1 + k % 28:02d}" for k in range(300)]
    others = {"id": range(300), "day": days, "epoch": [1_700_000_000 + 60 * k for k in range(300)]}
    write(y, Z, **others, place=["oslo"] * 300, empty=[None] * 300)
    code, out, err = call("mix", "f.csv", "-t", "y", "--json")
    assert code == 0
    assert [score["name"] for score in json.loads(out)["scores"][:-3]] == NAMES
    assert "mixing all other columns of numbers: ours, supplier, old; --candidate chooses others" in err
    assert "mixing" not in call("mix", "f.csv", "-t", "y", "--candidate", "old")[2]


def test_quiet_prints_no_notes(call):
    y, Z = forecasts()
    write(y, Z)
    code, out, err = call("mix", "f.csv", "-t", "y", "--quiet")
    assert (code, err) == (0, "")
    assert "weight now" in out


def test_a_candidate_without_a_forecast_abstains(call):
    y, Z = forecasts()
    Z[:, 1] = np.nan
    write(y, Z)
    frame, facts = mixed(call, "--candidate", "ours,supplier,old")
    assert facts["scores"][1]["rows"] == 0
    assert facts["scores"][1]["rmse"] is None
    assert "'supplier' has no forecast in any row" in facts["notes"]
    assert frame["yhat"].to_numpy().tobytes() == ud.Mix().play(Z, y).yhat.tobytes()


def test_rows_without_any_forecast_predict_the_last_label(call):
    y, Z = forecasts()
    write(y, Z)
    frame, _ = mixed(call)
    assert frame["yhat"][70] == y[69]


def test_a_single_candidate_is_the_mix(call):
    y, Z = forecasts()
    write(y, Z)
    frame, facts = mixed(call, "--candidate", "ours")
    known = ~np.isnan(Z[:, 0])
    np.testing.assert_array_equal(frame["yhat"].to_numpy()[known], Z[known, 0])
    assert "'ours' is the only candidate, so the mix is equal to it" in facts["notes"]


def test_a_delay_beyond_the_file_learns_nothing_and_says_so(call):
    y, Z = forecasts()
    write(y, Z)
    frame, facts = mixed(call, "--delay", 300)
    assert "no label was learned: --delay 300 is not less than the 300 rows" in facts["notes"]
    known = ~np.isnan(Z).any(axis=1)
    assert frame["yhat"].to_numpy()[known] == pytest.approx(Z[known].mean(axis=1))
    assert "no label was learned" not in str(mixed(call, "--delay", 290)[1]["notes"])
    code, out, _ = call("mix", "f.csv", "-t", "y", "--delay", 300)
    assert code == 0
    assert "Total loss" not in out


def test_candidates_may_have_the_names_of_our_own_lines(call):
    y, Z = forecasts()
    pl.DataFrame({"y": y, "mix": Z[:, 0], "mean": Z[:, 2]}).fill_nan(None).write_csv("f.csv")
    _, facts = mixed(call)
    kinds = [(score["name"], score["kind"]) for score in facts["scores"]]
    assert kinds[:3] == [("mix", "candidate"), ("mean", "candidate"), ("mean", "combined")]
    assert facts["best"] == "mix"


@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.parquet"])
def test_the_output_has_every_row_and_its_time(call, name):
    y, Z = forecasts()
    times = [f"day {k}" for k in range(300)]
    write(y, Z, when=times)
    code, out, _ = call("mix", "f.csv", "-t", "y", "--time", "when", "-o", name, "--candidate", "ours,supplier,old")
    assert code == 0
    assert f"predictions of all rows: {name}" in out
    frame = pl.read_parquet(name) if name.endswith("parquet") else pl.read_csv(name)
    assert frame.columns == ["line", "time", "y", "yhat"]
    assert frame["time"].to_list() == times
    assert frame["yhat"].to_list() == ud.Mix().play(Z, y).yhat.tolist()
    assert frame["y"].null_count() == 4


def test_times_of_parquet_stay_times(call):
    y, Z = forecasts()
    times = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 1, 13, 11), "1h", eager=True)
    frame = pl.DataFrame({"when": times, "y": y} | dict(zip(NAMES, Z.T, strict=True)))
    frame.write_parquet("f.parquet")
    code, out, _ = call("mix", "f.parquet", "-t", "y", "-o", "o.parquet", "--json")
    assert code == 0
    assert pl.read_parquet("o.parquet")["time"].to_list() == times.to_list()
    assert json.loads(out)["next"]["time"][-1].startswith("2024-01-13T11:00")
    assert json.loads(out)["next"]["line"] == [298, 299, 300]


def test_the_file_that_was_there_stays_if_the_data_are_bad(call):
    Path("o.csv").write_text("before")
    Path("f.csv").write_text("y,a\n1,2\n2,x\n3,4\n")
    assert call("mix", "f.csv", "-t", "y", "--candidate", "a", "-o", "o.csv")[0] == 3
    assert Path("o.csv").read_text() == "before"
    assert sorted(path.name for path in Path().iterdir()) == ["f.csv", "o.csv"]


def test_the_ways_to_read_a_file_are_followed(call):
    y, Z = forecasts()
    rows = [";".join("weg" if x != x else f"{x:.3f}".replace(".", ",") for x in row) for row in np.column_stack([y, Z])]
    Path("f.dat").write_text("\n".join(["größe;a;b;c", *rows]), encoding="latin-1")
    options = ("--encoding", "latin-1", "--delimiter", ";", "--decimal", ",", "--na", "weg", "--format", "csv")
    code, out, err = call("mix", "f.dat", "-t", "größe", *options, "--limit", "100", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 100
    settings = MixSettings(target="größe", encoding="latin-1", delimiter=";", decimal=",", na=("weg",), format="csv")
    exact = ud.Mix().play(Z.round(3), y.round(3)).yhat
    assert mix_file("f.dat", settings).yhat == pytest.approx(exact, rel=1e-12)


def test_the_standard_input_is_read(call, monkeypatch):
    text = b'{"y": 1.0, "a": 1.1, "b": 0.8}\n{"y": 2.0, "a": 2.1, "b": 1.7}\n{"a": 3.0, "b": 2.5}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text))))
    code, out, _ = call("mix", "-", "-t", "y", "--json")
    assert code == 0
    mix = ud.Mix()
    mix.play([[1.1, 0.8], [2.1, 1.7]], [1.0, 2.0])
    assert json.loads(out)["next"]["yhat"] == [mix.predict([3.0, 2.5])]


GOOD = "y,ours,theirs\n1,1.1,0.9\n2,2.2,1.8\n,3.1,3\n"


@pytest.mark.parametrize(
    ("text", "options", "code", "sentence"),
    [
        (GOOD, ["-t", "z"], 2, "--target 'z': f.csv has no such column; there are y, ours, theirs."),
        (
            GOOD,
            ["-t", "y", "--candidate", "ours,their"],
            2,
            "--candidate 'their': f.csv has no such column; there are y, ours, theirs. Did you mean 'theirs'?",
        ),
        (GOOD, ["-t", "y", "--time", "day"], 2, "--time 'day': f.csv has no such column"),
        (GOOD, ["-t", "y", "--candidate", "y"], 2, "the candidate 'y' cannot be the target"),
        (GOOD, ["-t", "y", "--candidate", "ours,ours"], 2, "candidate must not have 'ours' twice"),
        (GOOD, [], 2, "--target COLUMN"),
        (GOOD, ["-t", "y", "--loss", "cubic"], 2, "loss must be one of squared, absolute, quantile, got 'cubic'"),
        (
            GOOD,
            ["-t", "y", "--loss", "quantile"],
            2,
            "undrift mix: --loss quantile needs --quantile LEVEL in (0, 1), and no other loss takes it",
        ),
        (GOOD, ["-t", "y", "--quantile", "0.9"], 2, "and no other loss takes it"),
        (GOOD, ["-t", "y", "--loss", "quantile", "--quantile", "1.5"], 2, "quantile must be in (0, 1), got 1.5"),
        (GOOD, ["-t", "y", "--delay", "-1"], 2, "delay must be"),
        (
            GOOD,
            ["-t", "y", "-o", "o.xml"],
            2,
            "o.xml: predictions are written as .csv, .csv.gz, .parquet; got .xml",
        ),
        (GOOD, ["-t", "y", "-o", "nowhere/o.csv"], 2, "nowhere: cannot be written"),
        (
            "y,place\n1,oslo\n2,rome\n",
            ["-t", "y"],
            2,
            "f.csv has no column of numbers besides the target 'y'; add a column for each forecast",
        ),
        ("y,a\n1,2\n", ["-t", "y"], 3, "f.csv has one row; mixing needs at least two, as weights are learned row by"),
        ("y,a\n", ["-t", "y"], 3, "f.csv has no rows, only a header"),
        ("y,a\n,2\n,3\n", ["-t", "y"], 3, "f.csv: the target 'y' is missing in all 2 rows; is it the right column?"),
        (
            "y,a\n1,\n2,\n",
            ["-t", "y", "--candidate", "a"],
            3,
            "f.csv: all candidates are missing in all 2 rows; are they the right columns?",
        ),
        (
            "y,a\n1,\n2,\n,3\n",
            ["-t", "y", "--candidate", "a"],
            3,
            "f.csv: no row has both a forecast and a value of 'y'; nothing can be learned",
        ),
        (
            "y,a\n1,2\n2,soon\n3,4\n",
            ["-t", "y", "--candidate", "a"],
            3,
            "f.csv, line 3: 'a' is a column of numbers, got 'soon'; correct the cell, pass --na 'soon' if it means "
            "missing, or leave it out of --candidate",
        ),
        (
            "y,a\n" + "1,2\n" * 20 + "2,soon\n",
            ["-t", "y"],
            3,
            "f.csv, line 22: 'a' is a column of numbers, got 'soon'; correct the cell, pass --na 'soon' if it means "
            "missing, or name the columns to mix with --candidate",
        ),
        ("y,a\n1,2\nhigh,3\n", ["-t", "y"], 3, "f.csv, line 3: 'y' is a column of numbers, got 'high'"),
        (
            "y,a\n1,2\n2,inf\n",
            ["-t", "y"],
            3,
            "f.csv, line 3: 'a' is inf, but numbers are at most 1e+75 in size; correct the cell, or leave it empty",
        ),
    ],
)
def test_bad_input_is_one_sentence(call, text, options, code, sentence):
    Path("f.csv").write_text(text)
    exit_code, out, err = call("mix", "f.csv", *options, "--quiet")
    assert (exit_code, out) == (code, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_file_must_be_named(call):
    code, _, err = call("mix", "-t", "y")
    assert code == 2
    assert err == "undrift: name a file to learn from: undrift mix FILE --target COLUMN\n"
    assert "nothing.csv does not exist" in call("mix", "nothing.csv", "-t", "y")[2]
