"""Streams by key in a service: whatever a column means, every key answers as a `Stream` of its own, to the last bit."""

import itertools

import numpy as np
import pytest

import undrift as ud
from tests.serve.test_keyed_service import kill, small, state_of
from undrift.fleet.state_store import StateStore, read_about
from undrift.run import FleetSettings, play_fleet, update_fleet
from undrift.run.fleet.plan import read_plan
from undrift.run.service.service import Label
from undrift.serve import open_service

__all__ = ["small"]
KEYS = ("north", "south", "7")
ROWS = 150
FIRST = 90
"""Rows of each key that the file has."""


def make_rows(task):
    """Rows of three keys, hourly with gaps, with texts, holes, weights and forecasts made elsewhere."""
    rng, rows = np.random.default_rng(5), []
    hours = np.cumsum(rng.choice([1, 1, 1, 2, 5], size=ROWS))
    for t, hour in enumerate(hours.tolist()):
        for key in KEYS:
            a, sky = float(rng.normal()), ["sun", "rain", "fog"][int(rng.integers(3))]
            town = f"town {int(rng.integers(40 + t // 4))}"  # more than get a feature each, and new ones all the time
            y = 2.0 * a + (sky == "rain") + 0.1 * float(rng.normal()) + 0.5 * (key == "7")
            labels = {"two": "yes" if y > 0.5 else "no", "several": "low" if y < -0.5 else "mid" if y < 1.5 else "high"}
            rows.append({
                "shop": key,
                "time": str(np.datetime64("2024-03-01T00:00") + np.timedelta64(hour, "h")),
                "a": a if rng.random() < 0.9 else None,
                "b": float(rng.normal()),
                "sky": sky if rng.random() < 0.9 else None,
                "town": town,
                "w": float(rng.choice([0.5, 1.0, 2.0])),
                "other": 1.0 / (1.0 + np.exp(-y)) if task == "two" else y + 0.5,
                "y": labels.get(task, y),
            })  # fmt: skip
    return rows


TIMED = {"time": "time", "elapsed": True, "weight": "w"}
SETTINGS = {
    "everything": TIMED
    | {"lag": (1, 3), "calendar": True, "candidate": ("other",), "interval": 0.8, "quantiles": (0.25, 0.75)}
    | {"speed": "fast"},
    "indicators": {"time": "time", "missing": "indicators", "interval": 0.9, "speed": "best"},
    "two": TIMED | {"candidate": ("other",), "speed": "fast"},
    "several": TIMED,
    "named features": {"time": "time", "features": ("b", "sky", "town"), "categories": 2, "lag": (2,)},
}


