"""Kill a service at random moments under load; nothing that was acknowledged may be lost or learned twice.

python -m tests.stress.serve_kills [kills]

A client sends rows and labels, labels late and out of order, to a service of one model and to one of many keys, in
turn. Snapshots are taken all the time, so that kills fall into them too. Every answer is compared with that of a calm
model which was asked and told the same. The request that a kill interrupted is in the journal or not, as a whole: how
many entries there are after the restart says which, and the client goes on accordingly.
"""

import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np

import undrift as ud
from undrift.errors import InputError
from undrift.serve import Client

NAMES = [f"x{j}" for j in range(4)]
KEYS = [f"shop {k}" for k in range(40)]
SERVE = """
import sys
from undrift.run.service import served_keys, served_run
served_run.NUMBERS_PER_COMMIT, served_keys.NUMBERS_PER_SAVE, served_keys.MOST_CHANGED = 150, 20, 15
from undrift.cli import main
sys.argv = ["undrift", "serve", *sys.argv[1:]]
main()
"""


def health(url):
    with urllib.request.urlopen(url + "health", timeout=60) as answer:
        return json.load(answer)


def start(model, *options):
    command = [sys.executable, "-c", SERVE, str(model), "--port", "0", "--json", "--quiet", *options]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return server, json.loads(server.stdout.readline())["url"]


class Traffic:
    """What a service was asked and told, and calm models that were asked and told the same."""

    def __init__(self, model_file, keyed):
        self.rng, self.model_file, self.keyed = np.random.default_rng(0), model_file, keyed
        self.models, self.waiting, self.next_id = {}, {}, 1
        self.entries = self.answers = self.labels = self.doubtful = 0
        self.doubt = None

    def model(self, key):
        if key not in self.models:
            self.models[key] = ud.load(self.model_file)
        return self.models[key]

    def ask(self, rows):
        """Ask the calm models; return their predictions by id."""
        found = {}
        for row in rows:
            key, z = row.get("shop"), {name: row[name] for name in NAMES}
            served = self.model(key).ask(z if key is None else list(z.values()))
            self.waiting[self.next_id] = key, served, sum(z.values())
            found[self.next_id] = served.yhat
            self.next_id += 1
        self.entries += len(rows)
        return found

    def tell(self, numbers):
        for number in numbers:
            key, served, y = self.waiting.pop(number)
            self.model(key).tell(served, y)
        self.entries += 1
        self.labels += len(numbers)

    def keep_sending(self, url):
        """Send rows and labels until the service is gone."""
        client = Client(url, timeout=10.0)
        try:
            while True:
                Z = self.rng.normal(size=(int(self.rng.integers(1, 9)), len(NAMES))).tolist()
                rows = [dict(zip(NAMES, z, strict=True)) for z in Z]
                if self.keyed:
                    rows = [{"shop": KEYS[int(self.rng.integers(len(KEYS)))], **row} for row in rows]
                self.doubt = "rows", rows
                answers = {answer.id: answer.prediction for answer in client.predict(rows)}
                self.doubt = None
                assert answers == self.ask(rows), "it answers otherwise than a calm model"
                self.answers += len(answers)
                numbers = random.sample(sorted(self.waiting), len(self.waiting) // 3)
                if numbers:
                    self.doubt = "labels", numbers
                    assert client.learn({number: self.waiting[number][2] for number in numbers}) == len(numbers)
                    self.doubt = None
                    self.tell(numbers)
        except InputError:
            client.close()

    def settle_doubt(self, client):
        """Find out whether the request that the kill interrupted is in the journal."""
        now, more = client.status()["entries"], 0
        if self.doubt is not None:
            kind, items = self.doubt
            more = len(items) if kind == "rows" else 1
            self.doubtful += now > self.entries
            if now > self.entries:
                self.ask(items) if kind == "rows" else self.tell(items)
        assert now == self.entries, f"{now} entries, {self.entries} expected ({more} in doubt)"
        self.doubt = None
        status = client.status()
        assert status["waiting"] == len(self.waiting), "rows that wait were lost"
        learned = sum(model.rounds for model in self.models.values()) - (50 * len(self.models) if self.keyed else 0)
        assert status["rounds"] == learned or not self.models, "labels were lost or learned twice"


def try_kills(kills, model_file, keyed):
    traffic, slowest, failures = Traffic(model_file, keyed), 0.0, []
    options = ("--key", "shop") if keyed else ()

    def send(url):
        try:
            traffic.keep_sending(url)
        except BaseException as error:
            failures.append(error)

    for kill in range(kills + 1):
        began = time.perf_counter()
        server, url = start(model_file, *options)
        slowest = max(slowest, time.perf_counter() - began)
        with Client(url, timeout=60.0) as client:
            traffic.settle_doubt(client)
        assert health(url) == {"status": "ok"}
        if kill < kills:
            sender = threading.Thread(target=send, args=(url,))
            sender.start()
            time.sleep(random.uniform(0.05, 1.5))
        server.send_signal(signal.SIGKILL)
        server.wait()
        server.stdout.close()
        if kill < kills:
            sender.join()
        if failures:
            raise failures[0]
        if kill % 10 == 9:
            print(f"{kill + 1} kills, {traffic.labels:,} labels", flush=True)
    what = "keys" if keyed else "one model"
    counts = f"{traffic.answers:,} answers as a calm model gives them, {traffic.labels:,} labels learned once"
    interrupted = f"{traffic.doubtful} interrupted requests were in the journal"
    print(f"{what}: {kills} kills, {counts}, {len(traffic.waiting):,} rows wait; {interrupted}; start {slowest:.1f} s")


def main(kills):
    random.seed(0)
    for keyed in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            model_file, model = Path(folder) / "model.undrift", ud.OnlineRegressor(speed="light")
            Z = np.random.default_rng(1).normal(size=(50, 4))
            for z in Z.tolist():
                model.learn(dict(zip(NAMES, z, strict=True)), sum(z))
            model.save(model_file)
            try_kills(kills, model_file, keyed)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
