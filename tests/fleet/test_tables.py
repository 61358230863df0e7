"""Tables as people have them, by key: a fleet in any cut, a folder and a stream of one key give the same bits."""

import datetime as dt
import math
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import undrift as ud
from undrift.errors import InputError
from undrift.fleet import Outputs

BEGIN = dt.datetime(2024, 3, 1)
ROWS = 140


def draw(seed=0, rows=ROWS):
    """Return hourly rows of two shops in turn."""
    rng = np.random.default_rng(seed)
    out = []
    for t in range(rows):
        for shop in ("north", "south"):
            a, b = rng.normal(size=2)
            at = BEGIN + dt.timedelta(hours=t)
            y = 3.0 + 2.0 * a - b + 4.0 * (t >= rows // 2) + 3.0 * (8 <= at.hour < 18) + 0.3 * rng.normal()
            out.append({"shop": shop, "at": at, "a": a, "b": b, "y": float(y)})
    return out


def with_holes(rng, rows):
    for row in rows[6:]:
        row |= {name: None for name in "ab" if rng.random() < 0.1}


def with_uneven_times(rng, rows):
    at = dict.fromkeys(("north", "south"), BEGIN)
    for row in rows:
        at[row["shop"]] += dt.timedelta(minutes=int(rng.choice([60, 60, 60, 15, 250])))
        row["at"] = at[row["shop"]]


def with_weights(rng, rows):
    for row in rows:
        row["w"] = float(rng.choice([0.5, 1.0, 3.0]))


def with_few_texts(rng, rows):
    for t, row in enumerate(rows):
        row["sky"] = str(rng.choice(["sun", "rain", "snow", "fog"] if t > ROWS else ["sun", "rain", "snow"]))
        row["y"] += 4.0 * (row["sky"] == "rain") + 2.0 * (row["sky"] == "fog")


def with_many_texts(rng, rows):
    for row in rows:
        code = int(rng.integers(0, 130))
        row["item"] = f"item {code:03d}"
        row["y"] += code % 7


def with_candidate(rng, rows):
    for row in rows:
        row["given"] = row["y"] + 0.2 * rng.normal()


def with_two_classes(rng, rows):
    for row in rows:
        row["y"] = "good" if row["y"] > 5.0 else "bad"


def with_three_classes(rng, rows):
    for t, row in enumerate(rows):
        row["y"] = "high" if row["y"] > 7.0 and t > ROWS else "good" if row["y"] > 4.0 else "bad"


CASES = {
    "holes and indicators": (with_holes, {"missing": "indicators"}),
    "lags and delay": (None, {"lag": (3, 5), "delay": 2}),
    "calendar": (None, {"calendar": True}),
    "uneven times": (with_uneven_times, {"elapsed": True}),
    "weights": (with_weights, {"weight": "w"}),
    "few texts, one comes later": (with_few_texts, {}),
    "many texts": (with_many_texts, {}),
    "candidates": (with_candidate, {"candidate": ("given",)}),
    "two classes": (with_two_classes, {}),
    "three classes, one comes later": (with_three_classes, {"task": "multiclass"}),
    "quantiles": (None, {"quantiles": (0.1, 0.5, 0.9)}),
    "intervals": (None, {"interval": 0.8}),
    "rows left out": (with_holes, {"missing": "skip"}),
    "weights of three classes with delay": (
        lambda rng, rows: (with_weights(rng, rows), with_three_classes(rng, rows)),
        {"weight": "w", "task": "multiclass", "delay": 2},
    ),
    "texts, lags and calendar": (
        lambda rng, rows: (with_few_texts(rng, rows), with_holes(rng, rows)),
        {"lag": (1, 24), "calendar": True},
    ),
}


def make(case):
    """Return rows and settings of a case."""
    change, settings = CASES[case]
    rows = draw()
    if change is not None:
        change(np.random.default_rng(7), rows)
    return rows, settings


def fleet_of(rows, settings, **more):
    return ud.Fleet.of_table(rows, "y", key="shop", time="at", **settings, **more)


def stream_of(rows, settings, key):
    """Return the stream of one key; what columns are is found in the rows of all, the time between rows in its own."""
    asked = {"speed": "light", **settings}
    if (level := asked.pop("interval", None)) is not None:
        asked["level"] = level
    shown = [row for row in rows if row["shop"] == key] if "elapsed" in settings else rows
    return ud.Stream("y", drop=("shop",), time="at", **asked).infer(pl.DataFrame(shown))


def without(rows, *names):
    return [{name: cell for name, cell in row.items() if name not in names} for row in rows]


def answers_of(stream, rows, settings):
    """Return what a stream answers to the rows of one key, as outputs have it."""
    found = stream.play(without(rows, "shop"))
    columns = found.columns()
    if stream.task == "classification":
        prediction = np.where(found.known, found.yhat, np.nan)
    else:
        prediction = columns["label" if stream.task == "multiclass" else "prediction"]
    wanted = {"regression": ("q0", "lower", "upper"), "multiclass": ("p(",), "classification": ()}[stream.task]
    if "interval" not in settings:
        wanted = tuple(name for name in wanted if name not in ("lower", "upper"))
    extras = {name: column for name, column in columns.items() if name.startswith(wanted)}
    return [
        (plain(prediction[i]), {name: bits(column[i]) for name, column in extras.items() if column[i] == column[i]})
        for i in range(len(found))
    ]


def plain(value):
    """Return a prediction so that == compares it to the bit."""
    return value if value is None or isinstance(value, str) else None if math.isnan(value) else bits(value)


def bits(number):
    return float(number).hex()


def said(outputs, key):
    """Return prediction and extras of the learned rows of a key."""
    extras = [{name: bits(x[i]) for name, x in outputs.extras.items() if x[i] == x[i]} for i in range(len(outputs))]
    return [
        (plain(row.prediction), more)
        for row, more in zip(outputs, extras, strict=True)
        if row.key == key and row.status == "ok"
    ]


def cut(rows, seed):
    """Return rows in parts of random lengths, one of a single row among them."""
    rng = np.random.default_rng(seed)
    ends = sorted({0, 1, *rng.integers(2, len(rows), size=5).tolist(), len(rows)})
    return [rows[a:b] for a, b in pairwise(ends)]


@pytest.mark.parametrize("case", CASES)
def test_a_key_is_a_stream_of_its_rows(case):
    rows, settings = make(case)
    run = fleet_of(rows, settings).run(rows)
    for key in ("north", "south"):
        own = [row for row in rows if row["shop"] == key]
        stream = stream_of(rows, settings, key)
        assert said(run.outputs, key) == answers_of(stream, own, settings)
        assert run.model(key) == stream.model
        assert run.fleet.stream(run.states[key]).model == stream.model


@pytest.mark.parametrize("case", CASES)
def test_cuts_and_folders_change_no_bit(case, tmp_path):
    rows, settings = make(case)
    fleet = fleet_of(rows, settings)
    whole = fleet.run(rows)
    for seed in range(2):
        state, parts = None, []
        for part in cut([row for row in rows if row["shop"] == "south"], seed):
            state, outputs = fleet.advance(state, part)
            parts.append(outputs)
        assert said(Outputs.concat(parts), "south") == said(whole.outputs, "south")
        assert state == whole.states["south"]
    kept = fleet.run(rows, folder=tmp_path / "f", batch=37)
    assert kept.outputs.canonical() == whole.outputs.canonical()
    assert dict(kept.states) == dict(whole.states)
    frame = fleet_of(pl.DataFrame(rows), settings).run(pl.DataFrame(rows))
    assert frame.outputs.canonical() == whole.outputs.canonical()
    assert dict(frame.states) == dict(whole.states)


@pytest.mark.parametrize("case", CASES)
def test_records_that_come_late_change_no_bit(case):
    rows, settings = make(case)
    whole = fleet_of(rows, settings).run(rows)
    waiting = fleet_of(rows, settings, wait="12h")
    rng = np.random.default_rng(3)
    mixed = sorted(rows, key=lambda row: row["at"] + dt.timedelta(hours=11.9 * rng.random()))
    assert mixed != rows
    for batch in (100_000, 23):
        run = waiting.run(mixed, batch=batch, finish=True)
        for key in ("north", "south"):
            assert said(run.outputs, key) == said(whole.outputs, key)
            assert run.model(key) == whole.model(key)


@pytest.mark.parametrize("case", CASES)
def test_labels_of_a_later_file_are_those_of_asked_rows(case, tmp_path):
    rows, settings = make(case)
    fleet = fleet_of(rows, settings)
    own = [row for row in rows if row["shop"] == "north"]
    asked, last = own[90:93], own[93:]
    today = [*own[:90], *({**row, "y": None} for row in asked)]
    state, served = fleet.advance(None, today)
    state, later = fleet.advance(state, [*asked, *last])

    stream = stream_of(rows, settings, "north")
    stream.play(without(own[:90], "shop"))
    waiting = [stream.ask(row) for row in without(asked, "shop", "y")]
    for row, answer in zip(asked, waiting, strict=True):
        if len(answer):
            stream.tell(answer, row["y"])
    assert served.count()["predicted"] == later.count()["labelled"] == sum(len(answer) for answer in waiting) > 0
    assert said(later, "north") == answers_of(stream, last, settings)
    assert fleet.model(state) == stream.model

    fleet.run(today, folder=tmp_path / "f", source="today", batch=31)
    kept = fleet.run([*asked, *last], folder=tmp_path / "f", source="later", batch=29)
    assert kept.outputs.canonical() == later.canonical()
    assert dict(kept.states) == {"north": state}


@pytest.mark.parametrize("frame", [pl.DataFrame, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_large_integers_of_frames_are_exact(frame):
    """Keys and orders beyond 2^53, and labels beyond a million, are those of rows that are dicts."""
    rng = np.random.default_rng(0)
    rows = [
        {"k": 2**53 + t % 2, "n": 2**60 + t // 2, "a": float(rng.normal()), "y": 1234567 + 7 * (t % 3 == 0)}
        for t in range(40)
    ]
    table = pl.DataFrame(rows)
    for sample in (rows, table if frame is pl.DataFrame else frame(table)):
        fleet = ud.Fleet.of_table(sample, "y", key="k", order="n", task="classification")
        assert fleet.classes == ["1234567", "1234574"]
        run = fleet.run(sample)
        assert run.outputs.count() == {"ok": 40}
        assert run.keys() == ["9007199254740992", "9007199254740993"]
        assert run.outputs.canonical() == fleet.run(rows).outputs.canonical()


def test_mistakes_in_python_are_one_sentence():
    rows = [{"k": "a", "n": t, "price": float(t % 3), "y": 0.5 * t} for t in range(30)]
    plain = {"key": "k", "order": "n"}
    for call, words in [
        (lambda: ud.Fleet.of_table(rows, "y", key=3), "key must be the name of a column, or a list of names, got 3"),
        (lambda: ud.Fleet.of_table([], "y", **plain), "the table has no rows"),
        (lambda: ud.Fleet.of_table(rows, "k", **plain), "must be different columns, got 'k' twice"),
        (lambda: ud.Fleet.of_table(rows, "y", **plain, alert=True), "alert is for files"),
        (lambda: ud.Fleet.of_table(rows, "y", **plain, certify=True), "fleets are not certified"),
        (lambda: ud.Fleet.of_table(rows, "y", **plain, interval=0.42), r"interval must be .*0\.42"),
        (lambda: ud.Fleet.of_table(rows, "y", **plain).advance("x", rows), "state must be bytes"),
        (lambda: ud.Fleet.of_table(rows, "y", **plain).advance(None, None), "records must be a data frame"),
        (
            lambda: ud.Fleet.of_table(rows, "y", **plain).run([{"k": "a", "n": 1, "prices": 1.0}]),
            "Did you mean 'price'",
        ),
    ]:
        with pytest.raises(InputError, match=words) as error:
            call()
        assert "\n" not in str(error.value)


def test_a_wait_is_a_count_a_duration_or_a_text():
    day = np.datetime64("2024-01-01") + np.arange(30)
    rows = [{"k": "a", "day": str(day[t]), "n": t, "y": 0.5 * t, "x": 1.0} for t in range(30)]
    assert ud.Fleet.of_table(rows, "y", key="k", order="n", drop=["day"], wait=3).wait == 3
    by_time = {"key": "k", "time": "day", "drop": ["n"]}
    two = [ud.Fleet.of_table(rows, "y", **by_time, wait=wait).wait for wait in (dt.timedelta(days=2), "2d")]
    assert two == [2 * 86_400_000_000] * 2
