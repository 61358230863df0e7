"""A run: every format gives the same predictions, and they are those of the model fed by hand."""

import gzip
import json

import numpy as np
import polars as pl
import pytest
import zstandard

import undrift as ud
from tests.run.row_files import table, write_csv, write_ndjson
from undrift.run import Settings, play_file, predict_file, read_run, update_run


def played(path, out, **settings):
    state = play_file(str(path), out, Settings(**({"target": "y", "drop": ("hot",)} | settings)))
    assert state["status"] == "finished"
    return read_run(out)


def test_predictions_are_those_of_the_model_by_hand(tmp_path):
    columns = table()
    run = played(write_csv(tmp_path / "t.csv", columns), tmp_path / "run")
    model = ud.OnlineRegressor()
    cities = list(dict.fromkeys(columns["city"]))
    yhat, ends = [], []
    for a, b, city, y in zip(columns["a"], columns["b"], columns["city"], columns["y"], strict=True):
        row = {"a": a, "b": b} | {f"city={name}": float(name == city) for name in cities}
        yhat.append(model.predict(row) if model.rounds else np.nan)
        ends.append(model.predict_interval(row, 0.9))
        model.learn(row, y)
    assert run.yhat.tobytes() == np.array(yhat).tobytes()
    for own, expected in ((run.lower, [one.low for one in ends]), (run.upper, [one.high for one in ends])):
        np.testing.assert_array_equal(own, np.where(np.isfinite(expected), expected, np.nan))
    assert ud.load(tmp_path / "run" / "model.undrift").model == model
    assert run.features == ["a", "b", *(f"city={name}" for name in cities)]
    assert run.line.tolist() == list(range(2, 602))
    assert run.time[25] == np.datetime64("2024-01-02T01:00")
    assert run.y.tolist() == columns["y"]
    assert run.baselines["last value"][1:].tolist() == columns["y"][:-1]
    assert run.baselines["running mean"][10] == pytest.approx(np.mean(columns["y"][:10]))
    families = ["linear", "waves", "context", "hinges and products", "products in context"]
    assert run.candidates == ["level 2", *families, "trees", "last value", "running mean", "robust"]


def test_every_format_gives_the_same_bits(tmp_path):
    columns = table()
    plain = write_csv(tmp_path / "t.csv", columns)
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    small = tmp_path / "t.csv.zst"
    small.write_bytes(zstandard.compress(plain.read_bytes()))
    parquet = tmp_path / "t.parquet"
    frame = pl.DataFrame(columns)
    frame.with_columns(pl.col("when").str.to_datetime()).write_parquet(parquet)
    semicolons = write_csv(tmp_path / "s.csv", columns, delimiter=";")
    bom = tmp_path / "bom.csv"
    bom.write_bytes(b"\xef\xbb\xbf" + plain.read_bytes())
    expected = played(plain, tmp_path / "plain")
    for k, path in enumerate([packed, small, parquet, semicolons, bom, write_ndjson(tmp_path / "t.ndjson", columns)]):
        run = played(path, tmp_path / f"run{k}")
        assert run.yhat.tobytes() == expected.yhat.tobytes(), path
        assert run.time.tolist() == expected.time.tolist(), path
        assert run.features == expected.features, path
    assert run.line.tolist() == list(range(1, 601))


def test_two_classes_are_found_and_predicted_as_log_odds(tmp_path):
    columns = table()
    run = played(write_csv(tmp_path / "t.csv", columns), tmp_path / "run", target="hot", drop=("y",))
    assert (run.task, run.classes) == ("classification", ["no", "yes"])
    assert run.y.tolist() == [float(one == "yes") for one in columns["hot"]]
    assert (run.lower, run.upper) == (None, None)
    assert list(run.baselines)[:2] == ["same as last time", "base rate"]
    flipped = played(tmp_path / "t.csv", tmp_path / "run2", target="hot", drop=("y",), positive="no")
    assert flipped.classes == ["yes", "no"]
    assert flipped.y.tolist() == (1 - run.y).tolist()


