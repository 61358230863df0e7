"""BoostedTrees predicts as well as LightGBM does with as many trees, leaves and bins, stream by stream."""

import gzip
import itertools
import math

import numpy as np
import pytest

import undrift as ud
from tests.helpers import DATA

STREAMS = {
    "bike_hourly": False,
    "metro_traffic": False,
    "air_quality_co": False,
    "elec2": True,
    "weather_nebraska": True,
    "flights_late": True,
}
ONE_STREAM, ALL_STREAMS = 1.05, 1.01
"""Our mean loss over LightGBM's on one stream, and the geometric mean over all. All columns are used, so that no draw
blurs the comparison; what is left are the edges of bins, which differ."""


def mean_loss(score, y, binary):
    if not binary:
        return np.mean((score - y) ** 2)
    return -np.mean(np.where(y > 0.0, np.log1p(-1.0 / (1.0 + np.exp(score))), np.log1p(-1.0 / (1.0 + np.exp(-score)))))


def loss_ratio(lightgbm, name):
    """Return our mean loss over LightGBM's, on the rows after two beginnings of a stream."""
    path, binary = DATA / f"{name}.csv.gz", STREAMS[name]
    if not path.exists():
        pytest.skip(f"{path} is not here; set UNDRIFT_DATA")
    with gzip.open(path, "rt") as file:
        next(file)
        lines = list(itertools.islice(file, 12_000))
    table = np.array([[float(x) if x else math.nan for x in line.rstrip("\n").split(",")[1:]] for line in lines])
    table = np.column_stack([table[1:, :-1], table[:-1, -1], table[1:, -1]])  # the last label is a feature
    rows, ours, theirs = len(table), 0.0, 0.0
    for cut in (rows // 2, 3 * rows // 4):
        X, y = np.ascontiguousarray(table[:cut, :-1]), table[:cut, -1].copy()
        later, labels = np.ascontiguousarray(table[cut : cut + rows // 4, :-1]), table[cut : cut + rows // 4, -1]
        model = ud.BoostedTrees("logistic" if binary else "squared", columns=1.0).fit(X, y)
        ours += mean_loss(model.log_odds(later) if binary else model.predict(later), labels, binary)
        options = {
            "objective": "binary" if binary else "l2",
            "num_leaves": 31,
            "learning_rate": 0.1,
            "min_data_in_leaf": 20,
            "max_bin": 63,
            "verbose": -1,
            "num_threads": 1,
        }
        peer = lightgbm.train(options, lightgbm.Dataset(X, y, params={"verbose": -1, "max_bin": 63}), 100)
        theirs += mean_loss(peer.predict(later, raw_score=True), labels, binary)
    return ours / theirs


def test_forests_are_as_good_as_those_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed: pip install 'undrift[bench]'")
    ratios = {name: loss_ratio(lightgbm, name) for name in STREAMS}
    assert max(ratios.values()) <= ONE_STREAM, ratios
    assert np.exp(np.mean(np.log(list(ratios.values())))) <= ALL_STREAMS, ratios
