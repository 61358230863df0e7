"""Training quality on text: a character transformer of 0.62M parameters, tuned on validation and judged on test text.

    python -m benchmarks characters tune     400 steps, every optimizer at its learning rates
    python -m benchmarks characters judge [--steps 400] [--seeds 3] [--cosine]     at the rates that tuning chose
    python -m benchmarks characters table    what has been run

With `--warm-up` only methods with a warm-up are run.

Every optimizer sees the same initial weights and batches for a seed. Averages do not change a run, so all horizons are
kept beside it and each method chooses its own on the validation text, as it chooses its rate; schedule-free has one
output. Finished runs are kept in build/characters.jsonl and not repeated. The text is text/shakespeare.txt.gz in
UNDRIFT_DATA, by default ../shared/data. One thread; a run of 400 steps takes about 40 seconds.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import math
import statistics
from pathlib import Path

import torch
from torch import nn

import undrift.torch as ut
from benchmarks import streams
from benchmarks.averages import Averages

WINDOW, BATCH, WIDTH, LAYERS, HEADS = 64, 16, 128, 3, 4
TUNED_STEPS, LONG_STEPS, TUNING_SEEDS, FIRST_SEED = 400, 2000, (0, 1), 100
RATES = {
    "AdamW": (5e-4, 1e-3, 2e-3, 4e-3),
    "AdamW, warm-up": (1e-3, 2e-3, 4e-3),
    "ClippedAdam": (1e-3, 2e-3, 4e-3),
    "ClippedAdam, warm-up": (1e-3, 2e-3, 4e-3),
    "schedule-free AdamW": (1e-3, 3e-3, 1e-2, 3e-2),
    "schedule-free AdamW, warm-up": (1e-3, 3e-3, 1e-2),
}
WARM_UP = 0.1
"""Share of the steps over which the rate rises, where a method has a warm-up."""
FAR_BEHIND = 0.1
"""A rate whose validation loss is so much above the best one's with the first seed is not run with the second."""
RECORD = Path("build/characters.jsonl")


def text():
    """Return training, validation and test characters as codes, and how many there are."""
    with gzip.open(streams.folder() / "text" / "shakespeare.txt.gz", "rt") as file:
        whole = file.read()
    letters = {c: i for i, c in enumerate(sorted(set(whole)))}
    codes = torch.tensor([letters[c] for c in whole])
    first, second = int(0.8 * len(codes)), int(0.9 * len(codes))
    return codes[:first], codes[first:second], codes[second:], len(letters)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.attend(self.before(x)).reshape(b, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.between(x))))


class Characters(nn.Module):
    def __init__(self, letters):
        super().__init__()
        self.letters, self.place = nn.Embedding(letters, WIDTH), nn.Parameter(torch.zeros(WINDOW, WIDTH))
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters)
        for p in self.parameters():
            if p.ndim == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, z):
        return self.out(self.norm(self.blocks(self.letters(z) + self.place)))


def batch(codes, rng, size):
    starts = torch.randint(len(codes) - WINDOW - 1, (size,), generator=rng)
    rows = codes[starts[:, None] + torch.arange(WINDOW + 1)]
    return rows[:, :-1], rows[:, 1:]


def loss(model, z, y):
    return nn.functional.cross_entropy(model(z).flatten(0, 1), y.flatten())


@torch.no_grad()
def judge(model, codes, size):
    """Return the mean loss on the same windows for everybody."""
    z, y = batch(codes, torch.Generator().manual_seed(9), size)
    return statistics.mean(float(loss(model, z[i : i + 64], y[i : i + 64])) for i in range(0, size, 64))


def optimizer_of(name, params, lr, steps):
    if name.startswith("AdamW"):
        return torch.optim.AdamW(params, lr, fused=True)
    if name.startswith("ClippedAdam"):
        return ut.ClippedAdam(params, lr, nonfinite="ignore", average=False)  # averages are kept here
    import schedulefree

    rise = round(WARM_UP * steps) if name.endswith("warm-up") else 0
    opt = schedulefree.AdamWScheduleFree(params, lr, foreach=True, warmup_steps=rise)
    opt.train()
    return opt


def run(name, lr, steps, seed, cosine):
    """Train once; return validation and test loss of the last iterate and of every average."""
    training, validation, test, letters = text()
    torch.manual_seed(seed)
    model = Characters(letters)
    params = list(model.parameters())
    opt = optimizer_of(name, params, lr, steps)
    plain = not name.startswith("schedule-free")
    averages = Averages(params) if plain else None
    rng = torch.Generator().manual_seed(seed + 1)
    for t in range(1, steps + 1):
        if plain:
            rise = min(1.0, t / (WARM_UP * steps)) if name.endswith("warm-up") else 1.0
            opt.param_groups[0]["lr"] = lr * rise * (0.5 * (1 + math.cos(math.pi * t / steps)) if cosine else 1.0)
        opt.zero_grad()
        loss(model, *batch(training, rng, BATCH)).backward()
        if averages:
            averages.add()
        opt.step()
    if not plain:
        opt.eval()
    found = {"last": (judge(model, validation, 256), judge(model, test, 512))}
    for horizon in averages.outputs() if averages else ():
        found[horizon] = (judge(model, validation, 256), judge(model, test, 512))
    return found


