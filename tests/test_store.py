"""Model files: data only, whole or not at all, and a clear word for every damaged one."""

import json
import pickle
import struct

import numpy as np
import pytest

import undrift as ud
from undrift import store
from undrift.errors import InputError, ModelFileError


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    model = ud.DiscountedVAW(beta=0.9, hint="last")
    model.play(rng.normal(size=(50, 3)), rng.normal(size=50))
    return model


@pytest.fixture
def path(model, tmp_path):
    path = tmp_path / "model.undrift"
    model.save(path)
    return path


def test_load_gives_back_the_same_learner(model, path):
    loaded = ud.load(path)
    assert loaded == model
    assert loaded is not model
    assert repr(loaded) == "DiscountedVAW(beta=0.9, reg=1.0, hint='last')"


def test_a_learner_that_never_learned_can_be_saved(tmp_path):
    model = ud.DiscountedAIOLI(half_life=float("inf"))
    model.save(tmp_path / "m")
    assert ud.load(tmp_path / "m") == model
    assert ud.load(tmp_path / "m").beta == 1.0


def test_the_file_holds_json_and_arrays_only(path):
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + size])
    assert set(header) == {"__metadata__", "information", "last"}
    assert b"pickle" not in raw
    inner = json.loads(header["__metadata__"]["undrift"])
    assert inner["format"] == store.FORMAT
    assert inner["class"] == "DiscountedVAW"


@pytest.mark.parametrize("keep", [0, 1, 7, 8, 100, -8, -1])
def test_a_truncated_file_is_refused(path, keep):
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelFileError, match=r"^\S+: .*(cut off or damaged|digest|header is damaged)"):
        ud.load(path)


def test_every_flipped_byte_is_noticed(path, tmp_path):
    raw = path.read_bytes()
    for at in range(len(raw)):
        bad = bytearray(raw)
        bad[at] ^= 0x01
        path.write_bytes(bytes(bad))
        with pytest.raises(ModelFileError):
            ud.load(path)


def test_an_empty_or_foreign_file_is_refused(tmp_path):
    other = tmp_path / "x"
    other.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ModelFileError, match="not an undrift file"):
        ud.load(other)
    from safetensors.numpy import save_file

    save_file({"a": np.zeros(2)}, other)
    with pytest.raises(ModelFileError, match="not one of undrift's"):
        ud.load(other)


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        ud.load(tmp_path / "nowhere")


def forged(path, header_changes, array_changes):
    """Rewrite a file with a valid digest, as someone who knows the format would."""
    header, arrays = store.read(path)
    header.update(header_changes)
    for name, change in array_changes.items():
        arrays[name] = change(arrays[name])
    store.write(path, header, arrays)


def spoil(index, value):
    def change(array):
        array = array.copy()
        array[index] = value
        return array

    return change


@pytest.mark.parametrize(
    ("header", "arrays", "words"),
    [
        ({"format": 4}, {}, "format 4 is newer than this undrift reads"),
        ({"format": 1}, {}, "written by undrift 0.1 .* whose files later versions do not read; learn the data again"),
        ({"format": 2}, {}, "written by undrift 0.2 .* whose files later versions do not read; learn the data again"),
        ({"format": "x"}, {}, "the header is damaged"),
        ({"class": "os.system"}, {}, "'os.system' is not a learner"),
        ({"class": "load"}, {}, "'load' is not a learner"),
        ({"class": "Learner"}, {}, "'Learner' is not a learner"),
        ({"class": None}, {}, "None is not a learner"),
        ({"class": "DiscountedAIOLI"}, {}, "parameters cannot be used"),
        ({"parameters": {"beta": 2.0}}, {}, r"beta must be in \(0, 1\]"),
        ({"parameters": {"beta": "1"}}, {}, "beta must be a number"),
        ({"parameters": {"bogus": 1.0}}, {}, "parameters cannot be used"),
        ({"parameters": 3}, {}, "parameters cannot be used"),
        ({"rounds": -1}, {}, "rounds must be an integer in"),
        ({"rounds": 1.5}, {}, "rounds must be an integer"),
        ({"dim": 10**9}, {}, "dim must be an integer"),
        ({"dim": 2}, {}, "wrong shape"),
        ({"dim": 4}, {}, "the saved arrays are too small for 4 features"),
        ({"dim": 100_000}, {}, "the saved arrays are too small for 100000 features"),
        ({"rounds": 10**40}, {}, "rounds must be an integer in"),
        ({"format": 0}, {}, "header is damaged"),
        ({"dim": None}, {}, "no number of features"),
        ({}, {"information": spoil(0, np.nan)}, "unusable numbers"),
        ({}, {"information": spoil(0, -1.0)}, "not positive definite"),
        ({}, {"information": lambda a: a[:-1]}, "wrong shape"),
        ({}, {"extra": lambda a: a}, None),
    ],
)
def test_a_forged_file_is_refused(path, header, arrays, words):
    if words is None:
        head, parts = store.read(path)
        store.write(path, head, {**parts, "extra": np.zeros(1)})
        words = "the saved arrays hold an unknown 'extra'"
    else:
        forged(path, header, arrays)
    with pytest.raises(ModelFileError, match=words):
        ud.load(path)


def test_a_failed_write_leaves_the_old_file(model, path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_loading_a_class_of_ones_own_needs_it_named(tmp_path):
    class Mine(ud.DiscountedMean):
        pass

    mine = Mine(beta=0.5)
    mine.learn([], 3.0)
    mine.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="'Mine' is not a learner of this undrift"):
        ud.load(tmp_path / "m")
    assert ud.load(tmp_path / "m", cls=Mine) == mine
    with pytest.raises(ModelFileError, match="holds a Mine, not a Zero"):
        ud.load(tmp_path / "m", cls=ud.Zero)


def test_learners_travel_to_worker_processes(model):
    assert pickle.loads(pickle.dumps(model)) == model


def test_learners_differ_by_state_parameters_and_class(model):
    assert model != model.clone()
    other = model.copy()
    other.learn([1.0, 0.0, 0.0], 1.0)
    assert model != other
    assert model != "a string"
    assert ud.Zero() != ud.Persistence()
    with pytest.raises(TypeError, match="unhashable"):
        hash(model)


def test_parameters_are_checked_by_name():
    for make, words in [
        (lambda: ud.DiscountedVAW(beta=1.5), r"DiscountedVAW: beta must be in \(0, 1\], got 1.5"),
        (lambda: ud.DiscountedVAW(beta=0.5, half_life=3), "give beta or half_life, not both"),
        (lambda: ud.DiscountedVAW(half_life=0), r"half_life must be in \(0, inf\], got 0"),
        (lambda: ud.DiscountedVAW(half_life=1e-3), "half_life must be at least"),
        (lambda: ud.DiscountedVAW(reg=0.0), r"reg must be in \[1e-140, 1e140\]"),
        (lambda: ud.DiscountedVAW(hint="next"), "hint must be one of zero, last, ridge"),
        (lambda: ud.DiscountedAIOLI(bound=-1.0), "bound must be in"),
        (lambda: ud.DiscountedAIOLI(curvature=0.5, bound=1.0), "give curvature, or bound and radius"),
        (lambda: ud.DiscountedAIOLI(curvature=2.0), "curvature must be in"),
    ]:
        with pytest.raises(InputError, match=words):
            make()
