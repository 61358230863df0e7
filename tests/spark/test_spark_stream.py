"""Streaming, batch, hand-over, failure and repair: outputs and models are those of one machine, to the bit."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import undrift as ud
from tests.spark.job import (
    LIMIT,
    NAMES,
    SCHEMA,
    Fragile,
    Newer,
    checkpoint,
    dirty,
    fill,
    fleet_of,
    stamped,
    start,
    write,
)
from undrift.errors import InputError
from undrift.fleet import Output, canonical
from undrift.stream.keyed.key_state import VERSION

BUSY = "Python worker failed to connect back"
"""Spark gives a Python of its own ten seconds to start, whatever else the machine does."""


def play(spark, folder, fleet, sink="files", start_from=None):
    """Run a stream to its end; return why it stopped, or None."""
    from pyspark.errors import StreamingQueryException

    why = ""
    for _ in range(3):
        query = start(spark, folder, fleet, sink, start_from)
        try:
            assert query.awaitTermination(LIMIT), f"the stream did not end in {LIMIT} seconds"
        except StreamingQueryException as error:
            why = str(error)
            if BUSY not in why:
                return why
        else:
            return None
        finally:
            query.stop()
    return why


def states_of(frame):
    return {row.key: bytes(row.state) for row in frame.collect()}


def models_of(spark, folder, sink="files"):
    from undrift.spark import read_models

    return states_of(read_models(spark, checkpoint(folder, sink)))


def table_of(spark, rows):
    return spark.createDataFrame([tuple(row[name] for name in NAMES) for row in rows], SCHEMA)


def written(spark, folder, sink="files"):
    return [tuple(row) for row in spark.read.parquet(f"{folder}/{sink}").select(*Output._fields).collect()]


def test_a_dirty_stream_in_random_batches(spark, tmp_path):
    rows, fleet = dirty(keys=200, rounds=50), fleet_of()
    fill(rows, tmp_path / "in", seed=11)
    assert play(spark, tmp_path, fleet) is None
    local, said, models = fleet.run(rows), written(spark, tmp_path), models_of(spark, tmp_path)
    assert canonical(said) == canonical(local.outputs)
    assert models == dict(local.states)

    assert {"ok", "predicted", "labelled", "duplicate", "gap", "poison"} <= {row[4] for row in said}
    reasons = {row[5] for row in said if row[4] == "poison"}
    kinds = ("'a' is inf", "'b' is 1e+76", "'c' is missing", "'a' is missing", "'y' is -inf", "'n' is missing", "key '")
    assert all(any(kind in reason for reason in reasons) for kind in kinds), reasons


def test_the_comparison_sees_a_lost_row_and_a_flipped_bit(spark, tmp_path):
    rows, fleet = dirty(keys=3), fleet_of()
    write(rows, tmp_path / "in", "part0")
    assert play(spark, tmp_path, fleet) is None
    local, said, models = fleet.run(rows), written(spark, tmp_path), models_of(spark, tmp_path)
    assert canonical(said) == canonical(local.outputs)
    assert canonical(said[1:]) != canonical(local.outputs)
    at = next(i for i, row in enumerate(said) if row[2] is not None)
    flipped = float((np.float64(said[at][2]).view(np.int64) ^ 1).view(np.float64))
    said[at] = (*said[at][:2], flipped, *said[at][3:])
    assert canonical(said) != canonical(local.outputs)
    key, state = next(iter(models.items()))
    assert {**models, key: bytes([*state[:-9], state[-9] ^ 1, *state[-8:]])} != dict(local.states)


def test_a_table_a_stream_and_one_machine_hand_over_to_each_other(spark, tmp_path):
    from undrift.spark import learn_table

    rows, fleet = dirty(seed=5), fleet_of()
    a, b, c = (len(rows) * k // 4 for k in (1, 2, 3))
    whole = fleet.run(rows)

    first = learn_table(table_of(spark, rows[:a]), fleet)
    first.table.cache()
    second = learn_table(table_of(spark, rows[a:b]), fleet, start_from=first.models)
    second.table.cache()
    said = [*first.predictions.collect(), *second.predictions.collect()]
    assert canonical(said) == canonical(fleet.run(rows[:b], batch=a).outputs)
    assert states_of(second.models) == dict(fleet.run(rows[:b]).states)

    write(rows[b:c], tmp_path / "in", "part0")
    assert play(spark, tmp_path, fleet, start_from=second.models) is None
    said += written(spark, tmp_path)
    last = fleet.run(rows[c:], states=models_of(spark, tmp_path))
    assert canonical([*said, *last.outputs]) == canonical(whole.outputs)
    assert last.states == dict(whole.states)


def test_what_stops_a_stream_leaves_the_checkpoint_whole(spark, tmp_path):
    trap = tmp_path / "trap"
    model = Fragile(half_life=30, trap=str(trap))
    rows, fleet = dirty(keys=10, seed=9), fleet_of(model, Newer)
    half = len(rows) // 2
    write(rows[:half], tmp_path / "in", "part0")
    assert play(spark, tmp_path, fleet) is None
    write(rows[half:], tmp_path / "in", "part1")

    older = f"the state of a key has version {VERSION + 1}, this undrift reads up to {VERSION}; upgrade undrift"
    assert older in play(spark, tmp_path, fleet_of(model))
    other = fleet_of(Fragile(half_life=31, trap=str(trap)), Newer)
    assert "made by a model with other parameters or features" in play(spark, tmp_path, other)
    trap.touch()
    assert "not my day" in play(spark, tmp_path, fleet)
    trap.unlink()
    pq.write_table(pa.table({name: ["text"] for name in NAMES}), tmp_path / "in" / "part1.parquet")
    assert "part1.parquet" in play(spark, tmp_path, fleet)

    write(rows[half:], tmp_path / "in", "part1")
    assert play(spark, tmp_path, fleet) is None
    local = fleet_of(model).run(rows)
    assert canonical(written(spark, tmp_path)) == canonical(local.outputs)
    assert models_of(spark, tmp_path) == {key: stamped(state, VERSION + 1) for key, state in local.states.items()}


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
