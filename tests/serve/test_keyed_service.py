"""A model for each key: every key is served as its own model would, whatever is in memory, and through restarts."""

import contextlib
import json

import numpy as np
import pytest

import undrift as ud
from tests.serve.server_process import fetch, running_server
from tests.serve.waiting_rows import entries
from undrift.errors import DataError, InputError, LearnedBeforeError
from undrift.fleet.state_store import StateStore, read_about
from undrift.run import FleetSettings, play_fleet, update_fleet
from undrift.run.fleet.plan import read_plan
from undrift.run.service.served_keys import ServedKeys
from undrift.run.service.service import Label
from undrift.serve import Client, open_service

NAMES = ["a", "b"]
KEYS = [f"key {k}" for k in range(7)]


@pytest.fixture
def small(monkeypatch):
    """Room for few keys, so that they are saved, dropped and read again all the time."""
    monkeypatch.setattr("undrift.run.service.served_keys.KEYS_PER_SAVE", 2)
    monkeypatch.setattr("undrift.run.service.served_keys.MOST_CHANGED", 3)
    monkeypatch.setattr("undrift.run.service.served_keys.LOADED_BYTES", 1)
    monkeypatch.setattr("undrift.run.service.served_keys.FEWEST_LOADED", 5)


@pytest.fixture
def model_file(tmp_path):
    """A model that has learned 20 rows, with which every key begins."""
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(20, 2))
    model = ud.OnlineRegressor(speed="light")
    for z in Z:
        model.learn(dict(zip(NAMES, z.tolist(), strict=True)), float(z.sum()))
    model.save(tmp_path / "model.undrift")
    return tmp_path / "model.undrift"


