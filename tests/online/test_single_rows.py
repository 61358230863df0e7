"""Single rows: the quick call of plain rows gives the same as the general code, and leaves to it what is not plain."""

import numpy as np
import pytest

import undrift as ud

NAMES = ["a", "b", "c"]


def fitted(kind, named=True, count=50):
    rng = np.random.default_rng(0)
    model, Z = kind(speed="fast"), rng.normal(size=(count, 3))
    y = Z[:, 0] - Z[:, 1] + 0.1 * rng.normal(size=count)
    rows = [dict(zip(NAMES, row, strict=True)) for row in Z.tolist()] if named else Z
    model.play(rows, y > 0.0 if model.binary else y)
    return model


ROWS = [
    {"a": 1.0, "b": -2.0, "c": 0.5},
    {"c": 0.5, "a": 1, "b": np.float64(-2.0)},
    {"a": True, "b": float("nan"), "c": 0},
    {"a": 1.0, "b": 2.0},
    {"a": None, "b": 1.0, "c": np.float32(2.0)},
]


@pytest.mark.parametrize("kind", [ud.OnlineRegressor, ud.OnlineClassifier])
@pytest.mark.parametrize("row", ROWS)
def test_plain_rows_are_taken_by_one_call_and_give_the_same_bits(kind, row):
    model, label = fitted(kind), True if kind.binary else 1.5
    quick, general = model.copy(), model.copy()
    assert quick._one_row.predict(row) == general._score_any(row)
    quick.learn(row, label)
    general._learn_any(row, label)
    assert quick == general
    assert quick.rounds == general.rounds == 51
    array = np.array([row.get(name, 0.0) for name in NAMES], dtype=float)
    assert quick._one_row.predict(array) == general._score_any(array)


@pytest.mark.parametrize(
    "row",
    [{"a": 1.0, "b": 2.0, "d": 3.0}, {"d": 3.0}, {}, {"a": np.timedelta64(1, "s"), "b": 1.0, "c": 2.0},
     {"a": 10**400, "b": 1, "c": 2}, {"a": 1e80, "b": 1.0, "c": 2.0},
     [1.0, 2.0], [1.0, "2", 3.0], [1.0, None, 3.0], [[1.0, 2.0, 3.0]], np.ones((1, 3)), np.ones(3, ">f8"),
     np.ones(3, complex), np.ones(3, "M8[s]"), np.ma.masked_array(np.ones(3)), np.ones(4), None,
     np.array([1.0, np.inf, 0.0])],
    ids=str,
)  # fmt: skip
def test_rows_that_are_not_plain_are_left_alone(row):
    model = fitted(ud.OnlineRegressor)
    before = model.copy()
    assert model._one_row.predict(row) is None
    assert not model._one_row.learn(model, row, 1.0)
    for commit in (False, True):
        assert not model._one_row.serve(row, np.zeros(model.plan.kernel.record_size), commit)
    assert model == before


@pytest.mark.parametrize("kind", [ud.OnlineRegressor, ud.OnlineClassifier])
def test_plain_rows_are_asked_and_told_as_others_are(kind):
    model, label = fitted(kind), True if kind.binary else 1.5
    quick, general = model.copy(), model.copy()
    array = np.array([0.3, np.nan, -0.2])
    one, other = quick.ask(array), general.ask(array[None])  # a matrix goes the general way
    assert one.yhat == other.yhat
    assert one.intervals == other.intervals
    assert quick == general
    quick.tell(one, label)
    general.tell(other, np.asarray(label))  # so does a label that is not a plain number
    assert quick == general
    assert quick.rounds == 51


def test_labels_that_are_not_plain_are_left_alone():
    model = fitted(ud.OnlineRegressor)
    before = model.copy()
    for label in (np.nan, np.inf, 1e80):
        assert not model._one_row.learn(model, np.ones(3), label)
    assert model == before


