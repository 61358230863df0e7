"""Speed of two checkouts, in turn: `python -m benchmarks before_after OLD [NEW] [--turns N] [--fleets]`.

Online estimators are timed, or with --fleets fleets in memory.

OLD and NEW (this one by default) are checkouts, each with its own `.venv`. Every turn plays all cases in a process of
each checkout, one after the other; the figure is the least CPU time of all turns, in microseconds a row. Cases use
public names only, so that checkouts of different designs can be compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import undrift as ud

ROWS, WARM, FEATURES, REPEATS = 1400, 1000, 15, 4
MANY = 20
"""Features of the rows of several classes."""


def draw(classes: int = 0) -> tuple[np.ndarray, list]:
    """Return rows and labels: numbers, or classes called 0, 1, ... (texts for a negative count)."""
    rng = np.random.default_rng(0)
    if not classes:
        Z = rng.normal(size=(ROWS, FEATURES))
        return Z, (Z @ rng.normal(size=FEATURES) + rng.normal(size=ROWS)).tolist()
    count = abs(classes)
    labels = rng.integers(0, count, size=ROWS)
    Z = rng.normal(size=(count, MANY))[labels] + 1.5 * rng.normal(size=(ROWS, MANY))
    return Z, [f"class {k}" for k in labels] if classes < 0 else labels.tolist()


def play_blocks(model, Z, y):
    model.play(Z, y)


def play_late(model, Z, y):
    model.play(Z, y, delay=7)


def predict_and_learn(model, Z, y):
    predict = model.predict_proba if model.binary else model.predict
    for z, label in zip(Z, y, strict=True):
        predict(z)
        model.learn(z, label)


def ask_and_tell(model, Z, y):
    for z, label in zip(Z, y, strict=True):
        model.tell(model.ask(z), label)


def through_river(model, Z, y):
    names = [f"x{j}" for j in range(Z.shape[1])]
    for z, label in zip(Z.tolist(), y, strict=True):
        row = dict(zip(names, z, strict=True))
        model.predict_one(row)
        model.learn_one(row, label)


def cases() -> dict[str, tuple[Callable, Callable, int]]:
    """Return by name: how a model is made, what is timed, and the classes."""
    from undrift.river import DriftClassifier, DriftRegressor

    found: dict[str, tuple[Callable, Callable, int]] = {}
    for speed in ("light", "fast", "best", "max"):
        for what, play in (("blocks", play_blocks), ("rows", predict_and_learn), ("ask, tell", ask_and_tell)):
            if speed != "max" or what == "blocks":
                found[f"numbers, {speed}, {what}"] = lambda speed=speed: ud.OnlineRegressor(speed=speed), play, 0
    for what, play in (("blocks", play_blocks), ("rows", predict_and_learn), ("ask, tell", ask_and_tell)):
        found[f"two classes, fast, {what}"] = lambda: ud.OnlineClassifier(speed="fast"), play, 2
    plain = {"trees": False}
    for K in (3, 10, 40):
        for what, play in (("blocks", play_blocks), ("rows", predict_and_learn), ("late", play_late)):
            if K < 40 or what != "late":
                found[f"{K} classes, best without trees, {what}"] = lambda: ud.OnlineClassifier(**plain), play, K
    found["River, numbers, fast"] = lambda: DriftRegressor(speed="fast"), through_river, 0
    found["River, two texts, fast"] = lambda: DriftClassifier(speed="fast"), through_river, -2
    found["River, three texts, fast"] = lambda: DriftClassifier(speed="fast"), through_river, -3
    return found


def measure() -> dict[str, float]:
    """Return the microseconds a row of each case, after the estimator has warmed up."""
    spent = {}
    for name, (make, play, classes) in cases().items():
        (Z, y), model = draw(classes), make()
        most = WARM + (100 if abs(classes) > 2 and play is not play_blocks else ROWS - WARM)
        first = through_river if play is through_river else play_late if play is play_late else play_blocks
        first(model, Z[:WARM], y[:WARM])
        each = []
        for _ in range(REPEATS):
            start = time.process_time()
            play(model, Z[WARM:most], y[WARM:most])
            each.append(1e6 * (time.process_time() - start) / (most - WARM))
        spent[name] = min(each)
    return spent


FLEET_KEYS, FLEET_ROWS = 500, 40
"""Keys, and rows of each, which come in four batches."""


def measure_fleets() -> dict[str, float]:
    """Return the microseconds a row of fleets in memory, from a frame to outputs: in slots, and key by key."""
    import polars as pl

    rng, n = np.random.default_rng(0), FLEET_KEYS * FLEET_ROWS
    Z = rng.normal(size=(n, 3))
    columns = {
        "k": [f"k{i % FLEET_KEYS}" for i in range(n)],
        "n": np.arange(n) // FLEET_KEYS,
        "y": Z[:, 0] + Z[:, 1] ** 2,
    }
    frame = pl.DataFrame({**columns, **{name: Z[:, j] for j, name in enumerate("abc")}})
    light, spent = ud.OnlineRegressor(speed="light"), {}
    fleets = {
        "one memory": (ud.DiscountedVAW(half_life=50), {}),
        "twelve memories": (ud.linear_ensemble(100), {}),
        "light": (light, {}),
        "light, lags": (light, {"lags": [1]}),
        "light, late labels": (light, {"delay": 3}),
        "light, intervals": (light, {"interval": 0.9}),
    }
    for name, (model, more) in fleets.items():
        fleet = ud.Fleet(model, key="k", order="n", features=list("abc"), target="y", **more)
        each = []
        for _ in range(REPEATS):
            start = time.process_time()
            len(fleet.run(frame, batch=n // 4).outputs)
            each.append(1e6 * (time.process_time() - start) / n)
        spent[f"fleet, {name}"] = min(each)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("old", type=Path, nargs="?")
    parser.add_argument("new", type=Path, nargs="?", default=here)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--fleets", action="store_true", help="time fleets in place of estimators")
    given = parser.parse_args()
    if given.old is None:  # one turn of the checkout that runs this
        print(json.dumps(measure_fleets() if given.fleets else measure()))
        return
    least: list[dict[str, float]] = [{}, {}]
    for _ in range(given.turns):
        for best, checkout in zip(least, (given.old, given.new), strict=True):
            command = [checkout / ".venv" / "bin" / "python", Path(__file__).resolve(), *["--fleets"] * given.fleets]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            best.update({name: min(us, best.get(name, us)) for name, us in found.items()})
    old, new = least
    print("| CPU us a row | before | after | after / before |\n|---|---|---|---|")
    for name, us in new.items():
        print(f"| {name} | {old[name]:.1f} | {us:.1f} | {us / old[name]:.2f} |")


if __name__ == "__main__":
    main()
