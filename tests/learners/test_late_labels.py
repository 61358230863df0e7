"""Rows are served when they come and settled when their label comes: what `ask`, `tell` and `delay` promise."""

import copy
import pickle

import numpy as np
import pytest

import undrift as ud
from tests.helpers import draw_stream
from undrift.ensemble import ResidualScale, SelfConfident
from undrift.errors import InputError, ModelFileError
from undrift.learners.files import learner_from_snapshot
from undrift.losses import squared

ROUNDS, DIM = 120, 3


def drifting_line(seed=0):
    return draw_stream(ROUNDS, DIM, lambda Z: Z @ [1.0, -2.0, 0.5], noise=0.1, drift=True, seed=seed)


def ensemble(**more):
    members = [ud.DiscountedVAW(half_life=h, hint=hint) for h in (5, 50) for hint in ("zero", "last")]
    return ud.Ensemble([*members, ud.Persistence()], **more)


def test_a_served_prediction_says_what_it_knows():
    Z, y = drifting_line()
    model = ud.DiscountedVAW(half_life=20)
    first = model.ask(Z[0])
    assert (first.yhat, first.known, first.serial) == (0.0, False, 1)
    model.tell(first, y[0])
    second = model.ask(Z[1])
    assert second.known
    assert second.yhat == model.predict(Z[1])
    assert [one.serial for one in model.pending] == [2]
    with pytest.raises(InputError, match="this learner has no intervals"):
        second.interval(0.9)


def test_asking_changes_nothing_that_a_label_could_change():
    Z, y = drifting_line()
    model = ensemble()
    model.play(Z[:50], y[:50])
    before = model.predict(Z[50:])
    for z in Z[50:60]:
        model.ask(z)
    assert model.predict(Z[50:]).tobytes() == before.tobytes()
    assert model.rounds == 50


def delayed_by_hand(model, Z, y, delay):
    """The definition: the row is served, then the label of the row `delay` before it is told."""
    records, yhat = [], []
    for t, z in enumerate(Z):
        records.append(model.ask(z))
        yhat.append(records[-1].yhat)
        if t >= delay:
            model.tell(records[t - delay], y[t - delay])
    return np.array(yhat)


@pytest.mark.parametrize("delay", [1, 7, 200])
def test_a_delay_is_ask_now_and_tell_later(delay):
    Z, y = drifting_line()
    model, by_hand = ensemble(), ensemble()
    trace = model.play(Z, y, delay=delay)
    assert trace.yhat.tobytes() == delayed_by_hand(by_hand, Z, y, delay).tobytes()
    assert len(model.pending) == min(delay, ROUNDS)
    assert trace.known.tolist() == [t > delay for t in range(ROUNDS)]
    assert trace.stability is None


def test_labels_that_are_known_but_not_due_survive_every_kind_of_copy(tmp_path):
    Z, y = drifting_line()
    whole = ensemble()
    expected = whole.play(Z, y, delay=9).yhat
    half = ensemble()
    first = half.play(Z[:40], y[:40], delay=9).yhat
    half.save(tmp_path / "half.undrift")
    for other in (
        ud.load(tmp_path / "half.undrift"),
        half.copy(),
        pickle.loads(pickle.dumps(half)),
        copy.deepcopy(half),
    ):
        rest = other.play(Z[40:], y[40:], delay=9).yhat
        assert np.concatenate((first, rest)).tobytes() == expected.tobytes()
        assert other == whole
    assert half != whole


def test_a_shorter_delay_settles_what_became_due():
    Z, y = drifting_line()
    model = ud.DiscountedMean()
    model.play(Z[:20], y[:20], delay=10)
    model.play(Z[20:21], y[20:21], delay=2)
    assert [one.serial for one in model.pending] == [20, 21]
    model.play(Z[21:22], y[21:22])
    assert not model.pending
    assert model.rounds == 22


def test_mixers_judge_the_answers_that_were_served():
    """Members' losses are those of what they answered when the row came, by a plain loop over the same records."""
    Z, y = drifting_line()
    model, delay = ensemble(mixer=SelfConfident()), 5
    answers, yhat = [], []
    for t, z in enumerate(Z):
        answers.append([one.predict(z) for one in model.members] if t else [0.0] * 5)
        yhat.append(model.ask(z).yhat)
        if t >= delay:
            model.tell(model.pending[0], y[t - delay])
    settled = ROUNDS - delay
    losses = squared.value(np.array(answers[:settled]), y[:settled, None]).sum(axis=0)
    np.testing.assert_allclose(model.losses, losses, rtol=1e-12)


@pytest.mark.parametrize("mixer", [SelfConfident(), ResidualScale(), SelfConfident(share=0.01)])
@pytest.mark.parametrize("delay", [0, 1, 10, 60])
def test_cost_bounds_the_served_loss_under_delay(mixer, delay):
    for seed in range(5):
        Z, y = drifting_line(seed)
        y = y + 100.0 * (seed % 2) * (np.arange(ROUNDS) > 70)
        model = ensemble(mixer=mixer)
        yhat = model.play(Z, y, delay=delay).yhat
        settled = ROUNDS - delay
        served = float(np.sum(squared.value(yhat[:settled], y[:settled])))
        assert np.all(served - model.losses <= model.cost() * (1.0 + 1e-12) + 1e-9)