def test_arrays_without_names_do_not_take_dictionaries():
    model = fitted(ud.OnlineRegressor, named=False)
    assert model._one_row.predict(ROWS[0]) is None
    with pytest.raises(ud.errors.InputError, match="rows had no names so far"):
        model.predict(ROWS[0])


def test_rows_follow_the_model_when_it_grows_and_when_it_is_loaded(tmp_path):
    model = fitted(ud.OnlineRegressor)
    model.learn({**ROWS[0], "d": 2.0}, 1.0)
    assert model._one_row.predict(ROWS[0]) == model._score_any({**ROWS[0], "d": 0.0})
    assert model._one_row.predict(np.ones(3)) is None
    row = {**ROWS[0], "d": -1.0}
    assert model._one_row.predict(row) == model._score_any(row)
    model.save(tmp_path / "model")
    loaded = ud.load(tmp_path / "model")
    assert loaded._one_row.predict(row) == model.predict(row)
    loaded.learn(row, 2.0)
    model.learn(row, 2.0)
    assert loaded == model


def test_a_classifier_takes_labels_of_the_kind_it_knows():
    model = fitted(ud.OnlineClassifier)
    assert model.classes == [False, True]
    assert [model._plain_label(y) for y in (True, False, 1, 0, 1.0, 0.0)] == [1.0, -1.0, 1.0, -1.0, 1.0, -1.0]
    assert [model._plain_label(y) for y in (np.bool_(True), np.False_, np.int8(1))] == [1.0, -1.0, 1.0]
    assert [model._plain_label(y) for y in (-1, 2, "a", None, np.timedelta64(1, "s"))] == [None] * 5
    signs = ud.OnlineClassifier(speed="fast")
    signs.learn([1.0], -1)
    assert [signs._plain_label(y) for y in (-1, -1.0, 1, True)] == [-1.0, -1.0, 1.0, None]


@pytest.mark.parametrize("kind", [ud.OnlineRegressor, ud.OnlineClassifier])
def test_a_peeked_row_is_learned_from_what_was_said_then(kind):
    """Peek and learn at once is learn; peek, then other labels, then learn, is ask and tell."""
    model, label = fitted(kind), True if kind.binary else 1.5
    prompt, other = model.copy(), model.copy()
    row, between = np.array([0.3, -0.2, 0.1]), np.array([-0.5, 0.4, 0.2])
    prompt.learn(row, label, served=prompt.peek(row))
    other.learn(row, label)
    assert prompt == other
    late, asked = model.copy(), model.copy()
    peeked, served = late.peek(row), asked.ask(row)
    assert peeked.yhat == served.yhat
    late.learn(between, label)
    asked.tell(asked.ask(between), label)
    late.learn(row, label, served=peeked)
    asked.tell(served, label)
    assert late.rounds == asked.rounds
    for name in ("linear", "curvature 1"):
        if name in late.plan.families:
            np.testing.assert_array_equal(late.part(f"{name}.log_weights"), asked.part(f"{name}.log_weights"))


def test_a_row_peeked_before_the_first_label_is_not_judged():
    model = ud.OnlineRegressor(speed="fast")
    first, second = model.peek([1.0]), model.peek([2.0])
    assert first.yhat == 0.0
    model.learn([1.0], 3.0, served=first)
    model.learn([2.0], 4.0, served=second)
    assert model.losses.tolist() == [0.0] * len(model.candidates)
    trace = ud.OnlineRegressor(speed="fast").play([[1.0], [2.0]], [3.0, 4.0])
    assert trace.known.tolist() == [False, True]


def test_peeking_takes_one_row():
    model = fitted(ud.OnlineRegressor)
    with pytest.raises(ud.errors.InputError, match="peek takes one row, got 2"):
        model.peek(np.zeros((2, 3)))
    with pytest.raises(ud.errors.InputError, match="learn takes one row, got 2"):
        model.learn(np.zeros((2, 3)), 1.0, served=model.peek(np.zeros(3)))
    with pytest.raises(ud.errors.InputError, match="a row that was peeked at is learned by learn"):
        model.tell(model.peek(np.zeros(3)), 1.0)
