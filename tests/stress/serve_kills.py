"""Kill a service at random moments under load; nothing that was acknowledged may be lost or learned twice.

python -m tests.stress.serve_kills [kills]

A client sends rows and labels, labels late and out of order, to a service of one model, to one of many keys, and then
to one of a fleet. Snapshots are taken all the time, so that kills fall into them too, and into the commits of a fleet.
Every answer is compared with that of a calm model which was asked and told the same. The request that a kill
interrupted is in the journal or not, as a whole: how many entries there are after the restart says which, and the
client goes on accordingly. In the end an update of the fleet brings the labels that still miss, and every row must have
been learned once.
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
from collections import Counter
from pathlib import Path

import numpy as np

import undrift as ud
from undrift.errors import InputError
from undrift.fleet.state_store import StateStore, read_about
from undrift.run import FleetSettings, play_fleet, update_fleet
from undrift.run.fleet.plan import read_plan
from undrift.serve import Client

NAMES = [f"x{j}" for j in range(4)]
KEYS = [f"shop {k}" for k in range(40)]
BEGIN = 5
"""Rows of each of the first keys of a fleet."""
SERVE = """
import sys
from undrift.run.service import served_keys, served_run
served_run.NUMBERS_PER_COMMIT, served_keys.NUMBERS_PER_SAVE, served_keys.MOST_CHANGED = 150, 20, 15
served_keys.OUTPUTS_PER_COMMIT = 20
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
        self.fleet = read_plan(model_file).fleet if model_file.is_dir() else None
        self.days, self.lines = Counter(), []
        self.models, self.waiting, self.next_id = {}, {}, 1
        self.entries = self.answers = self.labels = self.doubtful = 0
        self.doubt, self.first_rounds = None, 0
        if self.fleet is not None:
            path = model_file / "fleet.db"
            with StateStore(path, read_about(path)) as store:
                states = {key: store[key] for key in store}
            self.models = {key: self.fleet.stream(states.get(key)) for key in KEYS}
            self.first_rounds = sum(model.rounds for model in self.models.values())

    def model(self, key):
        if key not in self.models:
            self.models[key] = ud.load(self.model_file)
            self.first_rounds += self.models[key].rounds if self.keyed else 0
        return self.models[key]

    def ask(self, rows):
        """Ask the calm models; return their predictions by id."""
        found = {}
        for row in rows:
            key, z = row.get("shop"), {name: row[name] for name in NAMES}
            y = sum(z.values())
            if self.fleet is not None:
                self.days[key] += 1
                self.lines.append(line_of(key, row["day"], z, row["color"]))
                served = self.model(key).ask({**z, "color": row["color"]})
                found[self.next_id] = served[0]["prediction"]
            else:
                served = self.model(key).ask(z if key is None else list(z.values()))
                found[self.next_id] = served.yhat
            self.waiting[self.next_id] = key, served, y
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
                if self.fleet is not None:
                    days = self.days.copy()
                    for row in rows:
                        row |= {"day": BEGIN + days[row["shop"]], "color": f"color {int(self.rng.integers(60))}"}
                        days[row["shop"]] += 1
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
        learned = sum(model.rounds for model in self.models.values()) - self.first_rounds
        assert status["rounds"] == learned or not self.models, "labels were lost or learned twice"


def line_of(key, day, z, color):
    return f"{key},{day},{','.join(map(repr, z.values()))},{color},{sum(z.values())!r}"


def make_fleet(folder, lines=(), name="first.csv"):
    """Write the first rows of half of the keys, and these lines, to a file."""
    rng = np.random.default_rng(2)
    first = [
        line_of(key, day, dict(zip(NAMES, rng.normal(size=4).tolist(), strict=True)), f"color {day}")
        for day in range(BEGIN)
        for key in KEYS[:20]
    ]
    (folder / name).write_text("\n".join([f"shop,day,{','.join(NAMES)},color,y", *first, *lines]) + "\n")
    return str(folder / name), len(first) + len(lines)


def update_after_kills(folder, traffic):
    """Let a file bring the labels that still miss: every row was learned once, and by what calm models answer."""
    path, rows = make_fleet(folder, traffic.lines, "all.csv")
    done = update_fleet(folder / "fleet", path)
    found = Counter(row.status for row in done.found.run.all_outputs())
    assert found["ok"] + found["labelled"] == rows, f"{found}, {rows} rows expected"
    assert done.labelled == len(traffic.waiting)
    assert not done.added
    for key, served, y in traffic.waiting.values():
        traffic.models[key].tell(served, y)
    probe = dict.fromkeys(NAMES, 0.5)
    for key, state in done.found.run.states.items():
        found = traffic.fleet.stream(state).predict(probe)["prediction"][0]
        assert found == traffic.models[key].predict(probe)["prediction"][0], f"{key} learned something else"
    print(f"an update brought {done.labelled:,} labels to {rows:,} rows of a fleet, each learned once")


def try_kills(kills, model_file, keyed):
    traffic, slowest, failures = Traffic(model_file, keyed), 0.0, []
    options = ("--key", "shop") if keyed and traffic.fleet is None else ()

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
        server.send_signal(signal.SIGTERM if kill % 5 == 4 and kill < kills else signal.SIGKILL)
        server.wait()
        server.stdout.close()
        if kill < kills:
            sender.join()
        if failures:
            raise failures[0]
        if kill % 10 == 9:
            print(f"{kill + 1} kills, {traffic.labels:,} labels", flush=True)
    what = "one model" if not keyed else "keys" if traffic.fleet is None else "a fleet"
    counts = f"{traffic.answers:,} answers as a calm model gives them, {traffic.labels:,} labels learned once"
    interrupted = f"{traffic.doubtful} interrupted requests were in the journal"
    print(f"{what}: {kills} kills, {counts}, {len(traffic.waiting):,} rows wait; {interrupted}; start {slowest:.1f} s")
    return traffic


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
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        play_fleet(
            make_fleet(folder)[0], folder / "fleet", FleetSettings(target="y", key="shop", order="day", lag=(1,))
        )
        update_after_kills(folder, try_kills(kills, folder / "fleet", keyed=True))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
