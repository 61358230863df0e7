"""Tables as people have them on Spark: outputs and states of `Fleet.of_table` are those of one machine, to the bit."""

import datetime as dt
import math

import numpy as np
import pytest

import undrift as ud
from tests.spark.job import LIMIT, checkpoint
from tests.spark.test_spark_stream import states_of
from undrift.errors import InputError
from undrift.fleet import Output, canonical
from undrift.stream.keyed.keys_and_orders import join_key

BEGIN = dt.datetime(2024, 3, 30, 20, tzinfo=dt.UTC)
"""Five hours before clocks go forward in Berlin."""
NAMES = ["shop", "item", "at", "a", "b", "sky", "code", "w", "y"]
SCHEMA = "shop string, item int, at timestamp, a double, b double, sky string, code string, w double, y {label}"


def draw(label="number", rows=70, seed=0):
    """Return rows of four pairs of shop and item, with texts, holes, late labels and cells that cannot be used."""
    rng = np.random.default_rng(seed)
    out = []
    for t in range(rows):
        for shop, item in [("north", 1), ("north", 2), ("a/b", 1), ("~", 2)]:
            a, b = rng.normal(size=2).tolist()
            sky = str(rng.choice(["sun", "rain", "snow"])) if t < 50 else str(rng.choice(["sun", "fog"]))
            y = 3.0 + 2.0 * a - b + 4.0 * (sky == "rain") + 3.0 * (t > 40)
            if label == "text":
                y = "high" if y > 8.0 and t > 20 else "good" if y > 4.0 else "bad"
            at = BEGIN + dt.timedelta(minutes=20 * t, microseconds=int(rng.integers(0, 1000)))
            code = f"code {int(rng.integers(0, 120))}"
            row = [shop, item, at, a, b, sky, code, float(rng.choice([0.5, 1.0, 2.0])), y]
            if t > 5 and rng.random() < 0.1:
                row[3 + int(rng.integers(0, 3))] = None
            out.append(dict(zip(NAMES, row, strict=True)))
    waiting = [{**row, "y": None} for row in out[-20:-12]]
    broken = [{**out[9], "at": None}, {**out[9], "shop": " NA "}, {**out[9], "item": None}, {**out[210], "w": -1.0}]
    return [*out[:-20], *waiting, *out[-20:], out[200], *broken]


def frame_of(spark, rows, label="double", names=NAMES, schema=SCHEMA):
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema.format(label=label))


def fleet_of(rows, **settings):
    first = [row for row in rows if None not in (row["shop"], row["item"], row["at"], row["y"])]
    return ud.Fleet.of_table(first, "y", key=("shop", "item"), time="at", wait="0", **settings)


