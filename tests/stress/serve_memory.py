"""Load a service for a while and fit a line to its memory; the slope says what an hour would cost.

python -m tests.stress.serve_memory [minutes]

Ten rows come every PACE seconds; one label in ten never comes, and such rows are given up after 36 seconds. The pace is
fixed, since more rows a second means more rows that wait. The first third of the time is not counted.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import undrift as ud
from undrift.online import Table
from undrift.serve import Client

NAMES = [f"x{j}" for j in range(8)]
PACE = 0.02


def resident_mebibytes(pid):
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024.0


def main(minutes):
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path, model, Z = Path(folder) / "model.undrift", ud.OnlineRegressor(speed="fast"), rng.normal(size=(200, 8))
        model.play(Table(NAMES, Z), Z.sum(axis=1))
        model.save(path)
        command = [sys.executable, "-m", "undrift", "serve", str(path), "--port", "0", "--json", "--quiet"]
        server = subprocess.Popen([*command, "--hold", "0.01"], stdout=subprocess.PIPE, text=True)
        try:
            times, sizes, began = [], [], time.monotonic()
            with Client(json.loads(server.stdout.readline())["url"], timeout=60.0) as client:
                while time.monotonic() - began < 60.0 * minutes:
                    due = time.monotonic() + PACE
                    Z = rng.normal(size=(10, 8))
                    answers = client.predict([dict(zip(NAMES, z, strict=True)) for z in Z.tolist()])
                    labels = (Z.sum(axis=1) + rng.normal(size=10)).tolist()
                    client.learn({one.id: y for one, y in zip(answers[1:], labels[1:], strict=True)})
                    if not times or time.monotonic() - began - times[-1] > 5.0:
                        times.append(time.monotonic() - began)
                        sizes.append(resident_mebibytes(server.pid))
                    time.sleep(max(0.0, due - time.monotonic()))
                status = client.status()
            counted = np.array(times) > 20.0 * minutes
            slope, at = np.polyfit(np.array(times)[counted] / 3600.0, np.array(sizes)[counted], 1)
            journal = sum(one.stat().st_size for one in path.with_name("model-service").iterdir() if one.is_file())
            print(f"{minutes:g} minutes, {status['rounds']:,} labels, {status['waiting']:,} rows wait at the end")
            print(f"memory {at:.1f} MiB and {slope:+.2f} MiB an hour; journal {journal / 2**20:.1f} MiB")
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0)
