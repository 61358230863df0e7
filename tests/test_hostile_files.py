"""Model files made to mislead, with a valid digest: one sentence, little memory, or a model that works."""

import contextlib
import copy
import json
import tracemalloc
import warnings

import numpy as np
import pytest

import undrift as ud
from undrift import store
from undrift.ensemble import MultiOutputRegressor
from undrift.errors import DataError, InputError, ModelFileError

VALUES = (None, -1, 10**5, 10**6, 10**40, "text", {"0": "a"}, {"float": "x"}, [1])


@pytest.fixture(autouse=True)
def _no_waiting_for_disks(monkeypatch) -> None:
    monkeypatch.setattr("os.fsync", lambda file: None)


def named_regressor() -> ud.OnlineRegressor:
    model = ud.OnlineRegressor()
    for t in range(300):
        model.learn({"a": t % 5, "b": t % 3} if t < 280 else {"a": t % 5, "b": t % 3, "later": 1.0}, float(t % 5))
    return model


def played(model: ud.Learner) -> ud.Learner:
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(30, 2))
    model.play(Z, np.sign(Z[:, 0]) if model.binary else Z[:, 0])
    return model


def played_outputs(model: ud.Learner) -> MultiOutputRegressor:
    Z = np.random.default_rng(0).normal(size=(30, 2))
    several = MultiOutputRegressor(model, 2)
    several.play(Z, np.column_stack([Z[:, 0], -Z[:, 1]]))
    return several


def played_series(series: int, season: int | None, **times: object) -> ud.Forecaster:
    model = ud.Forecaster(2, season)
    values = np.random.default_rng(0).normal(size=(50, series))
    model.play(values if series > 1 else values[:, 0], **times)
    return model


def played_stream(kind: str) -> ud.Stream:
    rows = [
        {"when": f"2024-01-{1 + t // 24:02d}T{t % 24:02d}:00", "x": None if t % 9 == 0 else t % 5, "few": "ab"[t % 2]}
        | {"many": f"m{t % 30}", "y": t % 7 + 0.5 if kind == "numbers" else ["low", "mid", "high"][t % 3]}
        for t in range(90)
    ]
    more = {"lag": [1, 3], "calendar": True, "elapsed": True} if kind == "numbers" else {"task": "multiclass"}
    stream = ud.Stream("y", speed="light", categories=5, **more)
    stream.play(rows[:80])
    stream.ask(rows[80:83], ["a", "b", 7])
    return stream


MODELS = {
    "stream": lambda: played_stream("numbers"),
    "stream of classes": lambda: played_stream("classes"),
    "vaw": lambda: played(ud.DiscountedVAW(half_life=float("inf"))),
    "aioli": lambda: played(ud.DiscountedAIOLI(curvature=0.5)),
    "mean": lambda: played(ud.DiscountedMean()),
    "ensemble": lambda: played(
        ud.Ensemble([ud.DiscountedVAW(), ud.Zero(), ud.Ensemble([ud.DiscountedMean()])], prior=[1, 2, 3])
    ),
    "linear ensemble": lambda: played(ud.linear_ensemble(100)),
    "logistic ensemble": lambda: played(ud.logistic_ensemble(1.0, 1.0)),
    "regressor": named_regressor,
    "classifier": lambda: played(ud.OnlineClassifier(indicators=True)),
    "outputs of one design": lambda: played_outputs(ud.Ensemble([ud.DiscountedVAW(beta=b) for b in (0.5, 0.9)])),
    "outputs": lambda: played_outputs(ud.DiscountedMean()),
    "forecaster": lambda: played_series(1, 4),
    "forecaster of series": lambda: played_series(2, None, times=np.arange(50).astype("datetime64[h]")),
}


def places(header: dict, path: tuple = ()):
    """Yield the way to every entry of a header."""
    for key, value in header.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from places(value, (*path, key))


def changed(header: dict, path: tuple, value: object) -> dict:
    """Return a copy with one entry replaced, or left out if the value is `...`."""
    header = copy.deepcopy(header)
    inner = header
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return header


def loaded(path) -> ud.Learner | None:
    """Load a file, or see it refused in one sentence."""
    try:
        with contextlib.suppress(ModelFileError):
            return ud.Forecaster.load(path)
        with contextlib.suppress(ModelFileError):
            return MultiOutputRegressor.load(path)
        return ud.load(path)
    except ModelFileError as error:
        text = str(error)
    assert text.startswith(str(path)), text
    assert "\n" not in text, text
    assert len(text) < len(str(path)) + 400, text
    return None


