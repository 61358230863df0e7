"""The first screen's numbers are those of the tables in the docs."""

import pytest

from benchmarks import first_screen


def test_the_sentences_are_worked_out_from_the_tables():
    for page in first_screen.PAGES:
        assert first_screen.between_marks(page, first_screen.MARK).strip() == first_screen.sentences(), page.name


def test_errors_are_compared_by_a_geometric_mean_and_costs_by_the_median():
    def table_lines(ours, theirs, cost):
        line = first_screen.Line
        return [line("undrift best (default)", ours, 2.0), line("lightgbm L, refitted every 250", theirs, cost)]

    quality = {"a": table_lines(1.0, 4.0, 20.0), "b": table_lines(1.0, 1.0, 80.0), "c": table_lines(2.0, 1.0, 60.0)}
    quality[first_screen.LEFT_OUT] = table_lines(1.0, 1e9, 1e9)
    ratio, cheaper = first_screen.errors(quality, "undrift best", "LightGBM, every 250 rows")
    assert ratio == pytest.approx((0.25 * 1.0 * 2.0) ** (1 / 3))
    assert cheaper == pytest.approx(30.0)
