"""kill -9 of the whole driver in mid-stream, restart, and nothing is missing, doubled or different."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.helpers import ROOT
from tests.spark.job import LIMIT, SINKS, checkpoint, dirty, fill, fleet_of
from tests.spark.test_spark_stream import models_of, play, written
from undrift.fleet import canonical


def entries(folder, sink, log):
    """Return the entries of one of Spark's logs: "commits" are finished batches, "sources/0" files given out."""
    return [one for one in Path(checkpoint(folder, sink), log).glob("*") if one.name.isdigit()]


def killed(folder):
    """Run the streams to both sinks in a driver of their own, and kill that once each has finished a batch."""
    with (folder / "log").open("w") as log:
        command = [sys.executable, "-m", "tests.spark.job", folder]
        driver = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=log, stderr=log)
    deadline = time.monotonic() + LIMIT
    try:
        while not all(entries(folder, sink, "commits") for sink in SINKS):
            assert driver.poll() is None, (folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, f"no batch was committed in {LIMIT} seconds"
            time.sleep(0.02)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def test_kill_minus_9_and_restart(spark, tmp_path):
    rows, fleet = dirty(seed=21), fleet_of()
    parts, local = fill(rows, tmp_path / "in", seed=4, parts=6), fleet.run(rows)
    killed(tmp_path)
    for sink in SINKS:
        before = len(entries(tmp_path, sink, "commits"))
        assert 1 <= before < len(parts)
        assert play(spark, tmp_path, fleet, sink) is None
        # Killed after a file was given out and before its batch was planned, Spark puts it into the next batch too.
        assert before < len(entries(tmp_path, sink, "commits")) <= len(parts)
        assert len(entries(tmp_path, sink, "sources/0")) == len(parts)
        assert canonical(written(spark, tmp_path, sink)) == canonical(local.outputs)
        assert models_of(spark, tmp_path, sink) == dict(local.states)
