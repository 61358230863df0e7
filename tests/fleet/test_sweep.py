"""Sweeps: every pair once, in any order and on any backend, resumed where they stopped."""

import json

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError, MissingExtraError
from undrift.sweep import Sweep, sweep


def streams():
    out = {}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(60, 2))
        out[f"s{seed}"] = (Z, Z[:, 0] + rng.normal(size=60))
    return out


CONFIGS = {f"h{h}": ud.DiscountedVAW(half_life=h) for h in (5, 50)}


def without_times(result):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in result.rows]


def test_backends_agree_with_a_plain_loop():
    expected = []
    for stream, (Z, y) in streams().items():
        for config, model in CONFIGS.items():
            yhat = model.clone().play(Z, y).yhat
            expected.append((stream, config, float(np.mean(0.5 * (yhat - y) ** 2))))
    for backend in ("loky", "threading"):
        result = sweep(streams(), CONFIGS, backend=backend, jobs=2, progress=False)
        assert [(row["stream"], row["config"], row["loss"]) for row in result.rows] == expected


@pytest.mark.xdist_group("dask")  # one cluster at a time
def test_a_dask_cluster_gives_the_rows_of_this_process(tmp_path):
    distributed = pytest.importorskip("distributed", reason="no Dask here: pip install 'dask[distributed]'")
    expected = without_times(sweep(streams(), CONFIGS, backend="threading", progress=False))
    with pytest.raises(InputError, match="backend 'dask' needs an open client; make one before"):
        sweep(streams(), CONFIGS, backend="dask", progress=False)
    # two processes: arrays come over a socket, not always aligned
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=":0"):
        result = sweep(streams(), CONFIGS, backend="dask", folder=tmp_path, progress=False)
    assert without_times(result) == expected
    assert len(list(tmp_path.glob("*.json"))) == 6


def test_ray_gives_the_rows_of_this_process(monkeypatch):
    ray = pytest.importorskip("ray", reason="no Ray here: pip install ray")
    monkeypatch.setattr("undrift.sweep.TOGETHER", 4)
    expected = without_times(sweep(streams(), CONFIGS, backend="threading", progress=False))
    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False)
    try:
        assert without_times(sweep(streams(), CONFIGS, backend="ray", progress=False)) == expected
    finally:
        ray.shutdown()


def test_a_sweep_goes_on_where_it_stopped(tmp_path):
    calls = []

    def test(stream, config):
        calls.append(config)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return {"loss": 1.0}

    options = {"test": test, "backend": "threading", "jobs": 1, "folder": tmp_path, "progress": False}
    with pytest.raises(KeyboardInterrupt):
        sweep(streams(), CONFIGS, **options)
    kept = len(list(tmp_path.glob("*.json")))
    assert 1 <= kept <= 3
    before = len(calls)
    seen = []
    result = sweep(streams(), CONFIGS, **{**options, "progress": lambda done, total: seen.append((done, total))})
    assert len(calls) - before == 6 - kept
    assert len(result.rows) == 6
    assert (seen[0], seen[-1]) == ((kept, 6), (6, 6))
    changed = {"h5": ud.DiscountedVAW(half_life=6), "h50": CONFIGS["h50"]}
    before = len(calls)
    sweep(streams(), changed, **options)
    assert len(calls) - before == 3


def test_a_failing_pair_is_reported_and_repeated(tmp_path):
    bad = {**streams(), "s1": (np.ones((3, 2)), [1.0, np.nan, 1.0])}
    result = sweep(bad, CONFIGS, backend="threading", folder=tmp_path, progress=False)
    failed = [row for row in result.rows if row["error"]]
    assert {row["stream"] for row in failed} == {"s1"}
    assert all("y must be finite" in row["error"] for row in failed)
    again = sweep(streams(), CONFIGS, backend="threading", folder=tmp_path, progress=False)
    assert without_times(again) == without_times(sweep(streams(), CONFIGS, backend="threading", progress=False))


def test_classes_are_scored_by_log_loss():
    Z = np.random.default_rng(0).normal(size=(100, 2))
    stream = lambda: (Z, Z[:, 0] > 0.0)  # noqa: E731  (a stream may be a function)
    (row,) = sweep({"s": stream}, {"aioli": ud.DiscountedAIOLI()}, backend="threading", progress=False).rows
    assert 0.0 < row["loss"] < np.log(2.0)
    assert row["errors"] < 0.2


def test_results_are_a_tidy_table_and_a_figure(tmp_path):
    result = sweep(streams(), CONFIGS, backend="threading", progress=False)
    table = result.columns()
    assert list(table) == ["stream", "config", "loss", "r2", "rounds", "seconds", "error"]
    assert {len(column) for column in table.values()} == {6}
    names, configs, values = result.matrix("loss")
    assert (names, configs, values.shape) == (["s0", "s1", "s2"], ["h5", "h50"], (3, 2))
    result.figure("loss", tmp_path / "loss.svg")
    text = (tmp_path / "loss.svg").read_text()
    assert "h50" in text or "<svg" in text
    with pytest.raises(InputError, match="no row has the score 'speed'; there are stream, config"):
        result.matrix("speed")


def test_what_cannot_work_is_refused(monkeypatch):
    with pytest.raises(InputError, match="at least one each"):
        sweep({}, CONFIGS)
    with pytest.raises(InputError, match="backend must be one of loky, threading, dask, ray, got 'mpi'"):
        sweep(streams(), CONFIGS, backend="mpi", progress=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "ray" else name)
    with pytest.raises(MissingExtraError, match="needs ray; install it with: pip install ray"):
        sweep(streams(), CONFIGS, backend="ray", progress=False)
    (row,) = sweep({"s": streams()["s0"]}, {"c": 3}, backend="threading", progress=False).rows
    assert "a configuration must be a learner, got 3" in row["error"]


def test_rows_survive_json():
    rows = sweep(streams(), CONFIGS, backend="threading", progress=False).rows
    assert Sweep(json.loads(json.dumps(rows))).rows == rows