def test_the_table_of_two_classes_holds_labels_and_their_probabilities(tmp_path):
    columns = table()
    columns["hot"] = [None if k % 9 == 5 else label for k, label in enumerate(columns["hot"])]
    settings = {"target": "hot", "drop": ("y",), "delay": 2}
    run = played(write_csv(tmp_path / "t.csv", columns), tmp_path / "run", **settings)
    frame = pl.read_parquet(tmp_path / "run" / "predictions.parquet")
    assert frame["y"].to_list() == columns["hot"]
    assert set(frame["yhat"].drop_nulls()) == set(frame["base rate"].drop_nulls()) == {"no", "yes"}
    odds = frame["log_odds"].to_numpy()
    assert frame["p(yes)"].to_numpy() == pytest.approx(1 / (1 + np.exp(-odds)), nan_ok=True)
    assert frame["p(no)"].to_numpy() == pytest.approx(1 - frame["p(yes)"].to_numpy(), nan_ok=True)
    assert frame["yhat"].to_list() == [None if x != x else ("yes" if x > 0.0 else "no") for x in odds.tolist()]
    assert frame.columns[-3:] == ["p(no)", "p(yes)", "log_odds"]
    first = [frame[name][0] for name in ("yhat", "p(yes)", "p(no)", "log_odds", "same as last time", "base rate")]
    assert first == [None] * 6  # nothing was known before the first label
    labelled = frame["y"].is_not_null().to_numpy()
    np.testing.assert_array_equal(run.yhat, odds[labelled])  # to the last bit, as certificates need them
    for name, guess in run.baselines.items():
        said = frame[name].to_numpy()[labelled].tolist()
        assert said == [None if x != x else ("yes" if x > 0.0 else "no") for x in guess.tolist()], name


@pytest.mark.parametrize("version", [1, 2])
def test_a_run_of_an_earlier_version_is_refused_and_can_be_replaced(tmp_path, version):
    path = write_csv(tmp_path / "t.csv", table())
    now = played(path, tmp_path / "run", target="hot", drop=("y",))
    state = tmp_path / "run" / "run.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"format": version}))
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir() if file.is_file()}
    write_csv(tmp_path / "u.csv", table(700))
    settings = Settings(target="hot", drop=("y",))
    for use in (
        lambda: read_run(tmp_path / "run"),
        lambda: update_run(tmp_path / "run", str(tmp_path / "u.csv")),
        lambda: predict_file(tmp_path / "run", str(path)),
        lambda: play_file(str(path), tmp_path / "run", settings, resume=True),
    ):
        with pytest.raises(ud.errors.ModelFileError, match=r"written by an undrift before 0\.3; learn its file again"):
            use()
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir() if file.is_file()} == before
    play_file(str(path), tmp_path / "run", settings, force=True)
    assert read_run(tmp_path / "run").yhat.tobytes() == now.yhat.tobytes()


def test_snapshots_are_thinned_and_sum_to_one(tmp_path):
    run = played(write_csv(tmp_path / "t.csv", table(9000)), tmp_path / "run", speed="fast")
    assert 250 <= len(run.spectrum_round) <= 501
    assert run.spectrum_round[-1] == 9000
    assert (np.diff(run.spectrum_round) > 0).all()
    assert run.spectrum.sum(axis=1) == pytest.approx(1.0)
    assert run.candidate_weights.sum(axis=1) == pytest.approx(1.0)
    assert run.coef.shape == (len(run.coef_round), len(run.coef_names))
    assert run.coef_names[-1] == "(intercept)"
    names = list(run.coef_names)
    assert run.coef[-1, names.index("a")] == pytest.approx(-2.0, abs=0.1)
    assert run.coef[-1, names.index("b")] == pytest.approx(0.1, abs=0.01)
