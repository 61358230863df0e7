"""A service is what its journal says whatever fails, or it refuses every request until it is again."""

import shutil
import sqlite3
import tempfile

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError, UnavailableError, UndriftError
from undrift.online import Table
from undrift.run import list_versions
from undrift.run.service.journal import Journal
from undrift.run.service.served_run import ServedRun
from undrift.run.service.service import Label
from undrift.serve import open_service

NAMES = ["a", "b", "c"]
KEYED = [{"shop": f"s{i % 3}", "a": float(i), "b": 1.0, "c": -float(i)} for i in range(60)]
PLAIN = [{name: row[name] for name in NAMES} for row in KEYED]


@pytest.fixture
def model_file(tmp_path):
    Z = np.random.default_rng(5).normal(size=(40, 3))
    model = ud.OnlineRegressor(speed="light")
    model.play(Table(NAMES, Z), Z @ [1.0, -2.0, 0.5])
    model.save(tmp_path / "model.undrift")
    return tmp_path / "model.undrift"


class FailingBase:
    """A connection whose statements fail from a given one on."""

    def __init__(self, base, calls, error):
        self._base, self.left, self._error = base, calls, error

    def execute(self, *arguments):
        self._count()
        return self._base.execute(*arguments)

    def executemany(self, *arguments):
        self._count()
        return self._base.executemany(*arguments)

    def _count(self):
        self.left -= 1
        if self.left < 0:
            raise self._error

    def __getattr__(self, name):
        return getattr(self._base, name)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk I/O error"), OSError(28, "No space left on device")])
def test_a_failure_at_any_statement_leaves_what_the_journal_says_or_a_service_that_refuses(model_file, keyed, error):
    rows, stopped, refused, calls = KEYED if keyed else PLAIN, 0, 0, 0
    with open_service(model_file, key="shop" if keyed else None) as calm:
        expected = [calm.predict(rows[:6]), calm.learn([Label(k, 1.0) for k in (2, 3, 5)]), calm.predict(rows[6:9])]
        expected += [calm.learn([Label(1, 2.0)]), calm.predict(rows[9:12]), calm.facts()]
    shutil.rmtree(model_file.with_name("model-service"))
    with open_service(model_file, key="shop" if keyed else None) as service:
        done = [service.predict(rows[:6]), service.learn([Label(k, 1.0) for k in (2, 3, 5)])]
        base = service.journal._base
        for request in (
            lambda: service.predict(rows[6:9]),
            lambda: service.learn([Label(1, 2.0)]),
            lambda: service.predict(rows[9:12]),
        ):
            answered, calls = False, 0
            while not answered:
                before = list(base.execute("SELECT * FROM journal"))
                service.journal._base = failing = FailingBase(base, calls, error)
                try:
                    done.append(request())
                    answered = failing.left >= 0
                    assert answered, "it answered although a statement failed"
                except (UndriftError, OSError, sqlite3.Error):
                    refused += 1
                service.journal._base = base
                if not service.is_restored:
                    stopped += 1
                    for call in (request, service.facts, lambda: service.models):
                        with pytest.raises(UnavailableError, match=r"could not be restored .* requests are refused"):
                            call()
                    service._next_try = 0.0
                    service.tend()
                assert service.failure is None
                assert answered or list(base.execute("SELECT * FROM journal")) == before
                calls += 1
        assert stopped
        assert refused > 5
        now = service.facts()
        assert done == expected[:-1]
        assert now | {"seconds": 0} == expected[-1] | {"seconds": 0}


def test_undoing_needs_no_temporary_folder(model_file, monkeypatch):
    with open_service(model_file) as service:
        (one,) = service.predict(PLAIN[:1])
        monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "append", _refuse_to_write)
            with pytest.raises(InputError, match="cannot be written"):
                service.predict(PLAIN[1:4])
        assert service.failure is None
        assert [answer.id for answer in service.predict(PLAIN[1:3])] == [one.id + 1, one.id + 2]
        assert service.learn([Label(one.id, 1.0)]) == (1, 0, 0)
        service.save(everything=True)


def test_a_service_that_cannot_be_restored_is_not_saved_when_it_ends(model_file, monkeypatch):
    with open_service(model_file) as service:
        service.predict(PLAIN[:5])
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "append", _refuse_to_write)
            patch.setattr(ServedRun, "restore", _break)
            with pytest.raises(InputError, match="cannot be written"):
                service.predict(PLAIN[5:6])
        with pytest.raises(UnavailableError, match=r"OSError: .*Input/output error"):
            service.predict(PLAIN[5:6])
    (version,) = list_versions(model_file.with_name("model-service"))
    assert (version.by, version.rows, version.complete) == ("model", 40, True)
    with open_service(model_file) as service:
        assert [answer.id for answer in service.predict(PLAIN[5:6])] == [6]


def test_care_survives_what_a_disk_may_answer_and_says_so(model_file, monkeypatch):
    with open_service(model_file) as service:
        service.predict(PLAIN[:5])
        with monkeypatch.context() as patch:
            patch.setattr(ServedRun, "is_due", _break)
            service.tend()
            assert "Input/output error" in service.failure
        service.tend()
        assert service.failure is None


def _refuse_to_write(*arguments, **options):
    raise InputError("cannot be written")


def _break(*arguments):
    raise OSError(5, "Input/output error")
