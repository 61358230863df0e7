"""What a step costs: our optimizers against torch's, schedule-free and Adam with an average, as ratios to fused Adam.

    python -m benchmarks optimizers [--threads 1] [--rounds 30] [--shapes 1x10M,200x50k] [--json FILE]

CPU time of the process is used for one thread (the machine may be shared), wall time for more. All contenders take
turns within a round, so that drifts of the machine hit all alike, and start with caches full of something else; the
minimum and the median over rounds are shown. Gradients are other normal numbers in every round.
"moved" is what has to cross memory per parameter of single precision if nothing stays in a cache, "read" the part of it
that is waited for.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time

import torch

import undrift.torch as ut

SHAPES = {"1x10M": (1, 10_000_000), "200x50k": (200, 50_000), "1000x1k": (1000, 1000), "4x10M": (4, 10_000_000)}


class WithAverage:
    """Fused Adam followed by the exponential moving average people add by hand; it may look at gradients first."""

    def __init__(self, params, looks=False):
        self.params, self.looks = params, looks
        self.adam = torch.optim.Adam(params, fused=True)
        self.average = [p.detach().clone() for p in params]

    @torch.no_grad()
    def step(self):
        if self.looks and not torch.nn.utils.get_total_norm([p.grad for p in self.params]).isfinite():
            return
        self.adam.step()
        torch._foreach_lerp_(self.average, self.params, 0.1)

    @property
    def state(self):
        return {p: {**self.adam.state[p], "average": a} for p, a in zip(self.params, self.average, strict=True)}


def schedule_free(params):
    import schedulefree

    opt = schedulefree.AdamWScheduleFree(params, foreach=True)
    opt.train()
    return opt


CONTENDERS = {
    "Adam fused": lambda ps: torch.optim.Adam(ps, fused=True),
    "Adam for-loop (torch's default)": lambda ps: torch.optim.Adam(ps, foreach=False),
    "Adam foreach": lambda ps: torch.optim.Adam(ps, foreach=True),
    "AdamW fused": lambda ps: torch.optim.AdamW(ps, fused=True),
    "Adam fused + average": WithAverage,
    "Adam fused + average, skips non-finite": lambda ps: WithAverage(ps, looks=True),
    "schedule-free AdamW foreach": schedule_free,
    "ClippedAdam all": lambda ps: ut.ClippedAdam(ps, norm="all"),
    "ClipFreeAdam all": lambda ps: ut.ClipFreeAdam(ps, norm="all"),
    "ClippedAdam tensor": lambda ps: ut.ClippedAdam(ps, norm="tensor"),
    "ClippedAdam coord": lambda ps: ut.ClippedAdam(ps),
    "ClipFreeAdam coord": lambda ps: ut.ClipFreeAdam(ps),
    "ClippedAdam coord, nonfinite='ignore'": lambda ps: ut.ClippedAdam(ps, nonfinite="ignore"),
    "ClippedAdam all foreach": lambda ps: ut.ClippedAdam(ps, norm="all", foreach=True),
    "ClippedAdam coord foreach": lambda ps: ut.ClippedAdam(ps, foreach=True),
}
MOVED = {
    "Adam fused": (16, 28),
    "AdamW fused": (16, 28),
    "Adam fused + average": (24, 40),
    "Adam fused + average, skips non-finite": (28, 44),
    "ClippedAdam all": (24, 36),
    "ClipFreeAdam all": (20, 32),
    "ClippedAdam tensor": (24, 36),
    "ClippedAdam coord": (24, 40),
    "ClipFreeAdam coord": (24, 40),
    "ClippedAdam coord, nonfinite='ignore'": (20, 36),
}
"""Bytes per parameter read, and read or written, by those whose passes are known."""
QUICK = ("Adam fused", *(name for name in CONTENDERS if name.startswith("Clip") and "foreach" not in name))
WARM = 2
SWEEP = torch.zeros(1 << 24)  # 64 MB, more than the caches hold


def state_bytes(opt, numbers):
    """Bytes of state per parameter."""
    total = sum(
        t.numel() * t.element_size()
        for state in opt.state.values()
        for t in state.values()
        if isinstance(t, torch.Tensor) and t.ndim
    )
    return total / numbers


def fresh(grads, noise):
    """Put new gradients in place, each from a random spot of some normal numbers."""
    for g in grads:
        spot = int(torch.randint(len(noise) - g.numel(), ()))
        g.copy_(noise[spot : spot + g.numel()])


def parameters(grads):
    """Return parameters with these gradients."""
    params = [torch.nn.Parameter(torch.randn(g.shape)) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = g
    return params


def measure(shape, names, rounds, threads):
    """Return seconds of every contender in every round, and its bytes of state per parameter."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    count, size = SHAPES[shape]
    torch.manual_seed(0)
    grads = [torch.empty(size) for _ in range(count)]
    noise = torch.randn(size + 1_000_000)
    opts = {name: CONTENDERS[name](parameters(grads)) for name in names}  # each steps a model of its own
    for _ in range(WARM):
        fresh(grads, noise)
        for opt in opts.values():
            opt.step()
    times = {name: [] for name in names}
    for _ in range(rounds):
        fresh(grads, noise)
        for name, opt in opts.items():
            SWEEP.add_(1.0)
            start = clock()
            opt.step()
            times[name].append(clock() - start)
    return times, {name: state_bytes(opt, count * size) for name, opt in opts.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--shapes", default="1x10M,200x50k,1000x1k,4x10M")
    parser.add_argument("--quick", action="store_true", help="ours and fused Adam only")
    parser.add_argument("--json", help="also write the numbers to this file")
    options = parser.parse_args()
    names = QUICK if options.quick else tuple(CONTENDERS)
    record = []
    for threads in options.threads:
        for shape in options.shapes.split(","):
            times, space = measure(shape, names, options.rounds, threads)
            base = times["Adam fused"]
            unit = "CPU" if threads == 1 else "wall"
            print(f"\n{shape}, {threads} thread(s), {unit} time: ratio to fused Adam\n")
            print("| optimizer | min ms | median ms | ratio of minima | paired ratio | read | moved | state B/param |")
            print("|---|---|---|---|---|---|---|---|")
            for name, found in times.items():
                read, moved = MOVED.get(name, ("", ""))
                paired = statistics.median(a / b for a, b in zip(found, base, strict=True))
                row = {
                    "shape": shape,
                    "threads": threads,
                    "optimizer": name,
                    "min_ms": 1e3 * min(found),
                    "median_ms": 1e3 * statistics.median(found),
                    "ratio_of_minima": min(found) / min(base),
                    "paired_ratio": paired,
                    "read_bytes": read,
                    "moved_bytes": moved,
                    "state_bytes": space[name],
                }
                assert all(math.isfinite(x) for x in row.values() if isinstance(x, float))
                record.append(row)
                print(
                    f"| {name} | {row['min_ms']:.2f} | {row['median_ms']:.2f} | {row['ratio_of_minima']:.2f} "
                    f"| {paired:.2f} | {read} | {moved} | {space[name]:.0f} |",
                    flush=True,
                )
    if options.json:
        with open(options.json, "w") as file:
            json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
