"""Columns with predictions made elsewhere, in runs: `--candidate`."""

import numpy as np
import pytest

from tests.run.row_files import table, write_csv
from undrift.errors import DataError, InputError
from undrift.online import OnlineRegressor, Table
from undrift.run import Settings, certify_run, play_file, read_run
from undrift.run.finish.compare import compare_file
from undrift.run.play.run_folder import RunFolder


@pytest.fixture
def columns():
    """A stream with a good vendor, which is silent in every tenth row."""
    columns = table()
    rng = np.random.default_rng(5)
    vendor = np.array(columns["y"]) + 0.05 * rng.normal(size=600)
    columns["vendor"] = [None if t % 10 == 0 else round(float(one), 6) for t, one in enumerate(vendor)]
    columns["chance"] = [round(float(one), 6) for one in 1.0 / (1.0 + np.exp(3.0 - vendor))]
    return columns


def predictions(folder):
    return RunFolder(folder).table(RunFolder(folder).state())["yhat"].fill_null(np.nan).to_numpy()


def test_a_column_is_a_candidate_and_no_feature(columns, tmp_path):
    file = write_csv(tmp_path / "rows.csv", columns)
    settings = Settings(target="y", features=("a", "b"), candidate=("vendor",))
    state = play_file(str(file), tmp_path / "run", settings)
    assert state["features"] == ["a", "b"] == state["coefficients"]
    assert "vendor" in state["candidates"]
    Z = np.array([[np.nan if one is None else one for one in columns[name]] for name in ("a", "b", "vendor")]).T
    again = OnlineRegressor(candidates=["vendor"]).play(Table(["a", "b", "vendor"], Z), np.array(columns["y"]))
    served = predictions(tmp_path / "run")
    assert (served[1:] == again.yhat[1:]).all()
    assert (np.abs(served - np.array(columns["y"]))[300:] < 0.4).mean() > 0.9  # the vendor is heard
    assert "vendor" in read_run(tmp_path / "run").candidates


def test_a_silent_candidate_keeps_its_row(columns, tmp_path):
    columns["b"] = columns["a"]
    file = write_csv(tmp_path / "rows.csv", columns)
    settings = Settings(target="y", features=("a", "b"), candidate=("vendor",), missing="skip")
    assert play_file(str(file), tmp_path / "run", settings)["rows"] == 600


def test_such_runs_are_certified(columns, tmp_path):
    file = write_csv(tmp_path / "rows.csv", columns)
    play_file(str(file), tmp_path / "run", Settings(target="y", features=("a",), candidate=("vendor",)))
    found = certify_run(tmp_path / "run")["certificates"]
    assert found
    assert all(one["holds"] for one in found if one["refused"] is None)


def test_comparisons_judge_the_column_by_itself(columns, tmp_path):
    file = write_csv(tmp_path / "rows.csv", columns)
    _, _, results = compare_file(
        str(file), Settings(target="hot", candidate=("chance",), drop=("y", "vendor")), peers=False
    )
    found = {one.name: one for one in results}
    assert found["chance"].kind == "given"
    label = np.array([one == "yes" for one in columns["hot"]])[1:]
    p = np.array(columns["chance"])[1:]
    assert found["chance"].scores["log-loss"] == pytest.approx(-np.mean(np.log(np.where(label, p, 1.0 - p))))
    assert found["OnlineClassifier (best)"].scores["log-loss"] < found["base rate"].scores["log-loss"]


def test_comparisons_score_a_column_and_everyone_else_in_the_rows_it_has(columns, tmp_path):
    file = write_csv(tmp_path / "rows.csv", columns)
    _, _, results = compare_file(
        str(file), Settings(target="y", candidate=("vendor",), drop=("hot", "chance")), peers=False
    )
    y = np.array(columns["y"])
    mean = np.cumsum(y)[:-1] / np.arange(1, len(y))
    vendor = np.array([np.nan if one is None else one for one in columns["vendor"]])[1:]
    there = ~np.isnan(vendor)
    found = {one.name: one for one in results}
    assert found["vendor"].scores["rmse"] == pytest.approx(np.sqrt(np.mean((vendor - y[1:])[there] ** 2)))
    assert found["vendor"].rows == np.sum(there) < found["running mean"].rows == len(y) - 1
    naive = np.sqrt(np.mean((mean - y[1:])[there] ** 2))
    assert found["running mean"].same_rows["vendor"] == pytest.approx(naive)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"candidate": ("a",), "features": ("a",)}, "candidate 'a' cannot be the target, the time, a feature"),
        ({"candidate": ("y",)}, "candidate 'y' cannot be the target"),
        ({"candidate": ("vendor", "vendor")}, "twice"),
        ({"candidate": ("city",)}, "predictions made elsewhere are numbers"),
        ({"candidate": ("vendr",)}, "Did you mean 'vendor'"),
    ],
)
def test_wrong_candidates_are_refused(columns, tmp_path, changes, sentence):
    file = write_csv(tmp_path / "rows.csv", columns)
    with pytest.raises(InputError, match=sentence):
        play_file(str(file), tmp_path / "run", Settings(**{"target": "y", **changes}))


def test_a_candidate_for_two_classes_is_a_probability(columns, tmp_path):
    columns["chance"][7] = 1.5
    file = write_csv(tmp_path / "rows.csv", columns)
    with pytest.raises(DataError, match=r"line 9: the candidate 'chance' is 1.5, but for two classes"):
        play_file(str(file), tmp_path / "run", Settings(target="hot", candidate=("chance",), drop=("y",)))
