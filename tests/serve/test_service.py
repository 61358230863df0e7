"""The service: what it serves and learns is what its model would, through restarts, kills and refusals."""

import contextlib
import json
import os
import sqlite3
import stat

import numpy as np
import pytest

import undrift as ud
from tests.serve.waiting_rows import entries, model_with_rows
from undrift.errors import DataError, InputError, ModelFileError
from undrift.online import Table
from undrift.run.service.journal import Checkpoint, Journal
from undrift.run.service.service import Label
from undrift.serve import open_service

NAMES = ["a", "b", "c"]


@pytest.fixture
def rows_with_holes():
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(160, 3))
    Z[rng.random(Z.shape) < 0.05] = np.nan
    return Z, np.nan_to_num(Z) @ [1.0, -2.0, 0.5] + 100.0 + 0.1 * rng.normal(size=160)


@pytest.fixture
def model_file(tmp_path, rows_with_holes):
    Z, y = rows_with_holes
    model = ud.OnlineRegressor(speed="fast")
    model.play(Table(NAMES, Z[:40]), y[:40])
    model.save(tmp_path / "model.undrift")
    return tmp_path / "model.undrift"


def as_rows(Z):
    return [{name: None if np.isnan(v) else float(v) for name, v in zip(NAMES, z, strict=True)} for z in Z]


def events(rows_with_holes):
    """Batches of rows, and labels late and out of order; the last rows keep waiting."""
    y = rows_with_holes[1]
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


def play_directly(model_file, rows_with_holes):
    """The same by `ask` and `tell` of the model itself."""
    Z, y = rows_with_holes
    model, served = ud.load(model_file), {}
    for kind, places in events(rows_with_holes):
        for t in places:
            if kind == "rows":
                served[t] = model.ask(Table(NAMES, Z[t : t + 1]))
            else:
                model.tell(served[t], y[t])
    return model, [served[t].yhat for t in sorted(served)]


def play_served(model_file, rows_with_holes, restart):
    """The same by the service, which is left and opened again where `restart` says so."""
    Z, y = rows_with_holes
    ids, yhat, step = {}, {}, 0
    todo = list(events(rows_with_holes))
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
            model = model_with_rows(service)
    return model, [yhat[t] for t in sorted(yhat)]


@pytest.mark.parametrize("every", [1000, 7, 1])
def test_it_serves_and_learns_what_its_model_would_whenever_it_is_restarted(model_file, rows_with_holes, every):
    expected, yhat = play_directly(model_file, rows_with_holes)
    model, served = play_served(model_file, rows_with_holes, lambda step: step % every == 0)
    assert served == yhat
    assert model.rounds == expected.rounds > 100
    assert model == expected
    assert len(model.pending) > 0
    probe = Table(NAMES, rows_with_holes[0][:7])
    np.testing.assert_array_equal(model.predict(probe), expected.predict(probe))
    left = ud.load(model_file.with_name("model-service") / "model.undrift")
    np.testing.assert_array_equal(left.model.predict(probe), expected.predict(probe))


def test_what_was_answered_survives_a_process_that_just_vanishes(model_file, rows_with_holes, monkeypatch):
    Z, y = rows_with_holes
    with open_service(model_file) as service:
        answers = service.predict(as_rows(Z[40:50]))
        service.learn([Label(one.id, float(v)) for one, v in zip(answers[:4], y[40:44], strict=True)])
        journal = entries(service)
        probe = service.models.model.predict(Table(NAMES, Z[:5]))
        monkeypatch.setattr(service, "close", lambda: None)  # no snapshot at the end, as after kill -9
    assert [(one.first, one.last) for one in journal] == [(1, 10), (11, 11)]
    with open_service(model_file) as service:
        np.testing.assert_array_equal(service.models.model.predict(Table(NAMES, Z[:5])), probe)
        assert service.waiting == 6
        assert service.learn([Label(one.id, 0.0) for one in answers[:4]]) == (0, 4, 0)
        assert service.learn([Label(answers[4].id, float(y[44]))]) == (1, 0, 0)


