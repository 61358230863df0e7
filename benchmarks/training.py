"""Training quality: our optimizers against Adam, AdamW, its average and schedule-free, six small tasks, equal budgets.

    python benchmarks/training.py [--tasks digits_mlp,char] [--folds 10] [--json FILE] [--figure FILE.png]

Ten times a quarter of the rows is drawn and held back. On the others each method chooses among the same learning rates
by its validation loss over a few seeds; with that rate it is run on fresh seeds and judged on what was held back. All
else is the same for every method: rows, initial weights, batches. So they are compared fold by fold: the last column is
the mean difference from Adam, its standard error, and the verdict of a paired t test at 5 %. Folds share rows, so the
variance of the mean is that of a fold times 1/10 + test rows / training rows (Nadeau and Bengio), not 1/10.
The verdict then covers the rows, the seeds and the choice of the rate alike.
A larger task is in characters.py. Needs scikit-learn (data), schedulefree and, for the figure, matplotlib.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

import undrift.torch as ut

RATES = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2)  # at factors of three the best was often between two
TUNING_SEEDS = (0, 1, 2)
FINAL_SEEDS = (100, 101)
HELD_BACK = 0.25  # share of the rows for testing, and of what is left for validation
DOUBT = 0.05


class AveragedAdamW(torch.optim.AdamW):
    """AdamW with the exponential moving average of ten steps that people add by hand."""

    def __init__(self, params, lr):
        super().__init__(params, lr, fused=True)
        self.params, self.t = self.param_groups[0]["params"], 0
        self.average = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def step(self, closure=None):
        self.t += 1
        torch._foreach_lerp_(self.average, self.params, 0.1 / (1 - 0.9**self.t))  # of the points that had gradients
        return super().step(closure)

    @contextmanager
    def averaged(self):
        kept = [p.detach().clone() for p in self.params]
        torch._foreach_copy_(self.params, self.average)
        yield
        torch._foreach_copy_(self.params, kept)


def schedule_free(params, lr):
    """Return schedule-free AdamW, its averaged weights to be had as ours are."""
    import schedulefree

    class ScheduleFree(schedulefree.AdamWScheduleFree):
        @contextmanager
        def averaged(self):
            self.eval()
            yield
            self.train()

    opt = ScheduleFree(params, lr, foreach=True)
    opt.train()
    return opt


OPTIMIZERS = {
    "Adam": lambda ps, lr: torch.optim.Adam(ps, lr, fused=True),
    "AdamW": lambda ps, lr: torch.optim.AdamW(ps, lr, fused=True),
    "AdamW averaged": AveragedAdamW,
    "schedule-free": schedule_free,
    "ClippedAdam": lambda ps, lr: ut.ClippedAdam(ps, lr),
    "ClippedAdam growing": lambda ps, lr: ut.ClippedAdam(ps, lr, average_horizon="growing"),
    "ClipFreeAdam": lambda ps, lr: ut.ClipFreeAdam(ps, lr),
    "ClippedAdam all": lambda ps, lr: ut.ClippedAdam(ps, lr, norm="all"),
}
METHODS = {
    "Adam": ("Adam", False),
    "AdamW": ("AdamW", False),
    "AdamW averaged": ("AdamW averaged", True),
    "schedule-free": ("schedule-free", True),
    "ClippedAdam": ("ClippedAdam", False),
    "ClippedAdam averaged": ("ClippedAdam", True),
    "ClippedAdam growing": ("ClippedAdam growing", True),
    "ClipFreeAdam averaged": ("ClipFreeAdam", True),
    "ClippedAdam all averaged": ("ClippedAdam all", True),
}
"""An optimizer, and whether its averaged weights are judged."""


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


def run(task, optimizer, lr, fold, seed, points=20):
    """Train once; return for plain and averaged weights the validation curve, and the test loss at its end."""
    (z, y), (zv, yv), (zt, yt) = split(task, fold, seed)
    torch.manual_seed(1000 * fold + seed)
    model = task.build()
    opt = OPTIMIZERS[optimizer](model.parameters(), lr)
    rng = torch.Generator().manual_seed(seed)
    averages = hasattr(opt, "averaged")

    @torch.no_grad()
    def judge(z, y):
        found = [float(task.loss(model(z), y))]
        if averages:
            with opt.averaged():
                found.append(float(task.loss(model(z), y)))
        return found

    curves = []
    for k in range(task.steps):
        rows = torch.randint(len(z), (task.batch,), generator=rng)
        opt.zero_grad()
        task.loss(model(z[rows]), y[rows]).backward()
        opt.step()
        if (k + 1) % (task.steps // points) == 0:
            curves.append(judge(zv, yv))
    return [*zip(zip(*curves, strict=True), judge(zt, yt), strict=True)]


def contest(name, task, folds):
    """In every fold tune every method on validation, then judge it on fresh seeds and rows that were held back."""
    record = {method: {"lr": [], "test": [], "curves": [], "steps": task.steps} for method in METHODS}
    for fold in range(folds):
        for optimizer in OPTIMIZERS:
            trials = {lr: [run(task, optimizer, lr, fold, seed) for seed in TUNING_SEEDS] for lr in RATES}
            finals = {}
            for method in (method for method, (which, _) in METHODS.items() if which == optimizer):
                output = int(METHODS[method][1])
                scores = {lr: statistics.mean(found[output][0][-1] for found in trials[lr]) for lr in RATES}
                best = min(RATES, key=lambda lr, scores=scores: scores[lr] if math.isfinite(scores[lr]) else math.inf)
                if best not in finals:
                    finals[best] = [run(task, optimizer, best, fold, seed) for seed in FINAL_SEEDS]
                one = record[method]
                one["lr"].append(best)
                one["test"].append(statistics.mean(found[output][1] for found in finals[best]))
                one["curves"] += [found[output][0] for found in finals[best]]
        print(f"{name}: fold {fold + 1} of {folds}", file=sys.stderr, flush=True)
    for method, one in record.items():
        curves = one.pop("curves")
        one["curve"] = [statistics.mean(values) for values in zip(*curves, strict=True)]
        one["mean"], one["std"] = statistics.mean(one["test"]), statistics.stdev(one["test"])
        one["versus"] = gap, error, verdict = versus(one["test"], record["Adam"]["test"])
        against = "" if method == "Adam" else f"{gap:+.4f} ± {error:.4f}, {verdict}"
        rates = f"{min(one['lr']):.2g} to {max(one['lr']):.2g}"
        print(f"| {name} | {method} | {one['mean']:.4f} | {one['std']:.4f} | {rates} | {against} |", flush=True)
    return record


def versus(tests, adams):
    """Mean difference from Adam over the folds, its standard error, and the verdict of a paired t test."""
    from scipy.stats import t

    gaps = [a - b for a, b in zip(tests, adams, strict=True)]
    training = (1.0 - HELD_BACK) ** 2
    mean, error = statistics.mean(gaps), statistics.stdev(gaps) * math.sqrt(1 / len(gaps) + HELD_BACK / training)
    if abs(mean) <= t.ppf(1 - DOUBT / 2, len(gaps) - 1) * error:
        return mean, error, "within noise"
    return mean, error, "better" if mean < 0 else "worse"


def summary(record):
    """Mean test loss of every method on every task, with the verdict where it is not "within noise"."""
    methods = list(next(iter(record.values())))
    print(f"\n| task | {' | '.join(methods)} |\n|---|{'---|' * len(methods)}")
    for name, found in record.items():
        cells = []
        for method in methods:
            one = found[method]
            verdict = "" if one["versus"][2] == "within noise" else f" {one['versus'][2]}"
            cells.append(f"{one['mean']:.4f}{verdict}")
        print(f"| {name} | {' | '.join(cells)} |")


def figure(record, path):
    """Validation curves, one panel per task, at the learning rates that were chosen."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib import ticker

    fig, axes = plt.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
    for ax, (name, methods) in zip(axes.flat, record.items(), strict=False):
        for k, (method, one) in enumerate(methods.items()):
            curve = one["curve"]
            steps = [one["steps"] * (i + 1) / len(curve) for i in range(len(curve))]
            style = {"Adam": {"lw": 2.5}, "AdamW": {"ls": ":", "lw": 2}}.get(method, {"lw": 1.4})
            ax.plot(steps, curve, color=f"C{k}", label=method, **style)
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        ax.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)) if high > 3 * low else ticker.MaxNLocator(6))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter(ticker.NullFormatter())
        ax.set_title(name)
        ax.set_xlabel("step")
        ax.set_ylabel("validation loss")
        ax.grid(alpha=0.3, which="both")
    for ax in list(axes.flat)[len(record) :]:
        ax.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    fig.suptitle("Validation loss, mean over folds and fresh seeds, each method at the learning rates it chose")
    fig.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="digits_mlp,digits_hinge,diabetes_l1,cancer,char,digits_cnn")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--json", help="write the numbers to this file")
    parser.add_argument("--figure", help="draw the curves into this file")
    parser.add_argument("--draw", nargs="+", help="only sum up and draw, from these files of numbers")
    options = parser.parse_args()
    torch.set_num_threads(1)
    record = {}
    if options.draw:
        for path in options.draw:
            record.update(json.loads(Path(path).read_text()))
    else:
        print(
            "| task | method | test loss | std over folds | learning rates | against Adam |\n|---|---|---|---|---|---|"
        )
        every = tasks()
        for name in options.tasks.split(","):
            record[name] = contest(name, every[name], options.folds)
            if options.json:
                Path(options.json).write_text(json.dumps(record, indent=1))
    summary(record)
    if options.figure:
        figure(record, options.figure)


if __name__ == "__main__":
    main()
