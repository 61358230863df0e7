"""The streams that are killed: run as a program with a folder; the tests use its pieces."""

import hashlib
import os
import signal
import sys
from pathlib import Path

import undrift as ud
from tests.fleet.dirty import FEATURES, WAIT, arrivals, clean, cuts, spoil
from tests.helpers import ROOT
from undrift.fleet import AdvanceResult
from undrift.stream.keyed.key_state import VERSION

NAMES = ["key", "n", *FEATURES, "y", "of"]
SCHEMA = "key string, n long, a double, b double, c double, y double, of long"
SINKS = ("files", "batches")
LIMIT = 120
"""Seconds a stream of these tests may take on a busy machine."""
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # compile little: nothing runs long
}


class Fragile(ud.DiscountedVAW):
    """A user's model with a bug that shows while a file is there."""

    def __init__(self, *, trap="", **parameters):
        super().__init__(**parameters)
        self.parameters["trap"] = trap

    def _play(self, Z, y, context, hint=None):
        if os.path.exists(self.parameters["trap"]):
            raise ZeroDivisionError("not my day")
        return super()._play(Z, y, context, hint)


class Newer(ud.Fleet):
    """The fleet of an undrift to come: the same states under a higher version."""

    def advance(self, state, records):
        known, outputs = super().advance(None if state is None else stamped(state, VERSION), records)
        return AdvanceResult(stamped(known, VERSION + 1), outputs)


def stamped(state, version):
    """Return a state under another version."""
    body = state[:4] + version.to_bytes(2, "little") + state[6:-8]
    return body + hashlib.blake2b(body, digest_size=8).digest()


def session():
    """Return a small local session."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)  # workers must find `Fragile`
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["OMP_NUM_THREADS"] = "1"
    from pyspark.sql import SparkSession

    from undrift.spark import PROVIDER, ROCKSDB

    builder = SparkSession.builder.master("local[2]").config(PROVIDER, ROCKSDB)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def fleet_of(make_model=None, kind=ud.Fleet):
    """Return the fleet of these tests."""
    model = ud.linear_ensemble(1000) if make_model is None else make_model
    return kind(model, key="key", order="n", features=FEATURES, target="y", label_of="of", wait=WAIT)


def dirty(keys=30, rounds=25, seed=1):
    """Return records as they arrive: late, twice, spoiled, lost, without labels; some of nobody."""
    rows = arrivals(spoil(clean(keys, rounds, seed), seed + 1, untyped=False), seed + 2)
    nobody = {**dict.fromkeys(NAMES), "n": 3, "a": 1.0, "b": 1.0, "c": 1.0, "y": 1.0}
    lost = {**rows[5], "n": None}
    return [*rows[:40], nobody, lost, *rows[40:]]


def write(rows, folder, name):
    """Put records into one Parquet file, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = [pa.string(), pa.int64(), *[pa.float64()] * 4, pa.int64()]
    columns = [pa.array([row[name] for row in rows], kind) for name, kind in zip(NAMES, types, strict=True)]
    Path(folder).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns, NAMES), Path(folder) / f".{name}")
    os.replace(Path(folder) / f".{name}", Path(folder) / f"{name}.parquet")


def fill(rows, folder, seed, parts=4):
    """Cut records at random places into files, one a batch; Spark reads the oldest first."""
    pieces = next(found for k in range(1000) if len(found := cuts(rows, seed + k)) == parts)
    for k, part in enumerate(pieces):
        write(part, folder, f"part{k}")
        os.utime(Path(folder) / f"part{k}.parquet", (1_700_000_000 + k, 1_700_000_000 + k))
    return pieces


def start(spark, folder, fleet, sink="files", start_from=None):
    """Start the stream from `folder`/in, one file a batch, to `folder`/`sink`."""
    from undrift.spark import learn_stream

    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    out = learn_stream(source, fleet, start_from).writeStream.option("checkpointLocation", checkpoint(folder, sink))
    if sink == "files":
        out = out.format("parquet").option("path", f"{folder}/{sink}")
    else:
        out = out.foreachBatch(lambda df, k: df.write.mode("overwrite").parquet(f"{folder}/{sink}/batch={k}"))
    return out.trigger(availableNow=True).start()


def checkpoint(folder, sink="files"):
    """Return where a stream keeps its progress and states."""
    return f"{folder}/checkpoint-{sink}"


def main(folder):
    """Run the streams to all sinks at once, to their ends."""
    signal.alarm(LIMIT)  # and should nobody kill it, it ends by itself
    spark = session()
    for query in [start(spark, folder, fleet_of(), sink) for sink in SINKS]:
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
