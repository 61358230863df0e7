"""The service: what it serves and learns is what its model would, through restarts, kills and refusals."""

import contextlib
import json
import sqlite3

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError, ModelFileError
from undrift.online import Table
from undrift.serve import open_service
from undrift.serve.journal import Checkpoint, Journal
from undrift.serve.service import Label

NAMES = ["a", "b", "c"]


@pytest.fixture
def stream():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(160, 3))
    Z[rng.random(Z.shape) < 0.05] = np.nan
    return Z, np.nan_to_num(Z) @ [1.0, -2.0, 0.5] + 100.0 + 0.1 * rng.normal(size=160)


@pytest.fixture
def model_file(tmp_path, stream):
    Z, y = stream
    model = ud.OnlineRegressor(speed="fast")
    model.play(Table(NAMES, Z[:40]), y[:40])
    model.save(tmp_path / "model.undrift")
    return tmp_path / "model.undrift"


def as_rows(Z):
    return [{name: None if np.isnan(v) else float(v) for name, v in zip(NAMES, z, strict=True)} for z in Z]


def events(stream):
    """Batches of rows, and labels late and out of order; the last rows keep waiting."""
    y = stream[1]
    rng, at, waiting = np.random.default_rng(0), 40, []
    while at < len(y):
        size = int(rng.integers(1, 6))
        yield "rows", list(range(at, min(at + size, len(y))))
        waiting += range(at, min(at + size, len(y)))
        at += size
        rng.shuffle(waiting)
        told, waiting = waiting[: len(waiting) // 2], waiting[len(waiting) // 2 :]
        if told:
            yield "labels", told


def play_directly(model_file, stream):
    """The same by `ask` and `tell` of the model itself."""
    Z, y = stream
    model, served = ud.load(model_file), {}
    for kind, places in events(stream):
        for t in places:
            if kind == "rows":
                served[t] = model.ask(Table(NAMES, Z[t : t + 1]))
            else:
                model.tell(served[t], y[t])
    return model, [served[t].yhat for t in sorted(served)]


def play_served(model_file, stream, restart):
    """The same by the service, which is left and opened again where `restart` says so."""
    Z, y = stream
    ids, yhat, step = {}, {}, 0
    todo = list(events(stream))
    while step < len(todo):
        with open_service(model_file) as service:
            while step < len(todo):
                kind, places = todo[step]
                step += 1
                if kind == "rows":
                    for t, one in zip(places, service.predict(as_rows(Z[places])), strict=True):
                        ids[t], yhat[t] = one.id, one.prediction
                else:
                    result = service.learn([Label(ids[t], float(y[t])) for t in places])
                    assert result == (len(places), 0, 0)
                if restart(step):
                    break
            model = service.models.model
    return model, [yhat[t] for t in sorted(yhat)]


@pytest.mark.parametrize("every", [1000, 7, 1])
def test_it_serves_and_learns_what_its_model_would_whenever_it_is_restarted(model_file, stream, every):
    expected, yhat = play_directly(model_file, stream)
    model, served = play_served(model_file, stream, lambda step: step % every == 0)
    assert served == yhat
    assert model.rounds == expected.rounds > 100
    assert len(model.pending) == len(expected.pending) > 0
    probe = Table(NAMES, stream[0][:7])
    np.testing.assert_array_equal(model.predict(probe), expected.predict(probe))
    left = ud.load(model_file.with_name("model-service") / "model.undrift")
    np.testing.assert_array_equal(left.predict(probe), expected.predict(probe))


def test_what_was_answered_survives_a_process_that_just_vanishes(model_file, stream, monkeypatch):
    Z, y = stream
    with open_service(model_file) as service:
        answers = service.predict(as_rows(Z[40:50]))
        service.learn([Label(one.id, float(v)) for one, v in zip(answers[:4], y[40:44], strict=True)])
        journal = list(service.journal.entries_after(0))
        probe = service.models.model.predict(Table(NAMES, Z[:5]))
        monkeypatch.setattr(service, "close", lambda: None)  # no snapshot at the end, as after kill -9
    assert [(one.first, one.last) for one in journal] == [(1, 10), (11, 11)]
    with open_service(model_file) as service:
        np.testing.assert_array_equal(service.models.model.predict(Table(NAMES, Z[:5])), probe)
        assert service.waiting == 6
        assert service.learn([Label(one.id, 0.0) for one in answers[:4]]) == (0, 4, 0)
        assert service.learn([Label(answers[4].id, float(y[44]))]) == (1, 0, 0)


def test_a_label_is_learned_once(model_file, stream):
    Z, y = stream
    with open_service(model_file) as service:
        (one,) = service.predict(as_rows(Z[40:41]))
        assert service.learn([Label(one.id, float(y[40])), Label(one.id, 5.0)]) == (1, 1, 0)
        assert service.models.model.rounds == 41
        before = service.models.model.predict(Table(NAMES, Z[:5]))
        assert service.learn([Label(one.id, 7.0)]) == (0, 1, 0)
        np.testing.assert_array_equal(service.models.model.predict(Table(NAMES, Z[:5])), before)


def test_ids_count_rows_alone(model_file, stream):
    Z, y = stream
    ids = []
    for t in range(40, 44):
        with open_service(model_file) as service:
            (one,) = service.predict(as_rows(Z[t : t + 1]))
            ids.append(one.id)
            with pytest.raises(InputError, match=f"no row has the id {one.id + 1}; give an id that POST /predict"):
                service.learn([Label(one.id + 1, 1.0)])
            assert service.learn([Label(one.id, float(y[t]))]) == (1, 0, 0)
            with pytest.raises(InputError, match=f"no row has the id {one.id + 1}; give an id that POST /predict"):
                service.learn([Label(one.id + 1, 1.0)])  # the number that the label has in the journal
    assert ids == [1, 2, 3, 4]


def test_a_journal_whose_ids_counted_labels_too_goes_on(model_file, stream, monkeypatch):
    Z, y = stream
    with open_service(model_file) as service:
        service.predict(as_rows(Z[40:42]))
        service.learn([Label(1, float(y[40]))])
        service.predict(as_rows(Z[42:43]))
        monkeypatch.setattr(service, "close", lambda: None)
    path = model_file.with_name("model-service") / "journal.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as base:
        for first, body in base.execute("SELECT first, body FROM journal WHERE kind = 0").fetchall():
            base.execute("UPDATE journal SET body = ? WHERE first = ?", (json.dumps(json.loads(body)[:4]), first))
        facts = json.loads(base.execute("SELECT facts FROM snapshot").fetchone()[0])
        del facts["next_row"]
        base.execute("UPDATE snapshot SET facts = ?", (json.dumps(facts),))
        base.execute("DROP TABLE expired")
        base.execute("PRAGMA user_version = 2")
    with open_service(model_file) as service:
        assert sorted(service.models.waiting) == [2, 4]
        (one,) = service.predict(as_rows(Z[43:44]))
        assert one.id == 5
        assert service.learn([Label(n, 100.0) for n in (1, 2, 4, 5)]) == (3, 1, 0)


def test_references_name_rows(model_file, stream):
    Z, _ = stream
    with open_service(model_file) as service:
        service.predict(as_rows(Z[40:42]), ["order 1", None])
        with pytest.raises(InputError, match="'order 1' is that of another row"):
            service.predict(as_rows(Z[42:43]), ["order 1"])
        with pytest.raises(InputError, match="no row with the reference 'order 2' waits"):
            service.learn([Label("order 2", 1.0)])
        assert service.learn([Label("order 1", 101.0)]) == (1, 0, 0)
        service.predict(as_rows(Z[42:43]), ["order 1"])  # free again
        assert service.waiting == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.predict([{"a": 1.0, "bb": 2.0}]), "no feature 'bb'"),
        (lambda s: s.predict([{"a": "high"}]), "'a' must be a number"),
        (lambda s: s.predict([{"a": 1.0}, {"a": 1e300}]), "'a' must be a number of at most 1e\\+75"),
        (lambda s: s.predict([]), "1 to 10,000 rows"),
        (lambda s: s.learn([Label(1, "x")]), "must be a number"),
        (lambda s: s.learn([Label(1, 2.0), Label(99, 2.0)]), "no row has the id 99"),
        (lambda s: s.learn([Label(1, 1e300)]), "at most 1e\\+75"),
    ],
)
def test_what_is_refused_changes_nothing(model_file, stream, call, words):
    Z, _ = stream
    with open_service(model_file) as service:
        service.predict(as_rows(Z[40:43]))
        last, rounds, probe = (
            service.journal.last,
            service.models.model.rounds,
            service.models.model.predict(Table(NAMES, Z[:5])),
        )
        with pytest.raises(InputError, match=words):
            call(service)
        assert (service.journal.last, service.models.model.rounds, service.waiting) == (last, rounds, 3)
        np.testing.assert_array_equal(service.models.model.predict(Table(NAMES, Z[:5])), probe)


