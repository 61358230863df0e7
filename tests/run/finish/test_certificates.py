"""Certificates of runs: they hold, they are those of the library, and what cannot be certified says why."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import undrift as ud
from tests.run.row_files import table, write_csv
from undrift.errors import ConditionError
from undrift.losses import logistic, squared
from undrift.regret import comparators
from undrift.run import Settings, certify_run, play_file, read_run
from undrift.run.finish import certificates


@pytest.mark.parametrize(("target", "other", "loss"), [("y", "hot", squared), ("hot", "y", logistic)])
def test_a_run_is_certified_against_three_comparators(tmp_path, target, other, loss):
    columns = table(700)
    columns[target][5] = None
    settings = Settings(target=target, drop=(other, "city"))
    play_file(str(write_csv(tmp_path / "t.csv", columns)), tmp_path / "run", settings)
    certify_run(tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert [one["name"] for one in run.certificates] == ["best fixed", "13 pieces", "smooth"]
    assert run.certificates[1]["refit_every"] == 54
    for one in run.certificates:
        assert one["refused"] is None
        assert one["holds"] is True
        assert one["rounds"] == 699
        terms = sum(one[name] for name in ("start", "stability", "variation", "potential_drift", "excess"))
        assert one["bound"] == pytest.approx(terms)
        assert one["slack"] == pytest.approx(one["bound"] - one["regret"])
        assert one["regret"] == pytest.approx(one["own_loss"] - one["comparator_loss"])
        assert one["ratio"] == pytest.approx((one["comparator_loss"] + one["bound"]) / one["comparator_loss"])
        assert one["regret"] <= one["hindsight"]["bound"] <= one["regret"] + 0.3 * one["comparator_loss"]
        assert one["hindsight"]["holds"] is True
        assert one["vacuous"] is (one["bound"] >= one["own_loss"])
    assert run.certificates[1]["words"] == "a linear predictor refitted every 54 rows on average"
    # the best fixed comparator, by hand
    Z = np.array([[np.nan if v is None else v for v in columns[name]] for name in ("a", "b")]).T
    y = np.array([np.nan if v is None else v == "yes" if target == "hot" else v for v in columns[target]], dtype=float)
    model = ud.OnlineClassifier() if target == "hot" else ud.OnlineRegressor()
    trace = model.play(Z, y)
    design = model.design(Z, y)
    limit = {"margin": design.margin} if target == "hot" else {}
    u = comparators.fixed(design.rows, design.labels, loss, **limit)
    known = trace.known[~np.isnan(y)]
    own = loss.value(trace.yhat[~np.isnan(y)], design.labels)[known].sum()
    assert run.certificates[0]["own_loss"] == pytest.approx(own)
    # Neither side is charged where nothing was predicted: there the run's answer counts as the comparator's.
    answered = np.where(trace.known, trace.yhat, np.nan)
    answered[np.flatnonzero(~np.isnan(y))[~known]] = np.sum(u * design.rows, axis=1)[~known]
    by_hand = ud.regret.certify(model, Z, y, replace(trace, yhat=answered), u)
    assert run.certificates[0]["regret"] == pytest.approx(by_hand.regret)
    assert run.certificates[0]["bound"] >= by_hand.bound - 1e-9 * by_hand.scale  # over fewer leaves


def test_a_comparator_that_is_too_large_is_refused_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(certificates, "SMOOTH_NUMBERS", 1000)
    monkeypatch.setattr(certificates, "MAX_ROUNDS", 250)
    monkeypatch.setattr(certificates, "MIN_ROUNDS", 100)
    path = write_csv(tmp_path / "t.csv", table(300))
    play_file(str(path), tmp_path / "run", Settings(target="y", drop=("hot",), speed="fast"))
    certify_run(tmp_path / "run")
    run = read_run(tmp_path / "run")
    assert [one["refused"] is None for one in run.certificates] == [True, True, False]
    assert "the smooth comparator of 250 rounds and 6 columns would take about" in run.certificates[2]["refused"]
    assert run.certificates[0]["rounds"] == 250
    assert "The certificates cover the first 250 rounds of 300: with 6 columns, more would take minutes." in run.notes


def test_progress_is_told_and_runs_that_are_too_wide_are_refused_at_once(tmp_path, monkeypatch):
    path = write_csv(tmp_path / "t.csv", table(300))
    play_file(str(path), tmp_path / "run", Settings(target="y", drop=("hot",), speed="fast"))
    seen = []
    certify_run(tmp_path / "run", lambda doing, done: seen.append((doing, done)))
    assert [done for _, done in seen] == [0.0, 0.0, 0.25, 0.5, 0.75]
    assert seen[2][0] == "certifying against the best linear predictor that never changes"
    monkeypatch.setattr(certificates, "REFUSED_WORK", 300 * 35)
    with pytest.raises(
        ConditionError, match="certifying 300 rounds of 6 columns would take many minutes; leave columns out"
    ):
        certify_run(tmp_path / "run")
    assert any("would take many minutes" in note for note in read_run(tmp_path / "run").notes)


def test_a_smooth_comparator_with_a_margin_keeps_it():
    rng = np.random.default_rng(0)
    Z = np.column_stack((np.ones(900), rng.normal(size=(900, 2))))
    y = np.sign(Z[:, 1] * np.linspace(-3.0, 3.0, 900) + 0.1 * rng.logistic(size=900))
    free = certificates.run_comparators(900, 3, logistic, None)[2].find(Z, y)
    held = certificates.run_comparators(900, 3, logistic, 0.3 * np.abs(Z @ free.T).max())[2].find(Z, y)
    assert np.abs(Z @ held.T).max() <= 0.3 * np.abs(Z @ free.T).max()
    wide = certificates.run_comparators(900, 3, logistic, 1e6)[2].find(Z, y)
    np.testing.assert_allclose(wide, free, atol=1e-3 * np.abs(free).max())


def test_what_cannot_be_certified_says_why(tmp_path):
    path = write_csv(tmp_path / "t.csv", table(300))
    play_file(str(path), tmp_path / "run", Settings(target="y", drop=("hot",)))
    text = path.read_bytes()
    path.write_bytes(text.replace(b"Oslo", b"Bari"))
    with pytest.raises(ConditionError, match=r"t\.csv has changed since the run"):
        certify_run(tmp_path / "run")
    path.unlink()
    with pytest.raises(ConditionError, match=r"cannot be read again: .*t\.csv does not exist"):
        certify_run(tmp_path / "run")
    path.write_bytes(text)
    table_path = tmp_path / "run" / "predictions.parquet"
    frame = pl.read_parquet(table_path)
    frame.with_columns(y=pl.col("y") + 1.0).write_parquet(table_path)
    with pytest.raises(ConditionError, match="the labels in its predictions are not those of"):
        certify_run(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["certificates"] == []


@pytest.mark.parametrize(("rounds", "width", "pieces"), [(5000, 3, 20), (700, 3, 14), (5000, 200, 12), (1000, 600, 2)])
def test_pieces_have_more_rows_than_columns(rounds, width, pieces):
    assert certificates.run_comparators(rounds, width, squared, None)[1].name == f"{pieces} pieces"


def test_pieces_that_would_fit_everything_are_left_out():
    wide = certificates.run_comparators(100, 60, squared, None)[1]
    with pytest.raises(ConditionError, match="2 pieces of 100 rounds with 60 columns would fit almost anything"):
        wide.find(np.ones((100, 60)), np.ones(100))