def record():
    return [json.loads(line) for line in RECORD.read_text().splitlines()] if RECORD.exists() else []


def ensure(**job):
    """Run a job unless it is in the record."""
    if not any(all(one[key] == value for key, value in job.items()) for one in record()):
        RECORD.parent.mkdir(exist_ok=True)
        with RECORD.open("a") as file:
            file.write(json.dumps({**job, "losses": run(**job)}) + "\n")


def tuned(name, seeds=TUNING_SEEDS):
    """Return the mean validation loss in the tuning runs, by rate and output."""
    losses = {}
    for one in record():
        if one["name"] == name and one["seed"] in seeds:
            for key, (validation, _) in one["losses"].items():
                losses.setdefault((one["lr"], key), []).append(validation)
    return {choice: statistics.mean(found) for choice, found in losses.items()}


def chosen(name):
    """Return the rate and the output with the least mean validation loss in the tuning runs."""
    losses = tuned(name)
    return min(losses, key=losses.__getitem__)


def rates_to_tune(name, seed):
    """Return all rates for the first seed, then those that were not far behind with it."""
    if seed == TUNING_SEEDS[0]:
        return RATES[name]
    losses = tuned(name, TUNING_SEEDS[:1])
    return sorted({lr for lr, key in losses if losses[lr, key] < min(losses.values()) + FAR_BEHIND})


OUTPUTS = {"last": "last", "10": "10 steps", "30": "30", "100": "100", "growing": "growing"}


def judged_table():
    """Print the test loss of every method and output over the judging seeds, as docs/optimizers.md has it."""
    print(f"| steps, rate | | learning rate | seeds | {' | '.join(OUTPUTS.values())} |\n|{'---|' * (4 + len(OUTPUTS))}")
    shown = ""
    for steps, cosine, name in itertools.product((TUNED_STEPS, LONG_STEPS), (False, True), RATES):
        runs = [one for one in record() if (one["steps"], one["cosine"], one["name"]) == (steps, cosine, name)]
        runs = [one for one in runs if one["seed"] >= FIRST_SEED]
        if runs:
            head = f"{steps:,}, {'cosine' if cosine else 'constant'}"
            cells = [spread([one["losses"][key][1] for one in runs if key in one["losses"]]) for key in OUTPUTS]
            first = "" if head == shown else head
            print(f"| {first} | {name} | {runs[0]['lr']:g} | {len(runs)} | {' | '.join(cells)} |")
            shown = head


def spread(losses):
    """Return mean and standard deviation as a text."""
    deviation = f" ± {statistics.stdev(losses):.3f}" if len(losses) > 1 else ""
    return f"{statistics.mean(losses):.3f}{deviation}" if losses else ""


def tuning_table():
    """Print the least validation loss of any output by rate; a star stands where only the first seed was run."""
    rates = sorted({lr for some in RATES.values() for lr in some})
    print(f"\n| learning rate | {' | '.join(f'{lr:g}' for lr in rates)} |\n|{'---|' * (1 + len(rates))}")
    for name in RATES:
        both, second = tuned(name), tuned(name, TUNING_SEEDS[1:])
        cells = []
        for lr in rates:
            found = [loss for (rate, _), loss in both.items() if rate == lr]
            star = "" if any(rate == lr for rate, _ in second) else "*"
            cells.append(f"{min(found):.3f}{star}" if found else "")
        print(f"| {name} | {' | '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tune", "judge", "table"))
    parser.add_argument("--steps", type=int, default=TUNED_STEPS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cosine", action="store_true", help="schedule-free has no cosine and is left out")
    parser.add_argument("--warm-up", action="store_true", help="only methods with a warm-up")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = [name for name in RATES if name.endswith("warm-up") or not options.warm_up]
    if options.what == "tune":
        for seed, name in itertools.product(TUNING_SEEDS, names):
            for lr in rates_to_tune(name, seed):
                ensure(name=name, lr=lr, steps=TUNED_STEPS, seed=seed, cosine=False)
    elif options.what == "judge":
        names = [name for name in names if not (options.cosine and name.startswith("schedule-free"))]
        for seed, name in itertools.product(range(FIRST_SEED, FIRST_SEED + options.seeds), names):
            ensure(name=name, lr=chosen(name)[0], steps=options.steps, seed=seed, cosine=options.cosine)
    judged_table()
    tuning_table()


if __name__ == "__main__":
    main()
