"""Streaming, batch, hand-over, failure and repair: outputs and models are those of one machine, to the bit."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from job import NAMES, SCHEMA, Fragile, dirty, fill, fleet_of, start, write

import undrift as ud
from undrift.errors import InputError
from undrift.fleet import canonical


def models_of(frame):
    return {row.key: bytes(row.state) for row in frame.collect()}


def table_of(spark, rows):
    return spark.createDataFrame([tuple(row[name] for name in NAMES) for row in rows], SCHEMA)


def written(spark, folder):
    return [tuple(row) for row in spark.read.parquet(f"{folder}/out").collect()]


def test_a_dirty_stream_in_random_batches(spark, tmp_path):
    from undrift.spark import read_models

    rows, fleet = dirty(), fleet_of()
    fill(rows, tmp_path / "in", seed=11)
    start(spark, tmp_path, fleet).awaitTermination()
    local, said = fleet.run(rows), written(spark, tmp_path)
    assert canonical(said) == canonical(local.outputs)
    models = models_of(read_models(spark, f"{tmp_path}/checkpoint"))
    assert models == dict(local.states)
    assert {"ok", "predicted", "labelled", "duplicate", "gap", "poison"} <= {row[4] for row in said}

    assert canonical(said[1:]) != canonical(local.outputs)  # the comparison sees a row that is not there,
    at = next(i for i, row in enumerate(said) if row[2] is not None)
    flipped = float((np.float64(said[at][2]).view(np.int64) ^ 1).view(np.float64))
    said[at] = (*said[at][:2], flipped, *said[at][3:])
    assert canonical(said) != canonical(local.outputs)  # and one bit


def test_a_table_a_stream_and_one_machine_hand_over_to_each_other(spark, tmp_path):
    from undrift.spark import learn_table, read_models

    rows, fleet = dirty(seed=5), fleet_of()
    a, b, c = (len(rows) * k // 4 for k in (1, 2, 3))
    whole = fleet.run(rows)

    first = learn_table(table_of(spark, rows[:a]), fleet)
    first.table.cache()
    second = learn_table(table_of(spark, rows[a:b]), fleet, start_from=first.models)
    second.table.cache()
    said = [*first.predictions.collect(), *second.predictions.collect()]
    assert canonical(said) == canonical(fleet.run(rows[:b], batch=a).outputs)
    assert models_of(second.models) == dict(fleet.run(rows[:b]).states)

    write(rows[b:c], tmp_path / "in", "part0")
    start(spark, tmp_path, fleet, start_from=second.models).awaitTermination()
    said += written(spark, tmp_path)
    kept = models_of(read_models(spark, f"{tmp_path}/checkpoint"))
    last = fleet.run(rows[c:], states=kept)
    assert canonical([*said, *last.outputs]) == canonical(whole.outputs)
    assert last.states == dict(whole.states)


def failed(spark, folder, fleet):
    """Run a stream that must stop; return why."""
    from pyspark.errors import StreamingQueryException

    query = start(spark, folder, fleet)
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination()
    return str(caught.value)


def test_what_stops_a_stream_leaves_the_checkpoint_whole(spark, tmp_path):
    from undrift.spark import read_models

    trap = tmp_path / "trap"
    rows, fleet = dirty(keys=10, seed=9), fleet_of(Fragile(half_life=30, trap=str(trap)))
    half = len(rows) // 2
    write(rows[:half], tmp_path / "in", "part0")
    start(spark, tmp_path, fleet).awaitTermination()

    write(rows[half:], tmp_path / "in", "part1")
    other = fleet_of(Fragile(half_life=31, trap=str(trap)))
    assert "made by a model with other parameters or features" in failed(spark, tmp_path, other)

    trap.touch()
    assert "not my day" in failed(spark, tmp_path, fleet)
    trap.unlink()

    pq.write_table(pa.table({name: ["text"] for name in NAMES}), tmp_path / "in" / "part1.parquet")
    assert "part1.parquet" in failed(spark, tmp_path, fleet)

    write(rows[half:], tmp_path / "in", "part1")
    start(spark, tmp_path, fleet).awaitTermination()
    local = fleet.run(rows)
    assert canonical(written(spark, tmp_path)) == canonical(local.outputs)
    assert models_of(read_models(spark, f"{tmp_path}/checkpoint")) == dict(local.states)


def test_what_cannot_work_is_refused_before_it_starts(spark, tmp_path):
    from undrift.spark import PROVIDER, ROCKSDB, learn_stream, learn_table

    fleet = fleet_of()
    table = table_of(spark, dirty(keys=1))
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema(SCHEMA).parquet(f"{tmp_path}/in")
    for df, message in [
        (stream.drop("a"), r"column 'a' not found; columns are key, n, b, c, y, of"),
        (stream.withColumn("a", stream.a.cast("string")), "column 'a' must be one of .*, got string; cast it first"),
        (stream.withColumn("n", stream.n.cast("double")), "column 'n' must be one of .*, got double; cast it first"),
        (stream.withColumn("key", stream.n.cast("timestamp")), "column 'key' must be one of .*, got timestamp"),
        (table, "df must be a streaming DataFrame; use learn_table"),
    ]:
        with pytest.raises(InputError, match=message):
            learn_stream(df, fleet)
    with pytest.raises(InputError, match="df must be a DataFrame that ends; use learn_stream"):
        learn_table(stream, fleet)
    with pytest.raises(InputError, match="start_from must have the columns"):
        learn_stream(stream, fleet, start_from=table)
    with pytest.raises(InputError, match="the fleet needs order="):
        learn_table(table, ud.Fleet(ud.DiscountedVAW(), key="key", features=["a"], target="y"))
    spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(InputError, match=r"the state store must be RocksDB, got .*HDFS"):
            learn_stream(stream, fleet)
    finally:
        spark.conf.set(PROVIDER, ROCKSDB)
