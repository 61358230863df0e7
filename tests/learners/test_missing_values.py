"""Masks and NA are heard: missing where a learner takes missing values, else refused; what is masked is never seen."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import undrift as ud
from undrift.errors import InputError

STRICT = [
    ud.DiscountedVAW,
    ud.DiscountedAIOLI,
    ud.DiscountedMean,
    ud.linear_ensemble,
    lambda: ud.logistic_ensemble(1.0, 1.0),
]
Z = np.arange(24.0).reshape(12, 2) % 5 - 2.0
HOLES = np.zeros((12, 2), bool)
HOLES[3, 1] = HOLES[7, 0] = True
WORDS = "must be finite and at most 1e75 in size, got nan in row .*; fill or drop what is missing or masked"


def masked(values, mask):
    values = np.array(values)
    values[mask] = -9999
    return np.ma.masked_array(values, mask=mask)


def with_nan(values, mask):
    out = np.array(values, dtype=np.float64)
    out[mask] = np.nan
    return out


def rows_with_holes():
    """The same rows, holes in them, as several libraries write it."""
    nan = with_nan(Z, HOLES)
    yield masked(Z, HOLES)
    yield masked(Z.astype(int), HOLES)
    yield list(masked(Z, HOLES))
    yield pd.DataFrame(nan).convert_dtypes()
    yield pd.DataFrame(nan).astype("Int64")
    pa = pytest.importorskip("pyarrow")
    yield pd.DataFrame(nan).astype(pd.ArrowDtype(pa.float64()))
    yield pa.table({"a": pa.array(nan[:, 0], from_pandas=True), "b": pa.array(nan[:, 1], from_pandas=True)})
    yield pl.DataFrame(nan, schema=["a", "b"]).fill_nan(None)


def labels_with_holes(y, holes):
    nan = with_nan(y, holes)
    yield masked(y, holes)
    yield masked(y.astype(int), holes)
    yield pd.Series(nan).astype("Int64")
    yield pd.array(nan, dtype="Float64")
    yield pl.Series(nan).fill_nan(None)
    pa = pytest.importorskip("pyarrow")
    yield pa.array(nan, from_pandas=True)
    yield pa.chunked_array([pa.array(nan, from_pandas=True)])


def test_learners_that_take_no_missing_values_refuse_masks_and_na() -> None:
    for make in STRICT:
        model = make()
        y = np.where(Z[:, 0] > 0.0, 1.0, -1.0)
        model.play(Z, y)
        before = model.copy()
        for rows in rows_with_holes():
            with pytest.raises(InputError, match=WORDS):
                model.predict(rows)
            with pytest.raises(InputError, match=WORDS):
                model.play(rows, y)
        with pytest.raises(InputError, match=WORDS):
            model.predict(masked(Z, HOLES)[3])
        with pytest.raises(InputError, match=WORDS):
            model.learn(masked(Z, HOLES)[3], 1.0)
        holes = HOLES.any(axis=1)
        for labels in labels_with_holes(y, holes):
            with pytest.raises(InputError, match=r"got nan in row 3"):
                model.play(Z, labels)
        with pytest.raises(InputError, match="got nan in row 0"):
            model.learn(Z[0], np.ma.masked)
        assert model == before


def test_a_mask_that_hides_nothing_changes_nothing() -> None:
    for make in STRICT:
        model = make()
        y = np.where(Z[:, 0] > 0.0, 1.0, -1.0)
        model.play(np.ma.masked_array(Z), np.ma.masked_array(y))
        twin = make()
        twin.play(Z, y)
        assert model == twin
        assert model.predict(np.ma.masked_array(Z[0])) == twin.predict(Z[0])
        assert model.predict(pd.DataFrame(Z).astype("Int64")).tolist() == twin.predict(Z).tolist()


@pytest.mark.parametrize("make", [ud.OnlineRegressor, ud.OnlineClassifier])
def test_online_estimators_take_masks_and_na_as_missing(make) -> None:
    y = np.where(Z[:, 0] > 0.0, 1.0, -1.0)
    twin = make(speed="fast")
    trace = twin.play(with_nan(Z, HOLES), y)
    names = make(speed="fast")
    named_trace = names.play(pd.DataFrame(with_nan(Z, HOLES), columns=["a", "b"]), y)
    for rows in rows_with_holes():
        if isinstance(rows, pd.DataFrame):
            rows.columns = ["a", "b"]
        model = make(speed="fast")
        got = model.play(rows, y)
        named = model.names is not None
        assert got.yhat.tolist() == (named_trace if named else trace).yhat.tolist()
        assert model == (names if named else twin)
        assert model.missing.tolist() == [1.0, 1.0]
    one = masked(Z, HOLES)[3]
    assert twin.predict(one) == twin.predict(with_nan(Z, HOLES)[3])
    assert twin.predict([float(Z[3, 0]), np.ma.masked]) == twin.predict(one)


@pytest.mark.parametrize("make", [ud.OnlineRegressor, ud.OnlineClassifier])
def test_online_estimators_take_masked_labels_as_unknown(make) -> None:
    y, holes = np.where(Z[:, 0] > 0.0, 1.0, -1.0), HOLES.any(axis=1)
    twin = make(speed="fast")
    twin.play(Z, with_nan(y, holes))
    assert twin.unlabelled == 2
    for labels in labels_with_holes(y, holes):
        model = make(speed="fast")
        model.play(Z, labels)
        assert model == twin


def test_missing_values_in_mappings() -> None:
    model = ud.OnlineRegressor(speed="fast")
    for t in range(10):
        model.learn({"a": t % 3, "b": t % 2}, float(t % 3))
    expected = model.predict({"a": np.nan, "b": 1.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for missing in (None, np.ma.masked, pd.NA, float("nan"), np.float32("nan")):
            assert model.predict({"a": missing, "b": 1.0}) == expected
    pa = pytest.importorskip("pyarrow")
    assert model.predict({"a": pa.scalar(None), "b": 1.0}) == expected


def test_the_sklearn_estimators_hear_masks() -> None:
    pytest.importorskip("sklearn")
    from undrift.sklearn import DriftClassifier, DriftRegressor

    y = np.where(Z[:, 0] > 0.0, 1.0, -1.0)
    for make in (DriftRegressor, DriftClassifier):
        model = make(speed="fast").fit(masked(Z, HOLES), y)
        twin = make(speed="fast").fit(with_nan(Z, HOLES), y)
        assert model.model_ == twin.model_
        assert model.predict(masked(Z, HOLES)).tolist() == twin.predict(with_nan(Z, HOLES)).tolist()
        with pytest.raises(ValueError, match="NaN"), np.errstate(invalid="ignore"):
            make(speed="fast").fit(Z, masked(y, HOLES.any(axis=1)))


def test_text_that_looks_like_numbers_is_none() -> None:
    for y in (pd.Series(["1", "2"]), pd.Series(["1", "2"], dtype="string"), pd.Series(["1", None], dtype="string")):
        with pytest.raises(InputError, match="y must be an array of numbers, got"):
            ud.DiscountedMean().play([[], []], y)


def test_missing_labels_of_several_classes_are_unknown_however_they_are_written() -> None:
    codes, holes = np.arange(len(Z)) % 3, HOLES.any(axis=1)
    texts = np.array(["red", "green", "blue"])[codes]
    plain = np.where(holes, None, texts.astype(object))
    for labels, others in (
        (plain, (masked(texts, holes), pd.Series(plain), pd.Series(plain, dtype="string"), pl.Series(plain.tolist()))),
        (
            np.where(holes, np.nan, codes + 1.0),
            (masked(codes + 1, holes), pd.array(np.where(holes, None, codes + 1), dtype="Int64")),
        ),
    ):
        twin = ud.OnlineClassifier(speed="fast")
        twin.play(Z, labels)
        assert len(twin.classes) == 3
        for one in others:
            model = ud.OnlineClassifier(speed="fast")
            model.play(Z, one)
            assert model == twin, type(one)
