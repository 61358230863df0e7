"""The instruction sets of one machine beside each other: every level in turn, on states of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks import machine
from benchmarks.kernel_stack import Stack, fastest
from undrift import kernels
from undrift.kernels import _native

DIMS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
LEARNERS = 24


def at_level(level: str, run: Callable[[], int]) -> int:
    """Run at a level, which stays in use: contenders follow each other, and switching is part of neither."""
    _native.choose(level)
    return run()


def multiply_adds(turns: int = 2000) -> int:
    machine.multiply_adds(turns)
    return turns


def peaks(seconds: float) -> dict[str, float]:
    """GFlop/s of one core by independent multiply-adds, at each level."""
    best = fastest({level: partial(at_level, level, multiply_adds) for level in kernels.levels()}, seconds)
    flops = {}
    for level, cost in best.items():
        with kernels.use_level(level):
            flops[level] = 2e-9 * machine.multiply_adds(1) / cost
    return flops


def compare_levels(seconds: float) -> None:
    """Print ns per round of each level, its share of its own FMA peak, and AVX-512 against AVX2."""
    levels, chosen = kernels.levels(), kernels.level()
    both = {"v4", "v3"} <= set(levels)
    peak = peaks(seconds)
    print("\nevery level in turn; FMA peak of one core, GFlop/s: ", end="")
    print(", ".join(f"{level} {peak[level]:.1f}" for level in levels))
    for loss in ("vaw", "aioli"):
        for way in ("replay", "predict_and_learn"):
            title = f"{loss} {way.replace('_', ' ')}, {LEARNERS} learners: ns per round"
            print(title + (", share of the peak" if (loss, way) == ("vaw", "replay") else ""))
            print("  d   " + "".join(f"{level:>16}" for level in levels) + ("   v4 / v3" if both else ""))
            for d in DIMS:
                stacks = {level: Stack(d, LEARNERS, 1024 if d <= 16 else 256 if d <= 64 else 128) for level in levels}
                runs = {k: partial(at_level, k, partial(getattr(s, way), loss)) for k, s in stacks.items()}
                best = fastest(runs, seconds)
                kernels.set_level(chosen)
                line = f"  {d:<4}"
                for level, cost in best.items():
                    share = 2e-9 * d * (d - 1) * LEARNERS / cost / peak[level]
                    mark = f"{share:5.0%}" if (loss, way) == ("vaw", "replay") else ""
                    line += f"{cost * 1e9:11.0f}{mark:>5}"
                print(line + (f"{best['v4'] / best['v3']:10.2f}" if both else ""))
