"""kill -9 of the whole driver in mid-stream, restart, and nothing is missing, doubled or different."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from job import dirty, fill, fleet_of

from undrift.fleet import canonical

JOB = Path(__file__).parent / "job.py"


@pytest.mark.parametrize("sink", ["files", "each batch"])
def test_kill_minus_9_and_restart(spark, tmp_path, sink):
    from undrift.spark import read_models

    rows, fleet = dirty(seed=21), fleet_of()
    parts = fill(rows, tmp_path / "in", seed=4)
    command = [sys.executable, str(JOB), str(tmp_path), sink]
    log = tmp_path / "log"
    with log.open("w") as file:
        first = subprocess.Popen(command, start_new_session=True, stdout=file, stderr=file)
    commits = tmp_path / "checkpoint" / "commits"
    deadline = time.monotonic() + 300
    while not (commits / "0").exists():
        assert first.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < deadline, "no batch was committed in 5 minutes"
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    assert len([one for one in commits.iterdir() if one.name.isdigit()]) < len(parts)

    with log.open("w") as file:
        again = subprocess.run(command, stdout=file, stderr=file, timeout=600, check=False)
    assert again.returncode == 0, log.read_text()[-2000:]
    local = fleet.run(rows)
    columns = ["key", "order", "prediction", "target", "status", "reason"]
    said = [tuple(row) for row in spark.read.parquet(f"{tmp_path}/out").select(*columns).collect()]
    assert canonical(said) == canonical(local.outputs)
    models = {row.key: bytes(row.state) for row in read_models(spark, f"{tmp_path}/checkpoint").collect()}
    assert models == dict(local.states)
