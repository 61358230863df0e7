"""CPU per record of a fleet on Spark, and how much of it is ours: python -m benchmarks spark (in .venv-spark).

2000 keys, 8 features, an ensemble of 12 memories; 10 records a key and micro-batch, local mode with two cores. CPU is
that of the whole process tree while the later batches run, Java and Python apart; "ours" is what the processor does
with such records, run by itself in this process: rows to columns, `Fleet.advance`, outputs to rows.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import undrift as ud

KEYS, EACH, BATCHES, WARM, DIM, MEMBERS = 2000, 10, 12, 6, 8, 12
FEATURES = [f"x{j}" for j in range(DIM)]
NAMES = ["key", "n", *FEATURES, "y"]


def fleet():
    memories = [ud.DiscountedVAW(half_life=h) for h in np.geomspace(4.0, 4000.0, MEMBERS).tolist()]
    return ud.Fleet(ud.Ensemble(memories), key="key", order="n", features=FEATURES, target="y")


def columns(batch):
    rng = np.random.default_rng(batch)
    Z = rng.normal(size=(KEYS * EACH, DIM))
    key, n = np.repeat(np.arange(KEYS), EACH), np.tile(np.arange(EACH) + EACH * batch, KEYS)
    shuffled = rng.permutation(len(key))
    out = {"key": key, "n": n, **{name: Z[:, j] for j, name in enumerate(FEATURES)}, "y": Z[:, 0] + Z[:, 1]}
    return {name: values[shuffled] for name, values in out.items()}


def tree_cpu(root):
    """CPU seconds of a process and all its descendants, dead children included: {"java": ..., "python": ...}."""
    stats = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                name, rest = (folder / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            except OSError:
                continue
            fields = rest.split()
            stats[int(folder.name)] = (int(fields[1]), name, sum(int(x) for x in fields[11:15]))
    family, grown = {root}, True
    while grown:
        more = {pid for pid, (parent, _, _) in stats.items() if parent in family} - family
        family |= more
        grown = bool(more)
    spent = {"java": 0.0, "python": 0.0}
    for pid in family & set(stats):
        spent["java" if stats[pid][1] == "java" else "python"] += stats[pid][2] / os.sysconf("SC_CLK_TCK")
    return spent


def ours():
    """CPU seconds a record of what the processor does, key by key, as the engine calls it."""
    from undrift.spark import Processor

    class Kept:
        """The state of one key at a time, as the engine's handle gives it."""

        def __init__(self):
            self.states, self.key = {}, None

        def getValueState(self, name, schema):
            return self

        def exists(self):
            return self.key in self.states

        def get(self):
            return self.states[self.key]

        def update(self, value):
            self.states[self.key] = value

    kept, processor, spent = Kept(), Processor(fleet()), 0.0
    processor.init(kept)
    for batch in range(3):
        data = columns(batch)
        groups = {}
        for row in zip(*(data[name].tolist() for name in NAMES), strict=True):
            groups.setdefault(row[0], []).append(row)
        began = time.process_time()
        for key, mine in groups.items():
            kept.key = key
            for _ in processor.handleInputRows((key,), mine, None):
                pass
        spent = time.process_time() - began
    return spent / (KEYS * EACH)


def main():
    import pyarrow as pa
    import pyarrow.parquet as pq

    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from undrift.spark import PROVIDER, ROCKSDB, learn_stream

    builder = SparkSession.builder.master("local[2]").config(PROVIDER, ROCKSDB)
    for name, value in {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in").mkdir()
        for batch in range(BATCHES):
            path = Path(folder, "in", f"{batch}.parquet")
            pq.write_table(pa.table(columns(batch)), path)
            os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))
        schema = ", ".join(["key long", "n long", *(f"{name} double" for name in FEATURES), "y double"])
        source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
        out = learn_stream(source, fleet()).writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        query = out.format("parquet").option("path", f"{folder}/out").trigger(availableNow=True).start()
        warm = Path(folder, "checkpoint", "commits", str(WARM - 1))
        while query.isActive and not warm.exists():
            time.sleep(0.01)
        before, clock = tree_cpu(os.getpid()), time.perf_counter()
        query.awaitTermination()
        after, wall = tree_cpu(os.getpid()), time.perf_counter() - clock
    records = (BATCHES - WARM) * KEYS * EACH
    spark.stop()
    java, python = (1e6 * (after[name] - before[name]) / records for name in ("java", "python"))
    mine = 1e6 * ours()
    print(f"{java + python:.0f} us of CPU a record on Spark, {records / wall:.0f} records/s of wall time, two cores:")
    print(f"  {java:.0f} us Java, {python - mine:.0f} us Spark's own Python, {mine:.0f} us ours")
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
