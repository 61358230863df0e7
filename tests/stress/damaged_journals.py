"""Damage journals of services at random: each one opens as it was, or is refused in one sentence.

python -m tests.stress.damaged_journals [damages] [seed]

Services of one model, of keys, of a fleet, of several classes and of forecasts are left as a kill leaves them. Their
journals then get flipped, lost or zeroed bytes, are cut off, lose tables and rows, or get values of wrong kinds and
shapes, with a wrong checksum or a forged one. No damage may end in a raw traceback, neither when the journal is opened
nor in the requests that follow. What is not forged must be noticed: a service that opens must be the one that was left.
A damaged write-ahead log is an exception: SQLite reads it up to the damage, so that an earlier state may come back.
"""

import contextlib
import json
import random
import shutil
import sqlite3
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

import numpy as np

import undrift as ud
from undrift.errors import UndriftError
from undrift.online import Table
from undrift.run import FleetSettings, ForecastSettings, forecast_file, play_fleet
from undrift.run.service.journal import _checksum
from undrift.run.service.service import Label
from undrift.serve import open_service
from undrift.serve.open_service import open_forecasts

KINDS = ("model", "keys", "fleet", "classes", "forecast")
NAMES = ["a", "b", "c"]
ROWS = [{"a": float(i % 7), "b": -float(i % 3), "c": float(i % 2)} for i in range(40)]
WRONG = [None, 0, -1, 1e308, 2**62, "", "x", b"\x00\xff", "[]", "{}", "null", "[[]]", '{"a": 1}', "[1, 2", "[" * 5000]
CHECKED = {
    "journal": ("first", "last", "kind", "body"),
    "snapshot": ("sequence", "facts"),
    "key_facts": ("key", "facts"),
    "key_models": ("key", "recent", "model"),
}


def open_kind(kind, path):
    if kind == "forecast":
        return open_forecasts(path)
    return open_service(path, key="shop" if kind == "keys" else None)


def rows_of(kind, begin, end):
    rows = [{**row, "shop": f"s{i % 3}"} if kind in ("keys", "fleet") else row for i, row in enumerate(ROWS[begin:end])]
    return [{**row, "day": begin + i} for i, row in enumerate(rows)] if kind == "fleet" else rows


def label_of(kind, k):
    return "xyz"[k % 3] if kind == "classes" else float(k)


def make(kind, folder):
    """Leave a service of this kind as a kill would, with a snapshot, later entries, and rows that wait."""
    Z = np.random.default_rng(5).normal(size=(40, 3))
    path = folder / "model.undrift"
    if kind == "forecast":
        times = [str(np.datetime64("2024-01-01T00", "h") + t).replace("T", " ") + ":00" for t in range(212)]
        lines = [f"{time},{10 + t % 24}" for t, time in enumerate(times)]
        (folder / "load.csv").write_text("\n".join(["time,load", *lines[:200]]) + "\n")
        path = folder / "load"
        forecast_file(str(folder / "load.csv"), path, ForecastSettings(target=("load",), time="time", horizon=4))
    elif kind == "fleet":
        lines = [f"s{t % 3},{t - 30},{','.join(map(repr, z))},{sum(z)!r}" for t, z in enumerate(Z[:30].tolist())]
        (folder / "first.csv").write_text("\n".join(["shop,day,a,b,c,y", *lines]) + "\n")
        path = folder / "fleet"
        play_fleet(str(folder / "first.csv"), path, FleetSettings(target="y", key="shop", order="day", lag=(1,)))
    elif kind == "classes":
        model = ud.OnlineClassifier(speed="light")
        model.play(Table(NAMES, Z), ["xyz"[int(k)] for k in np.argmax(Z, axis=1)])
        model.save(path)
    else:
        model = ud.OnlineRegressor(speed="light")
        model.play(Table(NAMES, Z), Z.sum(axis=1))
        model.save(path)
    with open_kind(kind, path) as service:
        if kind == "forecast":
            for t in range(200, 212):
                service.learn([{"time": times[t], "load": 10.0 + t % 24}])
                if t == 205:
                    service.save()
        else:
            for begin in range(0, 20, 5):
                given = service.predict(rows_of(kind, begin, begin + 5), [f"r{begin + k}" for k in range(5)])
                service.learn([Label(answer.id, label_of(kind, answer.id)) for answer in given[:3]])
                if begin == 5:
                    service.save()
                    service.tend()
        shutil.copytree(folder, folder.with_name(f"{kind} killed"))  # as a kill leaves it
        return folder.with_name(f"{kind} killed") / path.name, describe(kind, service)


def describe(kind, service):
    """Return what a service is, for comparing."""
    facts = {name: value for name, value in service.facts().items() if name != "seconds"}
    if kind == "forecast":
        return facts, service.forecast()
    if kind in ("keys", "fleet"):
        models = [service.models._load(f"s{k}") for k in range(3)]
        probe = [1.0, 2.0, 3.0] if kind == "keys" else {"a": 1.0, "b": 2.0, "c": 3.0}
        return facts, [one.model.predict(probe) for one in models], [list(one.recent) for one in models]
    return facts, service.models.model.predict(ROWS[30]), service.models.recent(None, 100), list(service.events)


def use(kind, service):
    """Send requests to a service; refusals are fine."""
    calls = [service.facts, service.tend]
    if kind == "forecast":
        calls += [service.forecast, lambda: service.learn([{"time": "2024-01-09 20:00", "load": 3.0}]), service.save]
    else:
        calls += [lambda: service.predict(rows_of(kind, 24, 26))]
        calls += [lambda k=k: service.learn([Label(k, label_of(kind, k))]) for k in range(1, 26)]
        calls += [lambda: service.learn([Label("r3", label_of(kind, 1))]), lambda: service.save(everything=True)]
    for call in calls:
        with contextlib.suppress(UndriftError):
            call()


