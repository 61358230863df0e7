"""Training quality: our optimizers against Adam, AdamW, its average and schedule-free, six small tasks, equal budgets.

    python -m benchmarks training [--tasks digits_mlp,char] [--folds 6] [--json FILE] [--figure FILE.png]
    python -m benchmarks training --table [--json FILE] [--figure FILE.png]      only sum up what was run

In every fold a quarter of the rows is drawn and held back. On the others each method chooses among the same learning
rates, and among horizons where it says "tuned", by its validation loss over two seeds; so chosen it is run on three
fresh seeds and judged on what was held back. All else is the same for every method: rows, initial weights, batches.
Rates are constant, or fall to zero as a cosine; schedule-free has a warm-up of a tenth of the steps and no cosine.

Methods are compared with AdamW and its tuned average fold by fold: a verdict is that of a paired t test at 5 %. Folds
share rows, so the variance of the mean is that of a fold times 1/folds + test rows / training rows (Nadeau and Bengio).
The verdict then covers the rows, the seeds and the choice of the rate alike.
A larger task is in characters.py. Needs scikit-learn (data), schedulefree and, for the figure, matplotlib.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

import undrift.torch as ut
from benchmarks.averages import Averages

RATES = (2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)  # at factors of three the best was often between two
TUNING_SEEDS = (0, 1)
FINAL_SEEDS = (100, 101, 102)
HELD_BACK = 0.25  # share of the rows for testing, and of what is left for validation
WARM_UP = 0.1  # share of the steps over which the rate of schedule-free rises
DOUBT = 0.05


def schedule_free(groups, steps):
    import schedulefree

    opt = schedulefree.AdamWScheduleFree(groups, foreach=True, warmup_steps=round(WARM_UP * steps))
    opt.train()
    return opt


OPTIMIZERS = {
    "AdamW": lambda groups, steps: torch.optim.AdamW(groups, fused=True),
    "ClippedAdam": lambda groups, steps: ut.ClippedAdam(groups, average=False),  # averages are kept beside it
    "schedule-free": schedule_free,
    "Adam": lambda groups, steps: torch.optim.Adam(groups, fused=True),
    "ClipFreeAdam": lambda groups, steps: ut.ClipFreeAdam(groups, average=False),
}
TUNED = ("10", "30", "100", "growing")
METHODS = {
    "Adam": ("Adam", ("last",)),
    "AdamW": ("AdamW", ("last",)),
    "AdamW + EMA, tuned": ("AdamW", TUNED),
    "schedule-free, warm-up": ("schedule-free", ("last",)),
    "ClippedAdam, last": ("ClippedAdam", ("last",)),
    "ClippedAdam": ("ClippedAdam", ("growing",)),
    "ClippedAdam, 10 steps": ("ClippedAdam", ("10",)),
    "ClippedAdam, tuned": ("ClippedAdam", TUNED),
    "ClipFreeAdam": ("ClipFreeAdam", ("growing",)),
}
"""An optimizer, and the outputs among which it chooses; ours are growing averages unless they say otherwise."""
REFERENCE = "AdamW + EMA, tuned"
DRAWN = ("schedule-free, warm-up", "ClippedAdam", "ClippedAdam, 10 steps", "ClippedAdam, tuned")


def table(name):
    """Features scaled to unit variance, and labels, of one of scikit-learn's bundled data sets."""
    from sklearn import datasets

    data = getattr(datasets, f"load_{name}")()
    z, y = torch.tensor(data.data, dtype=torch.float32), torch.tensor(data.target)
    return (z - z.mean(0)) / (z.std(0) + 1e-6), y


