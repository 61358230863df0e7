"""Serving forecasts: what is learned here is what `undrift update` would learn, once, through kills and refusals."""

import json
import shutil

import numpy as np
import pytest

from tests.serve.server_process import fetch, running_server
from undrift.errors import InputError, RequestSizeError
from undrift.run import forecast_file, update_forecast
from undrift.run.forecast.forecast_folder import ForecastFolder
from undrift.serve.open_service import open_forecasts
from undrift.stream.settings import ForecastSettings

ROWS, FIRST = 145, 100
TIMES = [str(np.datetime64("2024-03-01T00", "h") + t).replace("T", " ") + ":00" for t in range(ROWS)]


def series():
    rng, t = np.random.default_rng(0), np.arange(ROWS)
    return np.column_stack([10.0 + 3.0 * np.sin(t / 4.0) + 0.1 * rng.normal(size=ROWS), rng.normal(size=ROWS).cumsum()])


def make_folder(tmp_path, *, timed=True, names=("load", "wind")):
    """Forecasts after the first 100 rows, and the rows that follow."""
    Y = series()[:, : len(names)]
    rows = [dict(zip(names, y, strict=True)) for y in Y.tolist()]
    rows = [{"when": time, **row} for time, row in zip(TIMES, rows, strict=True)] if timed else rows
    for name, part in (("first.csv", rows[:FIRST]), ("rest.csv", rows[FIRST:])):
        lines = [",".join(part[0]), *(",".join(map(str, row.values())) for row in part)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    settings = ForecastSettings(target=names, time="when" if timed else None, horizon=6)
    forecast_file(str(tmp_path / "first.csv"), tmp_path / "out", settings)
    return tmp_path / "out", rows[FIRST:]


@pytest.mark.parametrize(("timed", "names"), [(True, ("load", "wind")), (False, ("load",))])
def test_rows_are_learned_as_an_update_would_through_kills(tmp_path, timed, names):
    folder, rows = make_folder(tmp_path, timed=timed, names=names)
    twin = tmp_path / "twin"
    shutil.copytree(folder, twin)
    for begin in range(0, len(rows), 15):
        with open_forecasts(folder) as service:
            some = rows[begin : begin + 15]
            assert service.learn(some[:10]) == (10, 0)
            assert service.learn(some) == (5, 10) if timed else service.learn(some[10:]) == (5, 0)
            served = service.forecast()
            if begin < 30:
                service.close = service.journal.close  # nothing is saved at the end, as after kill -9
                broken = service.model.forecast()
        if begin < 30:
            with open_forecasts(folder) as service:
                np.testing.assert_array_equal(service.model.forecast().yhat, broken.yhat)
    update_forecast(twin, str(tmp_path / "rest.csv"))
    expected = ForecastFolder(twin).read_model(ForecastFolder(twin).read_state()).forecast()
    yhat, lower = (np.atleast_2d(part) for part in expected[:2])
    assert {name: [one["yhat"] for one in steps] for name, steps in served["forecasts"].items()} == dict(
        zip(names, yhat.tolist(), strict=True)
    )
    assert [one["lower"] for one in served["forecasts"]["load"]] == lower[0].tolist()
    if timed:
        assert served["last"] == f"{TIMES[-1]}:00"
        assert served["forecasts"]["load"][0]["time"] == "2024-03-07 01:00:00"


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"when": TIMES[FIRST], "rain": 1.0}, "no series 'rain'; a row has 'when' and 'load', 'wind'"),
        ({"when": TIMES[FIRST]}, "a row needs the value of a series: 'load', 'wind'"),
        ({"when": "yesterday", "load": 1.0}, "'when' should be a time like those of the file, got 'yesterday'"),
        ({"when": 7, "load": 1.0}, "'when' should be a time"),
        ({"load": 1.0}, "every row needs its time, as 'when'"),
        ({"when": TIMES[FIRST], "load": "high"}, "'load' must be a number"),
        (
            {"when": "2024-03-05 05:17", "load": 1.0},
            "'when' is 2024-03-05 05:17:00, between two rows: rows are 3600 seconds apart, the last one was at",
        ),
        (
            {"when": "2094-03-05 04:00", "load": 1.0},
            "'when' is 2094-03-05 04:00:00, more than 500 rows ahead: rows are 3600 seconds apart, the last one was at",
        ),
    ],
)
def test_what_is_refused_changes_nothing(tmp_path_factory, cache, row, words):
    if "folder" not in cache:
        cache["folder"] = make_folder(tmp_path_factory.mktemp("refused"))[0]
    with open_forecasts(cache["folder"]) as service:
        before = service.forecast()
        with pytest.raises(InputError, match=words):
            service.learn([{"when": TIMES[FIRST], "load": 1.0}, row])
        assert service.forecast() == before
        assert service.journal.last == 0


