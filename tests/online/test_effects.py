"""What an estimator says about what matters: effects of features, and how level 2 adds up the families."""

import numpy as np
import pytest

import undrift as ud
from undrift.kernels import layout
from undrift.kernels.reference_estimator_stages import classification_features, regression_features
from undrift.online.inspection import LAST_LABEL, level2_shares


def stream(rows=1500, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, 4)) * [1.0, 10.0, 1.0, 1.0] + [0.0, 500.0, 0.0, 0.0]
    return Z, 100.0 + 3.0 * Z[:, 0] + 0.1 * Z[:, 1] + 0.2 * rng.normal(size=rows)


@pytest.mark.parametrize("speed", ["light", "fast", "best"])
def test_effects_are_sizes_of_coefficients_where_the_world_is_linear(speed):
    Z, y = stream()
    model = ud.OnlineRegressor(speed=speed)
    model.play(Z, y)
    before, rows = model.part("numbers").copy(), Z[-300:]
    found = model.effects(rows)
    truth = np.array([3.0, 0.1, 0.0, 0.0]) * np.mean(np.abs(rows - Z.mean(axis=0)), axis=0)
    np.testing.assert_allclose(found, truth, atol=0.1)
    assert (model.part("numbers") == before).all()


def test_effects_of_two_classes_are_log_odds_and_names_may_come_in_any_order():
    Z, y = stream()
    rows = [dict(zip("abcd", row, strict=True)) for row in Z.tolist()]
    model = ud.OnlineClassifier(speed="fast")
    model.play(rows, (y > 150.0).astype(float))
    found = model.effects(rows[-100:])
    assert found.argmax() == 0
    assert (model.effects([dict(reversed(row.items())) for row in rows[-100:]]) == found).all()


def test_before_the_first_row_there_is_nothing_to_tell():
    assert ud.OnlineRegressor().combination() == {}
    assert ud.OnlineRegressor().effects(np.ones((3, 2))).shape == (0,)


@pytest.mark.parametrize("binary", [False, True])
def test_shares_of_level_2_are_its_coefficients_by_family(binary):
    """What level 2 answers changes by a family's share when all answers of that family change by 1."""
    Z, y = stream(400)
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
