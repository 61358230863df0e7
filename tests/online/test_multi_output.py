"""MultiOutputRegressor: every output as if it were alone, one information matrix where members allow it."""

import itertools
import pickle

import numpy as np
import pytest

import undrift as ud
from undrift import store
from undrift.ensemble import SelfConfident
from undrift.errors import InputError, ModelFileError


def rows(n=300, d=4, m=3, *, seed=0):
    rng = np.random.default_rng(seed)
    Z = np.column_stack([np.ones(n), rng.normal(size=(n, d - 1))])
    return Z, Z @ rng.normal(size=(d, m)) * np.where(np.arange(n) < n // 2, 1.0, -1.0)[:, None] + rng.normal(
        size=(n, m)
    )


def mixed():
    hints = [ud.DiscountedVAW(half_life=h, hint=hint) for h in (5, 50) for hint in ("zero", "last", "ridge")]
    return ud.Ensemble([hints[0], ud.Zero(), *hints[1:]], SelfConfident(share=0.01), prior=np.arange(1.0, 8.0))


@pytest.mark.parametrize("model", [ud.linear_ensemble(horizon=300), mixed()], ids=["grid", "hints"])
def test_every_output_has_the_bits_of_the_ensemble_alone(model):
    Z, Y = rows()
    shared = ud.MultiOutputRegressor(model, outputs=3)
    trace = shared.play(Z, Y)
    assert shared.shares_design
    for k in range(3):
        alone = model.clone()
        assert alone.play(Z, Y[:, k]).yhat.tobytes() == trace.yhat[:, k].tobytes()
        assert shared.weights()[k].tobytes() == alone.weights.tobytes()
        assert shared.cost()[k].tobytes() == alone.cost().tobytes()
        assert shared.predict(Z[:5])[:, k].tobytes() == alone.predict(Z[:5]).tobytes()
    assert trace.known.tolist() == [False] + [True] * 299


def test_one_output_has_the_bits_of_the_ensemble():
    Z, Y = rows(m=1)
    one = ud.MultiOutputRegressor(ud.linear_ensemble(horizon=300), outputs=1)
    assert one.play(Z, Y).yhat[:, 0].tobytes() == ud.linear_ensemble(horizon=300).play(Z, Y[:, 0]).yhat.tobytes()


def test_other_models_are_cloned_for_each_output():
    Z, Y = rows(120)
    model = ud.MultiOutputRegressor(ud.OnlineRegressor(speed="light"), outputs=3)
    trace = model.play(Z, Y)
    assert not model.shares_design
    for k in range(3):
        alone = ud.OnlineRegressor(speed="light")
        assert alone.play(Z, Y[:, k]).yhat.tobytes() == trace.yhat[:, k].tobytes()
    assert model.predict(Z[0]).shape == (3,)


@pytest.mark.parametrize("model", [mixed(), ud.OnlineRegressor(speed="light")], ids=["shared", "clones"])
@pytest.mark.parametrize("how", ["rows", "copy", "pickle", "file"])
def test_cutting_anywhere_changes_no_bit(tmp_path, model, how):
    Z, Y = rows(90)
    Y[20:30, 1] = np.nan
    Y[40:44] = np.nan
    Y[0] = np.nan
    whole = ud.MultiOutputRegressor(model, outputs=3)
    trace, part, found = whole.play(Z, Y), whole.clone(), []
    cuts = range(91) if how == "rows" else (0, 1, 33, 42, 90)
    for a, b in itertools.pairwise(cuts):
        if how == "copy":
            part = part.copy()
        elif how == "pickle":
            part = pickle.loads(pickle.dumps(part))
        elif how == "file":
            part.save(tmp_path / "model")
            part = ud.load(tmp_path / "model")
        if how == "rows":
            found.append(part.predict(Z[a])[None])
            part.learn(Z[a], Y[a])
        else:
            found.append(part.play(Z[a:b], Y[a:b]).yhat)
    assert np.concatenate(found).tobytes() == trace.yhat.tobytes()
    assert part == whole
    assert trace.known.tolist() == [False, False] + [True] * 88


def test_a_missing_label_leaves_the_other_outputs_alone():
    Z, Y = rows()
    holes = Y.copy()
    holes[50:200, 0] = np.nan
    full, part = ud.MultiOutputRegressor(mixed(), 3), ud.MultiOutputRegressor(mixed(), 3)
    assert full.play(Z, Y).yhat[:, 1:].tobytes() == part.play(Z, holes).yhat[:, 1:].tobytes()
    assert np.isfinite(part.predict(Z)).all()


def test_a_refused_label_changes_nothing():
    Z, Y = rows(40)
    model = ud.MultiOutputRegressor(ud.DiscountedVAW(), outputs=3)
    model.play(Z, Y)
    before = model.copy()
    Y[5, 2] = np.nan
    with pytest.raises(InputError, match="DiscountedVAW"):
        model.play(Z, Y)
    assert model == before


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: ud.MultiOutputRegressor(ud.OnlineClassifier(), 2), "must be a fresh learner for regression"),
        (lambda: ud.MultiOutputRegressor("vaw", 2), "must be a fresh learner for regression, got 'vaw'"),
        (lambda: ud.MultiOutputRegressor(ud.DiscountedVAW(), 0), "outputs must be"),
        (lambda: ud.MultiOutputRegressor(mixed(), 2).play(np.ones((3, 2)), np.ones(3)), r"shape \(3, 2\), got \(3,\)"),
        (lambda: ud.MultiOutputRegressor(mixed(), 2).learn(np.ones((3, 2)), np.ones(2)), "learn takes one row, got 3"),
        (lambda: ud.MultiOutputRegressor(mixed(), 2).play(np.ones((1, 0)), np.ones((1, 2))), "at least one feature"),
        (lambda: ud.MultiOutputRegressor(ud.DiscountedVAW(), 2).weights(), "there are no members; pass an ensemble"),
        (lambda: ud.OnlineRegressor().play(np.ones((3, 2)), np.ones((3, 2))), "MultiOutputRegressor"),
        (lambda: ud.linear_ensemble().play(np.ones((3, 2)), np.ones((3, 2))), "MultiOutputRegressor"),
    ],
)
def test_what_does_not_fit_is_one_sentence(call, says):
    with pytest.raises(InputError, match=says):
        call()


@pytest.mark.parametrize("spoil", ["theta", "lack", "nan", "model", "class", "rounds"])
def test_forged_files_are_refused(tmp_path, spoil):
    model = ud.MultiOutputRegressor(mixed(), 2)
    model.play(*rows(20, m=2))
    header, arrays = model.snapshot()
    if spoil == "theta":
        arrays["theta"] = arrays["theta"][:, :2]
    elif spoil == "lack":
        del arrays["last"]
    elif spoil == "nan":
        arrays["last"] = np.array([np.nan, 0.0])
    elif spoil == "model":
        header["model"] = {"class": "nothing"}
    elif spoil == "rounds":
        header["rounds"] = -1
    else:
        header["class"] = "DiscountedVAW"
    store.write(tmp_path / "model", header, arrays)
    with pytest.raises(ModelFileError, match="model"):
        ud.MultiOutputRegressor.load(tmp_path / "model")
