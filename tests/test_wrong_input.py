"""What a user gets wrong in Python: one sentence each, and nothing changes."""

import os
import threading

import numpy as np
import pandas as pd
import polars as pl
import pytest

import undrift as ud
from tests.helpers import refused
from undrift.ensemble import Mixable, Mixer
from undrift.errors import ModelFileError


@pytest.mark.parametrize("nothing", [{}, [{}], pd.DataFrame(), pl.DataFrame(), [], [[]], np.empty((3, 0)), np.empty(0)])
@pytest.mark.parametrize("make", [ud.OnlineRegressor, ud.OnlineClassifier])
def test_rows_without_features_before_the_first_round(make, nothing) -> None:
    model = make()
    refused(lambda: model.predict(nothing), "z must have at least one feature, got none")
    assert model.dim is None


def test_frames_without_rows_are_nothing_to_do() -> None:
    model = ud.OnlineRegressor(speed="fast")
    model.learn({"a": 1.0, "b": 2.0}, 1.0)
    before = model.copy()
    frames = [
        pd.DataFrame({"a": [], "b": []}),
        pl.DataFrame({"a": [], "b": []}, schema={"a": pl.Float64, "b": pl.Int8}),
    ]
    for frame in (*frames, pd.DataFrame(), pl.DataFrame()):
        assert model.predict(frame).shape == (0,)
        assert len(model.play(frame, [])) == 0
    assert model == before


def test_two_columns_of_one_name() -> None:
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["a", "load", "load"])
    words = "feature names must differ, 'load' comes twice; rename one column"
    fresh, model = ud.OnlineRegressor(), ud.OnlineRegressor(speed="fast")
    model.learn({"a": 1.0, "load": 2.0}, 1.0)
    for one in (fresh, model):
        refused(lambda one=one: one.predict(frame), words)
        refused(lambda one=one: one.play(frame, [1.0]), words)


def test_a_lazy_frame_must_be_collected() -> None:
    refused(lambda: ud.OnlineRegressor().predict(pl.LazyFrame({"a": [1.0]})), "which holds no rows yet; collect it")


def test_an_object_that_cannot_give_its_numbers() -> None:
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("no\nsuch\nluck")

        def __repr__(self):
            return "Broken\n()"

    refused(lambda: ud.DiscountedVAW().predict(Broken()), r"got Broken \(\) \(no such luck\)")


@pytest.mark.parametrize("mixer", [3, "Mixable", Mixable, Mixer(), object(), ud.DiscountedVAW(), [Mixable()]])
def test_a_mixer_that_is_none(mixer) -> None:
    words = "mixer must be a mixer such as"
    refused(lambda: ud.Ensemble([ud.DiscountedVAW()], mixer), f"Ensemble: {words}")
    refused(lambda: ud.linear_ensemble(mixer=mixer), f"LinearEnsemble: {words}")
    refused(lambda: ud.logistic_ensemble(1.0, 1.0, mixer=mixer), f"LogisticEnsemble: {words}")


@pytest.mark.parametrize(
    "members", [None, 3, "a", [], {}, ud.DiscountedVAW(), ud.DiscountedVAW, np.zeros(3), [ud.Zero, 1]]
)
def test_members_that_are_none(members) -> None:
    refused(lambda: ud.Ensemble(members), "Ensemble: members must be a list of learners, at least one, got")
    refused(lambda: ud.Ensemble(one for one in [ud.Zero()]), "Ensemble: members must be a list of learners")


@pytest.mark.parametrize("binary", ["yes", 1, None, np.zeros(2)])
def test_a_switch_is_true_or_false(binary) -> None:
    refused(lambda: ud.Zero(binary=binary), "Zero: binary must be True or False, got")
    refused(lambda: ud.Persistence(binary=binary), "Persistence: binary must be True or False, got")
    refused(lambda: ud.OnlineRegressor(indicators=binary), "OnlineRegressor: indicators must be True or False, got")


def test_paths_that_are_none(tmp_path) -> None:
    model = ud.DiscountedMean()
    for path in (None, 3, b"bytes", object()):
        refused(lambda path=path: model.save(path), "DiscountedMean: path must be text or a Path, got")
        refused(lambda path=path: ud.load(path), "load: path must be text or a Path, got")
    with pytest.raises(ModelFileError, match="a folder, not a model file; name the file inside it"):
        ud.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"there is no such folder to write into: '.*nowhere'"):
        model.save(tmp_path / "nowhere" / "model")
    with pytest.raises(IsADirectoryError, match="a folder is there"):
        model.save(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX's")
def test_saving_in_threads_leaves_the_mode_of_new_files_alone(tmp_path) -> None:
    before = os.umask(0o027)
    try:
        model = ud.DiscountedMean()
        threads = [
            threading.Thread(target=lambda k=k: [model.save(tmp_path / f"{k}-{n}") for n in range(10)])
            for k in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}
        assert len(list(tmp_path.iterdir())) == 40
    finally:
        assert os.umask(before) == 0o027