def test_a_label_is_learned_once(model_file, rows_with_holes):
    Z, y = rows_with_holes
    with open_service(model_file) as service:
        (one,) = service.predict(as_rows(Z[40:41]))
        assert service.learn([Label(one.id, float(y[40])), Label(one.id, 5.0)]) == (1, 1, 0)
        assert service.models.model.rounds == 41
        before = service.models.model.predict(Table(NAMES, Z[:5]))
        assert service.learn([Label(one.id, 7.0)]) == (0, 1, 0)
        np.testing.assert_array_equal(service.models.model.predict(Table(NAMES, Z[:5])), before)


def test_ids_count_rows_alone(model_file, rows_with_holes):
    Z, y = rows_with_holes
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


def test_a_journal_of_another_version_is_refused(model_file):
    with open_service(model_file):
        pass
    path = model_file.with_name("model-service") / "journal.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as base:
        base.execute("PRAGMA user_version = 3")
    with pytest.raises(ModelFileError, match="written by another version of undrift"), open_service(model_file):
        pass


def test_references_name_rows(model_file, rows_with_holes):
    Z, _ = rows_with_holes
    with open_service(model_file) as service:
        service.predict(as_rows(Z[40:42]), ["order 1", None])
        with pytest.raises(InputError, match="'order 1' is that of another row"):
            service.predict(as_rows(Z[42:43]), ["order 1"])
        with pytest.raises(InputError, match="no row with the reference 'order 2' waits"):
            service.learn([Label("order 2", 1.0)])
        assert service.learn([Label("order 1", 101.0), Label("order 1", 5.0)]) == (1, 1, 0)
        assert service.learn([Label("order 1", 7.0)]) == (0, 1, 0)
        service.predict(as_rows(Z[42:43]), ["order 1"])  # free again
        assert service.waiting == 2
        assert service.learn([Label("order 1", 101.0)]) == (1, 0, 0)
    with open_service(model_file) as service:  # it is known after a restart too
        service.tend()
        assert service.learn([Label("order 1", 7.0)]) == (0, 1, 0)
        assert service.models.model.rounds == 42


@pytest.mark.parametrize("reference", [5, "\ud800"])
def test_a_reference_that_cannot_be_stored_is_refused(model_file, rows_with_holes, reference):
    with open_service(model_file) as service:
        with pytest.raises(InputError, match="a reference must be a text"):
            service.predict(as_rows(rows_with_holes[0][40:41]), [reference])
        assert [answer.id for answer in service.predict(as_rows(rows_with_holes[0][40:41]))] == [1]


@pytest.mark.parametrize("number", [True, 1.0, None])
def test_an_id_is_a_whole_number(model_file, rows_with_holes, number):
    with open_service(model_file) as service:
        service.predict(as_rows(rows_with_holes[0][40:42]))
        with pytest.raises(InputError, match="the id of a row must be a whole number"):
            service.learn([Label(number, 1.0)])
        assert service.waiting == 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s: s.predict([{"bb": 2.0}]), "a row needs columns of the run, such as 'a'; it has 'bb'"),
        (lambda s: s.predict([{"a": "high"}]), "request, row 1: 'a' is a column of numbers, got 'high'"),
        (lambda s: s.predict([{"a": 1.0}, {"a": 1e300}]), "request, row 2: 'a' must be at most 1e\\+75 in size"),
        (lambda s: s.predict([]), "1 to 10,000 rows"),
        (lambda s: s.learn([Label(1, "x")]), "the label of row 1: 'y' is a column of numbers, got 'x'"),
        (lambda s: s.learn([Label(1, 2.0), Label(99, 2.0)]), "no row has the id 99"),
        (lambda s: s.learn([Label(1, 1e300)]), "the label of row 1: .* numbers up to 1e\\+75 in size are allowed"),
    ],
)
def test_what_is_refused_changes_nothing(model_file, rows_with_holes, call, words):
    Z, _ = rows_with_holes
    with open_service(model_file) as service:
        service.predict(as_rows(Z[40:43]))
        last, rounds, probe = (
            service.journal.last,
            service.models.model.rounds,
            service.models.model.predict(Table(NAMES, Z[:5])),
        )
        with pytest.raises((InputError, DataError), match=words):
            call(service)
        assert (service.journal.last, service.models.model.rounds, service.waiting) == (last, rounds, 3)
        np.testing.assert_array_equal(service.models.model.predict(Table(NAMES, Z[:5])), probe)


