"""Speed of the compiled kernels against NumPy, peers and the machine itself, from one interleaved run.

    python -m benchmarks kernels [--quick] [--write FILE]

Every contender of a line is run in turn, many times; the figure is its minimum (CPU time of the thread; wall time
where two threads work). Read ratios: absolute times depend on the machine and on who else uses it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import machine, pages
from benchmarks.kernel_levels import compare_levels
from benchmarks.kernel_peers import peers
from benchmarks.kernel_stack import Stack, fastest
from undrift import DiscountedAIOLI, DiscountedVAW, kernels
from undrift.ensemble import Ensemble, Mixable, RangeMean
from undrift.kernels import _native

DIMS = (4, 8, 16, 32, 64, 128, 256)
MARK = "<!-- made by python -m benchmarks kernels -->"


class Twice(io.TextIOBase):
    """What is printed, and kept."""

    def __init__(self) -> None:
        self.kept = io.StringIO()

    def write(self, text: str) -> int:
        sys.__stdout__.write(text)
        sys.__stdout__.flush()
        return self.kept.write(text)


def measure_machine(seconds: float) -> tuple[float, dict[str, float]]:
    """(FMA peak in GFlop/s, read+write GB/s by size of the array) of one core, by the same compiled level."""
    flops = 2.0 * machine.multiply_adds(1)
    peak = fastest({"peak": lambda: machine.multiply_adds(20000) and 20000}, seconds)["peak"]
    band = {}
    for label, size in (("16 KB", 2**11), ("256 KB", 2**15), ("8 MB", 2**20), ("128 MB", 2**24)):
        data, turns = np.ones(size), max(1, 2**22 // size)
        band[label] = 16e-9 * size / fastest({"s": lambda d=data, n=turns: machine.stream(d, n) or n}, seconds)["s"]
    return flops / peak * 1e-9, band


def table(seconds: float, peak: float) -> None:
    head = (
        "vaw replay   stream  2 threads",
        "aioli replay   stream  of vaw",
        "NumPy loop  ratio  twin ratio",
        "FMA peak",
    )
    print("\nN  d    " + " | ".join(head))
    for N in (24, 1):
        for d in DIMS:
            s = Stack(d, N, 1024 if d <= 16 else 256 if d <= 64 else 128)
            runs = {
                "vaw": lambda s=s: s.replay("vaw"),
                "vaw stream": lambda s=s: s.stream("vaw"),
                "aioli": lambda s=s: s.replay("aioli"),
                "aioli stream": lambda s=s: s.stream("aioli"),
                "numpy": s.numpy,
            }
            best = fastest(runs, seconds)
            best |= fastest({"twin": s.twin}, seconds / 10)
            both = {"one": lambda s=s: s.replay("vaw"), "two": lambda s=s: s.replay("vaw", 2)}
            wall = fastest(both, seconds / 2, time.perf_counter)
            flops = 2.0 * d * (d - 1) * N / best["vaw"] * 1e-9
            print(
                f"{N:<2} {d:<4}{best['vaw'] * 1e9:9.0f} ns{best['vaw stream'] * 1e9:9.0f}"
                f"{wall['one'] / wall['two']:10.2f}x |{best['aioli'] * 1e9:10.0f} ns{best['aioli stream'] * 1e9:9.0f}"
                f"{best['aioli'] / best['vaw']:7.2f} |{best['numpy'] * 1e6:9.1f} us{best['numpy'] / best['vaw']:6.0f}x"
                f"{best['twin'] / best['vaw']:9.0f}x  |{flops / peak:7.0%}"
            )


def growth(seconds: float) -> None:
    print("\nns per round, VAW replay at d = 8")
    stacks = {f"T={T}": Stack(8, 24, T) for T in (1000, 10_000, 100_000)}
    stacks |= {f"N={N}": Stack(8, N, 1000) for N in (8, 24, 48, 96)}
    for name, best in fastest({k: partial(s.replay, "vaw") for k, s in stacks.items()}, seconds).items():
        print(f"  {name:<9}{best * 1e9:9.0f}")
    print("ps per learner and element of its matrix (d^2), VAW replay, 24 learners")
    stacks = {f"d={d}": Stack(d, 24, 128) for d in DIMS}
    for (name, best), d in zip(
        fastest({k: partial(s.replay, "vaw") for k, s in stacks.items()}, seconds).items(), DIMS, strict=True
    ):
        print(f"  {name:<9}{best * 1e12 / 24 / d**2:9.0f}")


def members(dim: int, binary: bool) -> Ensemble:
    half_lives = np.geomspace(1.0, 10_000.0, 24)
    kind = DiscountedAIOLI if binary else DiscountedVAW
    return Ensemble([kind(half_life=float(h)) for h in half_lives], Mixable() if binary else RangeMean())


def ensembles(seconds: float) -> None:
    """Whole rounds of an ensemble, mixture included, through the public classes."""
    print("\n24 members at d = 8, mixture included, T rounds in one call: ns per replayed round, of the bare memories")
    for rounds in (1024, 20_000):
        s = Stack(8, 24, rounds)
        for loss, y in (("vaw", s.y), ("aioli", s.sign)):
            model = members(8, loss == "aioli")

            def replay(model=model, s=s, y=y) -> int:
                model.play(s.Z, y)
                return len(y)

            best = fastest({"bare": partial(s.replay, loss), "ensemble": replay}, seconds)
            share = best["ensemble"] / best["bare"]
            print(f"  {loss:<6}T={rounds:<8}{best['ensemble'] * 1e9:9.0f}{share:8.2f}x")
    print("us per streamed round of the same, predict and learn, one row at a time")
    s = Stack(8, 24, 256)
    for loss, y in (("vaw", s.y), ("aioli", s.sign)):
        model, rows, labels = members(8, loss == "aioli"), list(s.Z), y.tolist()

        def stream(model=model, rows=rows, labels=labels) -> int:
            for z, label in zip(rows, labels, strict=True):
                model.predict(z)
                model.learn(z, label)
            return len(rows)

        print(f"  {loss:<6}{fastest({'stream': stream}, seconds)['stream'] * 1e6:9.2f}")


def calls(seconds: float) -> None:
    s = Stack(8, 24, 64)
    z, y, (m, h) = s.Z[:1], s.y[:1], s.row
    log_weights = np.full(24, -np.log(24.0))
    prior, state, yhat = log_weights.copy(), np.zeros(9), np.empty(1)
    losses, clipped_losses, none = np.zeros(24), np.zeros(24), np.empty((0, 24))

    def predict() -> int:
        for _ in range(64):
            kernels.vaw_predict(s.vaw, s.beta, 3, z, m, h)
        return 64

    def learn() -> int:
        for _ in range(64):
            kernels.vaw_play(s.vaw, s.beta, 3, z, y, m, h)
        return 64

    def mix() -> int:
        for _ in range(64):
            kernels.mix_squared(log_weights, prior, 0.01, state, 3, 2.0, m, y, yhat, losses, clipped_losses, none)
        return 64

    print("\nus per call of a single kernel, 24 learners at d = 8, one row")
    for name, best in fastest({"vaw_predict": predict, "vaw_play": learn, "mix_squared": mix}, seconds).items():
        print(f"  {name:<13}{best * 1e6:6.2f}")


def beside_peers(dims: tuple[int, ...], seconds: float) -> None:
    """One learner of a peer against 24 of ours: the bare memories replayed, and the whole ensemble."""
    for d in dims:
        print(f"\nus per round of one learner at d = {d}; over our 24 memories, over our ensemble")
        s, model = Stack(d, 24, 8192 if d <= 16 else 1024), members(d, False)

        def ensemble(s=s, model=model) -> int:
            model.play(s.Z, s.y)
            return len(s.y)

        ours = {"24 memories, replayed": partial(s.replay, "vaw"), "24 members and their mixture, replayed": ensemble}
        best = fastest({**ours, **peers(d)}, 4 * seconds)
        memories, whole = (best[name] for name in ours)
        for name, cost in best.items():
            print(f"  {name:<52}{cost * 1e6:9.2f}{cost / memories:9.1f}{cost / whole:9.1f}")


def module(build: bool) -> None:
    def importing(what: str) -> float:
        code = f"import time, numpy; t = time.process_time(); import {what}; print(time.process_time() - t)"
        runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(5)]
        return 1e3 * min(map(float, runs))

    print(f"\nimport after NumPy: undrift {importing('undrift'):.0f} ms, kernels {importing('undrift.kernels'):.0f} ms")
    if build:
        print(f"build of the compiled module, two jobs: {building():.0f} s")
    print(f"compiled module: {Path(_native.__file__).stat().st_size / 2**20:.2f} MB")


def building() -> float:
    """Seconds of a clean build."""
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        python = f"-DPython_EXECUTABLE={sys.executable}"
        for command in (["-S", str(root), "-B", folder, python], ["--build", folder, "--parallel", "2"]):
            subprocess.run(["cmake", *command], check=True, capture_output=True)
        return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a rough run of about a minute")
    parser.add_argument("--build", action="store_true", help="time a clean build too (needs cmake and nanobind)")
    parser.add_argument("--write", type=Path, help="put everything between the marks of this file")
    options = parser.parse_args()
    out = Twice()
    with contextlib.redirect_stdout(out):
        everything(options.quick, options.build)
    if options.write:
        pages.put(options.write, MARK, f"```\n{out.kept.getvalue()}```")


def everything(quick: bool, build: bool) -> None:
    seconds = 0.5 if quick else 3.0
    peak, band = measure_machine(seconds)
    print(f"level {kernels.level()}; FMA peak of one core {peak:.1f} GFlop/s; read+write GB/s: ", end="")
    print(", ".join(f"{size} {rate:.0f}" for size, rate in band.items()))
    table(seconds, peak)
    compare_levels(seconds)
    growth(seconds)
    ensembles(seconds)
    calls(seconds)
    beside_peers((8,) if quick else (4, 8, 16, 32, 64), seconds)
    module(build)


if __name__ == "__main__":
    main()
