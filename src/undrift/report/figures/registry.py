"""The figures of both pages in the order in which they stand. A new figure is one module here and one line below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from undrift.report.figures import (
    calibration,
    candidate_weights,
    certificates,
    coefficients,
    cumulative_loss,
    interval_coverage,
    key_half_lives,
    key_scatter,
    loss_by_rows_seen,
    loss_saved,
    memory_spectrum,
    predictions,
    rolling_loss,
)
from undrift.report.figures.figure import Figure, FigureModule, Numbers
from undrift.report.run_context import RunContext
from undrift.run import FleetResult

RUN_FIGURES: tuple[FigureModule[RunContext], ...] = (
    predictions,
    rolling_loss,
    cumulative_loss,
    memory_spectrum,
    candidate_weights,
    certificates,
    coefficients,
    calibration,
    interval_coverage,
)
FLEET_FIGURES: tuple[FigureModule[FleetResult], ...] = (
    loss_saved,
    loss_by_rows_seen,
    key_half_lives,
    key_scatter,
)
Page = TypeVar("Page")


def make_figures(modules: Sequence[FigureModule[Page]], subject: Page) -> tuple[Numbers, dict[str, list[Figure]]]:
    """Return the numbers to embed by name, and the figures of each section."""
    numbers: Numbers = {}
    sections: dict[str, list[Figure]] = {module.SECTION: [] for module in modules}
    for module in modules:
        measured = module.measure(subject)
        for name, part in measured.items():
            numbers[name] = {**numbers[name], **part} if part and numbers.get(name) else part
        figure = None if None in measured.values() else module.draw(subject, numbers)
        if figure is not None:
            sections[module.SECTION].append(figure)
    return numbers, sections
