"""Certify every kind of learner on every stream of the data folder against fixed, piecewise and smooth comparators.

python -m benchmarks certify_streams [--rows N] [--stream NAME] [--keep FOLDER] [--table] [--write PAGE]; the data
folder is UNDRIFT_DATA, by default ../shared/data. Finished lines are kept in FOLDER (build/certify-streams), so that a
run that was stopped goes on where it was, and streams may be computed by several processes; lines of another length or
version are not reused. --write puts the table into the page, after the line that begins with <!-- table.

Two certificates a line: what the learner promises by itself, and what is proven against all comparators of the kind
once the run is over. Exit code 4: one is below the measured regret, or the second is not as tight as it should be.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import undrift as ud
from benchmarks.streams import folder, load, names, raw
from undrift.losses import logistic, squared
from undrift.regret.comparators import fixed, piecewise, smooth
from undrift.trace import Trace

REACH = 8.0
"""B R of the logistic learners, and the margin of the comparators they are held against."""
KINDS = ("fixed", "piecewise", "smooth")
SQUARED_GAP, LOGISTIC_FACTOR = 0.05, 1.5
"""How far the ratio proven in hindsight may be from the measured one: above it, or as a multiple of it."""
HEAD = (
    f"{'stream':17} {'learner':21} {'comparator':10} {'loss of u':>9} {'measured':>8} {'proven':>7} {'promised':>8} "
    f"{'s':>6}  promised through"
)
MARK = "<!-- table"


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
    beyond: dict[tuple[bool, str], ud.regret.Certificate] = {}
    for label, learner in learners(scaled):
        online = label.startswith("Online")
        stream, trace, Z, y, margin = given if online else scaled, None, scaled.Z, scaled.y, REACH
        for kind in KINDS:
            if (label, kind) in done:
                continue
            if online:
                Z, y, _, margin = learner.design(given.Z, given.y)
            if (online, kind) not in found:
                u = found[online, kind] = comparator(kind, Z, y, stream.binary, margin)
                # What the leaves of hindsight leave open depends on the comparator alone, not on who is compared.
                itself = Trace(np.sum(Z * u, axis=1))
                leaves = ud.regret.HindsightLeaves(binary=stream.binary)
                beyond[online, kind] = ud.regret.certify(leaves, Z, y, trace=itself, u=u)
            begin = time.process_time()
            if trace is None:
                trace = learner.clone().play(stream.Z, stream.y)
            c = ud.regret.certify(learner, stream.Z, stream.y, trace=trace, u=found[online, kind])
            best = beyond[online, kind]
            yield {
                "stream": name,
                "learner": label,
                "comparator": kind,
                "binary": stream.binary,
                "rows": len(y),
                "seconds": time.process_time() - begin,
                "comparator_loss": c.comparator_loss,
                "measured": c.incurred / c.comparator_loss,
                "proven": c.incurred / c.comparator_loss + best.slack / c.comparator_loss,
                "promised": c.ratio,
                "vacuous": c.vacuous,
                "holds": c.holds and best.holds,
                "leaf": c.leaf,
                "hindsight_leaf": best.leaf,
            }


def is_tight(c: dict) -> bool:
    """Whether what is proven in hindsight is as near to what was measured as we ask."""
    most = LOGISTIC_FACTOR * c["measured"] if c["binary"] else c["measured"] + SQUARED_GAP
    return c["proven"] <= most


def line(c: dict) -> str:
    leaf = re.sub(r"Discounted|, (reg|bound|radius)=[^,)]*", "", c["leaf"])
    leaf = re.sub(r"\d+\.\d{5,}", lambda found: f"{float(found[0]):.6g}", leaf)
    notes = "DOES NOT HOLD " * (not c["holds"]) + "NOT TIGHT " * (not is_tight(c)) + "says nothing: " * c["vacuous"]
    return (
        f"{c['stream']:17} {c['learner']:21} {c['comparator']:10} {c['comparator_loss']:9.4g} {c['measured']:8.3f} "
        f"{c['proven']:7.3f} {c['promised']:8.3f} {c['seconds']:6.1f}  {notes}{leaf}"
    ).rstrip()


def summary(lines: list[dict]) -> list[str]:
    """Return how tight the certificates are, and how many say nothing."""
    out = []
    for kind in KINDS:
        some = [one for one in lines if one["comparator"] == kind]
        gaps = [one["proven"] - one["measured"] for one in some if not one["binary"]]
        factors = [one["proven"] / one["measured"] for one in some if one["binary"]]
        widest = f"squared loss at most {max(gaps):.4f} above the measured ratio" if gaps else ""
        largest = f"logistic loss at most {max(factors):.3f} times it" if factors else ""
        out.append(f"proven against {kind}: {'; '.join(text for text in (widest, largest) if text)}")
    vacuous = sum(one["vacuous"] for one in lines)
    out.append(f"{vacuous} of {len(lines)} promises say nothing: they allow more than the whole loss")
    out.append(f"{sum(not one['holds'] for one in lines)} of {len(lines)} certificates below the measured regret")
    out.append(f"{sum(not is_tight(one) for one in lines)} of {len(lines)} not as tight as they should be")
    return out


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
    parser.add_argument("--write", type=Path, help="put the table into this page")
    given = parser.parse_args()
    if not names():
        print(f"no streams in {folder()}; set UNDRIFT_DATA to the folder that holds them")
        return 0
    given.keep.mkdir(parents=True, exist_ok=True)
    every: list[dict] = []
    print(HEAD)
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
        every += lines
    result = summary(every)
    print("\n".join(result))
    if given.write:
        text = given.write.read_text()
        before = text[: text.index("\n", text.index(MARK)) + 1]
        table = "\n".join((*result, "", HEAD, *(line(c) for c in every)))
        given.write.write_text(f"{before}\n```\n{table}\n```\n")
    return 0 if all(one["holds"] and is_tight(one) for one in every) else 4


if __name__ == "__main__":
    sys.exit(main())
