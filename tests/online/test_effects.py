"""What an estimator says about what matters: effects of features, and how level 2 adds up the families."""

import numpy as np
import pytest

import undrift as ud
from tests.helpers import draw_stream
from tests.twins.estimator_stages import classification_features, regression_features
from undrift.errors import InputError
from undrift.kernels import layout
from undrift.online.inspection import LAST_LABEL, level2_shares


def two_effects(rows=1500, seed=0):
    scale, offset = [1.0, 10.0, 1.0, 1.0], [0.0, 500.0, 0.0, 0.0]
    return draw_stream(
        rows, 4, lambda Z: 100.0 + 3.0 * Z[:, 0] + 0.1 * Z[:, 1], noise=0.2, seed=seed, scale=scale, offset=offset
    )


@pytest.mark.parametrize("speed", ["light", "fast", "best"])
def test_effects_are_sizes_of_coefficients_where_the_world_is_linear(speed):
    Z, y = two_effects()
    model = ud.OnlineRegressor(speed=speed)
    model.play(Z, y)
    before, rows = model.part("numbers").copy(), Z[-300:]
    found = model.effects(rows)
    truth = np.array([3.0, 0.1, 0.0, 0.0]) * np.mean(np.abs(rows - Z.mean(axis=0)), axis=0)
    np.testing.assert_allclose(found, truth, atol=0.1)
    assert (model.part("numbers") == before).all()


def test_effects_of_two_classes_are_log_odds_and_names_may_come_in_any_order():
    Z, y = two_effects()
    rows = [dict(zip("abcd", row, strict=True)) for row in Z.tolist()]
    model = ud.OnlineClassifier(speed="fast")
    model.play(rows, (y > 150.0).astype(float))
    found = model.effects(rows[-100:])
    assert found.argmax() == 0
    assert (model.effects([dict(reversed(row.items())) for row in rows[-100:]]) == found).all()


def noisy_texts(rows=1500, texts=6, seed=0):
    """Rows of a feature that matters, and a text that is pure noise as one feature of 0 and 1 for each text."""
    rng = np.random.default_rng(seed)
    x, text = rng.normal(size=rows), rng.integers(texts, size=rows)
    Z = np.column_stack([x, text[:, None] == np.arange(texts)])
    return Z, 0.1 * x + rng.normal(size=rows)


@pytest.mark.parametrize("labels", ["numbers", "two classes", "several classes"])
def test_features_of_a_text_that_is_noise_move_little_as_a_group(labels):
    Z, y = noisy_texts()
    groups = [[0], [1, 2, 3, 4, 5, 6]]
    if labels == "numbers":
        model = ud.OnlineRegressor(speed="fast")
    else:
        model = ud.OnlineClassifier(speed="fast")
        y = y + 2.0 * Z[:, 0]
        y = (y > 0.0).astype(float) if labels == "two classes" else np.digitize(y, [-0.5, 0.5]).astype(str)
    model.play(Z, y)
    alone, together = model.effects(Z[-200:]), model.effects(Z[-200:], groups)
    assert together.shape == (2,)
    assert together[0] == alone[0]
    assert together[1] < alone[1:].sum() / 1.5  # moved together they stay a text, of which there is one


def test_a_group_moves_its_features_at_once_by_name_or_place():
    Z, y = two_effects()
    names = ["a", "b", "c", "d"]
    model = ud.OnlineRegressor(speed="light")
    model.play(ud.online.Table(names, Z), y)
    rows = Z[-100:]
    usual = rows.copy()
    usual[:, [0, 1]] = model.part("center")[[0, 1]]
    found = model.effects(rows, [["a", "b"], ["d"]])
    assert found[0] == pytest.approx(np.mean(np.abs(model.predict(usual) - model.predict(rows))))
    assert (found == model.effects(rows, [[0, 1], [3]])).all()
    assert found[1] == model.effects(rows)[3]
    assert (model.effects(rows[:0], [["a", "b"]]) == [0.0]).all()


@pytest.mark.parametrize(
    ("groups", "got"), [([["a", "x"]], "'x'"), (["a"], "'a'"), ([[4]], "4")], ids=["name", "no list", "place"]
)
def test_groups_of_unknown_features_are_refused(groups, got):
    Z, y = two_effects(50)
    model = ud.OnlineRegressor(speed="light")
    model.play(ud.online.Table(["a", "b", "c", "d"], Z), y)
    sentence = rf"OnlineRegressor: groups must be lists of features \(a, b, c, d\), got {got}; write \[\[one, another\]"
    with pytest.raises(InputError, match=sentence):
        model.effects(Z, groups)


def test_a_feature_and_its_missing_indicator_are_one():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(1500, 2))
    holes = rng.random(1500) < 0.3
    Z[holes, 0] = np.nan
    model = ud.OnlineRegressor(speed="fast", indicators=True)
    model.play(Z, 5.0 * holes + 0.1 * rng.normal(size=1500))
    rows = Z[-300:]
    found = model.effects(rows)
    assert found.shape == (2,)
    assert found[0] > 5.0 * found[1]  # though nothing but its absence matters


def test_before_the_first_row_there_is_nothing_to_tell():
    assert ud.OnlineRegressor().combination() == {}
    assert ud.OnlineRegressor().effects(np.ones((3, 2))).shape == (0,)
    assert (ud.OnlineRegressor().effects(np.ones((3, 2)), [[0, 1]]) == [0.0]).all()


@pytest.mark.parametrize("binary", [False, True])
def test_shares_of_level_2_are_its_coefficients_by_family(binary):
    """What level 2 answers changes by a family's share when all answers of that family change by 1."""
    Z, y = two_effects(400)
    model = ud.OnlineClassifier() if binary else ud.OnlineRegressor()
    model.play(Z, (y > 150.0).astype(float) if binary else y)
    plan, rng = model.plan, np.random.default_rng(1)
    x = rng.normal(size=plan.level2_dim)
    singles = [name for name, one in plan.family_plans.items() if one.has_singles for _ in one.betas]

    def answer(changed):
        mixtures = np.array([float(name == changed) for name in plan.families])
        alone, hint = np.array([float(name == changed) for name in singles]), float(changed == LAST_LABEL)
        if binary:
            return float(classification_features(mixtures, alone, hint, 0.0) @ x)
        reference = plan.families.index("context")
        errors = np.zeros(len(mixtures))
        features = regression_features(mixtures, reference, alone, hint, errors, 0.0, 1.0)
        return float(mixtures[reference] + features @ x)

    shares = level2_shares(plan, x)
    assert shares == pytest.approx({name: answer(name) - answer(None) for name in shares})
    leading = layout.leader(
        model.part("level 2.information"), int(np.argmax(model.part("level 2.log_weights"))), plan.level2_dim
    )
    assert model.combination() == level2_shares(plan, leading)