def test_a_full_disk_takes_back_what_was_not_written(model_file, rows_with_holes, monkeypatch):
    Z, y = rows_with_holes
    with open_service(model_file) as service:
        (one,) = service.predict(as_rows(Z[40:41]))
        probe = service.models.model.predict(Table(NAMES, Z[:5]))

        def full(self, *what, **more):
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


def test_rows_without_a_label_are_given_up(model_file, rows_with_holes, monkeypatch):
    Z, _ = rows_with_holes
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


def test_rows_that_expired_long_ago_are_forgotten(model_file, rows_with_holes, monkeypatch):
    monkeypatch.setattr("undrift.run.service.journal.KEPT_CLOSED", 2)
    with open_service(model_file, hold=60.0) as service:
        service.predict(as_rows(rows_with_holes[0][40:44]))
        monkeypatch.setattr("time.time", lambda: service.started + 3600.0)
        service.tend()
        assert service.learn([Label(number, 100.0) for number in (1, 2, 3, 4)]) == (0, 0, 4)
        service.save()
        service.tend()
        assert service.learn([Label(number, 100.0) for number in (1, 2, 3, 4)]) == (0, 2, 2)


def test_snapshots_replace_old_entries(model_file, rows_with_holes, monkeypatch):
    Z, y = rows_with_holes
    monkeypatch.setattr("undrift.run.service.served_run.NUMBERS_PER_COMMIT", 10)
    with open_service(model_file) as service:
        answers = service.predict(as_rows(Z[40:46]))
        service.tend()
        assert len(entries(service)) == 1
        for one, v in zip(answers, y[40:44], strict=False):
            service.learn([Label(one.id, float(v))])
        service.tend()
        assert not entries(service)
        assert service.journal.last == 10
        assert service.waiting == 2


def test_a_level_that_no_model_keeps_is_refused(model_file):
    with pytest.raises(InputError, match=r"levels 0.5, .* got 0.42"), open_service(model_file, level=0.42):
        pass


def test_only_one_process_serves_a_model(model_file):
    with open_service(model_file), pytest.raises(InputError, match="is writing this run"), open_service(model_file):
        pass


def test_a_journal_of_another_model_or_of_nobody_is_refused(model_file, rows_with_holes):
    with open_service(model_file):
        pass
    model, before = ud.load(model_file), model_file.read_bytes()
    model.learn({"a": 1.0, "b": 1.0, "c": 1.0}, 3.0)
    model.save(model_file)
    with pytest.raises(InputError, match="began with another model"), open_service(model_file):
        pass
    model_file.write_bytes(before)
    journal = model_file.with_name("model-service") / "journal.sqlite"
    for path in journal.parent.glob("journal.sqlite*"):
        path.unlink()
    journal.write_text("not a database, but long enough to look like one" * 100)
    with pytest.raises(ModelFileError, match="not a journal of undrift's"), open_service(model_file):
        pass


def test_a_forged_snapshot_is_one_sentence(model_file, rows_with_holes):
    with open_service(model_file) as service:
        service.predict(as_rows(rows_with_holes[0][40:43]))
    journal = Journal(model_file.with_name("model-service") / "journal.sqlite")
    saved = journal.last_snapshot()
    for change in ({"recent": [[1, 2]]}, {"rows_that_wait": 2}, {"next_row": 1}, {"next_row": 1e400}, {"events": 7}):
        facts = json.dumps({**json.loads(saved.facts), **change})
        journal.save(Checkpoint(facts, (), saved.sequence + 1))
        with pytest.raises(ModelFileError, match="damaged"), open_service(model_file):
            pass
    for facts in ("[]", "nonsense", "[" * 100_000):
        journal.save(Checkpoint(facts, (), saved.sequence + 1))
        with pytest.raises(ModelFileError, match="damaged"), open_service(model_file):
            pass
    journal.save(Checkpoint(saved.facts, (), saved.sequence + 1))
    journal.close()
    with open_service(model_file):
        pass
    file = model_file.with_name("model-service") / "model.undrift"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ModelFileError), open_service(model_file):
        pass


