"""What a service costs: pairs of predict and learn a second, in batches of 10, and how long clients wait.

python -m benchmarks serve [seconds]    (a server process on this machine; its own CPU time is what counts)
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import undrift as ud
from undrift.online import Table
from undrift.serve import Client

DIM, BATCH = 15, 10


def cpu_seconds(pid):
    """Return the CPU time a process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mebibytes(pid):
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024.0


def batches(seed):
    rng = np.random.default_rng(seed)
    names, w = [f"feature {j}" for j in range(DIM)], rng.normal(size=DIM)
    while True:
        Z = rng.normal(size=(BATCH, DIM))
        yield [dict(zip(names, map(float, z), strict=True)) for z in Z], (Z @ w + rng.normal(size=BATCH)).tolist()


def load(client, source, seconds, pause=0.0):
    """Send batches for so long; return how many pairs, and the seconds of each request."""
    waited, began = [], time.perf_counter()
    while time.perf_counter() - began < seconds:
        rows, labels = next(source)
        a = time.perf_counter()
        answers = client.predict(rows)
        b = time.perf_counter()
        client.learn({one.id: y for one, y in zip(answers, labels, strict=True)})
        waited += [b - a, time.perf_counter() - b]
        time.sleep(max(0.0, pause - (time.perf_counter() - a)))
    return len(waited) // 2 * BATCH, np.array(waited)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
    source = batches(0)
    with tempfile.TemporaryDirectory() as folder:
        model, path = ud.OnlineRegressor(speed="fast"), Path(folder) / "model.undrift"
        rows, labels = zip(*(next(source) for _ in range(50)), strict=True)
        flat = [row for some in rows for row in some]
        Z = np.array([list(row.values()) for row in flat])
        model.play(Table(list(flat[0]), Z), [y for some in labels for y in some])
        model.save(path)
        command = [sys.executable, "-m", "undrift", "serve", str(path), "--port", "0", "--json", "--quiet"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                with Client(json.loads(server.stdout.readline())["url"]) as client:
                    load(client, source, 2.0)
                    before, used = resident_mebibytes(server.pid), cpu_seconds(server.pid)
                    pairs, _ = load(client, source, seconds)
                    each = (cpu_seconds(server.pid) - used) / pairs
                    rate = f"{1.0 / each:,.0f} pairs a second on one core"
                    print(f"{1e6 * each:.0f} us of the server's CPU a pair: {rate}")
                    _, waited = load(client, source, seconds, pause=2.0 * BATCH * each)
                    median, late = 1e3 * np.quantile(waited, [0.5, 0.99])
                    print(f"at half of that, a request takes {median:.1f} ms (median), {late:.1f} ms (99%)")
                    grown = resident_mebibytes(server.pid) - before
                    print(f"memory {before:.0f} MiB, {grown:+.1f} MiB after {client.status()['rounds']:,} labels")
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
