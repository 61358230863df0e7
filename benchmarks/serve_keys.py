"""A model for each of very many keys: memory, disk, how long clients wait, and how long a restart takes.

python -m benchmarks serve_keys [keys]    (a server process on this machine; `light` models of 3 features)
"""

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import undrift as ud
from benchmarks.serve import BATCH, cpu_seconds, resident_mebibytes
from undrift.serve import Client

NAMES = ["x0", "x1", "x2"]
PAIRS = 3000
HOT = 100
"""Keys of the second load."""


def send(client, keys, rng):
    """Ask for one row of each key and tell its label; return how long each of the two took."""
    Z = rng.normal(size=(len(keys), len(NAMES)))
    a = time.perf_counter()
    rows = [{"key": int(k), **dict(zip(NAMES, z, strict=True))} for k, z in zip(keys, Z.tolist(), strict=True)]
    answers = client.predict(rows)
    b = time.perf_counter()
    client.learn({one.id: float(z.sum() + rng.normal()) for one, z in zip(answers, Z, strict=True)})
    return [b - a, time.perf_counter() - b]


def start(path):
    command = [sys.executable, "-m", "undrift", "serve", str(path), "--key", "key", "--port", "0", "--json", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return server, json.loads(server.stdout.readline())["url"]


def measure(server, client, draw, what, rng):
    waited, used = [], cpu_seconds(server.pid)
    for _ in range(PAIRS // BATCH):
        waited += send(client, draw(), rng)
    each = 1e3 * (cpu_seconds(server.pid) - used) / PAIRS
    median, late = 1e3 * np.quantile(waited, [0.5, 0.99])
    print(f"{what}: {each:.2f} ms of CPU a pair, a request of {BATCH} takes {median:.0f} ms (median), {late:.0f} (99%)")


def main(keys):
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        model, path = ud.OnlineRegressor(speed="light"), Path(folder) / "model.undrift"
        model.learn(dict.fromkeys(NAMES, 1.0), 3.0)
        model.save(path)
        server, url = start(path)
        try:
            with Client(url, timeout=60.0) as client:
                empty = resident_mebibytes(server.pid)
                for a in range(0, keys, 500):
                    send(client, np.arange(a, min(a + 500, keys)), rng)
                print(f"{keys:,} keys: memory {empty:.0f} MiB without, {resident_mebibytes(server.pid):.0f} with all")
                measure(server, client, lambda: rng.integers(0, keys, BATCH), "keys drawn from all", rng)
                measure(server, client, lambda: rng.integers(0, min(HOT, keys), BATCH), f"{HOT} keys", rng)
                began = time.perf_counter()
                client.status()
                print(f"a status takes {1e3 * (time.perf_counter() - began):.0f} ms")
            server.send_signal(signal.SIGKILL)
            server.wait()
            server.stdout.close()
            size = sum(one.stat().st_size for one in path.with_name("model-service").iterdir() if one.is_file())
            began = time.perf_counter()
            server, url = start(path)
            took = time.perf_counter() - began
            with Client(url) as client:
                assert client.status()["keys"] == keys
            print(f"on the disk {size / 2**20:,.0f} MiB; started again after kill -9 in {took:.1f} s")
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
