"""`render_forecast`: the report of a folder of forecasts."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, NamedTuple

from undrift.kernels.definitions import ROUNDING
from undrift.report.figures.registry import FORECAST_FIGURES, make_figures
from undrift.report.formatting import join_items, number, percent, plural
from undrift.report.html_file import write_page
from undrift.report.run_text import Card, flatten
from undrift.run import ForecastResult

SECTIONS = {"short": "In short", "next": "Next steps", "well": "How well", "about": "About"}
GLOSSARY = {
    "origin": "The row after which a forecast is made.",
    "step": "How many rows after its origin the value lies that is forecast.",
    "same as last time": "The forecast that every step equals the last value.",
    "same as last season": "The forecast that every step equals the value a season before it.",
    "MASE": "The mean absolute error in units of the mean absolute difference between values a season apart, or one "
    "row apart where there is no season.",
    "pinball loss": "The loss that a quantile minimises: small where intervals are narrow and keep their word.",
}


def render_forecast(result: ForecastResult, out: str | os.PathLike[str]) -> Path:
    """Write the report of forecasts and return its path."""
    measured, figures = make_figures(FORECAST_FIGURES, result, SECTIONS)
    names = result.state["plan"]["names"]
    content: dict[str, Any] = {
        "target": join_items(names, 3),
        "subtitle": f"{plural(len(names), 'series')}, {plural(len(result.values), 'row')}, "
        f"{plural(result.model.horizon, 'step')} ahead",
        "sections": [(key, text) for key, text in SECTIONS.items() if key in ("short", "about") or figures[key]],
        "takeaways": takeaways(result),
        "cards": _cards(result),
        "notes": result.state["notes"],
        "figures": figures,
        "score_columns": ["Forecast", "mean squared error", "mean absolute error", mase_title(result)],
        "scores": score_rows(result),
        "about": flatten(result.state["settings"], "setting: "),
        "glossary": GLOSSARY,
    }
    numbers = {**measured, "format": 1, "scores": result.state["scores"], "seasons": result.state["seasons"]}
    return write_page(out, "forecast.html", content, numbers, figures)


def takeaways(result: ForecastResult) -> list[str]:
    """Return the sentences a reader should remember; the command prints them too."""
    scores, seasons = result.scores, result.state["seasons"]
    found = [
        f"The series repeat after {join_items([f'{one:,}' for one in seasons])} rows." if seasons else "No season."
    ]
    if not scores.judged:
        return [*found, "No forecast could be judged yet: its values are still to come."]
    best, *others = _naive_errors(result)
    compared = [f"{_less_or_more(scores.mse[0], other.mse)} than those of {other.name}" for other in others]
    if best.mse <= ROUNDING * max(guess.mse for guess in (best, *others)):
        text = f"The naive guess {best.name} was exact" + "".join(f"; squared errors were {one}" for one in compared)
    else:
        first = f"{_less_or_more(scores.mse[0], best.mse)} than those of the best naive guess, {best.name}"
        text = f"Squared errors were {'; '.join([first, *compared])}"
    found += [_compare(one) for one in result.state.get("candidates", []) if one["judged"]]
    covered = scores.coverage_by_step[scores.coverage_by_step == scores.coverage_by_step]
    inside = f"{percent(float(covered.min()))} to {percent(float(covered.max()))}"
    return [f"{text}.", *found, f"Intervals of {percent(result.model.level)} covered {inside} of values, by step."]


class _NaiveError(NamedTuple):
    """How one naive guess did."""

    name: str
    mse: float


def _naive_errors(result: ForecastResult) -> list[_NaiveError]:
    """Return the naive guesses that were judged, the best first."""
    named = zip(result.state["scores"]["predictors"], result.scores.mse.tolist(), strict=True)
    return sorted((_NaiveError(name, mse) for name, mse in list(named)[1:] if mse == mse), key=lambda guess: guess.mse)


def _less_or_more(mine: float, theirs: float) -> str:
    """Return by which part an error is below or above another, in words."""
    less = 1.0 - mine / theirs if theirs > 0.0 else math.nan
    return f"{percent(abs(less))} {'less' if less >= 0.0 else 'more'}"


def _compare(candidate: dict[str, Any]) -> str:
    """Say how a candidate of the user's own did, and what was served in its place."""
    forecasts = plural(candidate["judged"], "forecast")
    own, served = candidate["mse"], candidate["undrift_mse"]
    if not own:
        return f"'{candidate['name']}' was exact in {forecasts}."
    return (
        f"Squared errors were {_less_or_more(served, own)} than those of '{candidate['name']}', in {forecasts} of both."
    )


def mase_title(result: ForecastResult) -> str:
    """Return the title of the column of MASE, which says how far apart the values are that give its unit."""
    rows = result.scores.mase_rows
    return f"MASE (season of {rows:,} rows)" if rows > 1 else "MASE (unit: one row's move)"


def score_rows(result: ForecastResult) -> list[list[str]]:
    """Return the table of scores."""
    scores = result.scores
    unit = scores.mae[1] / scores.mase[1] if scores.judged and scores.mase[1] > 0.0 else math.nan
    own = [
        [f"{one['name']} (where it forecasts)", number(one["mse"]), number(one["mae"]), number(one["mae"] / unit)]
        for one in result.state.get("candidates", [])
        if one["judged"]
    ]
    return [*_predictor_rows(result), *own]


def _predictor_rows(result: ForecastResult) -> list[list[str]]:
    scores = result.scores
    return [
        [name, number(float(scores.mse[k])), number(float(scores.mae[k])), number(float(scores.mase[k]))]
        for k, name in enumerate(result.state["scores"]["predictors"])
        if scores.judged and scores.mse[k] == scores.mse[k]
    ]


def _cards(result: ForecastResult) -> list[Card]:
    scores = result.scores
    cards = [Card("rows", f"{len(result.values):,}", f"{plural(result.added, 'row')} in the last file")]
    if scores.judged:
        best = _naive_errors(result)[0]
        cards.append(Card("mean squared error", number(float(scores.mse[0])), f"{best.name}: {number(best.mse)}"))
        cards.append(Card("pinball loss", number(scores.pinball), "of both ends of the intervals"))
    return cards
