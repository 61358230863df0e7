"""Several threads at one model: predictions are right, no round is lost, and what is saved is a state it was in."""

import copy
import importlib
import pickle
from threading import Barrier, Thread

import numpy as np
import pytest

import undrift as ud
from undrift.ensemble import Mixable, Mixer, SelfConfident

DIM = 12


class Slow(ud.Learner):
    """A learner of one's own, in Python: the sum of all labels, one after the other."""

    least_dim = 0

    def _begin(self, dim):
        self._sum = np.zeros(1)

    def _predict(self, Z, elapsed=1.0):
        return np.full(len(Z), self._sum[0])

    def _play(self, Z, y, context):
        yhat = np.empty(len(y))
        for t, label in enumerate(y):
            yhat[t] = total = self._sum[0]
            self._sum[0] = total + label
        return ud.learners.base.Columns(yhat)

    def _arrays(self):
        return {"sum": self._sum}


class Averaging(Mixer):
    """A mixer of one's own, by the base class's `predict`."""

    binary = False

    def _advance(self, E, y, weights):
        self._arrays["losses"] += np.sum((E - y[:, None]) ** 2, axis=0)
        return np.mean(E, axis=1)

    def cost(self):
        return np.zeros(len(self._arrays["losses"]))


def vaws(count: int = 3) -> list[ud.Learner]:
    return [ud.DiscountedVAW(half_life=10.0 * 3**k, hint=("zero", "last", "ridge")[k % 3]) for k in range(count)]


MODELS = {
    "vaw": lambda: ud.DiscountedVAW(half_life=30),
    "aioli": lambda: ud.DiscountedAIOLI(half_life=30),
    "mean": lambda: ud.DiscountedMean(),
    "persistence": lambda: ud.Persistence(binary=True),
    "base rate": lambda: ud.BaseRate(),
    "zero": lambda: ud.Zero(),
    "own": lambda: Slow(),
    "linear ensemble": lambda: ud.linear_ensemble(1000),
    "logistic ensemble": lambda: ud.logistic_ensemble(2.0, 2.0, 1000),
    "mixed kinds": lambda: ud.Ensemble([*vaws(), ud.Persistence(), ud.DiscountedMean()], SelfConfident()),
    "own mixer": lambda: ud.Ensemble(vaws(), Averaging()),
    "nested": lambda: ud.Ensemble([ud.Ensemble([ud.BaseRate()], Mixable()), ud.DiscountedAIOLI()]),
    "online regressor": lambda: ud.OnlineRegressor(speed="fast"),
    "online classifier": lambda: ud.OnlineClassifier(speed="fast"),
}


def rows(model: ud.Learner, count: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(count, DIM))
    y = Z[:, 0] + 0.1 * rng.normal(size=count)
    return Z, np.where(y > 0.0, 1.0, -1.0) if model.binary else y