def text(window=32):
    """Windows of characters of the language reference that comes with Python."""
    from pydoc_data.topics import topics

    whole = "".join(topics[name] for name in sorted(topics))[:60_000]
    letters = {c: i for i, c in enumerate(sorted(set(whole)))}
    codes = torch.tensor([letters[c] for c in whole])
    rows = codes[: len(codes) // (window + 1) * (window + 1)].reshape(-1, window + 1)
    return rows[:, :-1], rows[:, 1:], len(letters)


class Characters(nn.Module):
    """A transformer of one layer."""

    def __init__(self, letters, width=32, window=32):
        super().__init__()
        self.letters, self.place = nn.Embedding(letters, width), nn.Parameter(torch.randn(window, width) / 10)
        self.layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(width, letters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(window))

    def forward(self, z):
        return self.out(self.layer(self.letters(z) + self.place, src_mask=self.mask)).transpose(1, 2)


def mlp(*sizes):
    layers = []
    for a, b in itertools.pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn():
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


class Task(NamedTuple):
    """What is learned, and for how long."""

    features: torch.Tensor
    labels: torch.Tensor
    build: Callable[[], nn.Module]
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    steps: int
    batch: int


def tasks():
    """Return the six tasks by name."""
    digits, label = table("digits")
    sugar, level = table("diabetes")
    tumour, kind = table("breast_cancer")
    level = ((level - level.mean()) / level.std()).float().unsqueeze(1)
    letters, following, count = text()
    f = nn.functional
    return {
        "digits_mlp": Task(digits, label, lambda: mlp(64, 32, 10), f.cross_entropy, 500, 32),
        "digits_hinge": Task(digits, label, lambda: mlp(64, 32, 10), f.multi_margin_loss, 500, 32),
        "diabetes_l1": Task(sugar, level, lambda: mlp(10, 32, 1), f.l1_loss, 500, 32),
        "cancer": Task(tumour, kind, lambda: mlp(30, 16, 2), f.cross_entropy, 500, 32),
        "char": Task(letters, following, lambda: Characters(count), f.cross_entropy, 200, 16),
        "digits_cnn": Task(digits, label, cnn, f.cross_entropy, 200, 32),
    }


def split(task, fold, seed):
    """Training, validation and test rows: the fold decides which test, the seed which of the others validate."""
    n = len(task.features)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(777_000 + fold))
    held = int(HELD_BACK * n)
    test, rest = order[:held], order[held:]
    rest = rest[torch.randperm(len(rest), generator=torch.Generator().manual_seed(seed))]
    held = int(HELD_BACK * len(rest))
    return [(task.features[i], task.labels[i]) for i in (rest[held:], rest[:held], test)]


def train(task, optimizer, rates, cosine, jobs):
    """Train a model at every rate for every job, a (fold, seed); return their losses by (rate, job, output).

    A loss is a pair, on validation and on test rows; an output is the last weights or an average. All models step
    together, as one model with two axes more: the optimizers here treat every coordinate for itself, so each model is
    trained as it would be alone.
    """
    rows = [split(task, fold, seed) for fold, seed in jobs]
    (z, y), *judged = [[torch.stack(parts) for parts in zip(*some, strict=True)] for some in zip(*rows, strict=True)]
    models = []
    for fold, seed in jobs:
        torch.manual_seed(1000 * fold + seed)
        models.append(task.build())
    begun, buffers = torch.func.stack_module_state(models)
    each_rate = [[nn.Parameter(p.detach().clone()) for p in begun.values()] for _ in rates]
    groups = [{"params": some, "lr": lr} for some, lr in zip(each_rate, rates, strict=True)]
    opt = OPTIMIZERS[optimizer](groups, task.steps)
    averages = Averages([*itertools.chain(*each_rate)]) if optimizer not in ("Adam", "schedule-free") else None
    generators = [torch.Generator().manual_seed(seed) for _, seed in jobs]
    number = torch.arange(len(jobs)).unsqueeze(1)

    def one_loss(params, buffers, z, y):
        return task.loss(torch.func.functional_call(models[0], (params, buffers), (z,)), y)

    vmap = functools.partial(torch.func.vmap, randomness="different")  # no dropout is drawn, but it is asked for
    each_loss = vmap(vmap(one_loss), (0, None, None, None))

    def losses(z, y):
        return each_loss(dict(zip(begun, map(torch.stack, zip(*each_rate, strict=True)), strict=True)), buffers, z, y)

    found = {}

    @torch.no_grad()
    def judge(out):
        pairs = torch.stack([losses(z, y) for z, y in judged], dim=-1).tolist()
        for (i, lr), (j, job) in itertools.product(enumerate(rates), enumerate(jobs)):
            found[lr, job, out] = pairs[i][j]

    for k in range(task.steps):
        for group, lr in zip(opt.param_groups, rates, strict=True):
            group["lr"] = lr * 0.5 * (1 + math.cos(math.pi * k / task.steps)) if cosine else lr
        drawn = torch.stack([torch.randint(z.shape[1], (task.batch,), generator=rng) for rng in generators])
        opt.zero_grad()
        losses(z[number, drawn], y[number, drawn]).sum().backward()
        if averages:
            averages.add()
        opt.step()
    if optimizer == "schedule-free":
        opt.eval()
    judge("last")
    for horizon in averages.outputs() if averages else ():
        judge(horizon)
    return found


def contest(task, optimizer, folds, cosine):
    """In every fold tune an optimizer's methods on validation, then judge them on fresh seeds and held back rows."""
    mine = {method: outputs for method, (which, outputs) in METHODS.items() if which == optimizer}
    trials = train(task, optimizer, RATES, cosine, [*itertools.product(range(folds), TUNING_SEEDS)])
    chosen = {method: [choose(trials, fold, outputs) for fold in range(folds)] for method, outputs in mine.items()}
    rates = sorted({lr for picks in chosen.values() for lr, _ in picks})
    finals = train(task, optimizer, rates, cosine, [*itertools.product(range(folds), FINAL_SEEDS)])
    record = {}
    for method, picks in chosen.items():
        losses = [[finals[lr, (fold, seed), out][1] for seed in FINAL_SEEDS] for fold, (lr, out) in enumerate(picks)]
        record[method] = {"chosen": picks, "test": [statistics.mean(found) for found in losses]}
    return record


