"""Hostile databases and states of fleets: each ends in a result or in one sentence, and never hangs."""

import contextlib
import hashlib
import json
import os
import random
import signal
import sqlite3
import struct
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import undrift as ud
from undrift.errors import UndriftError
from undrift.stream.keyed import key_state as states

FIELDS = {"key": "k", "order": "n", "features": ["x", "z"], "target": "y", "wait": 4}
ROWS = [
    {"k": f"key {k}", "n": n + (n > 7), "x": float(n % 3), "z": 1.0, "y": float(n * k % 5)}
    for n in range(12)
    for k in range(30)
]
MODELS = {
    "online": lambda: ud.OnlineRegressor(speed="fast"),
    "ensemble": lambda: ud.linear_ensemble(100),
    "mixed": lambda: ud.Ensemble([ud.DiscountedVAW(half_life=9), ud.Persistence()]),
}
PATIENCE = 60
"""Seconds after which a try counts as hanging."""
VALUES = (
    None,
    -1,
    0,
    1,
    2**62,
    2**63 - 1,
    -(2**63),
    1.5,
    float("inf"),
    "",
    "key 1",
    "x" * 10_000,
    "\x00",
    b"",
    b"12",
    b"\xff" * 99,
)
JSONS = (
    None,
    True,
    -1,
    1.5,
    10**400,
    "x",
    [],
    [[]],
    {},
    {"a": 1},
    [1, 2],
    [2**63],
    [[1, 2, 3]],
    [[0, 9, 0]],
    {"ok": -1},
    {"arrays": True},
)
NUMBERS = (float("nan"), float("inf"), -float("inf"), 1e300, -1e300, 5e-324, -1.0, 0.0)


def fleet_of(model):
    return ud.Fleet(MODELS[model], **FIELDS)


def made(model, folder):
    """Make a fleet that has read half of its records."""
    fleet_of(model).run(ROWS[:180], folder=folder, batch=60)
    return (folder / "fleet.db").read_bytes()


def sealed(body):
    """A state with the digest its bytes should have."""
    return body + hashlib.blake2b(body, digest_size=8).digest()


def with_other_head(state, dice):
    """A state whose JSON text says something else."""
    made_by = states.HEAD.unpack_from(state)
    size = made_by[-1]
    at = states.HEAD.size
    head = json.loads(state[at : at + size])
    name = dice.choice([*head, "halved", "short"])
    what = dice.random()
    if what < 0.1:
        head.pop(name, None)
    elif what < 0.4 and isinstance(head.get(name), list) and head[name]:
        head[name][dice.randrange(len(head[name]))] = dice.choice(JSONS)
    elif what < 0.6 and isinstance(head.get(name), dict):
        head[name][dice.choice([*head[name], "rounds", "dim", "class", "parameters", "ok"])] = dice.choice(JSONS)
    elif what < 0.8:
        shapes = {
            array: [dice.choice((0, 1, 3, 10**6, 10**12, -1))] * dice.randrange(4)
            for array in ("a", "information", "last")
        }
        head[dice.choice(("arrays", "short"))] = shapes
    else:
        head[name] = dice.choice(JSONS)
    text = json.dumps(head).encode() if dice.random() > 0.05 else b"[" * 100_000
    length = len(text) if dice.random() > 0.05 else dice.choice((0, 2**32 - 1, len(text) + 1))
    return sealed(states.HEAD.pack(*made_by[:-1], length) + text + state[at + size : -8])