def damage_bytes(path, rng):
    data = bytearray(path.read_bytes())
    how = rng.choice(["flip", "flip", "flip", "cut", "zero", "repeat"])
    at = rng.randrange(max(1, len(data)))
    if how == "flip":
        for _ in range(rng.choice([1, 3, 50])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del data[at:]
    elif how == "zero":
        data[at : at + 4096] = bytes(len(data[at : at + 4096]))
    else:
        data[at : at + 100] = data[:100]
    path.write_bytes(bytes(data))
    return f"{how} in {path.name}"


def damage_tables(path, rng, forge):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as base:
        tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        filled = [name for name in tables if base.execute(f"SELECT count(*) FROM {name}").fetchone()[0]]
        table = rng.choice([name for name in filled if not forge or name in CHECKED])
        how = rng.choice(["drop", "rows", "cell", "cell", "cell", "version"]) if not forge else "cell"
        if how == "drop":
            base.execute(f"DROP TABLE {table}")
        elif how == "version":
            base.execute(f"PRAGMA user_version = {rng.choice([0, 1, 3, 6, 99])}")
        elif how == "rows":
            some = "key > 's0'" if table == "key_facts" else f"rowid % 2 = {rng.randrange(2)}"
            base.execute(f"DELETE FROM {table} WHERE {some}")
        else:
            columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
            columns = list(CHECKED[table]) if forge else columns
            column = rng.choice(columns)
            places = [place for (place,) in base.execute(f"SELECT {columns[0]} FROM {table}")]
            place = rng.choice(places)
            old = base.execute(f"SELECT {column} FROM {table} WHERE {columns[0]} = ?", (place,)).fetchone()[0]
            new = forge_json(old, rng) if isinstance(old, str) and rng.random() < 0.8 else rng.choice(WRONG)
            try:
                base.execute(f"UPDATE {table} SET {column} = ? WHERE {columns[0]} = ?", (new, place))
            except (sqlite3.IntegrityError, OverflowError):
                return damage_tables(path, rng, forge)
            if column == columns[0]:
                place = new
            if forge:
                read = f"SELECT {', '.join(CHECKED[table])} FROM {table} WHERE {columns[0]} = ?"
                values = base.execute(read, (place,)).fetchone()
                if values is not None:
                    base.execute(f"UPDATE {table} SET checksum = ? WHERE {columns[0]} = ?", (_checksum(*values), place))
        return f"{how} of {table}"


def forge_json(text, rng):
    """Return JSON of which one value, anywhere inside, is another one."""
    try:
        value = json.loads(text)
    except ValueError:
        return rng.choice(WRONG)
    paths = []

    def visit(part, path):
        paths.append(path)
        if isinstance(part, (list, dict)):
            for k in range(len(part)) if isinstance(part, list) else list(part):
                visit(part[k], (*path, k))

    visit(value, ())
    path = rng.choice(paths)
    other = rng.choice([None, True, -1, 0, 7, 1e300, 2**70, "", "x", [], {}, [[]], [1, 2, 3], {"a": 1}])
    if not path:
        return json.dumps(other)
    part = value
    for k in path[:-1]:
        part = part[k]
    if rng.random() < 0.2:
        del part[path[-1]]
    else:
        part[path[-1]] = other
    return json.dumps(value)


def try_one(kind, path, state, rng):
    """Damage a copy of a service's folder; return what was done to it and what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(path.parent, Path(folder) / "copy")
        copy = Path(folder) / "copy" / path.name
        folders = {"forecast": copy, "fleet": copy / "service"}
        service_folder = folders.get(kind, copy.with_name("model-service"))
        journal = service_folder / "journal.sqlite"
        way = rng.choice(["bytes", "bytes", "log", "tables", "forged"])
        if way != "log":
            with contextlib.closing(sqlite3.connect(journal)) as base:
                base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if way in ("bytes", "log"):
            files = [file for file in service_folder.glob("journal.sqlite*") if file.stat().st_size]
            logs = [file for file in files if file.name.endswith("wal")]
            what = damage_bytes(rng.choice(logs) if way == "log" and logs else journal, rng)
        else:
            what = damage_tables(journal, rng, way == "forged")
        try:
            with open_kind(kind, copy) as service:
                same = describe(kind, service) == state
                use(kind, service)
            return way, what, "as it was" if same else "different"
        except UndriftError as error:
            return way, what, "refused" if "\n" not in str(error) else "refused in several lines"


def main(damages, seed=0):
    """Return how many damages of each way had which end."""
    rng, ends = random.Random(seed), Counter()
    with tempfile.TemporaryDirectory() as folder:
        services = {}
        for kind in KINDS:
            (Path(folder) / kind).mkdir()
            services[kind] = make(kind, Path(folder) / kind)
        for number in range(damages):
            kind = list(services)[number % len(services)]
            what = ""
            try:
                way, what, end = try_one(kind, *services[kind], rng)
            except Exception:
                print(f"damage {number} of {kind}\n{traceback.format_exc()}", flush=True)
                way, end = "?", "raw error"
            if end == "different" and way in ("bytes", "tables"):
                print(f"damage {number} of {kind}: {what} was not noticed", flush=True)
                end = "not noticed"
            ends[way, end] += 1
    return ends


if __name__ == "__main__":
    found = main(int(sys.argv[1]) if len(sys.argv) > 1 else 500, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for (way, end), count in sorted(found.items()):
        print(f"{way}: {count} {end}")
    if any(end not in ("as it was", "refused", "different") for _, end in found):
        sys.exit(1)
