"""Fill the disk under a service: it refuses with a sentence, lives, and loses nothing that it acknowledged.

python -m tests.stress.serve_full_disk [MEBIBYTES ...]    (as root on Linux, as it mounts small file systems)

The model, the journal and the temporary folder lie on a file system of each size. Rows and half of their labels are
sent until it is full, and on after a little room was made, twice. Then the service is killed and started again: no id
was given to two rows, every acknowledged label was learned once, and it predicts like a model that was asked and told
exactly what was acknowledged.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import numpy as np

import undrift as ud
from undrift.errors import InputError
from undrift.online import Table
from undrift.serve import Client

NAMES = [f"x{j}" for j in range(4)]
SIZES = (4, 5, 6, 7, 8, 10, 12, 14, 16, 20)
REFUSED = 25
"""Refusals before room is made."""
MADE_ROOM = (1, 12)
"""Mebibytes: a little, and more than the write-ahead log needs to be copied into the journal."""


def start(model, temporary):
    command = [sys.executable, "-m", "undrift", "serve", str(model), "--port", "0", "--json", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temporary)})
    url = json.loads(server.stdout.readline())["url"]
    return server, Client(url, timeout=120.0), url


def wait_until_healthy(url):
    """Wait until the service says that all is well again."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        with urllib.request.urlopen(url + "health", timeout=60) as answer:
            if (said := json.load(answer)) == {"status": "ok"}:
                return
        time.sleep(0.1)
    raise AssertionError(f"there is room, and /health says {said}")


class Traffic:
    """Rows and labels that were sent, and a model that gets those which were acknowledged."""

    def __init__(self, calm):
        self.rng, self.calm, self.served, self.refused = np.random.default_rng(0), calm, {}, 0
        self.labels = []

    def send(self, client):
        """Ask and tell once, and note what was acknowledged."""
        Z = self.rng.normal(size=(20, len(NAMES)))
        try:
            answers = client.predict([dict(zip(NAMES, z, strict=True)) for z in Z.tolist()])
            for answer, z in zip(answers, Z, strict=True):
                assert answer.id not in self.served, f"id {answer.id} was given twice"
                self.served[answer.id] = self.calm.ask(Table(NAMES, z[None]))
                assert answer.prediction == self.served[answer.id].yhat, "it predicts otherwise than a calm model"
            labels = {answer.id: float(z.sum()) for answer, z in zip(answers[::2], Z[::2], strict=True)}
            client.learn(labels)
            for number, y in labels.items():
                self.calm.tell(self.served[number], y)
            self.labels += labels
        except InputError as error:
            if not any(f"refused ({status})" in str(error) for status in (503, 507)):
                raise
            self.refused += 1
            time.sleep(0.05)


def try_size(folder, size):
    path = folder / "model.undrift"
    (folder / "temporary").mkdir()
    model, Z = ud.OnlineRegressor(speed="light"), np.random.default_rng(1).normal(size=(50, len(NAMES)))
    model.play(Table(NAMES, Z), Z.sum(axis=1))
    model.save(path)
    traffic = Traffic(model)
    server, client, url = start(path, folder / "temporary")
    try:
        for room in MADE_ROOM:
            until = traffic.refused + REFUSED
            while traffic.refused < until:
                traffic.send(client)
            size += room
            subprocess.run(["mount", "-o", f"remount,size={size}m", str(folder)], check=True)
        before = len(traffic.labels)
        for _ in range(10):
            traffic.send(client)
        assert len(traffic.labels) > before, "it does not go on where there is room"
        wait_until_healthy(url)
        server.send_signal(signal.SIGKILL)
        server.wait()
        server.stdout.close()
        server, client, url = start(path, folder / "temporary")
        wait_until_healthy(url)
        assert client.status()["rounds"] == model.rounds == 50 + len(traffic.labels)
        assert client.status()["waiting"] == len(model.pending)
        assert client.learn(dict.fromkeys(traffic.labels, 0.0)) == 0
        before = traffic.refused
        traffic.send(client)
        assert traffic.refused == before
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    return traffic


def main(sizes):
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", folder], check=True)
            try:
                traffic = try_size(Path(folder), size)
            finally:
                subprocess.run(["umount", folder], check=True)
        counts = f"{len(traffic.served):,} rows and {len(traffic.labels):,} labels acknowledged"
        print(f"{size} MiB: {counts}, {traffic.refused} requests refused; none lost, none twice", flush=True)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or SIZES)