def test_more_rows_than_may_wait_are_given_up_the_oldest_first(model_file, rows_with_holes, monkeypatch):
    monkeypatch.setattr("undrift.run.service.service.MOST_WAITING", 4)
    with open_service(model_file, hold=None) as service:
        service.predict(as_rows(rows_with_holes[0][40:50]))
        service.tend()
        assert service.waiting == 4
        assert service.learn([Label(number, 100.0) for number in range(1, 11)]) == (4, 0, 6)


def test_a_snapshot_does_not_grow_with_the_rows_that_wait(model_file, rows_with_holes):
    Z, _ = rows_with_holes
    sizes = []
    with open_service(model_file) as service:
        for _ in range(3):
            for begin in range(40, 160, 40):
                service.predict(as_rows(Z[begin : begin + 40]))
            service.save()
            (file,) = model_file.with_name("model-service").glob("model-0*.undrift")  # not those of versions
            sizes.append(file.stat().st_size)
        assert service.waiting == 360
        assert max(sizes) < 1.01 * min(sizes)
        service.learn([Label(number, 100.0) for number in range(1, 361)])
        count = "SELECT (SELECT count(*) FROM waiting), (SELECT count(*) FROM records)"
        assert service.journal._base.execute(count).fetchone() == (360, 360)  # the entry may still be repeated
        service.tend()
        assert service.journal._base.execute(count).fetchone() == (360, 360)
        service.save()
        service.tend()
        assert service.journal._base.execute(count).fetchone() == (0, 0)


@pytest.mark.skipif(os.name != "posix", reason="files have no modes")
def test_the_journal_is_readable_by_its_owner_only(model_file, rows_with_holes):
    before = os.umask(0)
    try:
        with open_service(model_file) as service:
            service.predict(as_rows(rows_with_holes[0][40:42]))
            files = list(model_file.with_name("model-service").glob("journal.sqlite*"))
            assert len(files) == 3
            assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        files[0].with_name("journal.sqlite").chmod(0o644)  # as earlier versions left it
        with open_service(model_file) as service:
            service.predict(as_rows(rows_with_holes[0][40:42]))
            files = list(model_file.with_name("model-service").glob("journal.sqlite*"))
            assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    finally:
        os.umask(before)


def test_the_status_says_why_rows_have_no_interval(model_file, rows_with_holes):
    Z, _ = rows_with_holes
    with open_service(model_file) as service:
        answers = service.predict(as_rows(np.tile(Z[40:90], (2, 1))))
        without = [answer.id for answer in answers if answer.lower is None]
        assert without == list(range(without[0], 101))  # as many rows as labels were judged have one
        counts = f"100 rows came since the last labelled one, and only {without[0] - 1} labels were compared"
        assert service.facts()["no_interval"].startswith(counts)
        service.learn([Label(100, 100.0)])
        assert service.facts()["no_interval"] is None
        assert service.predict(as_rows(Z[40:41]))[0].lower is not None


def test_a_label_whose_row_was_lost_is_no_repeated_one(model_file, rows_with_holes):
    with open_service(model_file) as service:
        service.predict(as_rows(rows_with_holes[0][40:43]))
        service.journal._base.execute("DELETE FROM records WHERE row = 2")
        with pytest.raises(ModelFileError, match="row 2 does not match its checksum"):
            service.learn([Label(2, 1.0)])
        assert service.learn([Label(3, 1.0)]) == (1, 0, 0)
