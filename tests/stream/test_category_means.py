"""Columns with more texts than features: learned by means of earlier rows, honestly, and resumed to the bit."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import undrift as ud
from undrift.errors import DataError
from undrift.run import Settings, play_file, predict_file, update_run
from undrift.run.play import run_loop
from undrift.run.play.run_folder import RunFolder
from undrift.run.read import csv_file
from undrift.stream import category_means
from undrift.stream.category_means import CategoryMeans, SharedDict
from undrift.stream.cells import RowBatch
from undrift.stream.features import Features
from undrift.stream.first_rows import RowOrigin
from undrift.stream.schema import Schema


def rows_of(n, levels, seed=0, binary=False, noise=0.3):
    rng = np.random.default_rng(seed)
    shop, x = rng.integers(0, levels, size=n), rng.normal(size=n)
    y = x + 2.0 * np.cos(shop * 7.0 + np.arange(n) / n) + noise * rng.normal(size=n)
    return [f"s{k}" for k in shop], x, (y > 0.0).astype(float) if binary else y


def write(path, shop, x, y):
    cells = (f"{k},{a!r},{b!r}" for k, a, b in zip(shop, x.tolist(), y.tolist(), strict=True))
    path.write_text("\n".join(["shop,x,y", *cells]) + "\n")
    return str(path)


def predictions(folder):
    return RunFolder(folder).table(json.loads((folder / "run.json").read_text()))


@pytest.mark.parametrize("binary", [False, True])
def test_a_mean_is_a_weighted_sum_over_earlier_rows_of_the_text(binary):
    texts, y = ["a", "b", "a", "a", "b", "a"], np.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0])
    means = CategoryMeans(binary=binary)
    means.begin("shop")
    Z = means.encode(0, {"shop": texts}, y)
    usual, weight, distance = 0.0, 0.0, {"a": [], "b": []}
    for text, label in zip(texts[:-1], y[:-1].tolist(), strict=True):
        distance[text].append(label - (usual / weight if weight else label))
        kept = 0.5 ** (1.0 / category_means.USUAL_HALF_LIFE)
        usual, weight = kept * usual + label, kept * weight + 1.0
    for k, half_life in enumerate(category_means.HALF_LIVES):
        ages = 0.5 ** (np.arange(len(distance["a"]))[::-1] / half_life)
        candidates = []
        for prior in category_means.PRIORS:
            mean = ages @ distance["a"] / (ages.sum() + prior)
            if binary:
                share, least = usual / weight, 0.5 / (ages.sum() + prior + 1.0)
                one = min(max(share + mean, least), 1.0 - least)
                mean = math.log(one / (1.0 - one)) - math.log(share / (1.0 - share))
            candidates.append(mean)
        assert any(Z[-1, k] == pytest.approx(one, rel=1e-12) for one in candidates)
    assert Z[:2].tolist() == [[0.0, 0.0]] * 2  # nothing was known of these texts


@pytest.mark.parametrize("delay", [0, 7])
@pytest.mark.parametrize("binary", [False, True])
def test_no_prediction_knows_a_label_too_early(tmp_path, delay, binary):
    shop, x, y = rows_of(300, 40, binary=binary)
    settings = Settings(target="y", speed="light", delay=delay)
    play_file(write(tmp_path / "a.csv", shop, x, y), tmp_path / "a", settings)
    changed = y.copy()
    changed[200] = 1.0 - y[200] if binary else y[200] + 50.0
    play_file(write(tmp_path / "b.csv", shop, x, changed), tmp_path / "b", settings)
    one, two = (predictions(tmp_path / name)["yhat"].to_numpy() for name in "ab")
    same = one == two
    assert same[1 + delay : 201 + delay].all()
    assert not same[201 + delay :].all()


def test_it_learns_what_dropping_the_column_cannot(tmp_path):
    path = write(tmp_path / "t.csv", *rows_of(1500, 30))
    for name, drop in (("with", ()), ("without", ("shop",))):
        play_file(path, tmp_path / name, Settings(target="y", speed="light", drop=drop, categories=20))
    learned, dropped = [
        json.loads((tmp_path / name / "run.json").read_text())["scores"]["model"]["rmse"]
        for name in ("with", "without")
    ]
    assert learned < 0.6 * dropped


@pytest.mark.parametrize(("delay", "levels"), [(0, 60), (5, 60), (5, 23)])
def test_stopped_and_resumed_or_updated_it_is_one_run(tmp_path, monkeypatch, delay, levels):
    """With 23 texts, 20 of them get features of their own, and the others come up on the way."""
    monkeypatch.setattr(csv_file, "BATCH_ROWS", 32)
    monkeypatch.setattr(run_loop, "BATCHES_PER_COMMIT", 2)
    shop, x, y = rows_of(400, levels)
    if levels == 23:
        shop[:100] = [f"s{k % 15}" for k in range(100)]
    settings = Settings(target="y", speed="light", delay=delay)
    path = write(tmp_path / "t.csv", shop, x, y)
    play_file(path, tmp_path / "whole", settings)
    asked = iter([False] * 4)
    with pytest.raises(run_loop.Interrupted):
        play_file(path, tmp_path / "run", settings, stop=lambda: next(asked, True))
    play_file(path, tmp_path / "run", settings, resume=True)
    play_file(write(tmp_path / "first.csv", shop[:250], x[:250], y[:250]), tmp_path / "updated", settings)
    update_run(tmp_path / "updated", path)
    expected = predictions(tmp_path / "whole")
    assert predictions(tmp_path / "run").equals(expected)
    assert predictions(tmp_path / "updated").equals(expected)
    streams = [ud.load(tmp_path / name) for name in ("whole", "run", "updated")]
    values = [stream.features.state()[0] for stream in streams]
    assert len(values[0]["places"]) == (20 if levels == 23 else 0)
    for name in ("means", "mean_places", "places", "texts", "features"):
        assert values[0][name] == values[1][name] == values[2][name]
    assert streams[0].model == streams[1].model == streams[2].model


def test_texts_beyond_those_with_features_are_learned_from_where_they_come():
    schema = Schema("regression", None, None, "iso", False, (), (("c", ("a", "b")),))
    settings = Settings(target="y", categories=2)
    features = Features(settings, schema)
    cells = ["a", "b", "c", "d", "c", "c", None]  # what is usual is known from the first c on
    batch = RowBatch(np.arange(7) + 1, {"c": cells, "y": [1.0, 2.0, 9.0, 1.0, 9.0, 9.0, 5.0]})
    rows = features.encode(batch, RowOrigin("t", settings))
    assert features.names == ["c=a", "c=b", "c: recent mean", "c: mean"]
    assert rows.Z[:2].tolist() == [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    assert rows.Z[2].tolist() == rows.Z[3].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert (rows.Z[5, 2:] > 0.0).all()
    assert np.isnan(rows.Z[6]).all()


def test_several_classes_give_features_to_the_first_texts_only():
    schema = Schema("multiclass", ("u", "v", "w"), None, "iso", False, ("x",), (("c", ("a",)),))
    settings = Settings(target="y", categories=1)
    for labels in ("never", "later", "here"):
        features = Features(settings, schema)
        batch = RowBatch(np.array([1]), {"c": ["b"], "x": [1.0], "y": ["u"]})
        assert features.encode(batch, RowOrigin("t", settings), labels).Z.tolist() == [[1.0, 0.0]]
        assert features.names == ["x", "c=a"]


def test_unseen_texts_are_predicted_by_the_prior(tmp_path):
    shop, x, y = rows_of(300, 40)
    play_file(write(tmp_path / "t.csv", shop, x, y), tmp_path / "run", Settings(target="y", speed="light"))
    new = write(tmp_path / "new.csv", ["s1", "never", "s1"], np.zeros(3), np.zeros(3))
    found = predict_file(tmp_path / "run", new)
    said = np.concatenate([frame["prediction"].to_numpy() for frame in found.frames()])
    learner = ud.load(tmp_path / "run" / "model.undrift").model
    assert said[1] == learner.predict({"x": 0.0, "shop: recent mean": 0.0, "shop: mean": 0.0})
    assert said[0] == said[2] != said[1]  # predicting learns nothing


@pytest.mark.parametrize("classes", [None, ("no", "yes")])
def test_served_rows_with_labels_at_once_have_the_features_of_a_run(classes):
    shop, x, y = rows_of(120, 30, binary=classes is not None)
    settings = Settings(target="y")
    task = "regression" if classes is None else "classification"
    schema = Schema(task, classes, None, "iso", False, ("x",), (), many_texts=("shop",))
    labels = y.tolist() if classes is None else [classes[int(one)] for one in y]
    batch = RowBatch(np.arange(120) + 1, {"x": x.tolist(), "shop": shop, "y": labels})
    whole = Features(settings, schema).encode(batch, RowOrigin("t", settings))
    served, Z = Features(settings, schema), []
    for k in range(120):
        if k == 60:  # as after a restart
            values, arrays = served.state()
            served = Features(settings, schema)
            served.resume(json.loads(json.dumps(values, allow_nan=False)), arrays)
        row = RowBatch(np.array([k + 1]), {"x": [float(x[k])], "shop": [shop[k]]})
        Z.append(served.encode(row, RowOrigin("t", settings), "later").Z[0])
        served.know_label(k + 1, float(y[k]))
    assert np.array(Z).tobytes() == whole.Z.tobytes()


def test_labels_in_any_order_are_counted_once():
    means = CategoryMeans(binary=False)
    means.begin("c")
    means.encode(0, {"c": ["a", "b", "a"]}, None)
    means.know_label(2, 3.0)
    means.know_label(3, 7.0)
    means.know_label(3, 7.0)
    state = means.state()
    assert state["columns"][0][1] == [["b", 1.0, 0.0, 1.0, 0.0], ["a", 1.0, 4.0, 1.0, 4.0]]
    assert [row for row, *_ in state["waiting"]] == [1]


@given(steps=st.lists(st.tuples(st.sampled_from("pprc"), st.integers(0, 9)), max_size=60))
def test_copies_of_a_shared_dict_are_as_those_of_a_dict(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(category_means, "MOST_OWN", 4)
        both = [(SharedDict({7: 70, 3: 30}), {7: 70, 3: 30})]
        for t, (what, key) in enumerate(steps):
            shared, plain = both[t % len(both)]
            if what == "c":
                both.append((shared.copy(), dict(plain)))
            elif what == "r" and key in plain:
                shared.remove(key)
                del plain[key]
            elif what == "p":
                plain.pop(key, None)
                plain[key] = t
                shared.put(key, t)
            for shared, plain in both:
                assert list(shared.items()) == list(plain.items())
                assert (len(shared), shared.get(key)) == (len(plain), plain.get(key))
                assert not plain or shared.oldest() == next(iter(plain))


def test_memory_is_bounded_by_forgetting_what_was_not_seen_the_longest(monkeypatch):
    monkeypatch.setattr(category_means, "MOST_CATEGORIES", 3)
    monkeypatch.setattr(category_means, "MOST_WAITING", 4)
    means = CategoryMeans(binary=False, delay=0)
    means.begin("c")
    means.encode(0, {"c": ["a", "b", "a", "c", "d", "e", "e"]}, np.arange(7.0))
    assert [text for text, *_ in means.state()["columns"][0][1]] == ["c", "d", "e"]
    later = CategoryMeans(binary=False)
    later.begin("c")
    later.encode(0, {"c": ["a"] * 9}, None)
    assert [row for row, *_ in later.state()["waiting"]] == [6, 7, 8, 9]


def test_a_row_without_its_text_is_skipped_or_refused_by_the_name_of_the_column(tmp_path):
    shop, x, y = rows_of(200, 40)
    shop[150] = ""
    path = write(tmp_path / "t.csv", shop, x, y)
    play_file(path, tmp_path / "skip", Settings(target="y", speed="light", missing="skip"))
    assert predictions(tmp_path / "skip").height == 199
    with pytest.raises(DataError, match="line 152: 'shop' is missing; fill it in"):
        play_file(path, tmp_path / "refuse", Settings(target="y", speed="light", missing="refuse"))


def test_a_long_text_is_one_of_many(tmp_path):
    shop, x, y = rows_of(200, 40)
    shop[150] = "long" * 500
    play_file(write(tmp_path / "t.csv", shop, x, y), tmp_path / "run", Settings(target="y", speed="light"))
    assert predictions(tmp_path / "run").height == 200