def test_a_full_disk_takes_back_what_was_not_written(model_file, stream, monkeypatch):
    Z, y = stream
    with open_service(model_file) as service:
        (one,) = service.predict(as_rows(Z[40:41]))
        probe = service.models.model.predict(Table(NAMES, Z[:5]))

        def full(self, kind, count, body, *, expired=()):
            raise InputError("cannot be written")

        with monkeypatch.context() as patch:
            patch.setattr(Journal, "append", full)
            with pytest.raises(InputError, match="cannot be written"):
                service.learn([Label(one.id, float(y[40]))])
            with pytest.raises(InputError, match="cannot be written"):
                service.predict(as_rows(Z[41:43]))
        assert service.waiting == 1
        np.testing.assert_array_equal(service.models.model.predict(Table(NAMES, Z[:5])), probe)
        assert service.learn([Label(one.id, float(y[40]))]) == (1, 0, 0)


def test_rows_without_a_label_are_given_up(model_file, stream, monkeypatch):
    Z, _ = stream
    with open_service(model_file, hold=60.0) as service:
        service.predict(as_rows(Z[40:43]))
        service.tend()
        assert service.waiting == 3
        monkeypatch.setattr("time.time", lambda: service.started + 3600.0)
        service.tend()
        assert service.waiting == 0
        assert service.models.model.rounds == 40
        assert not service.models.model.pending
        assert service.learn([Label(2, 100.0)]) == (0, 0, 1)
    with open_service(model_file, hold=60.0) as service:  # it is known after a restart too
        assert service.learn([Label(2, 100.0), Label(3, 100.0)]) == (0, 0, 2)


