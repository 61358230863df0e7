"""The column Spark of the matrix of features and paths, which needs Spark."""

import pytest

from tests.matrix.measure import parts_to_measure, require_declared

PARTS = [(feature, part) for feature, path, part in parts_to_measure() if path == "Spark"]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("feature", "part"), PARTS, ids=["-".join(filter(None, names)) for names in PARTS])
def test_a_cell_does_what_is_declared(feature, part):
    require_declared(feature, "Spark", part)
