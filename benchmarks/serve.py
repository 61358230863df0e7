"""What a service costs: the server's CPU time for a pair of predict and learn, and how long clients wait.

    python -m benchmarks serve [--seconds S] [--turns N] [--against PYTHON]

Pairs are sent in tens and one by one, to a model of numbers and one of three classes, at speed fast, with 15 columns;
labels come at once, or 1,000 rows late. The figure is the least of all turns. `--against` is the Python of another
checkout's environment, whose service takes turns with this one.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

import numpy as np

from undrift.serve import Client

DIM, TOGETHER, LATE = 15, 10, 1000
CASES = {
    "numbers, in tens": (0, TOGETHER, 0),
    "numbers, in tens, labels 1,000 rows late": (0, TOGETHER, LATE),
    "numbers, one by one": (0, 1, 0),
    "three classes, in tens": (3, TOGETHER, 0),
    "three classes, one by one": (3, 1, 0),
}
"""Classes (0: numbers), rows of a request, and how late labels are."""
MAKE = """
import sys
import numpy as np
import undrift as ud
from undrift.online import Table
with np.load(sys.argv[1]) as arrays:
    Z, y = arrays["Z"], arrays["y"]
model = ud.OnlineRegressor(speed="fast") if y.dtype.kind == "f" else ud.OnlineClassifier(speed="fast")
model.play(Table([f"feature {j}" for j in range(Z.shape[1])], Z), y.tolist())
model.save(sys.argv[2])
"""


def cpu_seconds(pid):
    """Return the CPU time a process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mebibytes(pid):
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024.0


def draw(rows, classes, seed):
    """Return rows and labels, of so many classes of like sizes."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, DIM))
    y = Z @ np.random.default_rng(1).normal(size=DIM) + rng.normal(size=rows)
    if not classes:
        return Z, y
    return Z, np.array([f"class {k}" for k in range(classes)])[
        np.digitize(y, 4.0 * np.arange(1, classes) - 2.0 * classes)
    ]


def batches(classes, together):
    """Yield rows as clients send them, and their labels."""
    for seed in range(1000, 10**9):
        Z, y = draw(1000, classes, seed)
        rows = [{f"feature {j}": z for j, z in enumerate(row)} for row in Z.tolist()]
        for begin in range(0, 1000, together):
            yield rows[begin : begin + together], y[begin : begin + together].tolist()


class Load:
    """A service of one case, its client, and labels that are still to come."""

    def __init__(self, python, base, case):
        classes, self.together, self.late = CASES[case]
        self.source, self.due = batches(classes, self.together), deque()
        Z, y = draw(1000, classes, 0)
        np.savez(base / "rows.npz", Z=Z, y=y)
        subprocess.run([python, "-c", MAKE, str(base / "rows.npz"), str(base / "model.undrift")], check=True)
        command = [python, "-m", "undrift", "serve", str(base / "model.undrift"), "--port", "0", "--json", "--quiet"]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.client = Client(json.loads(self.server.stdout.readline())["url"])
        while len(self.due) < self.late:
            self.predict()

    def predict(self):
        rows, labels = next(self.source)
        self.due.extend(zip((one.id for one in self.client.predict(rows)), labels, strict=True))

    def pair(self):
        """Send rows, and as many labels."""
        self.predict()
        self.client.learn(dict(self.due.popleft() for _ in range(self.together)))

    def measure(self, seconds, pause=0.0):
        """Return the server's CPU seconds of a pair, and how long requests took."""
        waited, began, used = [], time.perf_counter(), cpu_seconds(self.server.pid)
        while time.perf_counter() - began < seconds:
            a = time.perf_counter()
            self.pair()
            waited.append((time.perf_counter() - a) / 2.0)
            time.sleep(max(0.0, pause - (time.perf_counter() - a)))
        return (cpu_seconds(self.server.pid) - used) / (len(waited) * self.together), np.array(waited)

    def close(self):
        self.client.close()
        self.server.terminate()
        self.server.wait(30)
        self.server.stdout.close()


def compare(case, pythons, seconds, turns):
    """Print a line for a case."""
    with tempfile.TemporaryDirectory() as folder:
        loads = []
        try:
            for k, python in enumerate(pythons):
                base = Path(folder) / str(k)
                base.mkdir()
                loads.append(Load(python, base, case))
            for load in loads:
                load.measure(1.0)
            memory = resident_mebibytes(loads[0].server.pid)
            found = [[load.measure(seconds)[0] for load in loads] for _ in range(turns)]
            least = np.min(found, axis=0)
            _, waited = loads[0].measure(seconds, pause=2.0 * loads[0].together * least[0])
            median, late = 1e3 * np.quantile(waited, [0.5, 0.99])
            grown = resident_mebibytes(loads[0].server.pid) - memory
            others = "".join(f" {1e6 * other:9.0f} {least[0] / other:6.2f}" for other in least[1:])
            print(f"{case:42} {1e6 * least[0]:9.0f} {median:8.1f} {late:8.1f} {grown:+8.1f}{others}", flush=True)
        finally:
            for load in loads:
                load.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--against", default=None)
    parser.add_argument("--case", default="")
    options = parser.parse_args()
    pythons = [sys.executable, *([] if options.against is None else [options.against])]
    print(
        "CPU us of the server a pair; ms that a request takes at half of that load (median, 99%); MiB of memory gained"
    )
    print(
        f"{'':42} {'CPU us':>9} {'median':>8} {'99%':>8} {'MiB':>8}" + (" against  ratio" if len(pythons) > 1 else "")
    )
    for case in CASES:
        if options.case in case:
            compare(case, pythons, options.seconds, options.turns)


if __name__ == "__main__":
    main()
