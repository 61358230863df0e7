"""Training quality: our optimizers against Adam and AdamW on six small tasks, at equal tuning budgets.

    python benchmarks/training.py [--tasks digits_mlp,char] [--seeds 10] [--json FILE] [--figure FILE.png]

Each method gets the same learning rates; the one with the best validation loss, over seeds of their own, is then run
on fresh seeds and judged on a test split that has no part in the choice.
A seed decides the initial weights, the batches and which rows validate, the same for every method; so methods are
compared seed by seed: the last column is the mean difference from Adam, with its standard error, and what a paired
t test at 1 % says about it.
Needs scikit-learn (data) and, for the figure, matplotlib.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
from pathlib import Path

import torch
from torch import nn

import undrift.torch as ut

RATES = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2)  # at factors of three the best was often between two
TUNING_SEEDS = 8  # with two, the choice on the small tables is mostly chance: their validation has 100 rows
DOUBT = 0.01
METHODS = {
    "Adam": (lambda ps, lr: torch.optim.Adam(ps, lr, fused=True), False),
    "AdamW": (lambda ps, lr: torch.optim.AdamW(ps, lr, fused=True), False),
    "ClippedAdam": (lambda ps, lr: ut.ClippedAdam(ps, lr), False),
    "ClippedAdam averaged": (lambda ps, lr: ut.ClippedAdam(ps, lr), True),
    "ClipFreeAdam averaged": (lambda ps, lr: ut.ClipFreeAdam(ps, lr), True),
    "ClippedAdam all averaged": (lambda ps, lr: ut.ClippedAdam(ps, lr, norm="all"), True),
}


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


def tasks():
    """Name -> (features, labels, model, loss, steps, batch, seeds for tuning)."""
    digits, label = table("digits")
    sugar, level = table("diabetes")
    tumour, kind = table("breast_cancer")
    level = ((level - level.mean()) / level.std()).float().unsqueeze(1)
    letters, following, count = text()
    entropy = nn.functional.cross_entropy
    return {
        "digits_mlp": (digits, label, lambda: mlp(64, 32, 10), entropy, 500, 32, TUNING_SEEDS),
        "digits_hinge": (
            digits,
            label,
            lambda: mlp(64, 32, 10),
            nn.functional.multi_margin_loss,
            500,
            32,
            TUNING_SEEDS,
        ),
        "diabetes_l1": (sugar, level, lambda: mlp(10, 32, 1), nn.functional.l1_loss, 500, 32, TUNING_SEEDS),
        "cancer": (tumour, kind, lambda: mlp(30, 16, 2), entropy, 500, 32, TUNING_SEEDS),
        "char": (
            letters,
            following,
            lambda: Characters(count),
            entropy,
            200,
            16,
            3,
        ),  # validation has 10 000 characters
        "digits_cnn": (digits, label, cnn, entropy, 200, 32, TUNING_SEEDS),
    }


def split(task, seed):
    """Training, validation and test rows; the test rows are the same for every seed."""
    z, y = task[0], task[1]
    order = torch.randperm(len(z), generator=torch.Generator().manual_seed(12345))
    test, rest = order[: len(z) // 4], order[len(z) // 4 :]
    rest = rest[torch.randperm(len(rest), generator=torch.Generator().manual_seed(seed))]
    held = len(rest) // 4
    return [(z[i], y[i]) for i in (rest[held:], rest[:held], test)]


def run(task, method, lr, seed, points=20):
    """Train once; return the final (validation, test) loss and the validation curve."""
    make, averaged = METHODS[method]
    _, _, build, loss, steps, batch, _ = task
    (z, y), validation, test = split(task, seed)
    torch.manual_seed(1000 + seed)
    model = build()
    opt = make(model.parameters(), lr)
    rng = torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def judge(*sets):
        if not averaged:
            return [float(loss(model(a), b)) for a, b in sets]
        with opt.averaged():
            return [float(loss(model(a), b)) for a, b in sets]

    curve = []
    for k in range(steps):
        rows = torch.randint(len(z), (batch,), generator=rng)
        opt.zero_grad()
        loss(model(z[rows]), y[rows]).backward()
        opt.step()
        if (k + 1) % (steps // points) == 0:
            curve.append(judge(validation)[0])
    return (*judge(validation, test), curve)


def contest(name, task, methods, seeds):
    """Tune every method on validation, then judge it on fresh seeds and unseen rows."""
    record = {}
    for method in methods:
        scores = {lr: statistics.mean(run(task, method, lr, seed)[0] for seed in range(task[6])) for lr in RATES}
        best = min(scores, key=lambda lr: scores[lr] if math.isfinite(scores[lr]) else math.inf)
        finals = [run(task, method, best, 100 + seed) for seed in range(seeds)]
        tests = [final[1] for final in finals]
        record[method] = {
            "lr": best,
            "tuning": {f"{lr:g}": score for lr, score in scores.items()},
            "edge": best in (RATES[0], RATES[-1]),
            "test": tests,
            "mean": statistics.mean(tests),
            "std": statistics.stdev(tests),
            "versus": versus(tests, record["Adam"]["test"] if "Adam" in record else tests),
            "curve": [statistics.mean(values) for values in zip(*(final[2] for final in finals), strict=True)],
            "steps": task[4],
        }
        one = record[method]
        note = " (edge of the grid)" if one["edge"] else ""
        gap, error, verdict = one["versus"]
        against = "" if method == "Adam" else f"{gap:+.4f} ± {error:.4f}, {verdict}"
        print(
            f"| {name} | {method} | {one['mean']:.4f} | {one['std']:.4f} | {one['lr']:.2g}{note} | {against} |",
            flush=True,
        )
    return record


def versus(tests, adams):
    """Mean difference from Adam over the seeds, its standard error, and the verdict of a paired t test."""
    from scipy.stats import t

    gaps = [a - b for a, b in zip(tests, adams, strict=True)]
    mean, error = statistics.mean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps))
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
            cells.append(f"{one['mean']:.4f}{verdict}{' (edge)' if one['edge'] else ''}")
        print(f"| {name} | {' | '.join(cells)} |")


def figure(record, path):
    """Validation curves, one panel per task; the lr of each was chosen for its last point."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    fig, axes = plt.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
    for ax, (name, methods) in zip(axes.flat, record.items(), strict=False):
        for k, (method, one) in enumerate(methods.items()):
            curve = one["curve"]
            steps = [one["steps"] * (i + 1) / len(curve) for i in range(len(curve))]
            style = {"Adam": {"lw": 2.5}, "AdamW": {"ls": ":", "lw": 2}}.get(method, {"lw": 1.4})
            ax.plot(steps, curve, color=f"C{k}", label=method, **style)
        ax.set_yscale("log")
        ax.set_title(name)
        ax.set_xlabel("step")
        ax.set_ylabel("validation loss")
        ax.grid(alpha=0.3, which="both")
    for ax in list(axes.flat)[len(record) :]:
        ax.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    fig.suptitle("Validation loss, mean over fresh seeds, each method at its own best learning rate")
    fig.savefig(path, dpi=80)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="digits_mlp,digits_hinge,diabetes_l1,cancer,char,digits_cnn")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=10)
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
        print("| task | method | test loss | std over seeds | lr | against Adam |\n|---|---|---|---|---|---|")
        every = tasks()
        for name in options.tasks.split(","):
            record[name] = contest(name, every[name], options.methods.split(","), options.seeds)
            if options.json:
                Path(options.json).write_text(json.dumps(record, indent=1))
    summary(record)
    if options.figure:
        figure(record, options.figure)


if __name__ == "__main__":
    main()