def test_the_last_label_is_that_of_the_row_served_last():
    Z, y = drifting_line()
    for model in (ud.DiscountedVAW(half_life=9, hint="last"), ud.DriftVAW(9.0, hint="last"), ensemble()):
        model.play(Z[:30], y[:30])
        ordered, swapped = model.copy(), model.copy()
        a, b = ordered.ask(Z[30]), ordered.ask(Z[31])
        ordered.tell(a, 1.0)
        ordered.tell(b, 2.0)
        a, b = swapped.ask(Z[30]), swapped.ask(Z[31])
        swapped.tell(b, 2.0)
        swapped.tell(a, 1.0)
        for one in (ordered, swapped):
            arrays = one.snapshot()[1]
            assert next(array for name, array in arrays.items() if name.endswith("last"))[0] == 2.0
    vaw = ud.DiscountedVAW(half_life=9, hint="last")
    late = vaw.ask(Z[0])
    vaw.learn(Z[1], 5.0)
    vaw.tell(late, 3.0)
    assert vaw.snapshot()[1]["last"][0] == 5.0


def test_records_of_others_are_refused_in_one_sentence():
    Z, y = drifting_line()
    model, other = ud.DiscountedVAW(half_life=20), ud.DiscountedVAW(half_life=21)
    served = model.ask(Z[0])
    other.ask(Z[0])
    with pytest.raises(InputError, match=r"^DiscountedVAW: tell was given the record of another model or layout; pass"):
        other.tell(served, y[0])
    twin = ud.DiscountedVAW(half_life=20)
    with pytest.raises(InputError, match="record of another model or layout"):
        twin.tell(served, y[0])
    twin.ask(Z[1])
    with pytest.raises(InputError, match="record of another model or layout"):
        twin.tell(served, y[0])
    model.tell(served, y[0])
    with pytest.raises(InputError, match=r"^DiscountedVAW: row 1 was told or closed before; each row has one label"):
        model.tell(served, y[0])
    with pytest.raises(InputError, match="tell takes what ask returned, got"):
        model.tell(0.5, y[0])


def test_a_refused_label_leaves_its_record_waiting():
    Z, _ = drifting_line()
    model = ud.DiscountedAIOLI()
    served = model.ask(Z[0])
    with pytest.raises(InputError):
        model.tell(served, 0.5)
    assert len(model.pending) == 1
    model.tell(served, True)
    assert model.rounds == 1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda m, Z, y: m.play(Z, y, delay=-1), "delay must be an integer"),
        (lambda m, Z, y: m.play(Z, y, delay=1, record="weights"), "record and delay cannot be given together"),
        (lambda m, Z, y: ud.DiscountedVAW().play(Z, y, delay=1, hint=y), "hint and delay cannot be given together"),
        (lambda m, Z, y: m.ask(Z), "ask takes one row, got 120"),
    ],
)
def test_wrong_calls_are_refused(call, text):
    with pytest.raises(InputError, match=text):
        call(ensemble(), *drifting_line())


def pending_learner():
    Z, y = drifting_line()
    model = ud.DiscountedVAW(half_life=20)
    model.play(Z[:10], y[:10], delay=3)
    return model


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("totals", lambda a: a[:1]),
        ("totals", lambda a: a * [0.0, 1.0]),
        ("totals", lambda a: np.add(a, [0.5, 0.0])),
        ("totals", lambda a: np.add(a, [0.0, np.nan])),
        ("heads", lambda a: a[:, :3]),
        ("heads", lambda a: a[::-1]),
        ("heads", lambda a: np.add(a, [100.0, 0.0, 0.0, 0.0])),
        ("heads", lambda a: np.add(a, [0.0, 2.0, 0.0, 0.0])),
        ("heads", lambda a: np.add(a, [0.0, 0.0, 0.0, 1.0])),
        ("heads", lambda a: a - [0.0, 0.0, 0.0, 9.0]),
        ("heads", lambda a: a[:-1]),
        ("records", lambda a: a[:-1]),
        ("records", lambda a: a * np.nan),
        ("records", lambda a: a + 1e300),
        ("records", lambda a: a.reshape(3, -1)),
    ],
)
def test_edited_records_are_refused(name, change):
    header, arrays = pending_learner().snapshot()
    assert learner_from_snapshot(header, dict(arrays)) == pending_learner()
    arrays[f"pending.{name}"] = np.array(change(arrays[f"pending.{name}"]))
    with pytest.raises(ModelFileError, match="the saved records of unsettled rows cannot be used"):
        learner_from_snapshot(header, arrays)


def test_a_saved_learner_lacks_no_part_of_its_records():
    header, arrays = pending_learner().snapshot()
    del arrays["pending.heads"]
    with pytest.raises(ModelFileError, match="the saved records of unsettled rows cannot be used"):
        learner_from_snapshot(header, arrays)
