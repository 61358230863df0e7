"""Runs beside each other: only the same rows, differences with their errors, and one page."""

import json

import numpy as np
import pytest

from tests.run.row_files import table, write_csv
from undrift.cli.app import run as undrift
from undrift.errors import DataError, InputError
from undrift.report import render_comparison
from undrift.run import Settings, compare_runs, play_file, read_run
from undrift.run.finish.compare_runs import standard_error


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    path = str(write_csv(base / "rows.csv", table(400)))
    for name, more in {"light": {}, "late": {"delay": 30}, "short": {"limit": 300}}.items():
        play_file(path, base / name, Settings(target="y", drop=("hot", "city"), speed="light", **more))
    return base


def test_differences_are_those_of_the_rows_that_all_predicted(folders):
    found = compare_runs([folders / "light", folders / "late", folders / "short"])
    light, late = read_run(folders / "light"), read_run(folders / "late")
    shared = (light.line[light.predicted], late.line[late.predicted], read_run(folders / "short").line)
    rows = np.intersect1d(np.intersect1d(shared[0], shared[1]), shared[2])
    assert found.rows == len(rows) < 300
    a, b = np.isin(light.line, rows), np.isin(late.line, rows)
    expected = 0.5 * (np.mean((late.yhat - late.y)[b] ** 2) - np.mean((light.yhat - light.y)[a] ** 2))
    first, second, third = found.runs
    assert second.difference == pytest.approx(expected)
    assert (first.difference, first.error, first.differs) == (0.0, 0.0, False)
    assert third.difference == 0.0  # the same model, over the same rows
    assert next(iter(first.scores)) == "rmse"
    assert first.coverage == pytest.approx(
        np.mean((light.lower <= light.y) & (light.y <= light.upper), where=a), abs=0.02
    )


def test_an_error_counts_that_neighbours_are_alike():
    rng = np.random.default_rng(0)
    plain = rng.normal(size=10_000)
    assert standard_error(plain) == pytest.approx(0.01, rel=0.3)
    alike = np.repeat(rng.normal(size=400), 25)
    assert standard_error(alike) == pytest.approx(1.0 / 20.0, rel=0.3)
    assert standard_error(alike) > 3.0 * np.std(alike) / 100.0


def test_runs_of_other_rows_are_refused(folders, tmp_path):
    with pytest.raises(InputError, match="compare_runs: name the folders of two runs or more, got 1"):
        compare_runs([folders / "light"])
    other = (folders / "rows.csv").read_text().splitlines()
    head, column = other[0], other[0].split(",").index("y")
    cells = [line.split(",") for line in other[1:]]
    for line in cells:
        line[column] = str(float(line[column]) + 1.0)
    (tmp_path / "rows.csv").write_text("\n".join([head, *map(",".join, cells)]))
    settings = Settings(target="y", drop=("hot", "city"), speed="light")
    play_file(str(tmp_path / "rows.csv"), tmp_path / "shifted", settings)
    with pytest.raises(DataError, match=r"shifted: line \d+ has another label than in .*light"):
        compare_runs([folders / "light", tmp_path / "shifted"])
    play_file(
        str(folders / "rows.csv"), tmp_path / "few", Settings(target="y", drop=("hot", "city"), speed="light", limit=20)
    )
    with pytest.raises(DataError, match="rows were predicted by all runs, 30 are needed"):
        compare_runs([folders / "light", tmp_path / "few"])
    numbers = [name for name in head.split(",") if name not in ("y", "hot", "city")]
    play_file(
        str(folders / "rows.csv"), tmp_path / "else", Settings(target=numbers[-1], drop=("hot", "city"), speed="light")
    )
    with pytest.raises(DataError, match=f"its target is {numbers[-1]}, that of .*light y; compare runs"):
        compare_runs([folders / "light", tmp_path / "else"])


def test_the_command_prints_a_table_and_writes_a_page(folders, tmp_path, capsys):
    page = tmp_path / "two.html"
    assert undrift(["compare-runs", str(folders / "light"), str(folders / "late"), "-o", str(page)]) == 0
    said = capsys.readouterr().out
    assert "light" in said
    assert "late" in said
    assert str(page) in said.replace("\n", "")
    assert "Runs that predict" in page.read_text(encoding="utf-8")
    assert undrift(["compare-runs", str(folders / "light"), str(folders / "late"), "--no-report", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["report"] is None
    assert [one["name"] for one in answer["runs"]] == ["light", "late"]
    assert undrift(["compare-runs", str(folders / "light")]) == 2


@pytest.mark.xdist_group("browser")
def test_the_page_draws_on_a_phone_in_the_dark(folders, tmp_path, browser):
    path = render_comparison(compare_runs([folders / "light", folders / "late"]), tmp_path / "page.html")
    context = browser.new_context(viewport={"width": 360, "height": 800}, is_mobile=True, color_scheme="dark")
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn=yes]", timeout=60_000)
    assert page.locator("#plot-compared .scatterlayer path.js-line").count() == 2
    page.click("[data-figure=compared][data-view='1']")
    page.wait_for_selector("html[data-drawn=yes]")
    assert page.locator("#plot-compared .scatterlayer path.js-line").count() == 1
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360
    context.close()
    assert not said
