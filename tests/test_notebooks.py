"""What notebooks show: short texts, tables without markup of the user's, figures, and runs over data frames."""

import html
import logging
import re
import sys

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.errors import InputError, MissingExtraError

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def played():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"temp": rng.normal(size=300), EVIL: rng.normal(size=300)})
    y = 2.0 * frame["temp"].to_numpy() + rng.normal(size=300)
    model = ud.OnlineRegressor(speed="light")
    return model, frame, y, model.play(frame, y, interval=0.9)


def cells(text):
    """Return the facts of a table by name."""
    rows = re.findall(r"<tr><th[^>]*>(.*?)</th><td>(.*?)</td></tr>", text)
    return {html.unescape(name): html.unescape(value) for name, value in rows}


def test_a_trace_is_said_in_one_short_line(played):
    *_, trace = played
    low, high = trace.yhat.min(), trace.yhat.max()
    said = f"<Trace: 300 rounds of OnlineRegressor; yhat from {low:.4g} to {high:.4g}; with lower, upper>"
    assert repr(trace) == said
    assert repr(ud.Zero().play(np.empty((0, 1)), [])).startswith("<Trace: 0 rounds of Zero; yhat none")
    late = ud.Persistence()
    late.play([[]] * 4, [1.0, 2.0, 3.0, 4.0])
    assert "3 rounds of Persistence after 4 before" in repr(late.play([[]] * 3, [1.0, 2.0, 3.0], delay=2))


def test_tables_hold_facts_and_no_markup_of_others(played):
    model, _, _, trace = played
    for shown in (model, trace, model.line()):
        text = shown._repr_html_()
        assert "<script" not in text
        assert cells(text)
    facts = cells(model._repr_html_())
    assert facts["rounds"] == "300"
    assert facts["features"] == f"temp, {EVIL}"
    assert "half-life" in facts["memory"] or "nothing is forgotten" in facts["memory"]
    assert trace._repr_html_().count("<path") == 3


def test_served_predictions_show_what_was_answered_in_a_line():
    Z = np.random.default_rng(0).normal(size=(60, 2))
    model = ud.OnlineRegressor(speed="light")
    assert repr(model.ask(Z[0])).endswith("serial 1; learned nothing yet>")
    model.play(Z, Z[:, 0])
    served = model.ask(Z[1])
    low, high = served.interval(0.9)
    interval = f"from {low:.4g} to {high:.4g}"
    assert repr(served) == f"<ServedPrediction: yhat {served.yhat:.4g}; 90% interval {interval}; serial 62>"
    assert cells(served._repr_html_()) == {"yhat": f"{served.yhat:.4g}", "90% interval": interval, "serial": "62"}
    classes = ud.OnlineClassifier(speed="light")
    classes.play(Z, [f"class {k % 8}" for k in range(60)])
    several = classes.ask(Z[0])
    numbers = ", ".join(f"{x:.4g}" for x in several.yhat[:6])
    assert repr(several) == f"<ServedPrediction: yhat {numbers} and 2 more; serial 61>"


def test_the_line_has_names(played):
    model = played[0]
    line = model.line()
    assert line.names == ("temp", EVIL)
    assert list(line.as_dict()) == ["temp", EVIL, "(intercept)"]
    assert line.as_dict()["temp"] == line.coef[0]
    plain = ud.OnlineRegressor(speed="light", indicators=True)
    plain.play(np.random.default_rng(1).normal(size=(50, 2)), np.arange(50.0))
    assert plain.line().names == ("z[0]", "z[0] missing", "z[1]", "z[1] missing")
    assert len(plain.line().coef) == 4


