"""Sweeps: backtests of every configuration on every stream, on all cores or a cluster, stopped and resumed at will."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from undrift import kernels, metrics, store
from undrift.errors import InputError, MissingExtraError
from undrift.learners import Learner

Scores = Mapping[str, float]
"""What a backtest returns: numbers by name."""
Backtest = Callable[[Any, Any], Scores]
BACKENDS = ("loky", "threading", "dask", "ray")
RAY_PAIRS = 64
"""Pairs given to Ray at a time."""


def backtest(stream: Any, config: Any) -> dict[str, float]:
    """Play a clone of the learner `config` over `stream`, rows and labels (Z, y), and score it.

    A stream may also be a function that returns (Z, y): it is then read where the work is done.
    """
    Z, y = stream() if callable(stream) else stream
    if not isinstance(config, Learner):
        raise InputError(
            f"sweep: a configuration must be a learner, got {config!r:.60}; or pass a backtest of your own"
        )
    model = config.clone()
    yhat = model.play(Z, y).yhat
    labels = np.asarray(y, np.float64)
    scores = {"loss": float(np.mean(metrics.round_losses(yhat, labels, binary=model.binary)))}
    if model.binary:
        scores["errors"] = 1.0 - metrics.accuracy(yhat, labels)
    else:
        scores["r2"] = metrics.r2(yhat, labels)
    return {**scores, "rounds": float(len(labels))}


@dataclass(frozen=True)
class Sweep:
    """The results of a sweep, a row for every pair."""

    rows: list[dict[str, Any]]
    """stream, config, the scores, seconds, error (empty if all went well), pair by pair."""

    def columns(self) -> dict[str, list[Any]]:
        """Return the rows as a tidy table, lists by column name: what data frames are made from."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return {name: [row.get(name) for row in self.rows] for name in names}

    def matrix(self, score: str) -> tuple[list[str], list[str], np.ndarray[Any, np.dtype[np.float64]]]:
        """Return (streams, configurations, one score of each pair); NaN where there is none."""
        streams = list(dict.fromkeys(row["stream"] for row in self.rows))
        configs = list(dict.fromkeys(row["config"] for row in self.rows))
        out = np.full((len(streams), len(configs)), math.nan)
        for row in self.rows:
            value = row.get(score)
            if value is not None:
                out[streams.index(row["stream"]), configs.index(row["config"])] = value
        if np.isnan(out).all():
            raise InputError(f"Sweep: no row has the score '{score}'; there are {', '.join(self.columns())}")
        return streams, configs, out

    def figure(self, score: str, path: str | os.PathLike[str]) -> None:
        """Draw one score of every pair as a heat map, the best of each stream marked; PNG, SVG or PDF by ending."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtraError(
                "Sweep.figure needs matplotlib; install it with: pip install 'undrift[sweep]'"
            ) from None
        streams, configs, values = self.matrix(score)
        figure = Figure(figsize=(2.5 + 0.9 * len(configs), 1.6 + 0.45 * len(streams)), layout="constrained")
        axes = figure.subplots()
        lows, highs = np.nanmin(values, axis=1, keepdims=True), np.nanmax(values, axis=1, keepdims=True)
        scaled = (values - lows) / np.where(highs > lows, highs - lows, 1.0)  # by stream: scales differ
        up = score == "r2"
        axes.imshow(scaled if up else 1.0 - scaled, cmap="Blues", aspect="auto", vmin=-0.3, vmax=2.5)
        for i, row in enumerate(values):
            best = np.nanargmax(row) if up else np.nanargmin(row)
            for j, value in enumerate(row):
                text = "-" if math.isnan(value) else f"{value:.4g}"
                axes.text(j, i, text, ha="center", va="center", fontsize=8, weight="bold" if j == best else "normal")
        axes.set_xticks(range(len(configs)), configs, rotation=30, ha="right")
        axes.set_yticks(range(len(streams)), streams)
        axes.set_title(f"{score}: best of each stream in bold; shades by stream", fontsize=9, loc="left")
        figure.savefig(os.fspath(path), dpi=150)


def sweep(
    streams: Mapping[str, Any],
    configs: Mapping[str, Any],
    *,
    test: Backtest = backtest,
    backend: str = "loky",
    jobs: int = -1,
    folder: str | os.PathLike[str] | None = None,
    progress: bool | Callable[[int, int], None] = True,
) -> Sweep:
    """Test every configuration on every stream.

    Parameters
    ----------
    streams
        By name: (Z, y), or a function that returns it, or whatever `test` takes.
    configs
        By name: fresh learners, or whatever `test` takes.
    test
        test(stream, config) returns numbers by name.
    backend
        "loky" (processes), "threading"; "dask" (with a `distributed.Client` open) or "ray" to use a cluster.
    jobs
        Workers; -1 for one per core.
    folder
        Keep each result there: the same call again goes on where it stopped. Delete a file to repeat a pair; pairs
        that failed are repeated anyway.
    progress
        A bar on the terminal, nothing (False), or your function of (done, total).

    Returns
    -------
    Sweep
        A failing pair has its error in its row; the others go on.

    Examples
    --------
    >>> import numpy as np, undrift as ud
    >>> Z = np.column_stack([np.ones(200), np.sin(np.arange(200))])
    >>> y = Z @ [1.0, 2.0] * np.where(np.arange(200) < 100, 1.0, -1.0)
    >>> memories = {f"half-life {h}": ud.DiscountedVAW(half_life=h) for h in (10, 1000)}
    >>> result = sweep({"flip": (Z, y)}, memories, backend="threading", progress=False)
    >>> [row["config"] for row in sorted(result.rows, key=lambda row: row["loss"])]
    ['half-life 10', 'half-life 1000']
    """
    pairs = [(stream, config) for stream in streams for config in configs]
    if not pairs:
        raise InputError("sweep: streams and configs must name at least one each")
    results = None if folder is None else Path(folder)
    found: dict[tuple[str, str], dict[str, Any]] = {}
    if results is not None:
        results.mkdir(parents=True, exist_ok=True)
        found = {pair: row for pair in pairs if (row := _read_result(_result_file(results, pair, configs))) is not None}
    report = _progress_reporter(progress, len(pairs))
    report(len(found))
    missing = [pair for pair in pairs if pair not in found]
    calls = [(pair, test, streams[pair[0]], configs[pair[1]], kernels.level()) for pair in missing]
    for pair, row in _run_pairs(calls, backend, jobs):
        found[pair] = row
        if results is not None and not row["error"]:
            store.replace(_result_file(results, pair, configs), json.dumps(row).encode())
        report(len(found))
    return Sweep([found[pair] for pair in pairs])


Call = tuple[tuple[str, str], Backtest, Any, Any, str]


def _run_pair(call: Call) -> tuple[tuple[str, str], dict[str, Any]]:
    pair, test, stream, config, level = call
    if level != kernels.level() and level in kernels.levels():
        kernels.set_level(level)  # so that a worker process gives the bits of the caller
    row: dict[str, Any] = {"stream": pair[0], "config": pair[1]}
    began, error = time.perf_counter(), ""
    try:
        row |= {name: float(value) for name, value in test(stream, config).items()}
    except Exception as failure:  # of one pair: it is reported, the others go on
        error = f"{type(failure).__name__}: {failure}"
    return pair, {**row, "seconds": time.perf_counter() - began, "error": error}


def _run_pairs(calls: list[Call], backend: str, jobs: int) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Yield results as they come."""
    if backend not in BACKENDS:
        raise InputError(f"sweep: backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    needed = {"dask": "distributed", "ray": "ray"}.get(backend)
    for name in ("joblib", needed):
        if name is not None and importlib.util.find_spec(name) is None:
            extra = "pip install 'undrift[sweep]'" if name == "joblib" else f"pip install {name}"
            raise MissingExtraError(f"sweep with backend {backend!r} needs {name}; install it with: {extra}")
    import joblib

    if backend == "ray":
        importlib.import_module("ray.util.joblib").register_ray()
    if backend == "dask":
        try:
            importlib.import_module("distributed").get_client()
        except ValueError:
            raise InputError(
                "sweep: backend 'dask' needs an open client; make one before: "
                "client = distributed.Client(), or with the address of a scheduler"
            ) from None
    streaming = backend != "ray"  # Ray returns results all together, so it gets few at a time and few can be lost
    with joblib.parallel_config(backend=backend, n_jobs=jobs):
        parallel = joblib.Parallel(return_as="generator_unordered" if streaming else "list")
        for a in range(0, len(calls), len(calls) if streaming else RAY_PAIRS):
            part = calls if streaming else calls[a : a + RAY_PAIRS]
            yield from parallel(joblib.delayed(_run_pair)(call) for call in part)


def _result_file(folder: Path, pair: tuple[str, str], configs: Mapping[str, Any]) -> Path:
    """Return the file of a pair; a configuration that changed under its name gets another one."""
    digest = hashlib.sha256(json.dumps([*pair, repr(configs[pair[1]])]).encode()).hexdigest()
    return folder / f"{digest[:24]}.json"


def _read_result(path: Path) -> dict[str, Any] | None:
    try:
        row = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return row if isinstance(row, dict) and {"stream", "config"} <= set(row) else None


def _progress_reporter(progress: bool | Callable[[int, int], None], total: int) -> Callable[[int], None]:
    """Return a function to call with the number of pairs done."""
    if callable(progress):
        return lambda done: progress(done, total)
    if not progress or not sys.stderr.isatty():
        return lambda done: None

    def bar(done: int) -> None:
        full = 40 * done // total
        end = "\n" if done == total else ""
        sys.stderr.write(f"\rsweep [{'#' * full}{'.' * (40 - full)}] {done}/{total}{end}")
        sys.stderr.flush()

    return bar
