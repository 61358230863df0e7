"""Certify every kind of learner on every stream of the data folder against fixed, piecewise and smooth comparators.

python benchmarks/certify_streams.py [--rows N] [--stream NAME] [--keep FOLDER] [--table]; the data folder is
UNDRIFT_DATA, by default ../shared/data. Finished lines are kept in FOLDER (build/certify-streams), so that a run that
was stopped goes on where it was, and streams may be computed by several processes; lines of another length or version
are not reused.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
from streams import folder, load, names, raw

import undrift as ud
from undrift.losses import logistic, squared
from undrift.regret.comparators import fixed, piecewise, smooth

REACH = 8.0
"""B R of the logistic learners, and the margin of the comparators they are held against."""
KINDS = ("fixed", "piecewise", "smooth")
WIDTHS = f"{'stream':17} {'learner':21} {'comparator':10}"


def learners(stream) -> Iterator[tuple[str, object]]:
    """Yield learners over scaled rows; the estimators over raw rows come last."""
    if stream.binary:
        for beta in (0.99, 0.999, 1.0):
            yield f"AIOLI beta={beta}", ud.DiscountedAIOLI(beta=beta, bound=REACH)
        radius = float(np.linalg.norm(stream.Z, axis=1).max())
        yield "logistic ensemble", ud.logistic_ensemble(bound=REACH / radius, radius=radius, horizon=len(stream.y))
        yield "OnlineClassifier", ud.OnlineClassifier()
    else:
        for hint in ("zero", "last", "ridge"):
            for beta in (0.99, 0.999, 1.0):
                yield f"VAW {hint} beta={beta}", ud.DiscountedVAW(beta=beta, hint=hint)
        yield "linear ensemble", ud.linear_ensemble(horizon=len(stream.y))
        yield "OnlineRegressor", ud.OnlineRegressor()


def comparator(kind: str, Z, y, binary: bool, margin: float):
    """Return one of the three kinds: the best fixed one, 20 pieces with one round of pull, a drifting one."""
    loss, limit = (logistic, {"margin": margin}) if binary else (squared, {})
    options = {"fixed": {}, "piecewise": {"segments": 20, "pull": 1.0}, "smooth": {"tau": 1e4}}[kind]
    return {"fixed": fixed, "piecewise": piecewise, "smooth": smooth}[kind](Z, y, loss, **options, **limit)


def certificates(name: str, rows: int | None, done: set[tuple[str, str]]) -> Iterator[dict]:
    """Yield the lines of a stream that are not done yet; comparators are found once for each set of rows."""
    scaled, given = load(name, rows), raw(name, rows)
    found: dict[tuple[bool, str], object] = {}
    for label, learner in learners(scaled):
        online = label.startswith("Online")
        stream, trace, Z, y, margin = given if online else scaled, None, scaled.Z, scaled.y, REACH
        for kind in KINDS:
            if (label, kind) in done:
                continue
            begin = time.process_time()
            if online:
                Z, y, _, margin = learner.design(given.Z, given.y)
            if (online, kind) not in found:
                found[online, kind] = comparator(kind, Z, y, stream.binary, margin)
            searched = time.process_time()
            if trace is None:
                trace = learner.clone().play(stream.Z, stream.y)
            c = ud.regret.certify(learner, stream.Z, stream.y, trace, found[online, kind])
            model = learner if online else None
            leaves = ud.regret.HindsightLeaves(model, binary=stream.binary)
            best = ud.regret.certify(leaves, stream.Z, stream.y, trace, found[online, kind])
            spent = {"search": searched - begin, "seconds": time.process_time() - searched}
            yield (
                {"stream": name, "learner": label, "comparator": kind, "rows": len(y), "holds": c.holds}
                | spent
                | {
                    **asdict(c),
                    "bound": c.bound,
                    "ratio": c.ratio,
                    "measured_ratio": c.incurred / c.comparator_loss,
                    "best_ratio": best.ratio,
                    "best_leaf": best.leaf,
                    "best_holds": best.holds,
                }
            )


def line(c: dict) -> str:
    terms = " ".join(f"{c[term]:9.3g}" for term in ("start", "stability", "variation", "potential_drift", "excess"))
    leaf = re.sub(r"Discounted|, (reg|bound|radius)=[^,)]*", "", c["leaf"])
    leaf = re.sub(r"\d+\.\d{5,}", lambda found: f"{float(found[0]):.6g}", leaf)
    ratios = f"{c['ratio']:6.2f} {c['best_ratio']:6.2f} {c['measured_ratio']:8.2f}"
    failed = "" if c["holds"] and c["best_holds"] else "  DOES NOT HOLD"
    return (
        f"{c['stream']:17} {c['learner']:21} {c['comparator']:10} {c['comparator_loss']:9.4g} {c['regret']:9.3g} "
        f"{c['bound']:9.3g} {ratios} {terms} {c['floors']:6} {c['seconds']:6.1f}{failed} {leaf}"
    ).rstrip()


def kept(file: Path, rows: int | None) -> list[dict]:
    """Return the lines of an earlier run of the same length and version."""
    lines = [json.loads(text) for text in file.read_text().splitlines()] if file.exists() else []
    same = [one for one in lines if (one.pop("asked"), one.pop("version")) == (rows, ud.__version__)]
    order = list(dict.fromkeys(one["learner"] for one in same))
    found = {(order.index(one["learner"]), KINDS.index(one["comparator"])): one for one in same}
    return [found[key] for key in sorted(found)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--stream", choices=names())
    parser.add_argument("--keep", type=Path, default=Path("build/certify-streams"))
    parser.add_argument("--table", action="store_true", help="print what is finished, and no more")
    given = parser.parse_args()
    if not names():
        print(f"no streams in {folder()}; set UNDRIFT_DATA to the folder that holds them")
        return 0
    given.keep.mkdir(parents=True, exist_ok=True)
    failed = total = 0
    terms = f"{'start':>9} {'stability':>9} {'variation':>9} {'drift':>9} {'excess':>9}"
    sizes = f"{'loss of u':>9} {'regret':>9} {'bound':>9} {'ratio':>6} {'best':>6} {'measured':>8}"
    print(f"{WIDTHS} {sizes} {terms} {'floors':>6} {'s':>6} leaf")
    for name in [given.stream] if given.stream else names():
        file = given.keep / f"{name}.jsonl"
        lines = kept(file, given.rows)
        for c in lines:
            print(line(c))
        done = {(one["learner"], one["comparator"]) for one in lines}
        for c in () if given.table else certificates(name, given.rows, done):
            with file.open("a") as out:
                out.write(json.dumps(c | {"asked": given.rows, "version": ud.__version__}) + "\n")
            print(line(c), flush=True)
            lines.append(c)
        total += len(lines)
        failed += sum(not (one["holds"] and one["best_holds"]) for one in lines)
    print(f"{failed} of {total} certificates below the measured regret")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
