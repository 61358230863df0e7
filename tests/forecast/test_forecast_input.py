"""What a forecaster cannot use is refused with one sentence, and changes nothing."""

import numpy as np
import pytest

import undrift as ud
from tests.forecast.series import seasonal
from undrift import store
from undrift.errors import InputError, ModelFileError
from undrift.forecast import Forecaster


def model(rows=20):
    one = Forecaster(3)
    one.play(seasonal(rows))
    return one


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"horizon": 0}, "horizon must be an integer in"),
        ({"horizon": 2.5}, "horizon must be an integer in"),
        ({"season": 1}, "season must be an integer in"),
        ({"season": "day"}, "season must be an integer in"),
        ({"season": (2, 3, 4, 5, 6)}, "season must be at most 4 numbers"),
        ({"level": 0.3}, "level must be in"),
        ({"every": 0}, "every must be in"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(given, text):
    with pytest.raises(InputError, match=text):
        Forecaster(**given)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m: m.observe(np.inf), "must be finite"),
        (lambda m: m.observe(1e80), "at most 1e75"),
        (lambda m: m.observe("warm"), "must be an array of numbers"),
        (lambda m: m.observe([1.0, 2.0]), "rows must have 1 series"),
        (lambda m: m.observe(np.ones((2, 1))), "use play for several"),
        (lambda m: m.observe(1.0, known=np.ones((4, 1))), "rows must have 1 series, 0 known columns"),
        (lambda m: m.observe(1.0, known=np.ones((2, 1))), "known must have a row for this row and the next 3"),
        (lambda m: m.observe(1.0, time="2024-01-01"), "and no time as before, got"),
        (lambda m: m.play(np.ones((2, 2, 2))), "must have shape"),
        (lambda m: m.play(np.ones(3), known=np.ones(2)), "known must have at least 3 rows"),
        (lambda m: m.play(np.ones(2), times=["2024-01-01"]), "times must have one for each of 2 rows"),
        (lambda m: m.play(np.ones(2), times=["soon", "later"]), "times must be dates and times"),
        (lambda m: m.play(np.ones(2), times=["2024-01-01", "NaT"]), "times must not be missing, row 1"),
        (lambda m: m.forecast(level=0.2), "level must be in"),
        (lambda m: m.times(), "follow from those of at least two rows"),
        (lambda m: m.save(3), "path must be text"),
    ],
)
def test_what_cannot_be_used_is_refused_and_changes_nothing(call, text):
    one, before = model(), model()
    with pytest.raises(InputError, match=text) as caught:
        call(one)
    assert "\n" not in str(caught.value)
    assert one == before


@pytest.mark.parametrize(
    ("times", "text"),
    [
        (["2024-01-01", "2024-01-01"], "times must go forward"),
        (["2024-01-02", "2024-01-01"], "times must go forward"),
        (["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-03T05:00"], "must be a multiple of 86400 seconds apart"),
        (["2024-01-01", "2024-01-02", "2024-01-03", "2624-01-04"], "rows are missing in one place"),
    ],
)
def test_times_that_form_no_grid_are_refused(times, text):
    one = Forecaster(2)
    with pytest.raises(InputError, match=text):
        one.play(np.arange(float(len(times))), times=times)
    assert one.rows == 0


def test_nothing_to_forecast_from_is_one_sentence():
    one = Forecaster(2)
    for _ in range(2):
        with pytest.raises(InputError, match="no value to forecast from yet"):
            one.forecast()
        one.observe(np.nan)


def spoil(header, arrays, name):
    if name in header:
        return {**header, name: {"horizon": 10**4, "series": 10**6, "rows": -1, "found": "x"}[name]}, arrays
    if name == "lack":
        return header, {key: value for key, value in arrays.items() if key != "theta"}
    if name == "unknown":
        return header, {**arrays, "more": np.zeros(1)}
    return header, {**arrays, name: np.full_like(arrays[name], np.inf) if name == "losses" else arrays[name].ravel()}


@pytest.mark.parametrize(
    "name", ["horizon", "series", "rows", "found", "lack", "unknown", "losses", "information", "center", "answers"]
)
def test_files_that_were_tampered_with_are_refused(tmp_path, name):
    model().save(tmp_path / "a")
    header, arrays = store.read(tmp_path / "a")
    store.write(tmp_path / "b", *spoil(header, arrays, name))
    with pytest.raises(ModelFileError):
        Forecaster.load(tmp_path / "b")


def test_a_file_of_another_class_is_refused(tmp_path):
    store.write(tmp_path / "a", {"class": "DiscountedVAW"}, {})
    with pytest.raises(ModelFileError, match="not a Forecaster"):
        Forecaster.load(tmp_path / "a")


def test_a_file_from_before_the_first_row_is_read(tmp_path):
    Forecaster(4, (7, 14), level=0.8).save(tmp_path / "a")
    assert Forecaster.load(tmp_path / "a") == Forecaster(4, (7, 14), level=0.8)


def test_load_finds_out_that_a_file_holds_a_forecaster(tmp_path):
    model().save(tmp_path / "a")
    assert ud.load(tmp_path / "a") == model()


def test_intervals_have_no_ends_before_anything_was_judged():
    one = Forecaster(3)
    one.observe(-1.0)
    assert np.isinf(one.forecast().upper).all()
    assert np.isinf(one.forecast().lower).all()
    one.observe(1.5)
    assert np.isfinite(one.forecast().upper).all()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_times_among_the_values_are_refused(library):
    frames = pytest.importorskip(library)
    days = np.arange("2024-01-01", "2024-01-21", dtype="datetime64[D]").astype("datetime64[us]")
    one = Forecaster(3)
    with pytest.raises(InputError, match="column 'day' holds times, not values; pass the values as Y and the times as"):
        one.play(frames.DataFrame({"day": days, "v": seasonal(20)}))
    assert one.rows == 0
    one.play(frames.DataFrame({"v": seasonal(20)}))
    assert one.rows == 20
