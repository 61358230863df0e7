"""Every module of figures is in the registry, and adding one takes a file and a line, nothing else."""

import json
import pkgutil
import re
import sys
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pytest

from tests.report.report_runs import jumping_rows, play_run
from tests.report.test_render import Elements
from undrift.report import figures, html_file, render, run_page
from undrift.report.figures.figure import Figure, View
from undrift.report.figures.registry import (
    COMPARISON_FIGURES,
    FLEET_FIGURES,
    FORECAST_FIGURES,
    RUN_FIGURES,
    make_figures,
)
from undrift.report.plot_spec import curve


def test_every_module_of_figures_is_registered_once():
    registered = [*RUN_FIGURES, *FLEET_FIGURES, *FORECAST_FIGURES, *COMPARISON_FIGURES]
    assert len(set(registered)) == len(registered)
    assert {module.name for module in pkgutil.iter_modules(figures.__path__)} - {"figure", "registry"} == set(
        registered
    )


def test_a_module_with_numbers_and_a_drawing_becomes_a_figure_of_the_page(tmp_path, monkeypatch):
    def measure(run):
        return {"labels": {"axis": run.timeline.axis(run.blocks.last), "y": run.blocks.mean(run.data.y).tolist()}}

    def draw(run, numbers):
        assert len(numbers["labels"]["y"]) == run.data.rounds
        return Figure("labels", "The labels", "How.", "Alt.", "Measured.", [View("", [line], {})])

    line = curve("labels", "y", label="labels", shade="own")
    module = ModuleType("undrift.report.figures.labels")
    module.SECTION, module.measure, module.draw = "trust", measure, draw
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(run_page, "RUN_FIGURES", (*RUN_FIGURES, "labels"))
    data = play_run("regression", *jumping_rows("regression", 40), certify=False)
    page = Elements(render(data, tmp_path / "report.html").read_text(encoding="utf-8"))
    assert json.loads(page.blocks["figures"])[-1]["key"] == "labels"
    assert json.loads(page.blocks["numbers"])["labels"]["y"] == data.y.tolist()
    assert "The labels" in page.text


def test_a_figure_of_a_section_that_is_not_there_is_refused(monkeypatch):
    module = ModuleType("undrift.report.figures.lost")
    module.SECTION, module.measure, module.draw = "thrust", dict, lambda run, numbers: None
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with pytest.raises(ValueError, match="SECTION of figure 'lost' must be one of short, well, trust, got 'thrust'"):
        make_figures(["lost"], None, ("short", "well", "trust"))


def test_the_bundle_draws_all_that_figures_are_made_of_and_ships_with_its_licence():
    package = files("undrift.report")
    bundle = package.joinpath(html_file.PLOTLY).read_text(encoding="utf-8")
    folder = Path(figures.__path__[0])
    sources = [path.read_text("utf-8") for path in (folder.parent / "plot_spec.py", *folder.glob("*.py"))]
    named = {kind for text in sources for kind in re.findall(r'"type": "([a-z0-9]+)"', text)}
    used = named - {"category", "data", "line", "log"}  # types of axes, error bars and shapes
    assert used == {"scatter", "bar", "heatmap"}
    assert all(f'moduleType:"trace",name:"{kind}"' in bundle for kind in used)
    version = re.search(r"plotly\.js \(cartesian - minified\) v([0-9.]+)", bundle)[1]
    assert f"npm pack plotly.js-cartesian-dist-min@{version}" in package.joinpath("html_file.py").read_text("utf-8")
    assert "Permission is hereby granted" in package.joinpath("plotly", "LICENSE").read_text(encoding="utf-8")