def with_other_numbers(state, dice):
    """A state some of whose numbers are others."""
    size = states.HEAD.unpack_from(state)[-1]
    body, start = bytearray(state[:-8]), states.HEAD.size + size
    for _ in range(dice.choice((1, 1, 5))):
        at = start + 8 * dice.randrange((len(body) - start) // 8)
        body[at : at + 8] = struct.pack("<d", dice.choice(NUMBERS))
    return sealed(bytes(body[: dice.choice((len(body), len(body), len(body) - 8, len(body) - 3))]))


def with_other_bytes(data, dice, most=20):
    """Some bytes changed, or the end cut off."""
    out = bytearray(data)
    for _ in range(dice.randint(1, most)):
        out[dice.randrange(len(out))] = dice.choice((0, 1, 255, dice.randrange(256)))
    return bytes(out[: dice.randrange(len(out))]) if dice.random() < 0.1 else bytes(out)


SCHEMAS = (
    "CREATE VIEW trap AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
    "CREATE TRIGGER trap AFTER INSERT ON progress BEGIN DELETE FROM states; END",
    "CREATE TRIGGER trap AFTER INSERT ON states BEGIN INSERT INTO states SELECT key || 'x', state FROM states; END",
    "CREATE INDEX trap ON states (state)",
    "CREATE TABLE trap (x)",
    "CREATE VIRTUAL TABLE trap USING fts5(x)",
    "ALTER TABLE states ADD COLUMN more",
    "ALTER TABLE progress RENAME TO trap",
    "DROP TABLE outputs",
    "PRAGMA journal_mode = WAL",
    "PRAGMA user_version = 7",
    "PRAGMA encoding = 'UTF-16'",
)
RECURSIVE = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT "
VIEWS = {
    "states": "x AS key, x AS state",
    "about": "x AS name, x AS value",
    "outputs": "x AS part, x AS source, x AS packed",
    "progress": "x AS source, x AS records, x AS digest",
}
COLUMNS = {
    "states": "key state",
    "about": "name value",
    "outputs": "source packed",
    "progress": "source records digest",
}


KINDS = ("bytes", "bytes", "schema", "view", "cell", "cell", "head", "head", "numbers", "outputs", "journal")
"""What is done to a file; some of it twice as often."""


def spoil(path, data, dice, kind=None):
    """Write a hostile file in place of a fleet's; return what was done to it."""
    kind = kind or dice.choice(KINDS)
    path.write_bytes(data)
    if kind == "bytes":
        path.write_bytes(with_other_bytes(data, dice))
        return kind
    if kind == "journal":
        Path(f"{path}-journal").write_bytes(with_other_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + data[:70_000], dice))
        return kind
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
        if kind == "schema":
            db.execute(dice.choice(SCHEMAS))
        elif kind == "view":
            name = dice.choice(list(VIEWS))
            db.execute(f"DROP TABLE {name}")
            db.execute(f"CREATE VIEW {name} AS {RECURSIVE}{VIEWS[name]} FROM c")
        elif kind == "cell":
            table = dice.choice(list(COLUMNS))
            column = dice.choice(COLUMNS[table].split())
            value = json.dumps(dice.choice(JSONS)) if table == "about" and dice.random() < 0.7 else dice.choice(VALUES)
            row = db.execute(f"SELECT rowid FROM {table} ORDER BY random() LIMIT 1").fetchone()[0]
            with contextlib.suppress(sqlite3.IntegrityError):
                db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row))
        elif kind == "outputs":
            part, packed = db.execute("SELECT part, packed FROM outputs LIMIT 1").fetchone()
            body = with_other_bytes(packed[:-8], dice, 3)
            db.execute("UPDATE outputs SET packed = ? WHERE part = ?", (sealed(body), part))
        else:
            change = with_other_head if kind == "head" else with_other_numbers
            for key, state in db.execute("SELECT key, state FROM states").fetchall():
                db.execute("UPDATE states SET state = ? WHERE key = ?", (change(state, dice), key))
    return kind


@contextlib.contextmanager
def no_longer_than(seconds):
    """Raise if something hangs."""

    def stop(*_):
        raise TimeoutError(f"hangs for more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def attack(tries, seed=0):
    """Continue `tries` fleets whose files were tampered with; return how many of each kind were refused and went on.

    Raises at the first that ends in anything but a result or one of our errors.
    """
    seen = Counter()
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh = {model: made(model, Path(name, model)) for model in MODELS}
        for trial in range(tries):
            dice = random.Random(f"{seed}:{trial}")
            model = dice.choice(list(MODELS))
            folder = Path(name, model)
            for file in folder.glob("fleet.db*"):
                os.unlink(file)
            kind = spoil(folder / "fleet.db", fresh[model], dice)
            try:
                with no_longer_than(PATIENCE), np.errstate(all="ignore"):
                    run = fleet_of(model).run(ROWS, folder=folder, batch=60, finish=True)
                    for key in run.keys()[:3]:
                        run.model(key)
                    len(run.outputs), len(run.states)
                seen[kind, "went on"] += 1
            except UndriftError as error:
                text = str(error)
                assert 10 < len(text) < 500, text
                assert "\n" not in text, text
                seen[kind, "refused"] += 1
            except Exception as error:
                raise AssertionError(f"seed {seed}, try {trial} ({model}, {kind})") from error
    return seen