def traffic(rounds=80):
    """Rows of several keys, and labels late and out of order; some never come."""
    rng, waiting, row = np.random.default_rng(0), [], 0
    for _ in range(rounds):
        keys = rng.choice(KEYS, size=int(rng.integers(1, 4))).tolist()
        Z = rng.normal(size=(len(keys), 2))
        yield "rows", [(row + i, key, z) for i, (key, z) in enumerate(zip(keys, Z, strict=True))]
        waiting += [
            (row + i, key, float(z.sum() + KEYS.index(key))) for i, (key, z) in enumerate(zip(keys, Z, strict=True))
        ]
        row += len(keys)
        rng.shuffle(waiting)
        told, waiting = waiting[: len(waiting) // 2], waiting[len(waiting) // 2 :]
        if told:
            yield "labels", told


def play_directly(model_file):
    """The same with a model object for each key."""
    models, served = {key: ud.load(model_file) for key in KEYS}, {}
    for kind, items in traffic():
        for row, key, value in items:
            if kind == "rows":
                served[row] = models[key].ask(value)
            else:
                models[key].tell(served[row], value)
    return models, [served[row].yhat for row in sorted(served)]


def play_served(model_file, stop):
    """The same by a service, which is left where `stop` says so, in order or not."""
    ids, yhat, todo, step = {}, {}, list(traffic()), 0
    while step < len(todo):
        with open_service(model_file, key="shop") as service:
            while step < len(todo):
                kind, items = todo[step]
                step += 1
                if kind == "rows":
                    sent = [{"shop": key, **dict(zip(NAMES, z.tolist(), strict=True))} for _, key, z in items]
                    for (row, _, _), one in zip(items, service.predict(sent), strict=True):
                        ids[row], yhat[row] = one.id, one.prediction
                else:
                    assert service.learn([Label(ids[row], y) for row, _, y in items]) == (len(items), 0, 0)
                if step % 5 == 0:
                    service.tend()
                ends = stop(step)
                if ends:
                    if ends == "kill":
                        kill(service)
                    break
            models, waiting = service.models, service.waiting
            probes = [models._load(key).model.predict([0.5, -1.0]) for key in KEYS]
    return models, probes, waiting, [yhat[row] for row in sorted(yhat)]


@pytest.mark.parametrize("stop", ["never", "kill", "end"])
@pytest.mark.usefixtures("small")
def test_each_key_is_served_as_its_own_model_would(model_file, stop):
    expected, yhat = play_directly(model_file)
    served, probes, waiting, answers = play_served(
        model_file, lambda step: stop if stop != "never" and step % 11 == 0 else ""
    )
    assert answers == yhat
    assert probes == [model.predict([0.5, -1.0]) for model in expected.values()]
    assert served.rounds == sum(model.rounds - 20 for model in expected.values()) > 100
    assert {key: served.records[key].waiting for key in KEYS} == {k: len(m.pending) for k, m in expected.items()}
    assert waiting == sum(len(model.pending) for model in expected.values()) > 0
    assert {key: served.records[key].rounds + 20 for key in KEYS} == {k: m.rounds for k, m in expected.items()}


@pytest.mark.usefixtures("small")
def test_memory_is_bounded_and_entries_are_forgotten(model_file):
    with open_service(model_file, key="shop") as service:
        for i in range(60):
            (one,) = service.predict([{"shop": i, "a": 1.0}])
            service.learn([Label(one.id, 2.0)])
            assert len(service.models._loaded) <= 5
            assert len(service.models._changed) <= 4
        assert len(entries(service)) < 20
        with pytest.raises(InputError, match="rows of 5 keys, got 6; split it"):
            service.predict([{"shop": i, "a": 1.0} for i in range(6)])
        assert service.facts()["keys"] == 60
    with open_service(model_file, key="shop") as service:
        assert service.facts()["keys"] == 60
        assert service.models.key_facts("7")["rounds"] == 1


@pytest.mark.usefixtures("small")
def test_a_full_disk_takes_back_what_was_not_written(model_file, monkeypatch):
    from undrift.run.service.journal import Journal

    with open_service(model_file, key="shop") as service:
        ids = [one.id for one in service.predict([{"shop": key, "a": 1.0} for key in KEYS[:4]])]
        service.learn([Label(ids[0], 1.0)])
        before = [service.models._load(key).model.predict([1.0, 1.0]) for key in KEYS[:4]]

        def full(self, *what, **more):
            raise InputError("cannot be written")

        with monkeypatch.context() as patch:
            patch.setattr(Journal, "append", full)
            patch.setattr(Journal, "save", full)
            for call in (
                lambda: service.learn([Label(number, 5.0) for number in ids[1:]]),
                lambda: service.predict([{"shop": KEYS[0], "a": 9.0}]),
                service.save,
            ):
                with pytest.raises(InputError, match="cannot be written"):
                    call()
        assert [service.models._load(key).model.predict([1.0, 1.0]) for key in KEYS[:4]] == before
        assert service.learn([Label(number, 5.0) for number in ids]) == (3, 1, 0)


@pytest.mark.parametrize("classes", [False, True])
def test_a_fleet_goes_on_where_its_file_ended(tmp_path, classes):
    rng = np.random.default_rng(1)
    lines = []
    for t in range(90):
        for key, weight in (("north", 1.0), ("south", -2.0), ("7", 0.5)):
            a, b = rng.normal(size=2).tolist()
            y = weight * a + b + 0.1 * rng.normal()
            lines.append((key, t, a, b, ("yes" if y > 0.0 else "no") if classes else y))
    head = "shop,day,a,b,sold\n"
    (tmp_path / "all.csv").write_text(head + "".join(",".join(map(str, line)) + "\n" for line in lines))
    (tmp_path / "first.csv").write_text(head + "".join(",".join(map(str, line)) + "\n" for line in lines[:180]))
    whole = play_fleet(str(tmp_path / "all.csv"), tmp_path / "all", SETTINGS)
    play_fleet(str(tmp_path / "first.csv"), tmp_path / "first", SETTINGS)
    expected = [row.prediction for row in whole.run.outputs]
    order = [(row.key, row.order) for row in whole.run.outputs]
    with open_service(tmp_path / "first") as service:
        assert service.facts()["keys"] == 3
        for key, t, a, b, y in lines[180:]:
            (one,) = service.predict([{"shop": key, "day": t, "a": a, "b": b}])
            yhat = expected[order.index((key, t))]
            if classes:
                assert one.probabilities["yes"] == pytest.approx(1.0 / (1.0 + np.exp(-yhat)), rel=1e-12)
                assert one.probability == one.probabilities[one.prediction] >= 0.5
            else:
                assert one.prediction == yhat
            service.learn([Label(one.id, y)])
        (one,) = service.predict([{"shop": "west", "a": 1.0, "b": 1.0}])
        assert not one.known
        assert service.facts()["keys"] == 4
        assert service.models.key_facts("7")["rounds"] == 30
    with open_service(tmp_path / "first") as service:
        assert service.learn([Label(one.id, "no" if classes else 3.0)]) == (1, 0, 0)


SETTINGS = FleetSettings(target="sold", key="shop", order="day", speed="light")


def state_of(folder, key):
    """Return the state of a key in the folder of a fleet."""
    path = folder / "fleet.db"
    with StateStore(path, read_about(path)) as store:
        return store[key]


def kill(service):
    """Let nothing be saved at the end, as after kill -9."""
    service.close = service.journal.close


def shop_files(folder):
    """Return a file with the first rows of two shops, one with all rows, and the rows as objects."""
    rng = np.random.default_rng(1)
    rows = [
        {"shop": key, "day": t, "a": a, "sold": a + 0.1 * float(rng.normal())}
        for t in range(60)
        for key in "xy"
        for a in [float(rng.normal())]
    ]
    lines = [",".join(map(repr, list(row.values())[1:])) for row in rows]
    for name, count in (("first.csv", 80), ("all.csv", 120)):
        text = "".join(f"{row['shop']},{line}\n" for row, line in zip(rows[:count], lines, strict=False))
        (folder / name).write_text(f"shop,day,a,sold\n{text}")
    return str(folder / "first.csv"), str(folder / "all.csv"), rows


def without(row, *names):
    return {name: cell for name, cell in row.items() if name not in names}


def outputs_by_row(run):
    """Return key, order, prediction, target and status of all outputs of a fleet's folder."""
    return sorted((row.key, row.order, row.status, str(row.prediction), row.target or 0.0) for row in run.all_outputs())


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.usefixtures("small")
def test_an_update_goes_on_from_what_a_service_learned(tmp_path, killed, monkeypatch):
    monkeypatch.setattr("undrift.run.service.served_keys.OUTPUTS_PER_COMMIT", 7)
    first, everything, rows = shop_files(tmp_path)
    whole = play_fleet(everything, tmp_path / "whole", SETTINGS)
    fleet = tmp_path / "fleet"
    play_fleet(first, fleet, SETTINGS)
    for begin in (80, 90):
        with open_service(fleet) as service:
            for row in rows[begin : begin + 10]:
                (one,) = service.predict([without(row, "sold")])
                service.learn([Label(one.id, row["sold"])])
                service.tend()
            if killed:
                kill(service)
    with (
        pytest.raises(InputError, match="came before; send each row once"),
        open_service(fleet) as service,
    ):
        service.predict([without(rows[90], "sold")])
    done = update_fleet(fleet, everything)
    assert (done.added, done.labelled, done.skipped) == (20, 0, 100)
    assert [row for row in outputs_by_row(done.found.run) if row[2] == "ok"] == outputs_by_row(whole.run)
    entries = read_plan(fleet).learned
    assert [(entry["by"], entry["rows"]) for entry in entries] == [("update", 120), ("serve", 20)]
    assert {key: model.predict([0.5]) for key, model in done.found.run.iter_models(["x", "y"])} == {
        key: model.predict([0.5]) for key, model in whole.run.iter_models(["x", "y"])
    }
    with pytest.raises(LearnedBeforeError, match="this very file was learned already"):
        update_fleet(fleet, everything)
    (fleet / "run.json").unlink()
    with pytest.raises(InputError, match="its first file was not finished"), open_service(fleet):
        pass


def test_a_file_brings_the_labels_of_rows_that_a_service_predicted(tmp_path):
    first, everything, rows = shop_files(tmp_path)
    fleet, twin = tmp_path / "fleet", tmp_path / "twin"
    for folder in (fleet, twin):
        play_fleet(first, folder, SETTINGS)
    with open_service(fleet) as service:
        ids = [service.predict([without(row, "sold")])[0].id for row in rows[80:86]]
        ids += [one.id for one in service.predict([{"shop": "x", "a": 1.0}])]  # no file brings a label without a day
        service.learn([Label(ids[2], rows[82]["sold"])])
    stream = read_plan(twin).fleet.stream(state_of(twin, "x"))
    asked = [stream.ask({"a": rows[k]["a"]}) for k in (80, 82, 84)] + [stream.ask({"a": 1.0})]
    stream.tell(asked[1], rows[82]["sold"])
    done = update_fleet(fleet, everything)
    assert (done.added, done.labelled, done.skipped) == (34, 5, 81)
    stream.tell(asked[0], rows[80]["sold"])
    stream.tell(asked[2], rows[84]["sold"])
    stream.play([{"a": row["a"], "sold": row["sold"]} for row in rows[86:] if row["shop"] == "x"])
    with open_service(fleet) as service:
        assert service.waiting == 1
        assert service.learn([Label(number, 0.0) for number in ids[:6]]) == (0, 6, 0)
        assert service.learn([Label(ids[6], 0.25)]) == (1, 0, 0)
        stream.tell(asked[3], 0.25)
        assert service.predict([{"shop": "x", "a": 0.5}])[0].prediction == stream.predict({"a": 0.5})["prediction"][0]
    again = {(row.key, row.order): row.status for row in done.found.run.all_outputs()}
    assert again["x", 40] == "labelled"
    assert [entry["by"] for entry in read_plan(fleet).learned] == ["update", "serve"]  # the file grew


def test_files_bring_the_labels_of_as_many_rows_of_a_key_as_it_holds(tmp_path):
    first, everything, rows = shop_files(tmp_path)
    play_fleet(first, tmp_path / "fleet", SETTINGS.replace(hold=2))
    ids = []
    for k in (80, 82, 84):
        with open_service(tmp_path / "fleet") as service:
            ids += [one.id for one in service.predict([without(rows[k], "sold")])]
    done = update_fleet(tmp_path / "fleet", everything)
    assert (done.labelled, done.skipped) == (2, 81)
    with open_service(tmp_path / "fleet") as service:
        assert service.learn([Label(number, 0.0) for number in ids]) == (1, 2, 0)
        assert service.models.key_facts("x")["waiting"] == service.waiting == 0


@pytest.mark.parametrize("where", ["before", "within", "after"])
def test_a_kill_within_a_commit_of_the_fleet_loses_nothing(tmp_path, where, monkeypatch):
    first, everything, rows = shop_files(tmp_path)
    whole = play_fleet(everything, tmp_path / "whole", SETTINGS)
    fleet = tmp_path / "fleet"
    play_fleet(first, fleet, SETTINGS)

    class Killed(BaseException):
        pass

    def die(*arguments, **options):
        raise Killed

    add_outputs, commit = StateStore.add_outputs, ServedKeys._commit

    def die_within(*arguments, **options):
        add_outputs(*arguments, **options)
        raise Killed

    def die_after(models):
        commit(models)
        raise Killed

    broken = {"before": (ServedKeys, "_commit", die), "within": (StateStore, "add_outputs", die_within)}
    with monkeypatch.context() as patch, contextlib.suppress(Killed), open_service(fleet) as service:
        for row in rows[80:100]:
            (one,) = service.predict([without(row, "sold")])
            service.learn([Label(one.id, row["sold"])])
        (one,) = service.predict([without(rows[100], "sold")])
        patch.setattr(*broken.get(where, (ServedKeys, "_commit", die_after)))
    done = update_fleet(fleet, everything)
    assert (done.added, done.labelled, done.skipped) == (19, 1, 100)
    assert [row for row in outputs_by_row(done.found.run) if row[2] == "ok" and row[:2] != ("x", 50)] == [
        row for row in outputs_by_row(whole.run) if row[:2] != ("x", 50)
    ]
    with open_service(fleet) as service:
        assert service.learn([Label(one.id, 5.0)]) == (0, 1, 0)
        assert service.facts()["rounds"] == 20
        assert service.facts()["keys"] == 2


def test_keys_of_a_fleet_made_in_python_are_served(tmp_path):
    rng, Z = np.random.default_rng(4), np.random.default_rng(5).normal(size=(60, 2))
    records = [
        {"pump": k, "n": n, "a": float(z[0]), "b": float(z[1]), "y": float(z.sum())}
        for n, z in enumerate(Z)
        for k in (7, 8)
        if n != 37
    ]
    fleet = ud.Fleet(ud.OnlineRegressor(speed="light"), key="pump", order="n", features=["a", "b"], target="y", wait=3)
    fleet.run(records[:78], folder=tmp_path / "fleet")
    state = state_of(tmp_path / "fleet", 7)
    assert fleet.info(state).waiting == 2  # nobody said that nothing before them comes any more
    twin = fleet.stream(fleet.finish(state, 7).state)
    with open_service(tmp_path / "fleet") as service:
        for record in records[78:98:2]:
            (one,) = service.predict([without(record, "y")])
            own = twin.ask({name: record[name] for name in "ab"})
            assert one.prediction == own[0]["prediction"]
            service.learn([Label(one.id, record["y"])])
            twin.tell(own, record["y"])
        service.predict([{"pump": 9, "a": rng.normal(), "b": 0.0}])
        assert service.facts()["keys"] == 3
    assert fleet.info(state_of(tmp_path / "fleet", 9)).rounds == 0  # an integer, as the others
    after = state_of(tmp_path / "fleet", 7)
    assert fleet.info(after).rounds == 49
    assert fleet.stream(after).model.predict([1.0, 2.0]) == twin.model.predict([1.0, 2.0])
    outputs = fleet.run(records, folder=tmp_path / "fleet", source="again").outputs
    assert {row.status for row in outputs if row.key == 7 and row.order < 50} == {"duplicate"}


@pytest.mark.parametrize("labels", [(0, 1), (False, True), ("no", "yes"), ("low", "mid", "high")])
def test_classes_of_a_model_file_are_served_by_key_under_their_names(tmp_path, labels):
    rng = np.random.default_rng(6)
    Z = rng.normal(size=(40, 2))
    model = ud.OnlineClassifier(speed="light")
    for z in Z:
        which = int(np.digitize(z.sum(), [0.0, 1.0][: len(labels) - 1]))
        model.learn(dict(zip(NAMES, z.tolist(), strict=True)), labels[which])
    model.save(tmp_path / "model.undrift")
    own = {key: ud.load(tmp_path / "model.undrift") for key in "xy"}
    for _ in range(2):
        with open_service(tmp_path / "model.undrift", key="shop") as service:
            for t in range(20):
                key, row = "xy"[t % 2], dict(zip(NAMES, rng.normal(size=2).tolist(), strict=True))
                expected = own[key].ask(row)
                p = own[key].served_probabilities(expected)
                (one,) = service.predict([{"shop": key, **row}])
                assert one.prediction == max(p, key=p.get)
                assert type(one.prediction) is type(labels[0])
                assert one.probabilities == pytest.approx({str(label): share for label, share in p.items()}, rel=1e-12)
                label = labels[int(rng.integers(len(labels)))]
                service.learn([Label(one.id, label)])
                own[key].tell(expected, label)
            assert service.facts()["log_loss"] > 0.0
            assert service.models.key_facts("x")["relative_error"] >= 0.0
            if not model.several_classes:
                (one,) = service.predict([{"shop": "x", "a": 0.0}])
                expected = own["x"].ask({"a": 0.0})
                with pytest.raises(DataError, match=r"the label of row .*: the target 'y' is '17', a third class"):
                    service.learn([Label(one.id, 17)])


@pytest.mark.parametrize("options", [{"candidates": ["b"]}, {"indicators": True}, {"speed": "fast", "half_life": 30.0}])
def test_a_model_file_of_any_kind_is_copied_for_every_key(tmp_path, options):
    rng = np.random.default_rng(8)
    model = ud.OnlineRegressor(**{"speed": "light", **options})
    for _ in range(30):
        row = dict(zip(NAMES, rng.normal(size=2).tolist(), strict=True))
        model.learn(row, row["a"] + row["b"])
    model.save(tmp_path / "model.undrift")
    own = {key: ud.load(tmp_path / "model.undrift") for key in "xy"}
    for _ in range(2):
        with open_service(tmp_path / "model.undrift", key="shop", level=0.8) as service:
            for t in range(20):
                key, row = "xy"[t % 2], dict(zip(NAMES, rng.normal(size=2).tolist(), strict=True))
                row |= {"a": None} if t % 5 == 0 else {}
                expected = own[key].ask({name: np.nan if cell is None else cell for name, cell in row.items()})
                (one,) = service.predict([{"shop": key, **row}])
                assert (one.prediction, one.lower, one.upper) == (expected.yhat, *expected.bounds(0.8))
                service.learn([Label(one.id, 0.5 * t)])
                own[key].tell(expected, 0.5 * t)


@pytest.mark.parametrize("killed", [False, True])
def test_changes_of_a_key_are_told_once_and_under_its_name(tmp_path, killed):
    play_fleet(shop_files(tmp_path)[0], tmp_path / "fleet", SETTINGS)
    rng, found = np.random.default_rng(0), []
    for part in range(3):
        with open_service(tmp_path / "fleet") as service:
            for t in range(100):
                for key in "xy":
                    a = float(rng.normal())
                    (one,) = service.predict([{"shop": key, "a": a}])
                    moved = 3.0 if key == "y" and part == 2 else 0.0
                    service.learn([Label(one.id, a + moved + 0.1 * float(rng.normal()))])
                service.tend()
                if t == 50:
                    service.save()
            found, counts = list(service.events), sum(service.event_counts.values())
            if killed:
                kill(service)
    with open_service(tmp_path / "fleet") as service:
        assert list(service.events) == found
        assert sum(service.event_counts.values()) == counts == len(found)
    assert {event.key for event in found} == {"y"}
    assert {str(event.kind) for event in found} == {"error leans", "error grew"}  # the intervals learn at once
    assert all(event.sentence.startswith("'y': ") for event in found)


@pytest.mark.usefixtures("small")
def test_a_commit_that_fails_is_made_later(tmp_path, monkeypatch):
    monkeypatch.setattr("undrift.run.service.served_keys.OUTPUTS_PER_COMMIT", 5)
    first, everything, rows = shop_files(tmp_path)
    whole = play_fleet(everything, tmp_path / "whole", SETTINGS)
    play_fleet(first, tmp_path / "fleet", SETTINGS)

    def full(*arguments, **options):
        raise InputError("the disk is full; make room")

    with open_service(tmp_path / "fleet") as service:
        with monkeypatch.context() as patch:
            patch.setattr(StateStore, "add_outputs", full)
            for row in rows[80:90]:
                (one,) = service.predict([without(row, "sold")])
                service.learn([Label(one.id, row["sold"])])
            ids = [one.id for one in service.predict([without(row, "sold") for row in rows[90:92]])]
            with pytest.raises(InputError, match="the disk is full"):
                service.save(everything=True)
        service.learn([Label(ids[0], rows[90]["sold"])])
    done = update_fleet(tmp_path / "fleet", everything)
    assert (done.added, done.labelled, done.skipped) == (28, 1, 91)
    found = outputs_by_row(done.found.run)
    assert [row[:3] for row in found if row[2] in ("predicted", "labelled")] == [
        ("y", 45, "labelled"),
        ("y", 45, "predicted"),
    ]
    assert len([row for row in found if row[2] == "ok"]) == 119
    expected = {row[:2]: row for row in outputs_by_row(whole.run)}
    assert all(row == expected[row[:2]] for row in found if row[2] == "ok" and row[1] <= 45)


def test_a_service_is_not_gone_on_with_beside_another_fleet(tmp_path):
    first, everything, rows = shop_files(tmp_path)
    fleet = tmp_path / "fleet"
    play_fleet(first, fleet, SETTINGS)
    with open_service(fleet) as service:
        service.predict([without(rows[80], "sold")])
    play_fleet(everything, fleet, SETTINGS, force=True)
    with pytest.raises(InputError, match="this service began with another model; move its folder away"):
        open_service(fleet).__enter__()
    (fleet / "service").rename(tmp_path / "away")
    with open_service(fleet) as service:
        assert service.waiting == 0


def test_a_row_is_refused_whole_and_changes_nothing(tmp_path):
    first, everything, rows = shop_files(tmp_path)
    play_fleet(first, tmp_path / "fleet", SETTINGS.replace(missing="skip"))
    with open_service(tmp_path / "fleet") as service:
        fine, before = without(rows[80], "sold"), service.facts()
        for row, words in (
            ({"day": 39}, "the place of this row of key 'x' by 'day' came before; send each row once, or omit 'day'"),
            ({"day": 2.5}, "'day' must be an integer"),
            ({"a": None}, "a value is missing, and such rows are left out"),
            ({"a": 10.0**80}, "'a' is 1e\\+80, beyond 1e75; correct it and send the request again"),
            ({"sold": 1.0}, "the models have no feature 'sold'"),
            ({"a": 10**400}, "'a' is inf, beyond 1e75"),
            ({"a": "\ud800"}, "'a' must be a text that can be written"),
            ({"day": 41, "a": "NA"}, "a value is missing"),
        ):
            with pytest.raises(InputError, match=words):
                service.predict([fine, {**fine, "day": 41, **row}])
        with pytest.raises(InputError, match=r"request, row 2: .* came before"):
            service.predict([fine, fine])
        with pytest.raises(InputError, match="is behind the last one; send rows in order"):
            service.predict([{**fine, "day": 44}, {**fine, "day": 42}])
        assert {**service.facts(), "seconds": 0, "loaded": 0} == {**before, "seconds": 0, "loaded": 0}
        assert len(service.predict([fine, {**fine, "day": 41}])) == 2
        (one,) = service.predict([{**fine, "day": 45}])
        with pytest.raises(DataError, match="'sold' is a column of numbers, got 'much'"):
            service.learn([Label(one.id, "much")])
        service.learn([Label(one.id, 1.0)])
    assert {row.status for row in update_fleet(tmp_path / "fleet", everything).found.run.all_outputs()} >= {
        "gap",
        "predicted",
    }


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"a": 1.0}, "every row needs its key, a text or an integer, as 'shop', got None"),
        ({"shop": 1.5, "a": 1.0}, "got 1.5"),
        ({"shop": "", "a": 1.0}, "a key has 1 to 1,000 characters"),
        ({"shop": "\ud800", "a": 1.0}, "a key must be a text that can be written"),
        ({"shop": "x", "c": 1.0}, "no feature 'c'"),
        ({"shop": "x", "a": "high"}, "'a' must be a number"),
    ],
)
def test_rows_that_cannot_be_read_are_refused(model_file, row, words):
    with open_service(model_file, key="shop") as service:
        with pytest.raises(InputError, match=words):
            service.predict([{"shop": "fine", "a": 1.0}, row])
        assert service.facts()["keys"] == 0


