"""Kill a service at random moments under load; nothing that was acknowledged may be lost or learned twice.

python tests/stress/serve_kills.py [kills]

A client sends rows and labels, labels late and out of order, and repeats a label whose acknowledgement did not come. In
the end the service must have learned every label it acknowledged once, and predict like a calm model that was asked and
told the same in the order of the journal.
"""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import undrift as ud
from undrift.errors import InputError
from undrift.online import Table
from undrift.serve import Client

NAMES = [f"x{j}" for j in range(4)]


def start(model):
    command = [sys.executable, "-m", "undrift", "serve", str(model), "--port", "0", "--json", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return server, json.loads(server.stdout.readline())["url"]


def keep_asking(url, rng, waiting, acknowledged):
    """Send rows and labels until the service is gone; `waiting` are labels by id, moved when they are acknowledged."""
    client = Client(url, timeout=5.0)
    try:
        while True:
            Z = rng.normal(size=(int(rng.integers(1, 8)), len(NAMES)))
            answers = client.predict([dict(zip(NAMES, map(float, z), strict=True)) for z in Z])
            waiting.update({one.id: float(z.sum() + rng.normal()) for one, z in zip(answers, Z, strict=True)})
            some = random.sample(sorted(waiting), len(waiting) // 2)
            if some:
                client.learn({number: waiting[number] for number in some})
                acknowledged.update({number: waiting.pop(number) for number in some})
            time.sleep(0.02)  # so that all of it stays in the journal, for comparing
    except InputError:
        client.close()


def read_back(journal):
    """Return the ids that wait and the labels in the journal since the last snapshot."""
    base = sqlite3.connect(journal)
    entries = base.execute("SELECT kind, body FROM journal ORDER BY first").fetchall()
    base.close()
    return entries


def calm_model(model_file, entries):
    """Return a model that was asked and told what the entries say, in one go."""
    model, served = ud.load(model_file), {}
    for kind, body in entries:
        if kind == 0:
            _, _, rows, _, number = json.loads(body)
            for i, row in enumerate(rows):
                served[number + i] = model.ask(Table(NAMES, np.array([[row[name] for name in NAMES]])))
        else:
            for number, y in json.loads(body):
                model.tell(served.pop(number), y)
    return model


def main(kills):
    random.seed(0)
    rng = np.random.default_rng(0)
    waiting, acknowledged, slowest = {}, {}, 0.0
    with tempfile.TemporaryDirectory() as folder:
        model_file = Path(folder) / "model.undrift"
        model = ud.OnlineRegressor(speed="fast")
        Z = rng.normal(size=(50, len(NAMES)))
        model.play(Table(NAMES, Z), Z.sum(axis=1))
        model.save(model_file)
        for kill in range(kills):
            began = time.perf_counter()
            server, url = start(model_file)
            slowest = max(slowest, time.perf_counter() - began)
            client = threading.Thread(target=keep_asking, args=(url, rng, waiting, acknowledged))
            client.start()
            time.sleep(random.uniform(0.05, 1.5))
            server.send_signal(signal.SIGKILL)
            server.wait()
            client.join()
            server.stdout.close()
            if kill % 10 == 9:
                print(f"{kill + 1} kills, {len(acknowledged):,} labels acknowledged", flush=True)
        entries = read_back(Path(folder) / "model-service" / "journal.sqlite")
        server, url = start(model_file)
        with Client(url) as client:
            learned = [number for kind, body in entries if kind == 1 for number, _ in json.loads(body)]
            assert len(set(learned)) == len(learned), "a label was learned twice"
            lost = set(acknowledged) - set(learned)
            assert not lost, f"{len(lost)} acknowledged labels were lost"
            assert client.learn(dict.fromkeys(list(acknowledged)[:1000], 0.0)) == 0
            probe = [dict(zip(NAMES, map(float, z), strict=True)) for z in rng.normal(size=(5, len(NAMES)))]
            calm = calm_model(model_file, read_back(Path(folder) / "model-service" / "journal.sqlite"))
            served = [one.prediction for one in client.predict(probe)]
            assert served == [calm.ask(row).yhat for row in probe], "it predicts otherwise than a calm model"
        server.terminate()
        server.wait()
        server.stdout.close()
    told = f"{len(acknowledged):,} labels acknowledged, none lost, none twice"
    print(f"{kills} kills, {told}; restart within {slowest:.1f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
