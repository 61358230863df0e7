"""`render_forecast` and `render_forecast_keys`: the report of a folder of forecasts, of series or by key."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from undrift.kernels.definitions import ROUNDING
from undrift.report.figures.registry import FORECAST_FIGURES, make_figures
from undrift.report.formatting import NONE, join_items, number, percent, plural, shorten
from undrift.report.html_file import write_page
from undrift.report.run_text import Card, flatten
from undrift.run import ForecastResult, KeysResult, summarize_keys
from undrift.run.forecast.keys import rank_keys

SECTIONS = {"short": "In short", "next": "Next steps", "well": "How well", "changes": "What changed", "about": "About"}
LISTED_KEYS, LISTED_EVENTS = 200, 100
"""Keys and events in the tables of the page: the worst keys, and the last events."""
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
    content = _content(result.state, figures) | {
        "target": join_items(names, 3),
        "subtitle": f"{len(names):,} series, {plural(len(result.values), 'row')}, "
        f"{plural(result.model.horizon, 'step')} ahead",
        "takeaways": takeaways(result),
        "cards": _cards(result),
        "score_columns": ["Forecast", "mean squared error", "mean absolute error", mase_title(result)],
        "scores": score_rows(result),
    }
    numbers = {**measured, "format": 1, "scores": result.state["scores"], "seasons": result.state["seasons"]}
    return write_page(out, "forecast.html", content, numbers, figures)


def render_forecast_keys(result: KeysResult, out: str | os.PathLike[str]) -> Path:
    """Write the report of forecasts by key, the worst keys first, and return its path."""
    measured, figures = make_figures(FORECAST_FIGURES[:1], result, SECTIONS)
    found, settings = summarize_keys(result.keys), result.state["settings"]
    listed = rank_keys(result.keys).head(LISTED_KEYS)
    cards = [
        Card("keys", f"{found['keys']:,}", f"{plural(found['rows'], 'row')}, {result.added:,} in the last file"),
        Card("median MASE", number(found["median_mase"]), "the middle key's; 1 is the unit of a naive forecast"),
        Card(
            "covered", percent(found["coverage"]), f"of values by intervals of {percent(settings['level'])}, on average"
        ),
    ]
    content = _content(result.state, figures, keys=len(listed)) | {
        "target": join_items(settings["target"], 3),
        "subtitle": f"{plural(found['keys'], 'key')}, {plural(found['rows'], 'row')}, "
        f"{plural(settings['horizon'], 'step')} ahead; every key has a forecaster of its own",
        "takeaways": [f"{text[0].upper()}{text[1:]}." for text in key_takeaways(result)],
        "cards": cards if found["median_mase"] is not None else cards[:1],
        "score_columns": KEY_SCORES,
        "scores": key_score_rows(found),
        "key_count": plural(len(listed), "key"),
        "key_columns": KEY_COLUMNS,
        "key_rows": [_key_cells(row) for row in listed.iter_rows(named=True)],
    }
    return write_page(out, "forecast.html", content, {**measured, "format": 1, "scores": found}, figures)


def _content(state: dict[str, Any], figures: Mapping[str, Any], keys: int = 0) -> dict[str, Any]:
    """Return what pages of series and of keys have in common."""
    events = state.get("events", [])
    shown = {"short": True, "about": True, "changes": bool(events), **({"well": True} if keys else {})}
    return {
        "sections": [(name, text) for name, text in SECTIONS.items() if shown.get(name) or figures[name]],
        "notes": state["notes"],
        "figures": figures,
        "events": events[-LISTED_EVENTS:],
        "event_count": plural(len(events), "change") + (", the last of them" if len(events) > LISTED_EVENTS else ""),
        "key_rows": [],
        "about": flatten(state["settings"], "setting: "),
        "glossary": GLOSSARY,
    }


KEY_SCORES = ["against", "keys that are better", "median of mse / its mse"]
KEY_COLUMNS = [
    "Key", "rows", "season", "mean squared error", "same as last time", "same as last season", "over the better one",
    "MASE", "covered",
]  # fmt: skip
_NUMBERS = ("mse", "mse_last_time", "mse_last_season", "ratio", "mase")


def _key_cells(row: Mapping[str, Any]) -> list[str]:
    """Return the row of a key in the table of the page."""
    errors = [NONE if row[name] is None else number(row[name]) for name in _NUMBERS]
    covered = NONE if row["coverage"] is None else percent(row["coverage"])
    return [
        shorten(row["key"], 60),
        f"{row['rows']:,}",
        f"{row['season']:,}" if row["season"] else NONE,
        *errors,
        covered,
    ]


def key_score_rows(found: Mapping[str, Any]) -> list[list[str]]:
    """Return the table that holds all keys against naive forecasts."""
    against = {"last_time": "same as last time", "last_season": "same as last season"}
    if all(found[f"median_ratio_to_{name}"] is not None for name in against):
        against = {"best_naive": "the better of both, by key", **against}
    return [
        [
            words,
            f"{found[f'better_than_{name}']:,} of {found['judged_keys']:,}",
            number(found[f"median_ratio_to_{name}"]),
        ]
        for name, words in against.items()
        if found[f"median_ratio_to_{name}"] is not None
    ]


def key_takeaways(result: KeysResult) -> list[str]:
    """Return the sentences about all keys that a reader should remember; the command prints them too."""
    found = summarize_keys(result.keys)
    texts = []
    if found["median_ratio_to_best_naive"] is not None:
        better = f"{found['better_than_best_naive']:,} of {plural(found['judged_keys'], 'key')}"
        texts.append(f"squared errors were smaller than those of the better naive forecast for {better}")
    if found["median_mase"] is not None:
        unit = "mean absolute difference over a key's season, or over one row without a season"
        texts.append(f"median MASE over keys: {number(found['median_mase'])} (unit: {unit})")
    if found["coverage"] is not None:
        texts.append(f"intervals covered {percent(found['coverage'])} of values, mean over keys")
    return texts or ["no forecast could be judged yet: its values are still to come"]


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
    predictors = [
        [name, number(float(scores.mse[k])), number(float(scores.mae[k])), number(float(scores.mase[k]))]
        for k, name in enumerate(result.state["scores"]["predictors"])
        if scores.judged and scores.mse[k] == scores.mse[k]
    ]
    return [*predictors, *own]


def _cards(result: ForecastResult) -> list[Card]:
    scores = result.scores
    cards = [Card("rows", f"{len(result.values):,}", f"{plural(result.added, 'row')} in the last file")]
    if scores.judged:
        best = _naive_errors(result)[0]
        cards.append(Card("mean squared error", number(float(scores.mse[0])), f"{best.name}: {number(best.mse)}"))
        cards.append(Card("pinball loss", number(scores.pinball), "of both ends of the intervals"))
    return cards