def test_what_cannot_have_keys_is_refused(tmp_path, model_file):
    with pytest.raises(InputError, match="--key is for a model file"), open_service(tmp_path, key="shop"):
        pass
    with pytest.raises(InputError, match="'a': this is a feature"), open_service(model_file, key="a"):
        pass
    grown = ud.OnlineRegressor()
    grown.learn([1.0, 1.0], 1.0)
    grown.save(tmp_path / "trees.undrift")
    words = "a model with trees cannot be copied for every key, .*; train it with trees=False, or with speed 'fast'"
    with pytest.raises(InputError, match=words), open_service(tmp_path / "trees.undrift", key="shop"):
        pass
    model = ud.load(model_file)
    model.ask([1.0, 1.0])
    model.save(model_file)
    with pytest.raises(InputError, match="rows that wait for their label"), open_service(model_file, key="shop"):
        pass


def test_keys_that_do_badly_are_named_and_no_metric_has_a_name(model_file):
    rng = np.random.default_rng(0)
    with running_server(model_file, "--key", "shop") as (_, url), Client(url) as client:
        for _ in range(120):
            rows = [{"shop": key, "a": float(rng.normal()), "b": 0.0} for key in ("good", "bad/one")]
            answers = client.predict(rows)
            noise = 5.0 * float(rng.normal())
            client.learn({answers[0].id: rows[0]["a"], answers[1].id: noise + (80.0 if noise > 4.0 else 0.0)})
        assert [one["key"] for one in json.loads(fetch(url + "keys")[1])] == ["bad/one", "good"]
        code, text = fetch(url + "keys/bad/one")
        assert (code, json.loads(text)["rounds"]) == (200, 120)
        assert fetch(url + "keys/none")[0] == 422
        assert fetch(url + "live?key=none")[0] == 422
        text = fetch(url + "metrics")[1]
        assert "undrift_keys 2.0" in text
        assert "bad/one" not in text


def test_a_stream_is_not_served_by_key(tmp_path):
    stream = ud.Stream("y", speed="light")
    stream.play([{"x": float(t % 3), "y": float(t % 5)} for t in range(20)])
    stream.save(tmp_path / "stream.undrift")
    with pytest.raises(InputError, match="--key takes a saved estimator, and this is a stream; omit --key"):
        open_service(tmp_path / "stream.undrift", key="shop").__enter__()
    assert {path.name for path in tmp_path.iterdir()} == {"stream.undrift"}