def use(model: ud.Learner | None) -> None:
    """Predict and learn a row, unless the model refuses it."""
    if model is None:
        return
    if isinstance(model, ud.Stream):
        row = {"when": "2024-02-01T05:00", "x": 2.5, "few": "a", "many": "new"}
        for call in (model.predict, model.explain, model.ask):
            with contextlib.suppress(InputError, DataError):
                call(row)
        for serial in model.waiting:
            with contextlib.suppress(InputError, DataError):
                model.tell(serial, 1.5)
        with contextlib.suppress(InputError, DataError):
            model.play([{**row, "y": 1.5}])
        return
    if isinstance(model, ud.Forecaster):
        core = model._core
        time = {"time": np.datetime64("1970-01-04")} if core is not None and core.shape.timed else {}
        with contextlib.suppress(InputError), np.errstate(all="ignore"):
            model.observe(0.5 if model._flat else np.full(2, 0.5), **time)
            model.forecast()
        return
    named = getattr(model, "names", None)
    z = dict.fromkeys(model.names, 0.5) if named else np.linspace(-1.0, 1.0, model.dim or 2)
    with contextlib.suppress(InputError), np.errstate(all="ignore"):
        model.predict(z)
        model.learn(z, np.ones(model.outputs) if isinstance(model, MultiOutputRegressor) else 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_no_header_breaks_load(name, tmp_path) -> None:
    path = tmp_path / "model.undrift"
    MODELS[name]().save(path)
    header, arrays = store.read(path)
    size = path.stat().st_size
    warnings.simplefilter("ignore")  # another kernel level, said to be used
    assert loaded(path) is not None
    for place in places(header):
        for value in (..., *VALUES):
            store.write(path, changed(header, place, value), arrays)
            tracemalloc.start()
            try:
                model = loaded(path)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            use(model)
            assert peak < 20 * size + 10_000_000, (place, value, peak)  # a row of a million features is 8 MB


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_no_array_breaks_load(name, tmp_path) -> None:
    """Arrays of other shapes, left out, or with numbers no learner writes."""
    path = tmp_path / "model.undrift"
    MODELS[name]().save(path)
    header, arrays = store.read(path)
    for key, array in arrays.items():
        without = {other: one for other, one in arrays.items() if other != key}
        wrong = [array[:0], np.concatenate((array, array)), np.zeros(())]
        spoiled = [np.full_like(array, value) for value in (np.nan, -1.0, 0.0, 1e300, 1e9)]
        for other in (None, *wrong, *spoiled):
            store.write(path, header, without if other is None else {**arrays, key: other})
            use(loaded(path))


def test_deep_nesting_is_refused(tmp_path, monkeypatch) -> None:
    path = tmp_path / "model.undrift"
    played(ud.Ensemble([ud.DiscountedMean()])).save(path)
    header, arrays = store.read(path)
    nested: dict = {**header, "dim": None, "rounds": 0}
    for _ in range(300):  # an ensemble in an ensemble in an ensemble, each of them whole
        nested = {**header, "dim": None, "rounds": 0, "members": {"0": nested}}
    store.write(path, nested, {})
    use(loaded(path))
    text = '{"format": 1, "class": "Ensemble", "members": ' + '{"0":' * 100_000 + "1" + "}" * 100_000 + "}"
    monkeypatch.setattr(
        store.json,
        "dumps",
        lambda value, **how: text if "format" in value else json.encoder.JSONEncoder().encode(value),
    )
    store.write(path, header, arrays)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="the header is damaged"):
        ud.load(path)


def test_the_same_model_is_the_same_file(tmp_path) -> None:
    for name, make in MODELS.items():
        model = make()
        files = []
        for k in range(4):
            model.copy().save(tmp_path / f"{k}")
            files.append((tmp_path / f"{k}").read_bytes())
        assert len(set(files)) == 1, name


def test_the_file_is_an_ordinary_safetensors_file(tmp_path) -> None:
    from safetensors.numpy import load_file

    model = named_regressor()
    model.save(tmp_path / "model")
    arrays = load_file(tmp_path / "model")
    saved = model.snapshot()[1]
    assert arrays.keys() == saved.keys()
    for name, array in saved.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == np.float64