def test_classes_and_certificates_have_tables():
    rng = np.random.default_rng(2)
    Z, labels = rng.normal(size=(60, 2)), rng.choice(["a", "b", "c"], 60)
    model = ud.OnlineClassifier(speed="light")
    trace = model.play(Z, labels)
    assert cells(model._repr_html_())["classes"] == "a, b, c"
    assert "3 classes" in repr(trace)
    learner, y = ud.DiscountedVAW(), rng.normal(size=60)
    certificate = ud.regret.certify(learner, Z, y, u=np.ones(2))
    facts = cells(certificate._repr_html_())
    assert facts["regret, measured"] == f"{certificate.regret:.6g}"
    assert facts["regret, at most"] == f"{certificate.bound:.6g}"


def test_a_stream_shows_what_was_decided_and_what_is_wrong_with_its_data():
    stream = ud.Stream("y", speed="light", weight="w")
    assert [*cells(stream._repr_html_())] == ["target", "task", "rows learned"]
    times = ["2024-01-01", "2024-01-03", "2024-01-02"] * 20
    stream.play([{"t": t, "x": None if k == 7 else k % 5, "w": 1, "y": k} for k, t in enumerate(times)])
    facts = cells(stream._repr_html_())
    assert facts["notes"] == "; ".join(stream.notes)
    assert facts["problems of the data"] == "time goes back 't' in 39 rows, missing 'x' in 1 rows"


def test_a_trace_draws_predictions_intervals_and_labels(played):
    _, _, y, trace = played
    figure = trace.plot(y, last=100)
    names = [one.name for one in figure.data]
    assert names == ["interval", "interval", "label", "prediction"]
    assert np.array_equal(figure.data[3].y, trace.yhat[-100:])
    assert figure.data[3].x[0] == 201
    assert "last 100 of 300" in figure.layout.title.text
    assert len(trace.plot(last=None).data[-1].y) == 300
    with pytest.raises(InputError, match=r"Trace\.plot: y must have one value for each of the 300 rounds, got \(2,\)"):
        trace.plot([1.0, 2.0])


def test_a_figure_without_plotly_says_what_to_install(played, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(
        MissingExtraError, match=r"Trace\.plot needs plotly; install it with: pip install 'undrift\[cli\]'"
    ):
        played[3].plot()


def test_a_frame_gives_the_run_of_its_file(played, tmp_path, caplog):
    _, frame, y, _ = played
    table = frame.with_columns(y=pl.Series(y))
    with caplog.at_level(logging.INFO, logger="undrift"):
        done = ud.run_frame(table, tmp_path / "run", target="y", speed="light")
    assert "'y' (a number) from temp" in caplog.text
    table.write_parquet(tmp_path / "same.parquet")
    ud.run.play_file(str(tmp_path / "same.parquet"), tmp_path / "other", ud.run.Settings(target="y", speed="light"))
    assert np.array_equal(done.data.yhat, ud.run.read_run(tmp_path / "other").yhat, equal_nan=True)
    assert done.data.certificates
    assert "What undrift learned about" in done.report.read_text(encoding="utf-8")
    assert repr(done).startswith("<FrameRun: undrift's typical error")
    assert cells(done._repr_html_())["rows"] == "300"
    with pytest.raises(InputError, match=r"run_frame: .*run or run-rows\.parquet beside it is there; .* force=True"):
        ud.run_frame(table, tmp_path / "run", target="y")
    with pytest.raises(InputError, match="run_frame: frame must be a data frame"):
        ud.run_frame(np.ones((3, 2)), tmp_path / "new", target="y")


def test_an_index_of_times_is_the_time(tmp_path):
    pandas = pytest.importorskip("pandas")
    hours = pandas.date_range("2024-01-01", periods=60, freq="h")
    frame = pandas.DataFrame({"x": np.arange(60) % 5, "y": np.arange(60) % 5 * 1.5}, index=hours)
    done = ud.run_frame(frame, tmp_path / "run", target="y", speed="light", certify=False)
    assert done.data.time[1] == np.datetime64("2024-01-01T01", "us")
    assert list(done.data.features) == ["x"]


def test_frames_need_polars_and_say_so(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match="run_frame: needs polars; install it with"):
        ud.run_frame(pl.DataFrame({"y": [1.0]}), tmp_path / "run", target="y")
