"""What rows cost that wait for labels: memory, the longest time a client waits, disk, and the time of a restart.

python -m benchmarks serve_waiting [rows]    (a server process on this machine; 250,000 rows of 15 features by default)

Rows are sent in batches of 50 and no label comes back, while a second client asks for /status all the time, which waits
for whatever the service does: the longest of its waits is the longest stall. Then some labels come, out of order; then
the service is killed and started again.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np

import undrift as ud
from benchmarks.serve import resident_mebibytes
from undrift.online import Table
from undrift.serve import Client

DIM, BATCH, LABELS = 15, 50, 5000
NAMES = [f"feature {j}" for j in range(DIM)]


def start(path):
    command = [sys.executable, "-m", "undrift", "serve", str(path), "--port", "0", "--json", "--quiet"]
    began = time.perf_counter()
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = json.loads(server.stdout.readline())["url"]
    urllib.request.urlopen(f"{url}health", timeout=60.0).close()
    return server, url, time.perf_counter() - began


def watch(url, waits, stop):
    """Ask for /status until `stop`, and note how long each answer took."""
    while not stop.is_set():
        began = time.perf_counter()
        urllib.request.urlopen(f"{url}status", timeout=600.0).close()
        waits.append(time.perf_counter() - began)
        time.sleep(0.005)


def watched(url, work):
    """Do work; return the longest wait of another client meanwhile."""
    waits, stop = [], threading.Event()
    other = threading.Thread(target=watch, args=(url, waits, stop))
    other.start()
    work()
    stop.set()
    other.join()
    return np.array(waits)


def main(rows):
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        model, path = ud.OnlineRegressor(speed="fast"), Path(folder) / "model.undrift"
        Z = rng.normal(size=(500, DIM))
        model.play(Table(NAMES, Z), Z.sum(axis=1))
        model.save(path)
        server, url, first = start(path)
        before = resident_mebibytes(server.pid)
        client = Client(url, timeout=600.0)

        def send():
            for _ in range(rows // BATCH):
                client.predict([dict(zip(NAMES, z, strict=True)) for z in rng.normal(size=(BATCH, DIM)).tolist()])

        def label():
            for some in np.split(rng.permutation(rows)[:LABELS] + 1, LABELS // BATCH):
                client.learn(dict.fromkeys(some.tolist(), 1.0))

        began = time.perf_counter()
        sending = watched(url, send)
        seconds, memory = time.perf_counter() - began, resident_mebibytes(server.pid)
        labelling = watched(url, label)
        files = path.with_name("model-service").iterdir()
        disk = sum(file.stat().st_size for file in files if file.is_file()) / 2**20
        server.kill()
        server.wait()
        server.stdout.close()
        server, url, restart = start(path)
        status = Client(url, timeout=600.0).status()
        assert status["waiting"] == rows // BATCH * BATCH - LABELS, status
        server.kill()
        server.wait()
        server.stdout.close()
    print(f"{rows:,} rows wait, sent in {seconds:.0f} s; memory {memory:.0f} MiB ({before:.0f} before)")
    print(
        f"longest wait of another client {1e3 * sending.max():.0f} ms (p99.9 {1e3 * np.quantile(sending, 0.999):.0f})"
    )
    print(f"... while {LABELS:,} labels come {1e3 * labelling.max():.0f} ms; disk {disk:.0f} MiB")
    print(f"restart after a kill {restart:.1f} s (the first start took {first:.1f} s)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 250_000)