def write_csv(path, rows):
    lines = [",".join(rows[0])]
    lines += [",".join("" if cell is None else str(cell) for cell in row.values()) for row in rows]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def traffic(rows):
    """Rows of later hours in requests of several, and labels late and out of order; some never come."""
    rng, waiting = np.random.default_rng(2), []
    for begin in range(FIRST * len(KEYS), len(rows), 5):
        numbers = list(range(begin, min(begin + 5, len(rows))))
        yield "rows", numbers
        waiting += numbers
        rng.shuffle(waiting)
        told, waiting = waiting[: len(waiting) // 2], waiting[len(waiting) // 2 :]
        yield "labels", told
    yield "labels", waiting[::2]


def served(rows, number):
    return {name: cell for name, cell in rows[number].items() if name != "y"}


def answer_of(answers, streams):
    """Return the answer of a stream as a service sends it."""
    row = answers[0]
    if answers.classes is None:
        quantiles = {f"{q:g}": row[f"q{q:g}"] for q in answers.levels} or None
        return row["prediction"], row["lower"], row["upper"], quantiles
    return row["label"], {name: row[f"p({name})"] for name in answers.classes if row[f"p({name})"] is not None}


def sent(answer):
    if answer.probabilities is None and answer.quantiles is None and answer.lower is None:
        return answer.prediction, answer.lower, answer.upper, answer.quantiles
    if answer.probabilities is None:
        return answer.prediction, answer.lower, answer.upper, answer.quantiles
    return answer.prediction, answer.probabilities


@pytest.mark.parametrize("stop", ["never", "end", "kill"])
@pytest.mark.parametrize("what", SETTINGS)
@pytest.mark.usefixtures("small")
def test_each_key_answers_as_its_own_stream(tmp_path, what, stop, monkeypatch):
    monkeypatch.setattr("undrift.run.service.served_keys.OUTPUTS_PER_COMMIT", 40)
    task = what if what in ("two", "several") else "numbers"
    rows, settings = make_rows(task), SETTINGS[what]
    file = write_csv(tmp_path / "first.csv", rows[: FIRST * len(KEYS)])
    drop = [name for name in ("w", "other") if name not in (settings.get("weight"), *settings.get("candidate", ()))]
    asked = FleetSettings(target="y", key="shop", drop=tuple(drop) if "features" not in settings else (), **settings)
    play_fleet(file, tmp_path / "fleet", asked)
    fleet = read_plan(tmp_path / "fleet").fleet
    streams = {key: fleet.stream(state_of(tmp_path / "fleet", key)) for key in KEYS}
    ids, own, step, todo = {}, {}, 0, list(traffic(rows))
    while step < len(todo):
        with open_service(tmp_path / "fleet") as service:
            for kind, numbers in itertools.islice(todo, step, None):
                step += 1
                if kind == "rows":
                    sent_rows = [served(rows, number) for number in numbers]
                    for number, answer in zip(numbers, service.predict(sent_rows), strict=True):
                        row = {name: cell for name, cell in served(rows, number).items() if name not in ("shop", *drop)}
                        own[number] = streams[rows[number]["shop"]].ask(row)
                        ids[number] = answer.id
                        found, expected = sent(answer), answer_of(own[number], streams)
                        if answer.lower is None and task == "numbers":  # none while many rows wait
                            assert expected[1] is None
                        assert found == expected
                else:
                    service.learn([Label(ids[number], rows[number]["y"]) for number in numbers])
                    for number in numbers:
                        streams[rows[number]["shop"]].tell(own[number], rows[number]["y"])
                if step % 3 == 0:
                    service.tend()
                if stop != "never" and step % 7 == 0:
                    if stop == "kill":
                        kill(service)
                    break
    assert step == len(todo)
    done = update_fleet(tmp_path / "fleet", write_csv(tmp_path / "all.csv", rows))
    counts = [row.status for row in done.found.run.all_outputs() if row.status in ("ok", "labelled", "poison", "late")]
    assert len(counts) == len(rows)
    assert set(counts) <= {"ok", "labelled"}
    assert done.added == 0
    assert done.labelled > 0  # of the rows whose label no request brought


def test_a_row_without_its_time_follows_and_misses_the_calendar(tmp_path):
    rows = make_rows("numbers")
    file = write_csv(tmp_path / "first.csv", rows[: FIRST * len(KEYS)])
    settings = FleetSettings(target="y", key="shop", drop=("w", "other"), time="time", calendar=True, elapsed=True)
    play_fleet(file, tmp_path / "fleet", settings)
    stream = read_plan(tmp_path / "fleet").fleet.stream(state_of(tmp_path / "fleet", "7"))
    with open_service(tmp_path / "fleet") as service:
        for row in ({"shop": 7, "a": 1.0}, {"shop": "7", "b": 0.5, "time": None, "sky": "hail"}):
            (answer,) = service.predict([row])
            own = stream.ask({name: cell for name, cell in row.items() if name != "shop"})
            assert answer.prediction == own[0]["prediction"]
            service.learn([Label(answer.id, 1.5)])
            stream.tell(own, 1.5)
        path = tmp_path / "fleet" / "fleet.db"
    with StateStore(path, read_about(path)) as store:
        (part,) = store.outputs("undrift serve")
        assert [row.order for row in part] == [None, None]
        before = read_plan(tmp_path / "fleet").fleet.info(store["7"])
    assert before.counts == {"ok": FIRST + 2}
    assert isinstance(stream, ud.Stream)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("small")
def test_services_kills_and_files_in_any_order_learn_each_label_once(tmp_path, seed, monkeypatch):
    monkeypatch.setattr("undrift.run.service.served_keys.OUTPUTS_PER_COMMIT", 15)
    rng, folder = np.random.default_rng(seed), tmp_path / "fleet"

    def make_row(key, day):
        a = float(rng.normal())
        return {"shop": key, "day": day, "a": a, "sky": f"sky {int(rng.integers(30))}", "y": 2.0 * a + KEYS.index(key)}

    first = write_csv(tmp_path / "first.csv", [make_row(key, day) for day in range(20) for key in KEYS])
    play_fleet(first, folder, FleetSettings(target="y", key="shop", order="day", lag=(1,), interval=0.9))
    fleet = read_plan(folder).fleet
    streams = {key: fleet.stream(state_of(folder, key)) for key in KEYS}
    days, waiting, learned = dict.fromkeys(KEYS, 20), {}, {}  # id: row and its answer
    for part in range(8):
        with open_service(folder) as service:
            assert {number for number, _ in service.journal.oldest_rows(1000)} == set(waiting)
            for _ in range(int(rng.integers(1, 8))):
                key = KEYS[int(rng.integers(len(KEYS)))]
                rows = [make_row(key, days[key] + i) for i in range(int(rng.integers(1, 3)))]
                days[key] += len(rows)
                for row, answer in zip(rows, service.predict([served({0: row}, 0) for row in rows]), strict=True):
                    own = streams[key].ask({"a": row["a"], "sky": row["sky"]})
                    assert answer.prediction == own[0]["prediction"]
                    waiting[answer.id] = row, own
                told = [number for number in waiting if rng.random() < 0.3]
                rng.shuffle(told)
                if told:
                    assert service.learn([Label(number, waiting[number][0]["y"]) for number in told]) == (
                        len(told),
                        0,
                        0,
                    )
                for number in told:
                    row, own = learned[number] = waiting.pop(number)
                    streams[row["shop"]].tell(own, row["y"])
                service.tend()
            if learned:
                number = next(iter(learned))
                assert service.learn([Label(number, 0.0)]) == (0, 1, 0)
            if rng.random() < 0.5:
                kill(service)
        if rng.random() < 0.5:
            continue
        brought = [number for number in waiting if rng.random() < 0.5]
        rows = [waiting[number][0] for number in brought] + [row for row, _ in learned.values()]
        new = [make_row(key, days[key]) for key in KEYS]
        done = update_fleet(folder, write_csv(tmp_path / f"{part}.csv", rows + new))
        assert (done.added, done.labelled, done.skipped) == (len(new), len(brought), len(learned))
        for number in sorted(brought):
            row, own = learned[number] = waiting.pop(number)
            streams[row["shop"]].tell(own, row["y"])
        for row in new:
            streams[row["shop"]].play([{name: row[name] for name in ("a", "sky", "y")}])
            days[row["shop"]] += 1
    rows = [row for row, _ in waiting.values()]
    done = update_fleet(folder, write_csv(tmp_path / "last.csv", [*rows, make_row(KEYS[0], 0)]))
    counts = [row.status for row in done.found.run.all_outputs()]
    assert counts.count("ok") + counts.count("labelled") == sum(days.values())
