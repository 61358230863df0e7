"""The figures of all pages, in order. A new figure is one module of this package and its name in one of the lists.

The lists are kept because order matters, and because a page imports its own figures only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

from undrift.report.figures.figure import Figure, FigureModule, Numbers

RUN_FIGURES = (
    "predictions",
    "class_probabilities",
    "rolling_loss",
    "cumulative_loss",
    "confusion",
    "ranking",
    "memory_spectrum",
    "candidate_weights",
    "data_drift",
    "certificates",
    "effects",
    "contributions",
    "calibration",
    "interval_coverage",
)
"""Figures of a run's page; their subject is a `undrift.report.run_context.RunContext`."""
FLEET_FIGURES = ("loss_saved", "loss_by_rows_seen", "key_half_lives", "key_scatter", "key_curve")
"""Figures of a fleet's page; their subject is a `undrift.run.FleetResult`."""

FORECAST_FIGURES = ("forecast_fan", "error_by_step", "coverage_by_step")
"""Figures of a forecast's page; their subject is a `undrift.run.ForecastResult`, of the first also a `KeysResult`."""

COMPARISON_FIGURES = ("compared_losses",)
"""Figures of the page of several runs; their subject is a `undrift.run.RunsComparison`."""


def make_figures(
    names: Sequence[str], subject: Any, sections: Iterable[str]
) -> tuple[Numbers, dict[str, list[Figure]]]:
    """Return the numbers to embed, and the figures of each of the page's sections."""
    numbers: Numbers = {}
    figures: dict[str, list[Figure]] = {key: [] for key in sections}
    for name in names:
        module: FigureModule[Any] = import_module(f"undrift.report.figures.{name}")
        if module.SECTION not in figures:
            known = ", ".join(figures)
            raise ValueError(f"report: SECTION of figure '{name}' must be one of {known}, got {module.SECTION!r}")
        measured = module.measure(subject)
        for key, part in measured.items():
            numbers[key] = {**numbers[key], **part} if part and numbers.get(key) else part
        figure = None if None in measured.values() else module.draw(subject, numbers)
        figures[module.SECTION].extend([figure] if figure else [])
    return numbers, figures