@pytest.fixture
def berlin(spark):
    """Another time zone than that of the other tests."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def with_extras(outputs, names):
    """Return the extras of rows as text, in the order of `canonical`."""
    rows = zip(outputs, zip(*(outputs.extra(name).tolist() for name in names), strict=True), strict=True)
    return sorted((str(row.key), str(row.order), row.status, *map(exact, more)) for row, more in rows)


def exact(number):
    return "-" if number is None or math.isnan(number) else float(number).hex()


CASES = {
    "numbers": ("number", {"weight": "w", "interval": 0.9, "quantiles": (0.1, 0.9), "calendar": True, "lag": (2,)}),
    "several classes": ("text", {"weight": "w", "delay": 2}),
    "left out": ("number", {"missing": "skip", "candidate": ("b",), "elapsed": True, "drop": ("code", "w")}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_table_and_a_stream_are_one_machine(berlin, tmp_path, case):
    from undrift.spark import learn_stream, learn_table, read_models

    label, settings = CASES[case]
    rows = draw(label)
    fleet = fleet_of(rows, **settings)
    local = fleet.run(rows)
    assert {"ok", "predicted", "labelled", "duplicate", "poison"} <= set(local.outputs.count())
    assert set(local.keys()) == {"north/1", "north/2", "a~/b/1", "~~/2"}
    frame = frame_of(berlin, rows, "string" if label == "text" else "double")

    result = learn_table(frame, fleet)
    result.table.cache()
    said = result.predictions.collect()
    assert canonical([row[:6] for row in said]) == canonical(local.outputs)
    assert states_of(result.models) == dict(local.states)
    extras = result.predictions.columns[6:]
    wanted = {"numbers": ["lower", "upper", "q0.1", "q0.9"], "several classes": ["probability"], "left out": []}
    assert extras == wanted[case]
    if case == "numbers":
        mine = sorted((str(row[0]), str(row[1]), row[4], *map(exact, row[6:])) for row in said)
        assert mine == with_extras(local.outputs, extras)
    if case == "several classes":
        assert {row.prediction for row in said} == {None, "bad", "good", "high"}
        p = {name: local.outputs.extra(name) for name in ("p(bad)", "p(good)", "p(high)")}
        best = {
            (row.key, row.order, row.status): exact(p[f"p({row.prediction})"][i])
            for i, row in enumerate(local.outputs)
            if row.prediction is not None
        }
        assert {tuple(row[k] for k in (0, 1, 4)): exact(row[6]) for row in said if row[2] is not None} == best

    for k, part in enumerate((rows[:150], rows[150:])):
        learned = frame_of(berlin, part, "string" if label == "text" else "double")
        learned.coalesce(1).write.mode("append").parquet(f"{tmp_path}/in")
        source = berlin.readStream.schema(frame.schema).parquet(f"{tmp_path}/in")
        out = learn_stream(source, fleet).writeStream.option("checkpointLocation", checkpoint(tmp_path))
        query = out.format("parquet").option("path", f"{tmp_path}/out").trigger(availableNow=True).start()
        assert query.awaitTermination(LIMIT), k
    written = berlin.read.parquet(f"{tmp_path}/out")
    assert written.columns == result.predictions.columns
    assert canonical(tuple(row) for row in written.select(*Output._fields).collect()) == canonical(local.outputs)
    models = read_models(berlin, checkpoint(tmp_path))
    assert states_of(models) == dict(local.states)


def test_tables_hand_over_to_each_other_and_to_one_machine(spark):
    from undrift.spark import learn_table

    rows = draw("text")
    fleet = fleet_of(rows)
    first = learn_table(frame_of(spark, rows[:100], "string"), fleet)
    first.table.cache()
    second = learn_table(frame_of(spark, rows[100:200], "string"), fleet, start_from=first.models)
    last = fleet.run(rows[200:], states=states_of(second.models))
    assert dict(last.states) == dict(fleet.run(rows).states)


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date", "string", "long"])
def test_instants_are_those_of_the_table_in_any_time_zone(berlin, kind):
    """From the year 1600 to 9000, to the microsecond, and in the hour that Berlin has twice."""
    from pyspark.sql import functions as F

    from undrift.spark import learn_table

    years = [dt.datetime(year, 5, 6, 7, 8, 9, 123456) for year in (1600, 1893, 1969, 2024, 2250, 9000)]
    twice = [dt.datetime(2024, 10, 27, 0, 30, 0, 7) + dt.timedelta(minutes=30 * k) for k in range(4)]
    times = sorted([*years, *twice])
    if kind == "date":
        times = sorted({dt.datetime.combine(time.date(), dt.time()) for time in times})
    rows = [{"k": "x", "at": time, "a": float(i), "y": float(i % 3)} for i, time in enumerate(times)]
    counts = [(time - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) for time in times]
    sample = rows if kind != "long" else [{**row, "at": count} for row, count in zip(rows, counts, strict=True)]
    frame = berlin.createDataFrame(
        [("x", count, f"{row['at'].isoformat()}", row["a"], row["y"]) for count, row in zip(counts, rows, strict=True)],
        "k string, count long, text string, a double, y double",
    )
    column = {
        "timestamp": F.timestamp_micros("count"),
        "timestamp_ntz": F.col("text").cast("timestamp_ntz"),
        "date": F.col("text").cast("date"),
        "string": F.col("text"),
        "long": F.col("count"),
    }[kind]
    df = frame.select("k", column.alias("at"), "a", "y")
    fleets = [ud.Fleet.of_table(sample, "y", key="k", time="at")]
    if kind != "string":
        fleets.append(ud.Fleet(ud.OnlineRegressor(), key="k", order="at", features=["a"], target="y", numbered=False))
    for fleet in fleets:
        result = learn_table(df, fleet)
        result.table.cache()
        assert [row.order for row in result.predictions.orderBy("order").collect()] == counts
        assert states_of(result.models) == dict(fleet.run(sample).states)


TEXTS = ["a", " a\t", "A", "a/b", "a~", "~/", "~", "/", "", " ", "NA", "n/a", "N.A.", "-", "k. a.", "gone", " gone ",
         "\u00a0x\u3000", "7", " 7", "7.0", "é", "😀/~", None]  # fmt: skip


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("keys", [("k",), ("k", "n"), ("n", "k")])
def test_keys_in_sql_are_those_of_one_machine(spark, keys, table):
    from undrift.spark import KEY, _prepare, learn_table

    rows = [
        {"k": text, "n": number, "t": i * 10 + j, "a": float(i), "y": float(j % 2)}
        for i, text in enumerate(TEXTS)
        for j, number in enumerate((0, -5, 2**62 + 1, None))
    ]
    if table:
        sample = [{**row, "k": row["k"] or "x", "n": row["n"] or 1} for row in rows]
        fleet = ud.Fleet.of_table(sample, "y", key=keys, order="t", na=("gone",), features=("a",))
    else:
        fleet = ud.Fleet(ud.DiscountedVAW(), key=keys, order="t", features=["a"], target="y")
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], "k string, n long, t long, a double, y double")
    prepared, _ = _prepare(frame, fleet)
    mine = [row[KEY] for row in prepared.orderBy("t").collect()]
    assert mine == fleet.batch(rows).keys
    assert len(keys) == 1 or join_key(("a/b", 0) if keys[0] == "k" else (0, "a/b")) in mine

    result = learn_table(frame, fleet)
    result.table.cache()
    local = fleet.run(rows)
    assert canonical(row[:6] for row in result.predictions.collect()) == canonical(local.outputs)
    assert states_of(result.models) == dict(local.states)


@pytest.mark.parametrize("kind", ["byte", "short", "int", "long"])
def test_integer_keys_keep_their_type_even_where_one_is_missing(spark, kind):
    from undrift.spark import learn_table

    rows = [{"k": key, "t": t, "a": 1.0, "y": float(t)} for t in range(5) for key in (1, 2, None)]
    fleet = ud.Fleet(ud.DiscountedVAW(), key="k", order="t", features=["a"], target="y")
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], f"k {kind}, t long, a double, y double")
    result = learn_table(frame, fleet)
    local = fleet.run(rows)
    assert canonical(row[:6] for row in result.predictions.collect()) == canonical(local.outputs)
    assert states_of(result.models) == dict(local.states)


@pytest.mark.parametrize(("kind", "labels"), [("boolean", (False, True)), ("int", (0, 1)), ("string", ("no", "yes"))])
def test_labels_of_two_classes_have_the_types_of_spark(spark, kind, labels):
    from undrift.spark import learn_table

    rng = np.random.default_rng(3)
    rows = [
        {"k": "ab"[t % 2], "t": t // 2, "a": float(x), "y": labels[int(x > 0)]}
        for t, x in enumerate(rng.normal(size=40))
    ]
    frame = spark.createDataFrame([tuple(row.values()) for row in rows], f"k string, t long, a double, y {kind}")
    for sample in (rows, frame.toPandas()):
        fleet = ud.Fleet.of_table(sample, "y", key="k", order="t")
        result = learn_table(frame, fleet)
        result.table.cache()
        local = fleet.run(sample)
        assert local.outputs.count() == {"ok": 40}
        assert canonical(row[:6] for row in result.predictions.collect()) == canonical(local.outputs)
        assert states_of(result.models) == dict(local.states)


def test_a_fleet_of_numbers_has_intervals_and_labels_that_come_by_time(berlin):
    from undrift.spark import learn_table

    rng = np.random.default_rng(5)
    times = [BEGIN + dt.timedelta(minutes=t, microseconds=t) for t in range(41)]
    rows = [{"k": "x", "at": times[t], "of": None, "a": float(rng.normal()), "y": float(t % 3)} for t in range(40)]
    label = {"k": "x", "at": times[40], "of": times[39], "a": None, "y": 1.0}
    rows = [*rows[:39], {**rows[39], "y": None}, label]
    frame = berlin.createDataFrame(
        [tuple(row.values()) for row in rows], "k string, at timestamp, of timestamp, a double, y double"
    )
    columns = {"key": "k", "order": "at", "label_of": "of", "features": ["a"], "target": "y"}
    fleet = ud.Fleet(ud.OnlineRegressor(speed="light"), interval=0.8, numbered=False, **columns)
    result = learn_table(frame, fleet)
    local = fleet.run(rows)
    assert local.outputs.count() == {"ok": 39, "predicted": 1, "labelled": 1}
    said = sorted((str(row[0]), str(row[1]), row[4], *map(exact, row[6:])) for row in result.predictions.collect())
    assert said == with_extras(local.outputs, ["lower", "upper"])
    assert states_of(result.models) == dict(local.states)


def test_wrong_types_are_refused_by_name(spark):
    from undrift.spark import learn_table

    rows = draw()
    fleet = fleet_of(rows, weight="w")
    table = frame_of(spark, rows)
    for name, kind, message in [
        ("sky", "double", "column 'sky' must be one of string, got double; cast it first"),
        (
            "at",
            "double",
            "column 'at' must be one of string, timestamp, timestamp_ntz, date, got double; cast it first",
        ),
        ("at", "long", "column 'at' must be one of string, timestamp, timestamp_ntz, date, got long; cast it first"),
        ("w", "binary", "column 'w' must be one of .*, got binary; cast it first"),
        ("item", "double", "column 'item' must be one of .*, got double; cast it first"),
    ]:
        source = table[name].cast("string") if kind == "binary" else table[name].cast("string").cast("double")
        with pytest.raises(InputError, match=message):
            learn_table(table.withColumn(name, source.cast(kind)), fleet)
    with pytest.raises(InputError, match="'sky' not found"):
        learn_table(table.drop("sky"), fleet)

    counts = [{**row, "at": int(row["at"].timestamp())} for row in rows if row["at"]]
    with pytest.raises(
        InputError, match="column 'at' must be one of byte, short, integer, long, string, got timestamp"
    ):
        learn_table(table, fleet_of(counts))
    fine = [{**row, "at": f"2024-03-01T00:{t // 60:02}:{t % 60:02}.123456789"} for t, row in enumerate(rows[:200])]
    with pytest.raises(InputError, match="column 'at' must be one of string, got timestamp"):
        learn_table(table, fleet_of(fine))
    once = [{**row, "y": "yes"} for row in rows[:40] if row["y"] is not None]
    with pytest.raises(InputError, match="'y' has one label in these rows, and a fleet finds no other one later"):
        learn_table(frame_of(spark, once, "string"), fleet_of(once, positive="yes"))
    with pytest.raises(InputError, match="speed max is for single streams"):
        fleet_of(rows, speed="max")
    with pytest.raises(InputError, match=r"alert is for files, .* give outputs to undrift\.events\.KeyedWatch"):
        learn_table(table, fleet_of(rows, alert=True))
