"""`undrift forecast`: the next steps of the series in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from undrift.cli import run_options as options
from undrift.cli.output import ExitCode, print_error, print_json, print_table, printable
from undrift.stream.settings import ForecastSettings

if TYPE_CHECKING:
    from undrift.run import ForecastResult, KeysResult

SHOWN = 5
"""Steps printed besides the last one."""


REFUSED = {
    "weight": "a value is also what later forecasts look back at, which no weight takes out; leave wrong values empty, "
    "or use undrift run --lag --weight",
    "elapsed": "steps ahead need evenly spaced rows, and rows that are missing between two times are counted anyway; "
    "leave it out, or use undrift run --elapsed for uneven times",
}
"""Settings of runs that forecasts have no use for, and why."""


@options.takes_settings(ForecastSettings, refuses=REFUSED)
def forecast(
    file: options.File,
    settings: ForecastSettings,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder [default: FILE-forecast].")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Do nothing if this file was forecast already; with --key, go on.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the forecasts that are there.")] = False,
    report: options.Report = True,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Forecast the series in FILE after every row, learn from it, and say how well that went.

    Season, lags and calendar are found from the data. Writes a folder with the next steps (next.csv), the forecasts of
    every row (Parquet), the model, scores beside both naive forecasts, and a report. Tomorrow: undrift update FOLDER
    NEWFILE. Exit code 6: --alert found changes.
    """
    from undrift.report import render_forecast, render_forecast_keys
    from undrift.run import find_forecast, forecast_file, forecast_keys

    folder = out if out is not None else Path(f"{Path(file).name.split('.')[0]}-forecast")
    found = find_forecast(folder, file) if resume else None
    if found is not None:
        print_error(f"{folder}: {file} was forecast already, {found['rows']:,} rows; nothing to do")
        return 0
    log = None if quiet else print_error
    if settings.key is not None:
        page = render_forecast_keys if report else None
        keys = forecast_keys(file, folder, settings, force=force, resume=resume, log=log, report=page)
        return show_keys(keys, report=report, json=json)
    render = render_forecast if report else None
    return show(forecast_file(file, folder, settings, force=force, log=log, report=render), report=report, json=json)


def show(result: ForecastResult, *, report: bool, json: bool) -> int:
    """Print what came of it, and return the exit code."""
    from undrift.report.forecast_page import mase_title, score_rows, takeaways
    from undrift.run.forecast.forecast_folder import REPORT

    page = str(result.folder / REPORT) if report else None
    code = ExitCode.CHANGE_FOUND if result.changes else ExitCode.FINE
    if json:
        names = ("rows", "seasons", "scores", "notes")
        facts = {"folder": str(result.folder), "report": page, "added": result.added, "skipped": result.skipped}
        facts["next"] = str(result.folder / result.state["files"]["next"])
        facts["changes"] = result.changes
        print_json(facts | {name: result.state[name] for name in names})
        return code
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
    return code


def _print_next(result: ForecastResult) -> None:
    """Print the first of the next steps of the first series, and the last one."""
    from undrift.run.forecast.recorder import next_frame

    name, timed = result.state["plan"]["names"][0], result.times is not None
    horizon = result.model.horizon
    rows = next_frame(result.model, result.state["plan"]["names"], len(result.values), timed=timed).rows()[:horizon]
    shown = rows if horizon <= SHOWN + 1 else [*rows[:SHOWN], rows[-1]]
    times = ["time"] if timed else []
    cells = [
        [f"{step}", *(["-" if when is None else f"{when}"] if timed else []), *(f"{x:.5g}" for x in numbers[:3])]
        for _, step, when, *numbers in shown
    ]
    print_table([f"next steps of {name}", *times, "forecast", "lower", "upper"], cells)


def show_keys(result: KeysResult, *, report: bool, json: bool) -> int:
    """Print what came of many keys, and return the exit code."""
    from undrift.report.forecast_page import KEY_SCORES, key_score_rows, key_takeaways
    from undrift.run import summarize_keys
    from undrift.run.forecast.forecast_folder import REPORT

    found, page = summarize_keys(result.keys), str(result.folder / REPORT) if report else None
    code = ExitCode.CHANGE_FOUND if result.changes else ExitCode.FINE
    if json:
        facts = {"folder": str(result.folder), "report": page, "added": result.added, "skipped": result.skipped}
        facts["changes"] = result.changes
        print_json(facts | found | {"files": result.state["files"], "notes": result.state["notes"]})
        return code
    skipped = f", {result.skipped:,} learned before" if result.skipped else ""
    print(f"{found['keys']:,} keys, {found['rows']:,} rows, {result.added:,} of them new{skipped}")
    rows = key_score_rows(found)
    if rows:
        print_table(KEY_SCORES, rows)
        for text in key_takeaways(result):
            print(text)
    if "next" in result.state["files"]:
        print(printable(f"next steps: {result.folder / result.state['files']['next']}"))
    keys = f"everything is in {result.folder}; a row for each key: {result.state['files']['keys']}"
    print(printable(keys + (f"; report: {page}" if page else "")))
    return code