def together(*works) -> None:
    """Run functions at the same time, and raise what one of them raised."""
    start, failed = Barrier(len(works)), []

    def go(work) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:  # it would end in its thread
            failed.append(error)

    threads = [Thread(target=go, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_large_blocks_are_predicted_at_the_same_time() -> None:
    """So large that the kernel lets other threads run meanwhile."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(1600, 40))
    model = ud.linear_ensemble(1600)
    model.play(Z[:50], Z[:50, 0])
    blocks = [np.ascontiguousarray(Z[400 * k : 400 * k + 300 + 17 * k]) for k in range(4)]
    expected = [model.predict(block) for block in blocks]

    def predict(block, yhat):
        for _ in range(40):
            np.testing.assert_array_equal(model.predict(block), yhat)

    together(*(lambda b=block, e=yhat: predict(b, e) for block, yhat in zip(blocks, expected, strict=True)))


@pytest.mark.parametrize("name", MODELS)
def test_predictions_at_the_same_time_are_right(name) -> None:
    model = MODELS[name]()
    Z, y = rows(model, 100)
    model.play(Z[:60], y[:60])
    before, one, many = pickle.dumps(model), [model.predict(z) for z in Z], model.predict(Z)

    def predict() -> None:
        for _ in range(3):
            assert [model.predict(z) for z in Z[:30]] == one[:30]
            np.testing.assert_array_equal(model.predict(Z), many)

    together(predict, predict, predict)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("name", MODELS)
def test_blocks_played_at_the_same_time_come_one_after_the_other(name) -> None:
    Z, y = rows(MODELS[name](), 300)
    halves = slice(0, 150), slice(150, 300)
    orders = []
    for order in (halves, halves[::-1]):
        serial = MODELS[name]()
        for part in order:
            serial.play(Z[part], y[part])
        orders.append(serial)
    for _ in range(3):
        model = MODELS[name]()
        together(*(lambda part=part, model=model: model.play(Z[part], y[part]) for part in halves))
        assert model.rounds == 300
        assert model in orders


@pytest.mark.parametrize("name", MODELS)
def test_no_round_is_lost_and_every_copy_is_a_state_the_model_was_in(name, tmp_path) -> None:
    """Each row is the same, so that the order of two learners does not matter: the state follows from the rounds."""
    model = MODELS[name]()
    Z, y = rows(model, 2)
    z, label = Z[0], float(y[0])
    states = [MODELS[name]()]
    for _ in range(80):
        one = states[-1].copy()
        one.learn(z, label)
        states.append(one)
    said = [one.predict(Z[1]) for one in states]

    def learn() -> None:
        for _ in range(40):
            model.learn(z, label)

    def look() -> None:
        for _ in range(12):
            copies = [model.copy(), pickle.loads(pickle.dumps(model))]
            if name != "own mixer":  # which a file cannot name
                model.save(tmp_path / "model.undrift")
                copies.append(ud.load(tmp_path / "model.undrift", cls=type(model)))
            assert all(seen == states[seen.rounds] for seen in copies)
            assert model.predict(Z[1]) in said

    together(learn, learn, look)
    assert model.rounds == 80
    assert model == states[80]


def test_what_an_estimator_says_about_itself_fits_together_while_it_learns() -> None:
    model = ud.OnlineRegressor(speed="fast")
    Z, y = rows(model, 400)
    model.play(Z[:20], y[:20])

    def learn() -> None:
        for a in range(20, 400, 20):
            model.play(Z[a : a + 20], y[a : a + 20])

    def look() -> None:
        while model.rounds < 400:
            interval = model.predict_interval(Z[0])
            assert interval.low <= interval.high
            assert np.isfinite(model.spectrum().weights).all()
            assert abs(float(np.sum(model.weights)) - 1.0) < 1e-12
            assert len(model.line().coef) == DIM
            assert model.coverage()[0].rounds % 20 == 18  # the first two rows had no interval

    together(learn, look, look)
    serial = ud.OnlineRegressor(speed="fast")
    serial.play(Z, y)
    assert model == serial


def test_named_features_may_appear_while_others_predict() -> None:
    model = ud.OnlineRegressor(speed="fast")
    for t in range(300):
        model.learn({"a": float(t % 5), "b": float(t % 3)}, float(t % 5))

    def learn() -> None:
        for t in range(20):
            model.learn({"a": 1.0, "b": 2.0, f"new feature number {t}": 1.0}, 1.0)

    def predict() -> None:
        for _ in range(60):
            assert np.isfinite(model.predict({"a": 1.0, "b": 2.0}))

    together(learn, predict, predict)
    assert model.dim == len(model.names) == 22


@pytest.mark.parametrize("host", ["river", "sklearn"])
@pytest.mark.parametrize("kind", ["DriftRegressor", "DriftClassifier"])
def test_adapters_lose_no_round_and_predict_what_they_learned(host, kind) -> None:
    pytest.importorskip(host)
    module = importlib.import_module(f"undrift.{host}")
    model, twin = getattr(module, kind)(speed="fast"), getattr(module, kind)(speed="fast")
    label = "up" if kind == "DriftClassifier" else 1.0
    other = "down" if kind == "DriftClassifier" else -1.0
    z = np.linspace(-1.0, 1.0, 4)

    def learn(one, y, count) -> None:
        for _ in range(count):
            if host == "river":
                one.learn_one(dict(enumerate(z)), y)
            else:
                one.partial_fit(z[None], [y], **({"classes": ["down", "up"]} if kind == "DriftClassifier" else {}))

    def predict(one) -> object:
        return one.predict_one(dict(enumerate(z))) if host == "river" else one.predict(z[None])[0]

    for one in (model, twin):
        learn(one, other, 1)
        learn(one, label, 1)
    possible = []
    for _ in range(60):
        learn(twin, label, 1)
        possible.append(predict(twin))

    def watch() -> None:
        seen = [predict(model) for _ in range(40)]
        assert set(seen) <= {*possible, first}

    first = predict(model)
    together(lambda: learn(model, label, 30), lambda: learn(model, label, 30), watch, watch)
    inner = model.model if host == "river" else model.model_
    assert inner.rounds == 62
    assert inner == (twin.model if host == "river" else twin.model_)
    assert predict(pickle.loads(pickle.dumps(model))) == predict(copy.deepcopy(model)) == predict(twin)
