"""A slip in a feature's name is noticed; a new feature is not taken for one."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import undrift as ud
from undrift._internal.names import find_similar
from undrift.errors import InputError
from undrift.online import Table


@pytest.fixture
def model():
    model = ud.OnlineRegressor(speed="fast")
    for t in range(20):
        model.learn({"temp": t % 3, "load": t % 5, "lag_1": t % 2}, float(t % 3))
    return model


ROW = {"temp": 1.0, "load": 2.0, "lag_1": 1.0}


def renamed(old: str, new: str) -> dict[str, float]:
    return {new if name == old else name: value for name, value in ROW.items()}


@pytest.mark.parametrize("slip", ["tmp", "Temp", "temp ", "tepm", "tamp", "temmp", "TEMP"])
def test_a_slip_is_refused_and_nothing_changes(model, slip) -> None:
    before, row = model.copy(), renamed("temp", slip)
    wrong = [
        row,
        [ROW, row],
        pd.DataFrame([row]),
        pl.DataFrame([row]),
        Table(list(row), np.array([list(row.values())])),
    ]
    words = rf"^OnlineRegressor: feature '{slip}' is unknown and 'temp' is missing\. Did you mean 'temp'\? If '{slip}'"
    for z in wrong:
        with pytest.raises(InputError, match=words):
            model.predict(z)
        with pytest.raises(InputError, match=words):
            model.learn(z, 1.0)
        if not isinstance(z, dict):
            with pytest.raises(InputError, match=words):
                model.play(z, np.ones(len(z) if isinstance(z, list) else 1))
        assert model == before


@pytest.mark.parametrize("new", ["wind", "lag_2", "lag_12", "t", "temp_max", "l", "weekday", "temperature outside"])
def test_a_new_name_is_none(model, new) -> None:
    for old in ROW:
        row = renamed(old, new)
        assert np.isfinite(model.predict(row))
        grown = model.copy()
        grown.learn(row, 1.0)
        assert grown.names == [*ROW, new]


def test_a_new_name_beside_the_one_it_resembles_is_welcome(model) -> None:
    model.learn({**ROW, "tmp": 3.0}, 1.0)
    assert model.names == [*ROW, "tmp"]
    assert np.isfinite(model.predict({"tmp": 1.0, "load": 1.0}))  # both are known now


def test_rows_of_a_block_are_taken_one_after_the_other() -> None:
    rows = [{"temp": 1.0, "load": 2.0}, {"tmp": 1.0, "load": 2.0}]
    model = ud.OnlineRegressor(speed="fast")
    with pytest.raises(InputError, match="Did you mean 'temp'"):
        model.play(rows, [1.0, 2.0])
    assert model.rounds == 0
    assert model.names is None
    model.learn(rows[0], 1.0)
    with pytest.raises(InputError, match="Did you mean 'temp'"):
        model.learn(rows[1], 2.0)


def test_river_rows_may_be_sparse_and_gain_names_at_any_time() -> None:
    pytest.importorskip("river")
    from undrift.river import DriftClassifier, DriftRegressor

    for model, labels in ((DriftRegressor(speed="fast"), (1.0, 2.0)), (DriftClassifier(speed="fast"), (True, False))):
        twin = model.clone()
        for t in range(30):
            model.learn_one({"temp": t % 3, "load": t % 5}, labels[t % 2])
            twin.learn_one({"temp": t % 3, "load": t % 5}, labels[t % 2])
        predict = "predict_one" if labels[0] == 1.0 else "predict_proba_one"
        assert getattr(model, predict)({"tmp": 1.0}) == getattr(model, predict)({"temp": 0.0, "load": 0.0})
        model.learn_one({"tmp": 1.0, "load": 2.0}, labels[0])
        twin.learn_one({"tmp": 1.0, "load": 2.0, "temp": 0.0}, labels[0])
        assert model.model == twin.model
        frame = pd.DataFrame({"tempp": [1.0, 2.0], "load": [1.0, 1.0]})
        model.learn_many(frame, pd.Series([labels[0], labels[1]]))
        assert model.model.names == ["temp", "load", "tmp", "tempp"]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("tmp", "temp", True),
        ("windspeed", "wind_speed", True),
        ("windSpeed", "wind speed", True),
        ("temprature outside", "temperature outside", True),
        ("humidty", "humidity", True),
        ("lag_1", "lag_2", False),
        ("lag1", "lag11", False),
        ("sensor_a", "sensor_b", False),
        ("shop north", "shop south", False),
        ("x", "y", False),
        ("up", "us", False),
        ("load", "wind", False),
        ("", "a", False),
    ],
)
def test_what_resembles_what(name, known, meant) -> None:
    assert (find_similar(name, ["something else", known]) == known) is meant
    assert (find_similar(known, [name]) == name) is meant


def test_very_sparse_rows_are_not_searched() -> None:
    assert find_similar("word 00001x", [f"word {k:05d}" for k in range(2000)]) is None
