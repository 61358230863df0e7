"""Many online estimators advanced together end with the bits of each advanced alone."""

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError
from undrift.fleet.executor import KEYS

KINDS = {
    "regressor": lambda: ud.OnlineRegressor(speed="fast"),
    "regressor with waves": lambda: ud.OnlineRegressor(seed=2),
    "regressor of one memory": lambda: ud.OnlineRegressor(speed="fast", half_life=20.0),
    "classifier": lambda: ud.OnlineClassifier(speed="fast"),
    "classifier with waves": lambda: ud.OnlineClassifier(seed=2),
    "regressor with indicators": lambda: ud.OnlineRegressor(speed="fast", indicators=True),
}
LENGTHS = (1, 2, 3, 4, 5, 9, 31, 32, 33, 70, 255, 256, 257, 300)


def streams(dim, binary, seed):
    """A stream for every length: holes, a dead feature, labels that begin with 0, spikes."""
    rng = np.random.default_rng(seed)
    out = {}
    for k, length in enumerate(LENGTHS):
        Z = rng.normal(size=(length, dim)) * 10.0 ** rng.integers(-3, 4)
        y = Z[:, 0] + rng.normal(size=length)
        if k % 3 == 1:
            Z[rng.random(Z.shape) < 0.2] = np.nan
            Z[: length // 2, -1] = np.nan
        if k % 3 == 2:
            Z[:, 0] = 7.0
            y[: length // 2] = 0.0
            y[length // 3] = 1e6
        out[f"k{k}"] = Z, (y > 0.0).astype(float) if binary else y
    return out


def arriving(found, dim, seed):
    """All rows as records, streams mixed at random."""
    owners = np.repeat(list(found), [len(y) for _, y in found.values()])
    np.random.default_rng(seed).shuffle(owners)
    seen = dict.fromkeys(found, 0)
    for key in owners.tolist():
        Z, y = found[key]
        t = seen[key]
        seen[key] += 1
        yield {"key": key, **{f"x{j}": float(Z[t, j]) for j in range(dim)}, "y": float(y[t])}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [1, 2, 8])
def test_many_keys_have_the_bits_of_each_alone(kind, dim):
    make = KINDS[kind]
    found = streams(dim, make().binary, seed=dim)
    fleet = ud.Fleet(make, key="key", features=[f"x{j}" for j in range(dim)], target="y")
    for batch in (311, 10**6):
        run = fleet.run(arriving(found, dim, seed=batch), batch=batch)
        said = {key: [] for key in found}
        for row in run.outputs:
            said[row.key].append((row.order, row.prediction))
        for key, (Z, y) in found.items():
            model = make()
            expected = model.play(Z, y).yhat.tolist()
            assert [yhat for _, yhat in sorted(said[key])] == expected
            assert run.model(key) == model


def test_labels_of_mixed_spelling_are_learned_row_by_row():
    """-1 and 0 both mean the lower class; one block of both is refused, a stream of them is not."""
    Z, y = np.arange(12.0)[:, None], np.array([-1.0, 0.0, 1.0] * 4)
    with pytest.raises(InputError, match="got 3 different labels"):
        ud.OnlineClassifier().play(Z, y)
    model = ud.OnlineClassifier(speed="fast")
    expected = [model.play(Z[t : t + 1], y[t : t + 1]).yhat[0] for t in range(12)]
    fleet = ud.Fleet(ud.OnlineClassifier(speed="fast"), key="key", features=["x"], target="y")
    run = fleet.run([{"key": 1, "x": float(z[0]), "y": label} for z, label in zip(Z, y.tolist(), strict=True)])
    assert run.outputs.prediction.tolist() == expected


def test_any_number_of_keys_and_rows_at_a_time_gives_the_same_bits(monkeypatch):
    found = streams(2, False, seed=5)
    fleet = ud.Fleet(ud.OnlineRegressor(speed="fast"), key="key", features=["x0", "x1"], target="y")
    whole = fleet.run(arriving(found, 2, seed=6))
    monkeypatch.setattr("undrift.fleet.executor.MAX_BYTES", 100_000)
    monkeypatch.setattr("undrift.online.many.ROWS", 40)
    small = fleet.run(arriving(found, 2, seed=6))
    assert small.outputs.canonical() == whole.outputs.canonical()
    assert dict(small.states) == dict(whole.states)


def test_more_keys_than_are_advanced_at_a_time(tmp_path):
    fleet = ud.Fleet(ud.OnlineRegressor(speed="fast"), key="key", features=["x"], target="y")
    rows = [{"key": k, "x": float(k % 7), "y": float(k % 5 + t)} for t in range(2) for k in range(KEYS + 5)]
    run = fleet.run(rows, folder=tmp_path)
    assert len(run.keys()) == KEYS + 5
    assert {key: model.rounds for key, model in run.iter_models(run.keys())} == dict.fromkeys(range(KEYS + 5), 2)
    for key in (0, KEYS - 1, KEYS, KEYS + 4):
        model = ud.OnlineRegressor(speed="fast")
        model.play([[key % 7]] * 2, [key % 5, key % 5 + 1])
        assert run.model(key) == model
