"""Rows that are loaded at once are those that a run reads in batches, with all that stands beside them."""

import numpy as np
import pytest

from tests.run.row_files import table, write_csv
from undrift.run import Settings
from undrift.run.read import csv_file
from undrift.run.read.rows_in_order import load_rows, read_rows
from undrift.run.read.source import Source
from undrift.stream.features import Features


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "BATCH_ROWS", 16)
    columns = table(200)
    columns["y"][5] = None
    columns["city"][100:] = ["Lima" if k % 2 else "Bonn" for k in range(100)]  # a text that first appears there
    columns["w"] = [float(k % 3) for k in range(200)]
    path = write_csv(tmp_path / "rows.csv", columns)
    settings = Settings(target="y", drop=("hot",), weight="w", elapsed=True, missing="skip", lag=(1,))
    return Source(str(path), settings)


@pytest.mark.parametrize("labels", [10, 120, 1000])
def test_they_are_cut_after_the_last_label_asked_for(source, labels):
    names, rows, schema = load_rows(source, labels)
    _, batches = read_rows(Source(str(source.path), source.settings))
    features = Features(source.settings, schema)
    parts = [features.encode(batch, source) for batch in batches]
    y = np.concatenate([part.y for part in parts])
    count = min(int(np.searchsorted(np.cumsum(~np.isnan(y)), labels)) + 1, len(y))
    assert len(rows.y) == count
    assert count < 200  # as rows are skipped
    for name in ("line", "time", "y", "weight", "elapsed"):
        whole = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(getattr(rows, name), whole[:count])
    assert names == features.names[: len(names)]
    assert rows.Z.shape == (count, len(names))
    begin = 0
    for part in parts:
        stop = min(begin + len(part.y), count)
        width = min(part.Z.shape[1], len(names))
        np.testing.assert_array_equal(rows.Z[begin:stop, :width], part.Z[: max(0, stop - begin), :width])
        assert not rows.Z[begin:stop, width:].any()
        begin = max(begin, stop)
    assert ("city=Bonn" in names) == (labels > 100)


def test_what_is_not_asked_for_is_not_there(tmp_path):
    columns = table(50)
    del columns["when"]
    path = write_csv(tmp_path / "rows.csv", columns)
    _, rows, _ = load_rows(Source(str(path), Settings(target="y", drop=("hot",))), 1000)
    assert (rows.time, rows.weight, rows.elapsed) == (None, None, None)
