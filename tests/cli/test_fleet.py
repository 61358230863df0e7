"""undrift fleet: one model per key, and what the user hears about them."""

import csv
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import undrift as ud


def pumps(rounds=60, binary=False):
    """Five pumps; the first one drifts, the last one is noise."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(5, 2))
    rows = []
    for n in range(rounds):
        for k in range(5):
            u[k] += rng.normal(scale=0.5 if k == 0 else 0.001, size=2)
            z = rng.normal(size=2)
            y = z @ u[k] + rng.normal(scale=5.0 if k == 4 else 0.1)
            y = float(y > 0.0) if binary else y
            rows.append({"n": n, "pump": f"p{k}", "load": z[0], "speed": z[1], "site": "north", "heat": y})
    return pl.DataFrame(rows)


OPTIONS = ("--key", "pump", "--target", "heat", "--order", "n", "--quiet")


def test_the_report_names_what_matters(call):
    frame = pumps()
    frame.write_csv("pumps.csv")
    lines = Path("pumps.csv").read_text().splitlines()
    lines[20] = lines[20].replace(lines[20].split(",")[2], "broken")
    lines += [lines[-1], ",".join(["60", "", *lines[-1].split(",")[2:]])]
    Path("pumps.csv").write_text("\n".join(lines) + "\n")

    code, out, err = call("fleet", "pumps.csv", *OPTIONS)
    assert (code, err) == (0, "")
    for words in ("5 keys", "not used: site", "worst keys", "shortest memory", "duplicate"):
        assert words in out
    assert "'load' must be a number, got 'broken'" in out
    assert "key 'pump' is missing" in out
    assert f"report: {Path('pumps-fleet', 'report.html')}" in out
    assert "key by key" in Path("pumps-fleet/report.html").read_text(encoding="utf-8")

    code, out, _ = call("fleet", "pumps.csv", *OPTIONS, "--json")  # again: nothing is learned twice
    found = json.loads(out)
    assert found["rounds"] == 299
    assert found["report"] == str(Path("pumps-fleet", "report.html"))
    assert found["worst"][0]["key"] == "p4"
    assert {one["best_naive"] for one in found["worst"]} <= {"last value", "running mean"}
    assert found["drifting"][0]["key"] == "p0"
    assert (found["features"], found["left_out"]) == (["load", "speed"], ["site"])
    rows = list(csv.DictReader(Path("pumps-fleet/predictions.csv").read_text().splitlines()))
    first, *mine = [row["prediction"] for row in rows if row["key"] == "p1" and row["status"] == "ok"]
    kept = frame.filter(pl.col("pump") == "p1")
    model = ud.OnlineRegressor(speed="light")
    yhat = model.play(kept.select("load", "speed").to_numpy(), kept["heat"].to_numpy()).yhat.tolist()
    assert first == ""
    assert [float(one) for one in mine] == yhat[1:]


def test_parquet_times_and_classes(call):
    frame = pumps(binary=True).with_columns(
        when=pl.datetime(2026, 1, 1) + pl.duration(hours=pl.col("n")), pump=pl.col("pump").str.slice(1).cast(pl.Int64)
    )
    frame.drop("n").sample(fraction=1.0, shuffle=True, seed=1).write_parquet("pumps.parquet")
    options = ("--key", "pump", "--target", "heat", "--time", "when", "--drop", "site", "--quiet", "--json")
    code, out, _ = call("fleet", "pumps.parquet", *options, "-o", "out", "--no-report")
    found = json.loads(out)
    assert found["report"] is None
    assert not Path("out", "report.html").exists()
    assert (code, found["task"], found["keys"], found["rounds"], found["problems"]) == (0, "classification", 5, 300, {})


def test_predictions_of_two_classes_are_labels_and_their_probabilities(call):
    frame = pumps(binary=True).with_columns(
        heat=pl.when(pl.col("heat") > 0).then(pl.lit("hot")).otherwise(pl.lit("cold"))
    )
    asked = (pl.col("n") % 10 == 9) & (pl.col("n") > 20)
    frame.with_columns(heat=pl.when(asked).then(None).otherwise("heat")).write_csv("pumps.csv")
    frame.filter(asked).write_csv("labels.csv")
    options = ("--key", "pump", "--target", "heat", "--order", "n", "--drop", "site", "--quiet", "-o", "out")
    assert call("fleet", "pumps.csv", *options, "--positive", "cold", "--no-report")[0] == 0
    assert call("update", "out", "labels.csv", "--no-report")[0] == 0
    rows = list(csv.DictReader(Path("out/predictions.csv").read_text().splitlines()))
    assert {"p(hot)", "p(cold)"} <= set(rows[0])
    truth = {(row["pump"], str(row["n"])): row["heat"] for row in frame.to_dicts()}
    seen = set()
    for row in rows:
        seen.add((row["status"], row["prediction"]))
        assert row["target"] == ("" if row["status"] == "predicted" else truth[row["key"], row["order"]])
        chances = [row["p(hot)"], row["p(cold)"]]
        if row["prediction"]:
            hot, cold = map(float, chances)
            assert hot + cold == pytest.approx(1.0)
            assert row["prediction"] == ("cold" if cold > hot else "hot")
        else:
            assert chances == ["", ""]  # before the first label of its key
    assert seen >= {(status, label) for status in ("ok", "predicted", "labelled") for label in ("hot", "cold")}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("pumps.csv", "--target", "heat"),
            2,
            "key is missing; name the column that says which stream",
        ),
        (("pumps.csv", "--target", "heat", "--key", "tank"), 2, "column 'tank' not found; there are n, pump"),
        (("-", "--target", "heat", "--key", "pump"), 2, "the standard input cannot be read twice"),
        (("pumps.csv", *OPTIONS, "--time", "n"), 2, "give --order or --time, not both"),
        (("pumps.csv", "--target", "heat", "--key", "pump", "--time", "site"), 3, "'north' in 'site' is not a time"),
    ],
)
def test_mistakes_are_one_sentence(call, arguments, code, message):
    pumps(3).write_csv("pumps.csv")
    got, out, err = call("fleet", *arguments)
    assert got == code
    assert message in err
    assert err.count("\n") == 1
    assert not out


def test_keys_csv_holds_what_the_report_says(call):
    pumps().write_csv("pumps.csv")
    assert call("fleet", "pumps.csv", *OPTIONS, "--no-report")[0] == 0
    rows = list(csv.DictReader(Path("pumps-fleet/keys.csv").read_text().splitlines()))
    names = "key rounds mean_loss last_value running_mean skill half_life before lately problems rmse"
    assert list(rows[0]) == names.split()
    assert [row["key"] for row in rows] == [row["key"] for row in sorted(rows, key=lambda row: float(row["skill"]))]
    for row in rows:
        best = min(float(row["last_value"]), float(row["running_mean"]))
        assert float(row["skill"]) == pytest.approx(1.0 - float(row["mean_loss"]) / best)


@pytest.mark.parametrize(
    ("heat", "options", "message"),
    [
        ("hot", ("--task", "regression"), "line 2: 'heat' is a column of numbers, got 'hot'"),
        ("hot", (), "the target 'heat' is 'hot' in every row; there is nothing to learn"),
        ("", (), "the target 'heat' is missing in all 15 rows; there is nothing to learn"),
    ],
)
def test_a_target_that_cannot_be_predicted_is_refused(call, heat, options, message):
    pumps(3).with_columns(heat=pl.lit(heat)).write_csv("pumps.csv")
    code, out, err = call("fleet", "pumps.csv", *OPTIONS, *options)
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert message in err
    assert not Path("pumps-fleet").exists()


def test_a_fleet_that_learned_nothing_is_an_error_that_says_why(call):
    pumps(3).with_columns(load=pl.lit(1e80)).write_csv("pumps.csv")
    code, out, err = call("fleet", "pumps.csv", *OPTIONS, "--features", "load,speed")
    assert (code, out, err.count("\n")) == (3, "", 1)
    assert "no row could be learned; most often (15 rows) because feature 'load' is 1e+80, beyond 1e75" in err
    assert "'load' is 1e+80" in Path("pumps-fleet/predictions.csv").read_text()


@pytest.mark.parametrize("options", [("--order", "n"), ("--time", "when"), ()])
def test_rows_read_in_large_batches_are_those_read_in_small_ones(call, monkeypatch, options):
    """A bad cell spoils its row alone, whatever stands beside it."""
    frame = pumps(1200).with_columns(when=pl.datetime(2026, 1, 1) + pl.duration(hours=pl.col("n")))
    frame.drop("site").write_csv("pumps.csv")
    lines = Path("pumps.csv").read_text().splitlines()
    for at, cell in {30: "broken", 31: "", 4500: "1_0", 4501: "true", 4502: "1e80", 4503: "٣"}.items():
        cells = lines[at].split(",")
        cells[2] = cell
        lines[at] = ",".join(cells)
    lines[40] = lines[40].replace("p4", "")
    Path("pumps.csv").write_text("\n".join(lines) + "\n")
    known = ("--key", "pump", "--target", "heat", "--features", "load,speed", "--no-report", "--quiet", *options)
    assert call("fleet", "pumps.csv", *known, "-o", "quick")[0] == 0
    monkeypatch.setattr("undrift.run.read.csv_file.BATCH_ROWS", 7)
    assert call("fleet", "pumps.csv", *known, "-o", "slow")[0] == 0
    for name in ("predictions.csv", "keys.csv"):
        assert Path("quick", name).read_bytes() == Path("slow", name).read_bytes()
    text = Path("quick/predictions.csv").read_text()
    for words in ("'load' must be a number, got 'broken'", "got '1_0'", "got '٣'", "feature 'load' is 1e+80"):
        assert words in text


def test_keys_of_json_are_told_apart_by_their_text(call):
    keys = (1, True, 1.0, "1", " 1 ", 2**60, None, "-")
    rows = [{"pump": key, "load": 1.0, "heat": 0.5 * n} for n, key in enumerate(keys)]
    Path("pumps.ndjson").write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert call("fleet", "pumps.ndjson", "--key", "pump", "--target", "heat", "-o", "out", "--no-report")[0] == 0
    told = list(csv.DictReader(Path("out/predictions.csv").read_text().splitlines()))
    assert sorted(row["key"] for row in told) == ["", "", "1", "1", "1", "1", str(2**60), "True"]


def test_several_classes_are_labels_with_a_probability_each_and_a_report(call):
    frame = pumps(100)
    level = frame["heat"].to_numpy()
    frame = frame.with_columns(heat=pl.Series(np.array(["cold", "warm", "hot"])[np.digitize(level, [-0.5, 0.5])]))
    frame.write_csv("pumps.csv")
    code, out, _ = call("fleet", "pumps.csv", *OPTIONS, "--json")
    found = json.loads(out)
    assert (code, found["task"], sorted(found["classes"])) == (0, "multiclass", ["cold", "hot", "warm"])
    rows = list(csv.DictReader(Path("pumps-fleet/predictions.csv").read_text().splitlines()))
    own = [row for row in rows if row["key"] == "p1"]
    stream = ud.Stream("heat", features=["load", "speed"], task="multiclass", speed="light")
    stream.infer(frame)
    answers = stream.play(frame.filter(pl.col("pump") == "p1"))
    assert [row["prediction"] for row in own] == [label or "" for label in answers.labels]
    for name, p in zip([f"p({label})" for label in answers.classes], answers.probabilities.T, strict=True):
        assert [row[name] for row in own] == ["" if x != x else repr(x) for x in p.tolist()]
    keys = {row["key"]: row for row in csv.DictReader(Path("pumps-fleet/keys.csv").read_text().splitlines())}
    known = [(row, row["target"]) for row in own[1:]]
    losses = [-np.log(float(row[f"p({label})"]) if row[f"p({label})"] else _left_over(row)) for row, label in known]
    assert float(keys["p1"]["log_loss"]) == pytest.approx(np.mean(losses), rel=1e-9)
    assert float(keys["p1"]["skill"]) > 0.2 > float(keys["p4"]["skill"])
    page = Path("pumps-fleet/report.html").read_text(encoding="utf-8")
    assert "predicting one of several classes" in page
    assert "whether the likeliest class came" in page


def _left_over(row):
    """The probability that is left for a class which was not seen yet."""
    return 1.0 - sum(float(p) for name, p in row.items() if name.startswith("p(") and p)


def test_alerts_are_in_the_folder_the_report_and_the_exit_code(call):
    frame = pumps(400).with_columns(
        heat=pl.when((pl.col("pump") == "p2") & (pl.col("n") > 300)).then(pl.col("n") ** 2).otherwise(pl.col("heat"))
    )
    frame.filter(pl.col("n") < 290).write_csv("first.csv")
    frame.write_csv("all.csv")
    assert call("fleet", "first.csv", *OPTIONS, "--alert", "-o", "out")[0] == 0
    assert json.loads(Path("out/run.json").read_text())["events"] == []
    assert "stayed what they were" in Path("out/report.html").read_text(encoding="utf-8")
    code, out, _ = call("update", "out", "all.csv", "--json")
    events = json.loads(out)["events"]
    assert code == 6
    assert {event["key"] for event in events} == {"p2"}
    rows = list(csv.DictReader(Path("out/predictions.csv").read_text().splitlines()))
    at = rows[events[0]["row"] - 1]
    assert (at["key"], 300 < int(at["order"]) < 330) == ("p2", True)
    assert events == json.loads(Path("out/run.json").read_text())["events"]
    assert events[0]["sentence"] in Path("out/report.html").read_text(encoding="utf-8").replace("&#39;", "'")
    assert call("fleet", "all.csv", *OPTIONS, "--alert", "-o", "whole", "--no-report")[0] == 6
