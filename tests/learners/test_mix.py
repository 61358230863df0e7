"""Mix: rows and blocks of forecasts, late labels, silent candidates, files, fleets, and what it refuses."""

from __future__ import annotations

import csv
import gzip
import pickle

import numpy as np
import pytest

import undrift as ud
from tests.helpers import DATA
from undrift.errors import InputError, ModelFileError

MARKETS = ["NP", "PJM", "BE"]
SETTINGS = [{"loss": "squared"}, {"loss": "absolute"}, {"loss": "quantile", "quantile": 0.2}]


def draw(rows=200, offered=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.cumsum(rng.normal(size=rows))
    Z = y[:, None] + rng.normal(size=(rows, offered)) * np.linspace(0.5, 2.0, offered)
    Z[rng.random(Z.shape) < 0.1] = np.nan
    return Z, np.where(rng.random(rows) < 0.05, np.nan, y)


def blocks(horizon=4, rows=60, seed=0):
    Z, y = draw(rows * horizon, seed=seed)
    return Z.reshape(rows, horizon, -1), y.reshape(rows, horizon)


def same_trace(a, b):
    return all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in ("yhat", "weights"))


# ---- rounds ----------------------------------------------------------------------------------------------------


def test_it_begins_with_the_mean_and_follows_the_better_candidate():
    rng = np.random.default_rng(0)
    y = rng.normal(size=2000)
    Z = y[:, None] + rng.normal(size=(2000, 3)) * [1.0, 1.0, 0.1]
    mix = ud.Mix()
    assert mix.predict(Z[0]) == pytest.approx(Z[0].mean())
    trace = mix.play(Z, y)
    assert trace.weights[0].tolist() == [0.0, 0.0, 0.0, 1.0, 0.0]
    assert mix.candidates == ["candidate 0", "candidate 1", "candidate 2", "mean", "median"]
    assert np.argmax(mix.weights) == 2
    assert mix.weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(trace.weights.sum(axis=1), 1.0)
    better = 0.5 * np.sum((Z[:, 2] - y) ** 2)
    assert mix.losses[2] == pytest.approx(better)
    assert mix.certificate().total_loss == pytest.approx(0.5 * np.sum((trace.yhat - y) ** 2))
    assert mix.certificate().total_loss < 1.2 * better


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_target_of_each_loss_is_found(settings):
    """Two candidates on both sides of a skewed label: the mixture is near its mean, median or quantile."""
    rng = np.random.default_rng(1)
    y = rng.exponential(size=8000)
    trace = ud.Mix(**settings).play(np.tile([0.0, 3.0], (8000, 1)), y)
    target = {"squared": y.mean(), "absolute": np.median(y), "quantile": np.quantile(y, 0.2)}[settings["loss"]]
    assert trace.yhat[4000:].mean() == pytest.approx(target, abs=0.1)


def test_a_silent_candidate_neither_gains_nor_loses():
    Z, y = draw()
    Z[:, 1] = np.nan
    mix = ud.Mix()
    mix.play(Z, y)
    alone = ud.Mix()
    alone.play(np.delete(Z, 1, axis=1), y)
    assert mix.weights[1] == mix.cost()[1] == 0.0
    assert mix.losses[1] == mix.certificate().total_loss
    assert np.delete(mix.weights, 1).tobytes() == alone.weights.tobytes()


def last_labels(y, due, horizon):
    """Return, for each forecast, the label of its step that became known last before the forecast's row."""
    last, answers = np.zeros(horizon), np.zeros_like(y)
    for t in range(len(y)):
        answers[t] = last
        for k, h in [(k, h) for k in range(t + 1) for h in range(horizon) if due[k, h] == t]:
            last[h] = last[h] if np.isnan(y[k, h]) else y[k, h]
    return answers


