"""Every feature in every path does what the declarations say: works as `play` does, or fails in the declared way."""

from dataclasses import replace

import numpy as np
import pytest

from .cells import CELLS, STATUSES, Status, status_of
from .measure import parts_to_measure, require_declared
from .page import PAGE, write_page
from .paths import PATHS
from .paths.forecast import play_forecaster
from .references import expect_stream
from .scenarios import FEATURES, make_scenario, parts_of

PARTS = parts_to_measure()


@pytest.mark.parametrize(("feature", "path", "part"), PARTS, ids=["-".join(filter(None, names)) for names in PARTS])
def test_a_cell_does_what_is_declared(feature, path, part):
    why = PATHS[path].missing()
    if why is not None:
        pytest.skip(f"{why} (tests/spark measures these cells too)")
    require_declared(feature, path, part)


def test_every_cell_is_declared_and_every_part_of_it():
    assert list(CELLS) == list(FEATURES)
    for feature, row in CELLS.items():
        assert list(row) == list(PATHS), feature
        for path, cell in row.items():
            if isinstance(cell, dict):
                assert list(cell) == parts_of(feature, path), (feature, path)
            if cell is not None:
                assert status_of(cell) in STATUSES


def test_what_does_not_work_has_evidence_and_a_reason():
    for feature, row in CELLS.items():
        for path, cell in row.items():
            statuses = [] if cell is None else [cell] if isinstance(cell, Status) else cell.values()
            for status in statuses:
                assert (status.name == "works") <= (bool(status.evidence) == bool(status.why)), (feature, path)
                assert status.name == "works" or (status.evidence and status.why), (feature, path)


@pytest.mark.parametrize("feature", FEATURES)
def test_leaving_the_feature_out_would_be_noticed(feature):
    """A path that ignores the feature, or treats it in another wrong way, gives other predictions than expected."""
    for part in FEATURES[feature]:
        for scenario in (make_scenario(feature, part), make_scenario(feature, part).second):
            expected = expect_stream(scenario, scenario.reference)
            assert set(expected.columns) == set(scenario.shows)
            for column in expected.columns.values():
                assert len(column)
                if column.dtype.kind == "f":
                    assert np.isfinite(column[scenario.start if not expected.single else 0 :]).all()
            for name, other in scenario.others.items():
                columns = expect_stream(scenario, other).columns
                same = [np.array_equal(columns[k], expected.columns[k]) for k in expected.columns if k in columns]
                assert not all(same) or not same, f"{scenario.title}: {name}"


@pytest.mark.parametrize(
    ("feature", "part"),
    [
        ("elapsed", "whole gaps"),
        ("calendar", ""),
        ("candidates", "a run"),
        ("missing values", "cells"),
        ("missing values", "indicators"),
        *(("many texts", part) for part in FEATURES["many texts"]),
    ],
)
def test_leaving_the_feature_out_of_forecasts_would_be_noticed(feature, part):
    scenario = make_scenario(feature, part)
    plain = replace(scenario, options={}, part="")
    expected = play_forecaster(scenario)["yhat"]
    other = play_forecaster(plain, timed=feature not in ("elapsed", "calendar"))["yhat"]
    assert expected.shape != other.shape or not np.array_equal(expected, other)


def test_two_keys_have_different_rows():
    for feature in FEATURES:
        for part in FEATURES[feature]:
            scenario = make_scenario(feature, part)
            assert scenario.columns["a"] != scenario.second.columns["a"]
            assert scenario.rows == scenario.second.rows


def test_the_page_says_what_is_declared():
    assert PAGE.read_text(encoding="utf-8") == write_page(), "run python -m tests.matrix"
