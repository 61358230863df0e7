"""`undrift forecast`: the next steps of the series in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undrift.cli import run_options as options
from undrift.cli.output import print_error, print_json, print_table, printable
from undrift.errors import InputError

if TYPE_CHECKING:
    from undrift.run import ForecastResult, KeysResult

SHOWN = 5
"""Steps printed besides the last one."""
LISTS = ("target", "known", "candidate", "na", "season")


def forecast(
    context: typer.Context,
    file: options.File = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            "--target",
            "-t",
            help="Column to forecast; a,b,c are forecast together [default: the only column of numbers].",
        ),
    ] = None,
    horizon: Annotated[int, typer.Option("--horizon", "-H", help="Steps ahead.")] = 24,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder [default: FILE-forecast].")] = None,
    time: options.Time = None,
    series: Annotated[
        str | None, typer.Option("--series", help="Column that says which series a row is of (long files).")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The same, but every series has a forecaster of its own.")
    ] = None,
    season: Annotated[
        list[str] | None,
        typer.Option("--season", help="Rows after which values repeat, 24,168; 0: none [default: found]."),
    ] = None,
    known: Annotated[
        list[str] | None,
        typer.Option("--known", help="Columns known in advance; rows without a target at the end hold those to come."),
    ] = None,
    candidate: Annotated[
        list[str] | None,
        typer.Option(
            "--candidate",
            help="Forecasts made elsewhere: a column beside the target, known a horizon before its row (COL:6: six "
            "rows), or COL for COL_1, COL_2, ..., made in their row.",
        ),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Level of the intervals.")] = 0.9,
    nonnegative: Annotated[
        bool | None,
        typer.Option(
            "--nonnegative/--no-nonnegative",
            help="Whether forecasts below 0 become 0 [default: while a series has had no value below 0].",
        ),
    ] = None,
    every: Annotated[int, typer.Option("--every", help="Keep the forecasts of every so many rows.")] = 1,
    na: options.Na = None,
    time_format: options.TimeFormat = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    format: options.Format = None,  # noqa: A002  # the option's name
    limit: options.Limit = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Do nothing if this file was forecast already; with --key, go on.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the forecasts that are there.")] = False,
    report: options.Report = True,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Forecast the series in FILE after every row, learn from it, and say how well that went.

    Season, lags and calendar are found from the data. Writes a folder with the next steps (next.csv; with --key
    Parquet), the forecasts of every row (Parquet), the model, scores beside both naive forecasts, and a report.
    Tomorrow: undrift update FOLDER NEWFILE.
    """
    from undrift.report import render_forecast
    from undrift.run import ForecastSettings, find_forecast, forecast_file, forecast_keys

    if file is None:
        raise InputError("undrift forecast: name a file, as in undrift forecast FILE --target COLUMN")
    folder = out if out is not None else Path(f"{Path(file).name.split('.')[0]}-forecast")
    found = find_forecast(folder, file) if resume else None
    if found is not None:
        print_error(f"{folder}: {file} was forecast already, {found['rows']:,} rows; nothing to do")
        return 0
    log, settings = None if quiet else print_error, ForecastSettings(**_values(context))
    if key is not None:
        show_keys(forecast_keys(file, folder, settings, force=force, resume=resume, log=log), json=json)
        return 0
    result = forecast_file(
        file,
        folder,
        settings,
        force=force,
        log=log,
        report=render_forecast if report else None,
    )
    show(result, report=report, json=json)
    return 0


def _values(context: typer.Context) -> dict[str, Any]:
    """Return the settings among the options, as plain values."""
    from dataclasses import fields

    from undrift.run import ForecastSettings

    given = {field.name: context.params.get(field.name) for field in fields(ForecastSettings)}
    values = {name: value for name, value in given.items() if value is not None and value != ()}
    for name in LISTS:
        texts = values.get(name)
        if texts:
            values[name] = tuple(part.strip() for text in texts for part in text.split(",") if part.strip())
    if "season" in values:
        try:
            values["season"] = tuple(int(one) for one in values["season"])
        except ValueError:
            raise InputError(f"--season must be whole numbers such as 24,168, got {values['season'][0]!r}") from None
    return values