@pytest.mark.parametrize("horizon", [1, 3])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_answer_is_never_nan_and_the_last_label_where_all_candidates_are_missing(settings, horizon):
    rows = 80
    for seed in range(6):
        rng = np.random.default_rng([seed, horizon])
        y = rng.normal(size=(rows, horizon))
        Z = y[..., None] + rng.normal(size=(rows, horizon, 2))
        Z[rng.random(Z.shape) < rng.uniform(0.1, 0.9)] = np.nan
        Z[0], y[rng.random(y.shape) < 0.3] = np.nan, np.nan
        late = rng.integers(0, 5, size=(rows, horizon)) * (seed % 2)
        silent = np.isnan(Z).all(axis=2)
        expected = last_labels(y, np.arange(rows)[:, None] + late, horizon)
        block = (Z[:, 0], y[:, 0]) if horizon == 1 else (Z, y)
        trace = ud.Mix(horizon=horizon, **settings).play(*block, delay=late[:, 0] if horizon == 1 else late)
        yhat, weights = trace.yhat.reshape(rows, horizon), trace.weights.reshape(rows, horizon, -1)
        assert np.isfinite(yhat).all()
        assert yhat[silent].tolist() == expected[silent].tolist()
        assert not weights[silent].any()
        single = ud.Mix(horizon=horizon, **settings)
        waiting = []
        for t in range(rows):
            assert np.array(single.predict(block[0][t])).tobytes() == yhat[t].tobytes()
            served = single.ask(block[0][t])
            for h, record in enumerate(served if horizon > 1 else [served]):
                assert record.yhat == yhat[t, h]
                waiting.append((t + late[t, h], record, y[t, h]))
            for due in [due for due in waiting if due[0] == t]:
                waiting.remove(due)
                single.tell(*due[1:])


@pytest.mark.parametrize("horizon", [1, 4])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_rows_without_any_forecast_teach_nothing_but_the_last_label(settings, horizon):
    Z, y = blocks(horizon)
    silent = np.insert(Z, 30, np.nan, axis=0)
    labels = np.insert(y, 30, 1e9, axis=0)
    mix, other = ud.Mix(horizon=horizon, **settings), ud.Mix(horizon=horizon, **settings)
    mix.play(*(silent[:, 0], labels[:, 0]) if horizon == 1 else (silent, labels))
    other.play(*(Z[:, 0], y[:, 0]) if horizon == 1 else (Z, y))
    assert mix.rounds == other.rounds + horizon
    ours, others = mix.snapshot()[1], other.snapshot()[1]
    assert all(ours[name].tobytes() == others[name].tobytes() for name in ours)
    assert str(mix.certificate()) == str(other.certificate())


def test_a_missing_label_changes_nothing_but_the_count():
    Z, y = draw()
    mix = ud.Mix()
    mix.play(Z, y)
    before = mix.weights, mix.losses, mix.cost()
    mix.learn(Z[0], np.nan)
    assert mix.rounds == 201
    assert all(np.array_equal(a, b) for a, b in zip(before, (mix.weights, mix.losses, mix.cost()), strict=True))