def test_rows_that_expired_long_ago_are_forgotten(model_file, stream, monkeypatch):
    monkeypatch.setattr("undrift.serve.journal.KEPT_EXPIRED", 2)
    with open_service(model_file, hold=60.0) as service:
        service.predict(as_rows(stream[0][40:44]))
        monkeypatch.setattr("time.time", lambda: service.started + 3600.0)
        service.tend()
        assert service.learn([Label(number, 100.0) for number in (1, 2, 3, 4)]) == (0, 2, 2)


def test_snapshots_replace_old_entries(model_file, stream, monkeypatch):
    Z, y = stream
    monkeypatch.setattr("undrift.serve.one_model.NUMBERS_PER_SNAPSHOT", 10)
    with open_service(model_file) as service:
        answers = service.predict(as_rows(Z[40:46]))
        service.tend()
        assert len(list(service.journal.entries_after(0))) == 1
        for one, v in zip(answers, y[40:44], strict=False):
            service.learn([Label(one.id, float(v))])
        service.tend()
        assert not list(service.journal.entries_after(0))
        assert service.journal.last == 10
        assert service.waiting == 2


def test_a_level_that_no_model_keeps_is_refused(model_file):
    with pytest.raises(InputError, match=r"levels 0.5, .* got 0.42"), open_service(model_file, level=0.42):
        pass


def test_only_one_process_serves_a_model(model_file):
    with open_service(model_file), pytest.raises(InputError, match="is writing this service"), open_service(model_file):
        pass


def test_a_journal_of_another_model_or_of_nobody_is_refused(model_file, stream):
    with open_service(model_file):
        pass
    model = ud.load(model_file)
    model.learn({"a": 1.0, "b": 1.0, "c": 1.0}, 3.0)
    model.save(model_file)
    with pytest.raises(InputError, match="began with another model"), open_service(model_file):
        pass
    journal = model_file.with_name("model-service") / "journal.sqlite"
    for path in journal.parent.glob("journal.sqlite*"):
        path.unlink()
    journal.write_text("not a database, but long enough to look like one" * 100)
    with pytest.raises(ModelFileError, match="not a journal of undrift's"), open_service(model_file):
        pass


def test_a_forged_snapshot_is_one_sentence(model_file, stream):
    with open_service(model_file) as service:
        service.predict(as_rows(stream[0][40:43]))
    journal = Journal(model_file.with_name("model-service") / "journal.sqlite")
    saved = journal.last_snapshot()
    for facts in ("[]", "nonsense", json.dumps({**json.loads(saved.facts), "waiting": [[1, 2]]})):
        journal.save(Checkpoint(facts, saved.model, (), saved.sequence + 1))
        with pytest.raises(ModelFileError, match="snapshot is damaged"), open_service(model_file):
            pass
    journal.save(Checkpoint(saved.facts, saved.model[:-100], (), saved.sequence + 1))
    with pytest.raises(ModelFileError), open_service(model_file):
        pass
    journal.close()