def show(result: ForecastResult, *, report: bool, json: bool) -> None:
    """Print what came of it."""
    from undrift.report.forecast_page import mase_title, score_rows, takeaways
    from undrift.run.forecast.forecast_folder import REPORT

    page = str(result.folder / REPORT) if report else None
    if json:
        names = ("rows", "seasons", "scores", "notes")
        facts = {"folder": str(result.folder), "report": page, "added": result.added, "skipped": result.skipped}
        facts["next"] = str(result.folder / result.state["files"]["next"])
        print_json(facts | {name: result.state[name] for name in names})
        return
    skipped = f", {result.skipped:,} learned before" if result.skipped else ""
    print(f"{len(result.values):,} rows, {result.added:,} of them new{skipped}")
    for text in takeaways(result):
        print(printable(text))
    rows = score_rows(result)
    if rows:
        print_table(["forecast", "mse", "mae", mase_title(result)], rows)
    _print_next(result)
    ahead = result.folder / result.state["files"]["next"]
    print(printable(f"next steps: {ahead}; everything is in {result.folder}" + (f"; report: {page}" if page else "")))


def _print_next(result: ForecastResult) -> None:
    """Print the first of the next steps of the first series, and the last one."""
    from undrift.run.forecast.play import next_frame

    name, timed = result.state["plan"]["names"][0], result.times is not None
    horizon = result.model.horizon
    rows = next_frame(result.model, result.state["plan"]["names"], len(result.values), timed=timed).rows()[:horizon]
    shown = rows if horizon <= SHOWN + 1 else [*rows[:SHOWN], rows[-1]]
    times = ["time"] if timed else []
    cells = [
        [f"{step}", *(["-" if when is None else f"{when}"] if timed else []), *(f"{x:.5g}" for x in numbers)]
        for _, step, when, *numbers in shown
    ]
    print_table([f"next steps of {name}", *times, "forecast", "lower", "upper"], cells)


def show_keys(result: KeysResult, *, json: bool) -> None:
    """Print what came of many keys."""
    from undrift.report.formatting import number, percent
    from undrift.run import summarize_keys

    found = summarize_keys(result.keys)
    if json:
        facts = {"folder": str(result.folder), "added": result.added, "skipped": result.skipped}
        print_json(facts | found | {"files": result.state["files"], "notes": result.state["notes"]})
        return
    skipped = f", {result.skipped:,} learned before" if result.skipped else ""
    print(f"{found['keys']:,} keys, {found['rows']:,} rows, {result.added:,} of them new{skipped}")
    rows = []
    against = {"last_time": "same as last time", "last_season": "same as last season"}
    if all(found[f"median_ratio_to_{name}"] is not None for name in against):
        against = {"best_naive": "the better of both, by key", **against}
    for name, words in against.items():
        if found[f"median_ratio_to_{name}"] is not None:
            better = f"{found[f'better_than_{name}']:,} of {found['judged_keys']:,}"
            rows.append([words, better, number(found[f"median_ratio_to_{name}"])])
    if rows:
        print_table(["against", "keys that are better", "median of mse / its mse"], rows)
        if found["median_mase"] is not None:
            unit = "mean absolute difference over a key's season, or over one row without a season"
            print(f"median MASE over keys: {number(found['median_mase'])} (unit: {unit})")
        print(f"intervals covered {percent(found['coverage'])} of values, mean over keys")
    if "next" in result.state["files"]:
        print(printable(f"next steps: {result.folder / result.state['files']['next']}"))
    print(printable(f"everything is in {result.folder}; a row for each key: {result.state['files']['keys']}"))
