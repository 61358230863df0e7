"""The page docs/matrix.md, written from the declarations."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from .cells import CELLS, STATUSES, Cell, Status, status_of

PAGE = Path(__file__).parents[2] / "docs" / "matrix.md"
MARKS = {"works": "●", "partial": "◐", "refused": "○", "absent": "\N{EN DASH}", "wrong": "✗"}
MEANINGS = {
    "works": "predictions are those of the library's `play` on the same rows; \\* or as a remark below says",
    "partial": "some parts work; the list below says which",
    "refused": "an error message says that it is not supported",
    "absent": "there is no option or argument for it",
    "wrong": "at least one part silently gives wrong results",
}
FEATURES = {
    "several classes": "targets of three and more classes",
    "weights": "a column that says how often each row counts",
    "elapsed": "forgetting by the time between rows instead of by rows",
    "late labels": "labels that become known some rows later",
    "lags": "the target of earlier rows as features",
    "many texts": "columns of texts, few different ones or many",
    "missing values": "empty cells, rows without a label, features that say where a value is missing",
    "candidates": "columns with predictions made elsewhere; for several classes in River, scikit-learn and "
    "`OnlineClassifier` alone",
    "intervals, quantiles": "intervals of 90%, of another level, and quantiles",
    "speed max": "the most accurate and slowest speed",
    "certificates": "proven bounds on the regret; of streams, River and scikit-learn by `undrift.regret.certify` "
    "on the estimator inside",
    "calendar": "hour, weekday and time of year as features",
    "alerts": "events when something changes, and a signal that there are some: exit code 6, or the function that "
    "`undrift.events.Watch(on_event=...)` calls, also beside the estimators of River and scikit-learn",
    "save, resume": "stop and continue later with the same bits",
}
PATHS = {
    "play": "`undrift.Stream.play` on data frames, block by block",
    "predict, learn": "`predict` and `learn` of a stream, row by row",
    "ask, tell": "`ask` and `tell` of a stream, with labels that arrive later",
    "run": "`undrift run` on a file",
    "live": "`undrift run --live` on a pipe; elapsed times where it goes on from the folder of a run, and texts both "
    "ways: without a folder, a text gets its feature when it comes",
    "update": "`undrift update` of a run's folder",
    "predict": "`undrift predict` with a run's model",
    "compare": "our learners in `undrift compare`, by their scores; notes name the peers that cannot",
    "certify": "`undrift certify` of a run's folder",
    "fleet": "`undrift fleet`, which is `play_fleet` in Python",
    "Spark": "`undrift.spark.learn_table`",
    "serve": "`undrift serve` of a run's folder",
    "serve by key": "`undrift serve` of a fleet's folder",
    "forecast": "`undrift forecast`, compared with `Forecaster.play`",
    "forecast by key": "`undrift forecast --key`",
    "River": "`undrift.river.DriftRegressor` and `DriftClassifier`",
    "sklearn": "`undrift.sklearn.DriftRegressor` and `DriftClassifier`; lags, texts and the calendar on data frames",
}
WORDS = {"wrong": "silently wrong", "differs": "different", "excluded": "refused"}
"""Statuses of parts in other words."""
HEADINGS = {
    "wrong": "Silently wrong",
    "partial": "In part",
    "refused": "Refused",
    "absent": "Absent",
    "works": "Remarks",
}


def write_page() -> str:
    """Return the page."""
    cells = {(feature, path): cell for feature, row in CELLS.items() for path, cell in row.items() if cell is not None}
    counts = Counter(status_of(cell) for cell in cells.values())
    lines = [
        "# What works where",
        "",
        "<!-- written by python -m tests.matrix from tests/matrix/cells.py -->",
        "",
        "Each row is a feature, each column a way to use undrift. A test (`tests/matrix`) measures every cell:",
        "it sends a small stream through the path and compares the predictions with those of the library.",
        "",
        f"Of {len(cells)} cells that apply, "
        + ", ".join(f"{counts[status]} {_plural(status)}" for status in STATUSES)
        + ".",
        "",
        *(f"- {MARKS[status]} **{status}**: {MEANINGS[status]}" for status in STATUSES),
        "",
        "Where a cell is empty, the feature does not apply.",
        "",
        '<div class="matrix" markdown>',
        "",
        "| | " + " | ".join(PATHS) + " |",
        "|---|" + ":-:|" * len(PATHS),
        *(_row(feature, row) for feature, row in CELLS.items()),
        "",
        "</div>",
        "",
        "## The features",
        "",
        *_definitions(FEATURES),
        "",
        "## The paths",
        "",
        *_definitions(PATHS),
    ]
    for status, heading in HEADINGS.items():
        lines += ["", f"## {heading}", "", *(_notes(status) or ["None."])]
    return "\n".join(lines) + "\n"


def _plural(status: str) -> str:
    """Return a status as what several cells are or do."""
    return {"works": "work", "partial": "work in part", "wrong": "are silently wrong"}.get(status, f"are {status}")


def _row(feature: str, row: dict[str, Cell | None]) -> str:
    marks = ["" if cell is None else MARKS[status_of(cell)] + _star(cell) for cell in row.values()]
    return f"| **{feature}** | " + " | ".join(marks) + " |"


def _star(cell: Cell) -> str:
    return "\\*" if status_of(cell) == "works" and _has_reason(cell) else ""


def _has_reason(cell: Cell) -> bool:
    return any(status.why for status in ([cell] if isinstance(cell, Status) else cell.values()))


def _definitions(words: dict[str, str]) -> list[str]:
    return [f"- **{name}**: {text}" for name, text in words.items()]


def _notes(status: str) -> list[str]:
    """Return a line for each reason why cells of a status do not work, with the paths it holds for."""
    paths: dict[tuple[str, str], list[str]] = {}
    for feature, row in CELLS.items():
        for path, cell in row.items():
            if cell is not None and status_of(cell) == status and _has_reason(cell):
                paths.setdefault((feature, _explain(cell)), []).append(path)
    return [f"- **{feature}** ({'; '.join(where)}): {why}." for (feature, why), where in paths.items()]


def _explain(cell: Cell) -> str:
    """Return the reason of a cell; where parts differ, what becomes of each."""
    if isinstance(cell, Status):
        return cell.why
    parts: dict[tuple[str, str], list[str]] = {}
    for part, status in cell.items():
        parts.setdefault((status.name, status.why), []).append(part)
    words = [
        f"{WORDS.get(name, name)}: {', '.join(names)}" + (f" ({why})" if why else "")
        for (name, why), names in parts.items()
    ]
    return "; ".join(words)
