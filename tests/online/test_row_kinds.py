"""One row at a time: whatever kind of row and label people hold, the same bits, by the short way."""

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError

N, D = 200, 4
NAMES = [f"c{j}" for j in range(D)]
RNG = np.random.default_rng(0)
Z = RNG.integers(-40, 40, (N, D)).astype(np.float64) / 8.0  # exact in float32 and float16 too
Y = np.round(4.0 * (Z @ [1.0, -2.0, 0.5, 0.0] + RNG.normal(size=N))) / 4.0


def series(rows, names):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, columns=names)
    return [frame.iloc[t] for t in range(len(frame))]


class Point(tuple):
    """A tuple with another name, such as a named tuple."""


ROWS = {
    "arrays": lambda: list(Z),
    "float32 arrays": lambda: list(Z.astype(np.float32)),
    "columns of an array": lambda: list(np.asfortranarray(Z)),
    "reversed views": lambda: list(np.ascontiguousarray(Z[:, ::-1])[:, ::-1]),
    "lists": Z.tolist,
    "tuples": lambda: [tuple(row) for row in Z.tolist()],
    "named tuples": lambda: [Point(row) for row in Z.tolist()],
    "lists of NumPy's numbers": lambda: [list(row) for row in Z],
    "lists of float32": lambda: [list(row) for row in Z.astype(np.float32)],
    "series without names": lambda: series(Z, None),
}
NAMED = {
    "dictionaries": lambda: [dict(zip(NAMES, row, strict=True)) for row in Z.tolist()],
    "dictionaries of NumPy's numbers": lambda: [dict(zip(NAMES, row, strict=True)) for row in Z],
    "dictionaries of float32": lambda: [dict(zip(NAMES, row, strict=True)) for row in Z.astype(np.float32)],
    "dictionaries in another order": lambda: [
        {NAMES[j]: row[j] for j in (range(D) if t == 0 else (2, 0, 3, 1))} for t, row in enumerate(Z.tolist())
    ],
    "series": lambda: series(Z, NAMES),
}
LABELS = {
    "floats": Y.tolist,
    "float64": lambda: list(Y),
    "float32": lambda: list(Y.astype(np.float32)),
    "float16": lambda: list(Y.astype(np.float16)),
}


def learn_singly(model, rows, labels):
    yhat = []
    for row, label in zip(rows, labels, strict=True):
        yhat.append(model.predict(row))
        model.learn(row, label)
    return yhat


@pytest.fixture
def _short_way(monkeypatch):
    """After the first row, which sets everything up, no single row takes the general way."""
    from undrift.online.estimator import OnlineEstimator

    general = OnlineEstimator._learn_any

    def learn_first(self, *args):
        assert self.rounds == 0, "this row takes the general way"
        return general(self, *args)

    monkeypatch.setattr(OnlineEstimator, "_learn_any", learn_first)


@pytest.mark.usefixtures("_short_way")
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("kind", [*ROWS, *NAMED])
def test_every_kind_of_row_gives_the_same_bits(kind, labels):
    rows = {**ROWS, **NAMED}[kind]()
    reference, model = ud.OnlineRegressor(speed="light"), ud.OnlineRegressor(speed="light")
    usual = [dict(zip(NAMES, row, strict=True)) for row in Z.tolist()] if kind in NAMED else list(Z)
    expected = learn_singly(reference, usual, Y.tolist())
    assert learn_singly(model, rows, LABELS[labels]()) == expected
    assert model == reference


@pytest.mark.usefixtures("_short_way")
@pytest.mark.parametrize("cast", [int, float, np.int64, np.int8, np.uint8, np.float32, np.float64, bool, np.bool_])
def test_every_kind_of_label_of_two_classes_gives_the_same_bits(cast):
    y = Y > 0.0
    reference, model = ud.OnlineClassifier(speed="light"), ud.OnlineClassifier(speed="light")
    expected = learn_singly(reference, list(Z), [int(one) for one in y])
    with np.errstate(all="raise"):
        assert learn_singly(model, list(Z), [cast(one) for one in y]) == expected
    assert model.rounds == N
    assert model.predict_proba(Z).tobytes() == reference.predict_proba(Z).tobytes()


@pytest.mark.usefixtures("_short_way")
def test_integers_are_labels_and_features():
    reference, model = ud.OnlineRegressor(speed="light"), ud.OnlineRegressor(speed="light")
    whole, y = np.round(Z).astype(np.int32), np.round(Y) + 0.0  # no -0.0, which is no integer
    expected = learn_singly(reference, list(whole.astype(np.float64)), y.tolist())
    for rows, cast in ((list(whole), int), (whole.tolist(), np.int64), (list(whole.astype(np.int8)), np.int16)):
        model = ud.OnlineRegressor(speed="light")
        assert learn_singly(model, rows, [cast(one) for one in y]) == expected
        assert model == reference


@pytest.mark.usefixtures("_short_way")
def test_a_name_that_a_row_lacks_is_0_and_none_is_missing():
    given = [dict(zip(NAMES, row, strict=True)) for row in Z.tolist()]
    full, short = ud.OnlineRegressor(speed="light"), ud.OnlineRegressor(speed="light")
    zeros = [given[0], *({**row, "c1": 0.0, "c2": float("nan")} for row in given[1:])]
    lacking = [given[0], *({"c0": row["c0"], "c2": None, "c3": row["c3"]} for row in given[1:])]
    assert learn_singly(short, lacking, Y.tolist()) == learn_singly(full, zeros, Y.tolist())
    assert short == full


def test_peeked_and_asked_rows_take_the_same_kinds():
    reference, models = ud.OnlineRegressor(speed="light"), [ud.OnlineRegressor(speed="light") for _ in range(2)]
    for row, label in zip(Z, Y.tolist(), strict=True):
        reference.tell(reference.ask(row), label)
    for kind in ("lists", "series without names", "float32 arrays"):
        asked, peeked = (ud.OnlineRegressor(speed="light") for _ in models)
        for row, label in zip(ROWS[kind](), Y, strict=True):
            asked.tell(asked.ask(row), label)
            peeked.learn(row, label, served=peeked.peek(row))
        assert asked == reference
        assert peeked.predict(Z[0]) == reference.predict(Z[0])


@pytest.mark.parametrize("make", [lambda: ud.OnlineRegressor(speed="light"), ud.DiscountedVAW, ud.linear_ensemble])
@pytest.mark.parametrize(
    "label",
    [np.timedelta64(3, "ns"), np.datetime64("2026-01-01", "ns"), 1 + 2j, np.complex128(1.0), "1", 10**400, 1e80],
)
def test_what_is_no_label_is_refused_as_before(make, label):
    model = make()
    model.learn(Z[0], 1.0)
    before = model.copy()
    with pytest.raises(InputError):
        model.learn(Z[1], label)
    assert model == before


@pytest.mark.parametrize(
    "row",
    [
        [1.0, 2.0, 3.0],
        [1.0, "2", 3.0, 4.0],
        [1.0, 1j, 3.0, 4.0],
        [1.0, 1e80, 3.0, 4.0],
        np.arange(8.0)[::2].astype("M8[s]"),
    ],
)
def test_what_is_no_row_is_refused_as_before(row):
    for model in (ud.OnlineRegressor(speed="light"), ud.DiscountedVAW()):
        model.learn(Z[0], 1.0)
        before = model.copy()
        with pytest.raises(InputError):
            model.predict(row)
        with pytest.raises(InputError):
            model.learn(row, 1.0)
        assert model == before
