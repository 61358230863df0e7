"""After an interrupt a learner is before or after the call, and `rounds` says which.

A signal handler may raise between any two operations of Python. Every line that a call runs is tried in turn: an
interrupt is raised there, and the learner must equal a copy from before the call or one that has done all of it.
"""

import os
import signal
import sys
import threading

import numpy as np
import pytest

import undrift as ud
from undrift.ensemble import ClassEnsemble, Ensemble, MultiOutputRegressor
from undrift.forecast import forecast_file
from undrift.learners import BaseRate, DiscountedMean, Learner, Persistence, Zero
from undrift.learners.base import Columns

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(60, 3))
Y = Z @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=60)
SIGNS = np.where(Y > 0.0, 1.0, -1.0)
CLASSES = np.digitize(Y, [-1.0, 1.0])


PACKAGE = os.path.dirname(ud.__file__) + os.sep
COMMITTING = (
    *("base.py", "served.py", "estimator.py", "core.py", "classes.py", "classifier.py", "multi_output.py"),
    *("forecaster.py", __file__),
)
"""Files whose lines are all tried; of the others, some."""


@pytest.fixture(autouse=True)
def heed_ctrl_c():
    """Ctrl-C as Python handles it, also where the tests were started in the background, with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Own(Learner):
    """A learner as users write them: several steps in Python, one after the other."""

    least_dim = 0

    def _begin(self, dim):
        self._ends, self._sum = np.zeros(2), np.zeros(1)

    def _arrays(self):
        return {"ends": self._ends, "sum": self._sum}

    def _predict(self, Z, elapsed=1.0):
        return np.full(len(Z), self._ends.mean())

    def _play(self, Z, y, context):
        yhat = np.empty(len(y))
        for t, label in enumerate(y):
            yhat[t] = self._ends.mean()
            self._sum += label
            self._ends[0] = min(label, self._ends[0])
            self._ends[1] = max(label, self._ends[1])
        return Columns(yhat)


class Interrupt(KeyboardInterrupt):
    """What is raised on the way."""


def raise_interrupt():
    sys.settrace(None)
    raise Interrupt


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


def run_until(call, place=None, act=raise_interrupt):
    """Run a call and interrupt it at its line number `place`; return where the lines are that it ran."""
    lines = []

    def trace(frame, event, argument):
        name = frame.f_code.co_filename
        if not name.startswith(PACKAGE) and name != __file__:
            return None
        if name.endswith("thread_lock.py"):
            return trace  # Python heeds no signal between the end of a `with` block and the call that leaves it
        if name.endswith("save_point.py") and frame.f_code.co_name in ("__exit__", "restore", "put_back"):
            return None  # a second interrupt, while the first one is dealt with
        if event == "line":
            lines.append((name, frame.f_lineno))
            if len(lines) == place:
                act()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return lines


def require_all_or_nothing(base, call, act=raise_interrupt):
    """Interrupt `call(model)` at its lines, each when it comes first and last; the model is as before or as after."""
    after = base.copy()
    call(after)
    assert base != after
    lines = run_until(lambda: call(base.copy()))
    first = {line: place for place, line in reversed(list(enumerate(lines, 1)))}
    last = {line: place for place, line in enumerate(lines, 1)}
    seen = set()
    places = sorted({*first.values(), *last.values()})
    rest = [place for place in places if not lines[place - 1][0].endswith(COMMITTING)]
    for place in sorted({*places}.difference(rest) | {*rest[:: 1 + len(rest) // 15]}):
        model = base.copy()
        run_until(lambda: call(model), place, act)  # noqa: B023  (called at once)
        seen.add(which := "before" if model == base else "after" if model == after else f"neither: {lines[place - 1]}")
        assert which in ("before", "after"), which
        assert model.rounds == (base if which == "before" else after).rounds
        if which == "before" and place % 5 == 0:
            call(model)  # what was bound to compiled code works on
            assert model == after
    assert seen == {"before", "after"}


REGRESSORS = {
    "DiscountedVAW": ud.DiscountedVAW,
    "DriftVAW": lambda: ud.DriftVAW(10.0),
    "DiscountedNewton": ud.DiscountedNewton,
    "DiscountedMean": DiscountedMean,
    "Persistence": Persistence,
    "Zero": Zero,
    "Own": Own,
    "one stack": lambda: Ensemble([ud.DiscountedVAW(beta=beta) for beta in (0.5, 0.9)]),
    "Ensemble": lambda: Ensemble([ud.DiscountedVAW(), Own(), ud.DriftVAW(10.0)]),
    "light": lambda: ud.OnlineRegressor(speed="light"),
    "fast": lambda: ud.OnlineRegressor(speed="fast"),
}
CLASSIFIERS = {
    "DiscountedAIOLI": ud.DiscountedAIOLI,
    "BaseRate": BaseRate,
    "one stack": lambda: Ensemble([ud.DiscountedAIOLI(beta=beta) for beta in (0.5, 0.9)]),
    "OnlineClassifier": lambda: ud.OnlineClassifier(speed="light"),
}


def started(make, labels, rows=40):
    model = make()
    model.play(Z[:rows], labels[:rows])
    return model


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_block_is_learned_whole_or_not_at_all(name):
    require_all_or_nothing(started(REGRESSORS[name], Y), lambda model: model.play(Z[40:44], Y[40:44]))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_block_of_classes_is_learned_whole_or_not_at_all(name):
    require_all_or_nothing(started(CLASSIFIERS[name], SIGNS), lambda model: model.play(Z[40:44], SIGNS[40:44]))


@pytest.mark.parametrize("name", ["DiscountedVAW", "one stack", "fast", "Own"])
def test_a_first_block_is_learned_whole_or_not_at_all(name):
    require_all_or_nothing(REGRESSORS[name](), lambda model: model.play(Z[:4], Y[:4]))


@pytest.mark.parametrize("name", ["DriftVAW", "Own", "fast"])
def test_a_row_is_learned_or_not(name):
    require_all_or_nothing(started(REGRESSORS[name], Y), lambda model: model.learn(Z[50].tolist(), 1, elapsed=1.0))


@pytest.mark.parametrize("name", ["DiscountedVAW", "one stack", "fast"])
def test_a_block_with_late_labels_is_learned_whole_or_not_at_all(name):
    base = REGRESSORS[name]()
    base.play(Z[:20], Y[:20], delay=3)
    require_all_or_nothing(base, lambda model: model.play(Z[20:25], Y[20:25], delay=3))


@pytest.mark.parametrize("name", ["DiscountedVAW", "one stack", "fast"])
def test_a_late_label_is_learned_or_not(name):
    base = started(REGRESSORS[name], Y, 20)
    for row in Z[20:23]:
        base.ask(row)
    require_all_or_nothing(base, lambda model: model.tell(model.pending[1], 0.5))


@pytest.mark.parametrize("kind", ["forests", "several classes"])
def test_ctrl_c_waits_for_the_end_of_a_row_that_takes_several_calls(kind):
    make = {
        "forests": lambda: ud.OnlineRegressor(speed="max"),
        "several classes": lambda: ud.OnlineClassifier(speed="light"),
    }
    model, labels = make[kind](), {"forests": Y, "several classes": CLASSES}[kind]
    model.play(Z[:50], labels[:50])
    require_all_or_nothing(model, lambda one: one.learn(Z[50], labels[50]), press_ctrl_c)
    handler = signal.getsignal(signal.SIGINT)
    served = model.ask(Z[50])
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()
    require_all_or_nothing(model, lambda one: one.tell(one.find_pending(served.serial), labels[50]), press_ctrl_c)
    assert signal.getsignal(signal.SIGINT) is handler


def test_rows_with_new_names_are_learned_whole_or_not_at_all():
    base = ud.OnlineRegressor(speed="light")
    for row, label in zip(Z[:20], Y[:20], strict=True):
        base.learn({"a": row[0], "b": row[1]}, float(label))
    require_all_or_nothing(base, lambda model: model.learn({"a": 1.0, "b": 2.0, "c": 3.0}, 0.5))


@pytest.mark.parametrize("old", [2, 3])
def test_several_classes_are_learned_whole_or_not_at_all(old):
    """Also where a third class makes one estimator several."""
    base = ud.OnlineClassifier(speed="light")
    base.play(Z[:30], np.minimum(CLASSES, old - 1)[:30])
    require_all_or_nothing(base, lambda model: model.play(Z[30:34], CLASSES[30:34]))


@pytest.mark.parametrize(
    "make", [lambda: ud.DiscountedSoftmax(3), lambda: ClassEnsemble([ud.DiscountedSoftmax(3)]), lambda: ud.OneVsRest(3)]
)
def test_learners_of_several_classes_learn_whole_blocks_or_nothing(make):
    require_all_or_nothing(started(make, CLASSES), lambda model: model.play(Z[40:44], CLASSES[40:44]))


@pytest.mark.parametrize("kinds", [["no", "yes"], ["no", "yes", "maybe"]])
def test_rows_that_were_asked_or_peeked_at_are_learned_or_not(kinds):
    base = ud.OnlineClassifier(speed="light")
    labels = np.array(kinds)[np.arange(60) % len(kinds)].tolist()
    base.play(Z[:50], labels[:50])
    served, peeked = base.ask(Z[50]), base.peek(Z[51])
    require_all_or_nothing(base, lambda one: one.tell(one.find_pending(served.serial), labels[50]), press_ctrl_c)
    require_all_or_nothing(base, lambda one: one.tell(one.find_pending(served.serial), np.nan), press_ctrl_c)
    act = raise_interrupt if len(kinds) == 2 else press_ctrl_c
    require_all_or_nothing(base, lambda one: one.learn(Z[51], labels[51], served=peeked), act)


@pytest.mark.parametrize("model", [Ensemble([ud.DiscountedVAW()]), ud.OnlineRegressor(speed="light")])
def test_several_outputs_are_learned_whole_or_not_at_all(model):
    both = np.column_stack([Y, -Y])
    base = started(lambda: MultiOutputRegressor(model, 2), both)
    require_all_or_nothing(base, lambda found: found.play(Z[40:44], both[40:44]))


class CountedForecaster(ud.Forecaster):
    """A forecaster that can be compared as learners are."""

    rounds = property(lambda self: self.rows)

    def __eq__(self, other):
        (header, arrays), (header2, arrays2) = forecast_file.describe(self), forecast_file.describe(other)
        return header == header2 and {k: a.tobytes() for k, a in arrays.items()} == {
            k: a.tobytes() for k, a in arrays2.items()
        }

    __hash__ = None


def test_rows_of_a_forecaster_are_taken_in_whole_or_not_at_all():
    base = CountedForecaster(3, 4)
    base.play(Y[:40])
    require_all_or_nothing(base, lambda model: model.play(Y[40:42]))


def test_forests_are_refitted_whole_or_not_at_all():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(900, 3))
    base = ud.OnlineRegressor(speed="max")
    base.play(rows[:700], rows[:700, 0] * rows[:700, 1])
    require_all_or_nothing(base, lambda model: model.play(rows[700:708], rows[700:708, 0]))


def test_a_refit_is_done_or_not():
    model = ud.PeriodicRefit(ud.BoostedTrees(trees=3, leaf_weight=2.0), window=40)
    base = started(lambda: model, Y, 30)
    require_all_or_nothing(base, lambda found: found.play(Z[30:60], Y[30:60]))


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"), reason="signals"
)
def test_signals_at_any_moment_leave_a_learner_before_or_after_the_block():
    Zs, ys = np.tile(Z, (40, 1)), np.tile(Y, 40)

    def interrupt(number, frame):
        raise Interrupt

    before = ud.OnlineRegressor(speed="light")
    before.play(Z, Y)
    after = before.copy()
    after.play(Zs, ys)
    old = signal.signal(signal.SIGALRM, interrupt)
    seen = set()
    try:
        for k in range(60):
            model = before.copy()
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + k * 2e-4)
                model.play(Zs, ys)
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            except Interrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            seen.add(which := "before" if model == before else "after" if model == after else "neither")
            assert model.rounds == (before if which == "before" else after).rounds
    finally:
        signal.signal(signal.SIGALRM, old)
    assert "after" in seen
    assert "neither" not in seen