@pytest.fixture(scope="module")
def cache():
    return {}


def test_a_row_far_ahead_is_refused_and_may_be_reached_in_parts(tmp_path):
    folder, rows = make_folder(tmp_path, names=("load",))
    last = np.datetime64(rows[0]["when"].replace(" ", "T"))

    def later(steps, **values):
        return {"when": str(last + np.timedelta64(steps, "h")).replace("T", " "), **values}

    with open_forecasts(folder) as service:
        service.learn(rows[:1])
        before = service.forecast()
        for sent in ([later(20_000, load=1.0)], [later(400, load=1.0), later(501, load=1.0)]):
            with pytest.raises(RequestSizeError, match=r"more than 500 rows ahead.*in several requests, null where"):
                service.learn(sent)
            assert service.forecast() == before
            assert service.journal.last == 1
        assert service.learn([later(500, load=None)]) == (1, 0)
        assert service.learn([later(620, load=1.0)]) == (1, 0)
        assert service.model.rows == FIRST + 621
        service.tend()  # missing rows count as rows that a restart would repeat
        assert service.journal.last_snapshot().sequence == 3


def test_rows_without_times_come_in_parts_too(tmp_path):
    folder, rows = make_folder(tmp_path, timed=False, names=("load",))
    with open_forecasts(folder) as service:
        with pytest.raises(RequestSizeError, match="at most 500 new rows, got 501; split it"):
            service.learn(rows[:1] * 501)
        assert service.journal.last == 0


def test_rows_without_times_may_have_numbers(tmp_path):
    folder, rows = make_folder(tmp_path, timed=False, names=("load",))
    numbered = [{"row": FIRST + 1 + i, **row} for i, row in enumerate(rows[:4])]
    with open_forecasts(folder) as service:
        assert service.learn(numbered[:3]) == (3, 0)
        assert service.learn(numbered) == (1, 3)
        with pytest.raises(InputError, match="'row' must be the number of a row, 105 for the next, got 107"):
            service.learn([{"row": 107, "load": 1.0}])


def test_forecasts_are_served_over_http(tmp_path):
    folder, rows = make_folder(tmp_path)
    with running_server(folder) as (_, url):
        first = json.loads(fetch(url + "forecast?level=0.8")[1])
        assert [one["step"] for one in first["forecasts"]["wind"]] == [1, 2, 3, 4, 5, 6]
        assert first["forecasts"]["load"][0]["time"] == f"{TIMES[FIRST]}:00"
        assert fetch(url + "learn", json.dumps({"rows": rows[:2]})) == (200, '{"learned":2,"repeated":0}')
        assert json.loads(fetch(url + "forecast")[1])["last"] == f"{TIMES[FIRST + 1]}:00"
        assert json.loads(fetch(url + "status")[1])["rounds"] == FIRST + 2
        code, text = fetch(url + "learn", '{"rows": [{"load": []}]}')
        assert code == 422
        assert "rows 0 load" in text
        assert fetch(url + "forecast?level=2")[0] == 422
        code, text = fetch(url + "forecast?level=high")
        assert code == 422
        assert json.loads(text)["detail"].startswith("query level: Input should be a valid number")
        assert "ForecastLearnRequest" in fetch(url + "openapi.json")[1]
        assert fetch(url)[0] == 200