@pytest.mark.parametrize("horizon", [1, 5])
@pytest.mark.parametrize("settings", SETTINGS[:2], ids=str)
def test_a_broken_candidate_does_no_harm(settings, horizon):
    """Eight forecasts that are alike, so that their mean leads, into which the broken one goes with an eighth."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = np.cumsum(rng.normal(size=1000))
        Z = y[:, None] + rng.normal(size=(1000, 8))
        Z[700:705, seed] = 1e9
        shape = (-1,) if horizon == 1 else (-1, horizon)
        trace = ud.Mix(horizon=horizon, **settings).play(Z.reshape(*shape, 8), y.reshape(shape))
        error = np.abs(trace.yhat.ravel() - y)
        assert error[700:705].max() < 30.0 * error[600:700].mean()
        assert error[705:800].mean() < 1.4 * error[600:700].mean()


def test_scales_of_steps_do_not_matter():
    """Each step in a unit of its own: weights are the same, so that large far steps do not hide near ones."""
    Z, y = blocks(rows=100)
    units = np.array([1.0, 1024.0, 2.0**-20, 1.0])
    a, b = ud.Mix(horizon=4), ud.Mix(horizon=4)
    one, other = a.play(Z, y), b.play(Z * units[:, None], y * units)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-9)


def test_steps_learn_from_each_other():
    """A step whose labels never come uses what the other steps have shown."""
    rng = np.random.default_rng(3)
    y = rng.normal(size=(300, 3))
    Z = y[..., None] + rng.normal(size=(300, 3, 2)) * [0.1, 2.0]
    hidden = np.where(np.arange(3) == 1, np.nan, y)
    mix = ud.Mix(horizon=3)
    mix.play(Z, hidden)
    assert mix.weights[1, 0] > 0.5
    assert mix.losses[1].tolist() == [0.0] * 4


# ---- several steps, and late labels ----------------------------------------------------------------------------


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_blocks_are_predicted_then_learned(settings):
    Z, y = blocks()
    whole, single = ud.Mix(horizon=4, **settings), ud.Mix(horizon=4, **settings)
    trace = whole.play(Z, y)
    assert trace.yhat.shape == (60, 4)
    assert trace.weights.shape == (60, 4, 6)
    for t in range(60):
        assert single.predict(Z[t]).tobytes() == trace.yhat[t].tobytes()
        single.learn(Z[t], y[t])
    assert single == whole
    assert whole.weights.shape == whole.losses.shape == whole.cost().shape == (4, 6)
    assert whole.predict(Z[:3]).shape == (3, 4)


def test_blocks_served_and_told_one_by_one_are_play():
    Z, y = blocks()
    y = np.nan_to_num(y)
    whole, told = ud.Mix(horizon=4), ud.Mix(horizon=4)
    trace = whole.play(Z, y)
    for t in range(60):
        served = told.ask(Z[t])
        assert [one.yhat for one in served] == trace.yhat[t].tolist()
        for one, label in zip(served, y[t], strict=True):
            told.tell(one, float(label))
    assert told == whole


@pytest.mark.parametrize("delay", [0, 2, np.arange(4), "mixed"])
def test_late_blocks_are_the_same_however_they_are_cut(delay):
    Z, y = blocks()
    delays = np.random.default_rng(4).integers(0, 4, size=(60, 4)) if isinstance(delay, str) else delay
    part = delays if np.shape(delays) == (60, 4) else None
    whole = ud.Mix(horizon=4)
    trace = whole.play(Z, y, delay=delays)
    cut, yhat = ud.Mix(horizon=4), []
    for a, b in ((0, 7), (7, 8), (8, 60)):
        yhat.append(cut.play(Z[a:b], y[a:b], delay=delays if part is None else part[a:b]).yhat)
        cut = pickle.loads(pickle.dumps(cut))
    assert np.concatenate(yhat).tobytes() == trace.yhat.tobytes()
    assert cut == whole
    assert len(whole.pending) == {0: 0, 2: 8}.get(delay, len(whole.pending)) if np.ndim(delay) == 0 else 6
    assert (trace.yhat.tobytes() == ud.Mix(horizon=4).play(Z, y).yhat.tobytes()) == (
        np.shape(delay) == () and delay == 0
    )


def test_labels_that_come_with_the_end_of_a_day_are_those_of_a_delay_by_row():
    Z, y = draw(240)
    late = ud.Mix("absolute")
    trace = late.play(Z, y, delay=23 - np.arange(240) % 24)
    assert not late.pending
    asked, served, yhat = ud.Mix("absolute"), [], []
    for t in range(240):
        served.append(asked.ask(Z[t]))
        yhat.append(served[-1].yhat)
        if t % 24 == 23:
            for k in range(t - 23, t + 1):
                asked.tell(served[k], float(y[k]))
    assert np.array(yhat).tobytes() == trace.yhat.tobytes()
    assert asked.cost().tobytes() == late.cost().tobytes()
    assert trace.weights.shape == (240, 6)


# ---- files and fleets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("horizon", [1, 4])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_files_copies_and_pickles_resume_to_the_bit(settings, horizon, tmp_path):
    Z, y = draw() if horizon == 1 else blocks()
    Z[24:28] = np.nan
    mix = ud.Mix(horizon=horizon, names=list("abcd"), **settings)
    mix.play(Z[:25], y[:25], delay=2)
    mix.save(tmp_path / "mix.undrift")
    others = [ud.load(tmp_path / "mix.undrift"), mix.copy(), pickle.loads(pickle.dumps(mix))]
    trace = mix.play(Z[25:], y[25:], delay=2)
    for other in others:
        assert same_trace(other.play(Z[25:], y[25:], delay=2), trace)
        assert other == mix
        assert other.candidates == ["a", "b", "c", "d", "mean", "median"]
    assert mix.clone().rounds == 0
    assert mix != mix.clone()


@pytest.mark.parametrize(
    ("array", "place", "value"),
    [("numbers", (0, 0), -1.0), ("last", 0, 1e80), ("sums", (0, 0, 1), -1.0), ("sums", (0, 1, 1), 0.0)],
)
def test_forged_states_are_refused(array, place, value):
    mix = ud.Mix()
    mix.play(*draw())
    header, arrays = mix.snapshot()
    arrays["sums"][0, 1, 0] = 1.0
    arrays[array][place] = value
    with pytest.raises(ModelFileError, match="do not fit together"):
        ud.Mix._from_snapshot(header, arrays)


def test_a_forged_record_without_a_prediction_is_refused():
    mix = ud.Mix()
    mix.ask(draw()[0][0])
    header, arrays = mix.snapshot()
    arrays["pending.records"][1] = np.nan
    with pytest.raises(ModelFileError, match="records of unsettled rows cannot be used"):
        ud.Mix._from_snapshot(header, arrays)


def test_a_state_cut_within_a_block_is_refused():
    mix = ud.Mix(horizon=4)
    mix.play(*blocks())
    header, arrays = mix.snapshot()
    with pytest.raises(ModelFileError, match="do not fit together"):
        ud.Mix._from_snapshot({**header, "rounds": 237}, arrays)


def test_a_fleet_has_a_mix_for_each_key():
    Z, y = draw(60)
    names = ["a", "b", "c", "d"]
    records = [
        {"shop": key, "n": t, "y": sign * y[t], **{name: sign * x for name, x in zip(names, Z[t], strict=True)}}
        for t in range(60)
        for key, sign in (("one", 1.0), ("other", -1.0))
        if not np.isnan(y[t])
    ]
    fleet = ud.Fleet(ud.Mix("absolute"), key="shop", order="n", features=names, target="y", numbered=False)
    run = fleet.run(records, batch=17)
    alone = ud.Mix("absolute")
    alone.play(Z[~np.isnan(y)], y[~np.isnan(y)])
    assert run.model("one") == alone
    np.testing.assert_allclose(run.model("other").weights, alone.weights)
    with pytest.raises(InputError, match="Fleet: horizon must be 1"):
        ud.Fleet(ud.Mix(horizon=2), key="shop", features=names, target="y")


# ---- what it refuses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"loss": "log"}, "loss must be one of squared, absolute, quantile"),
        ({"loss": "quantile"}, "quantile, a level in .0, 1., goes with loss='quantile'"),
        ({"quantile": 0.5}, "goes with loss='quantile' and no other"),
        ({"loss": "quantile", "quantile": 1.0}, "quantile must be in"),
        ({"horizon": 0}, "horizon must be"),
        ({"names": "ab"}, "names must be a list of different texts"),
        ({"names": ["a", "a"]}, "names must be a list of different texts"),
    ],
)
def test_wrong_settings_are_refused(settings, text):
    with pytest.raises(InputError, match=text):
        ud.Mix(**settings)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m, Z, y: m.play(Z[:, :3], y), "z must be one row .4, candidates. or rows"),
        (lambda m, Z, y: m.play(Z, y[:, :3]), r"a label for each row and step, \(60, 4\)"),
        (lambda m, Z, y: m.play(Z[..., :3], y), "z must have 4 features as before"),
        (lambda m, Z, y: m.learn(Z, y), "learn takes one row, got 60"),
        (lambda m, Z, y: m.play(Z[0], y[0]), "play takes rows"),
        (lambda m, Z, y: m.ask(Z[:2]), "ask takes one row, got 2"),
        (lambda m, Z, y: m.play(Z, y, delay=np.zeros(3, int)), r"one for each step \(4,\)"),
        (lambda m, Z, y: m.play(Z, y, delay=-1), "delay must be"),
        (lambda m, Z, y: m.play(Z, y, weight=np.full(60, 2.0)), "weight"),
        (lambda m, Z, y: m.play(np.where(np.isnan(Z), np.inf, Z), y), "finite"),
        (lambda m, Z, y: m.play(Z, y + 1e76), "y must be finite"),
        (lambda m, Z, y: m.predict([["a"] * 4] * 4), "z must be an array of numbers"),
        (lambda m, Z, y: m.plot(m.copy().play(Z, y), Z[:3], y[:3]), "plot takes the trace of these rows"),
    ],
)
def test_wrong_input_is_one_sentence_and_changes_nothing(call, text):
    Z, y = blocks()
    mix = ud.Mix(horizon=4)
    mix.play(Z, y)
    before = mix.copy()
    with pytest.raises(InputError, match=text) as caught:
        call(mix, Z, y)
    assert "\n" not in str(caught.value)
    assert mix == before


def test_names_must_fit_the_rows():
    mix = ud.Mix(names=["a", "b"])
    with pytest.raises(InputError, match="names has 2 names, but rows have 4 candidates"):
        mix.play(*draw())
    assert mix.dim is None
    assert mix.candidates == ["a", "b", "mean", "median"]


def test_what_is_interrupted_leaves_no_part_of_a_block(monkeypatch):
    Z, y = blocks()
    mix = ud.Mix(horizon=4)
    mix.play(Z[:10], y[:10], delay=1)
    before, serve = mix.copy(), ud.Mix._serve

    def stop(self, row, elapsed=1.0):
        if self.served_rows == 42:
            raise KeyboardInterrupt
        return serve(self, row, elapsed)

    monkeypatch.setattr(ud.Mix, "_serve", stop)
    for call in (lambda: mix.ask(Z[10]), lambda: mix.play(Z[10:], y[10:], delay=1)):
        with pytest.raises(KeyboardInterrupt):
            call()
        assert mix == before


# ---- reading ---------------------------------------------------------------------------------------------------


def test_the_figure_shows_weights_and_losses():
    Z, y = draw(2000)
    Z[700] = np.nan
    mix = ud.Mix("absolute", names=["a", "b", "c", "d"])
    trace = mix.play(Z, y)
    figure = mix.plot(trace, Z, y)
    curves = {curve.name: np.array(curve.y) for curve in figure.data}
    assert [*curves][:6] == ["a", "b", "c", "d", "mean", "median"]
    assert [curve.name for curve in figure.data][6:] == ["mixture", "best single: a", "mean"]
    stacked = np.sum([curve.y for curve in figure.data[:6]], axis=0)
    np.testing.assert_allclose(stacked[np.abs(stacked) > 0.5], 1.0, atol=0.21)  # rows without forecasts have none
    judged = ~np.isnan(y) & ~np.isnan(Z).all(axis=1)
    lost = np.abs(trace.yhat - y)[judged].sum() - np.abs(np.nanmean(Z[judged], axis=1) - y[judged]).sum()
    assert curves["mixture"][-1] == pytest.approx(lost)
    with pytest.raises(InputError, match="x must have one value for each of the 2000 forecasts"):
        mix.plot(trace, Z, y, x=[1, 2])


def test_it_says_what_it_is():
    mix = ud.Mix("absolute")
    assert repr(mix) == "Mix(loss='absolute', horizon=1)"
    assert mix.weights.size == mix.losses.size == mix.cost().size == 0
    assert mix.certificate().bound == 0.0
    mix.play(*draw())
    assert "weights" in mix._repr_html_()


@pytest.mark.parametrize("market", MARKETS)
def test_published_price_forecasts_are_beaten(market):
    """A day's prices become known together: at most .995 of the mean's MAE, and less than the DNN ensemble's."""
    path = DATA / "mix" / f"epf_{market}.csv.gz"
    if not path.exists():
        pytest.skip(f"{path} is not here; set UNDRIFT_DATA")
    with gzip.open(path, "rt") as lines:
        names, *rows = csv.reader(lines)
    table = dict(zip(names[1:], np.array([row[1:] for row in rows], float).T, strict=True))
    Z, y = np.column_stack([x for name, x in table.items() if name[-1].isdigit()]), table["Real price"]
    assert Z.shape[1] == 8
    days = Z.reshape(-1, 24, 8), y.reshape(-1, 24)
    mae = np.abs(ud.Mix("absolute", horizon=24).play(*days).yhat.ravel() - y).mean()
    assert mae <= 0.995 * np.abs(Z.mean(axis=1) - y).mean()
    assert mae < np.abs(table["DNN Ensemble"] - y).mean()
    rmse = np.mean((ud.Mix(horizon=24).play(*days).yhat.ravel() - y) ** 2) ** 0.5
    assert rmse < np.mean((Z.mean(axis=1) - y) ** 2) ** 0.5