def choose(trials, fold, outputs):
    """Return the rate and the output with the least mean validation loss in a fold."""
    scores = {}
    for lr, out in itertools.product(RATES, outputs):
        score = statistics.mean(trials[lr, (fold, seed), out][0] for seed in TUNING_SEEDS)
        scores[lr, out] = score if math.isfinite(score) else math.inf
    return min(scores, key=scores.__getitem__)


def versus(tests, others):
    """Mean difference over the folds, its standard error, and the verdict of a paired t test."""
    from scipy.stats import t

    gaps = [a - b for a, b in zip(tests, others, strict=True)]
    training = (1.0 - HELD_BACK) ** 2
    mean, error = statistics.mean(gaps), statistics.stdev(gaps) * math.sqrt(1 / len(gaps) + HELD_BACK / training)
    if abs(mean) <= t.ppf(1 - DOUBT / 2, len(gaps) - 1) * error:
        return mean, error, ""
    return mean, error, " better" if mean < 0 else " worse"


def summary(record):
    """Print the mean test losses with a verdict where they are beyond noise, and then the learning rates."""
    print(f"| task, rate | {' | '.join(METHODS)} |\n|---|{'---|' * len(METHODS)}")
    for name, found in record.items():
        cells = []
        for method in METHODS:
            tests = found[method]["test"] if method in found else None
            verdict = versus(tests, found[REFERENCE]["test"])[2] if tests and REFERENCE in found else ""
            cells.append(f"{statistics.mean(tests):.4f}{verdict}" if tests else "")
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"\n| median learning rate | {' | '.join(METHODS)} |\n|---|{'---|' * len(METHODS)}")
    for name, found in record.items():
        rates = [statistics.median_low(lr for lr, _ in found[m]["chosen"]) if m in found else "" for m in METHODS]
        print(f"| {name} | {' | '.join(map(str, rates))} |")


def figure(record, path):
    """Draw how far the test losses of a few methods are from the reference, in standard errors and percent."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    shown = [method for method in DRAWN if any(method in found for found in record.values())]
    fig, ax = plt.subplots(figsize=(9, 1 + 0.5 * len(record)), layout="constrained")
    for k, method in enumerate(shown):
        for i, found in enumerate(record.values()):
            if method in found and REFERENCE in found:
                gap, error, _ = versus(found[method]["test"], found[REFERENCE]["test"])
                unit = statistics.mean(found[REFERENCE]["test"]) / 100
                label = method if i == next(j for j, one in enumerate(record.values()) if method in one) else None
                place = i + 0.8 * ((k + 0.5) / len(shown) - 0.5)
                ax.errorbar(gap / unit, place, xerr=error / unit, fmt="o", color=f"C{k}", label=label)
    ax.axvline(0, color="black", lw=1)
    ax.set_yticks(range(len(record)), list(record))
    ax.invert_yaxis()
    ax.grid(alpha=0.3)
    ax.set_xlabel(f"test loss against {REFERENCE}, percent, with one standard error (left is better)")
    ax.legend(loc="lower right")
    fig.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="cancer,diabetes_l1,digits_mlp,digits_hinge,digits_cnn,char")
    parser.add_argument("--folds", type=int, default=6)
    parser.add_argument("--json", default="build/training.json", help="keep the numbers here, and do not repeat them")
    parser.add_argument("--figure", help="draw the differences into this file")
    parser.add_argument("--table", action="store_true", help="only sum up what was run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept = Path(options.json)
    record = json.loads(kept.read_text()) if kept.exists() else {}
    every, names = tasks(), options.tasks.split(",")
    jobs = [] if options.table else itertools.product(names, (False, True), OPTIMIZERS)
    for name, cosine, optimizer in jobs:
        found = record.setdefault(f"{name}, {'cosine' if cosine else 'constant'}", {})
        done = all(method in found for method, (which, _) in METHODS.items() if which == optimizer)
        if not done and not (cosine and optimizer == "schedule-free"):
            found.update(contest(every[name], optimizer, options.folds, cosine))
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(json.dumps(record, indent=1))
            print(f"{name}, {'cosine' if cosine else 'constant'}: {optimizer}", file=sys.stderr, flush=True)
    record = dict(sorted(record.items()))
    summary(record)
    if options.figure:
        figure(record, options.figure)


if __name__ == "__main__":
    main()
