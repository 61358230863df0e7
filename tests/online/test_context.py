"""What online estimators know of a row besides its features: context, hinges and products, on rows of every width."""

import numpy as np
import pytest

import undrift as ud
from tests.helpers import draw_stream
from undrift.online.families import HINGES, PRODUCTS

MODELS = (ud.OnlineRegressor, ud.OnlineClassifier)


def products_of_features(rows, dim, seed=0):
    return draw_stream(rows, dim, lambda Z: Z[:, 0] * Z[:, 1], noise=0.1, seed=seed)


def labels_for(model, y):
    return np.where(y > 0.0, 1.0, -1.0) if model is ud.OnlineClassifier else y


@pytest.mark.parametrize("model", MODELS)
def test_a_product_of_features_is_learned(model):
    Z, y = products_of_features(1500, 4)
    labels = labels_for(model, y)
    losses = {}
    for speed in ("fast", "best"):
        one = model(speed=speed)
        one.play(Z, labels)
        losses[speed] = one.losses[0]
    assert losses["best"] < 0.55 * losses["fast"]


def test_a_feature_whose_level_wanders_is_seen_against_its_running_means():
    rng = np.random.default_rng(1)
    level, y = np.cumsum(0.3 * rng.normal(size=1000)), rng.normal(size=1000)
    model = ud.OnlineRegressor(speed="fast")
    model.play((level + y)[:, None], y)
    losses = dict(zip(model.candidates, model.losses, strict=True))
    assert losses["context"] < 0.5 * losses["linear"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("dim", "families"), [(2, {HINGES, PRODUCTS}), (30, {HINGES}), (60, set())])
def test_wide_rows_have_fewer_families_and_no_wider_ones(model, dim, families):
    Z, y = products_of_features(40, dim)
    one = model()
    one.play(Z, labels_for(model, y))
    plans = one.plan.family_plans
    assert set(plans) & {HINGES, PRODUCTS} == families
    assert all(plans[name].dim <= 96 for name in (*families, "context"))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("late_at", [3, 20, 300])
def test_rows_may_grow_while_records_wait(model, late_at):
    Z, y = products_of_features(330, 60, seed=2)
    labels = labels_for(model, y)
    one, waiting = model(seed=3), []
    for t in range(330):
        width = 10 if t < late_at else 25 if t < late_at + 10 else 60  # families disappear as rows grow wider
        waiting.append((one.ask({f"f{j}": Z[t, j] for j in range(width)}), labels[t]))
        if len(waiting) > 5:
            one.tell(*waiting.pop(0))
        if t == late_at + 12:
            one = one.copy()
    for record, label in waiting:
        one.tell(record, label)
    assert one.rounds == 330
    assert np.isfinite(one.losses).all()
    assert (one.plan.began == 60) == (late_at < 250)


@pytest.mark.parametrize("kind", ["one value", "two values", "never seen"])
def test_features_that_hardly_move_have_no_hinges(kind):
    Z, y = products_of_features(300, 3)
    Z[:, 2] = 7.0 if kind == "one value" else Z[:, 2] > 0.0 if kind == "two values" else np.nan
    model = ud.OnlineRegressor()
    yhat = model.play(Z, y).yhat
    assert np.isfinite(yhat).all()
    columns = model.part(f"{HINGES}.columns")
    hinges, products = columns[columns[:, 1] < 0.0], columns[columns[:, 1] >= 0.0]
    assert 2.0 not in hinges[:, 0]
    assert (2.0 in products[:, :2]) == (kind == "two values")
    assert set(hinges[hinges[:, 0] >= 0.0, 0]) == {0.0, 1.0}


def test_a_table_of_columns_that_points_nowhere_reads_nothing():
    Z, y = products_of_features(300, 3)
    model = ud.OnlineRegressor()
    model.play(Z, y)
    for bad in (1e9, -5.0, 1e300):
        model.part(f"{HINGES}.columns")[:, :2] = bad
        assert np.isfinite(model.predict(Z[0]))
