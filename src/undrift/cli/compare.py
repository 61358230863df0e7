"""`undrift compare`: our default beside installed peers and the naive guesses, on the user's own file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from undrift.cli import run_options as options
from undrift.cli.output import format_number, print_json, print_table, printable


def compare(
    context: typer.Context,
    file: options.File = None,
    target: options.Target = None,
    time: options.Time = None,
    features: options.Features = None,
    drop: options.Drop = None,
    candidate: options.Candidate = None,
    task: options.Task = None,
    positive: options.Positive = None,
    lag: options.Lag = None,
    calendar: options.Calendar = None,
    na: options.Na = None,
    categories: options.Categories = None,
    time_format: options.TimeFormat = None,
    sort: options.Sort = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = None,
    delimiter: options.Delimiter = None,
    format: options.Format = None,  # noqa: A002  # the option's name
    limit: Annotated[int | None, typer.Option("--limit", "-n", help="Rows to compare on [default: 20000].")] = None,
    seed: options.Seed = None,
    settings: options.SettingsFile = None,
    peers: Annotated[bool, typer.Option("--peers/--no-peers", help="Learners of River and scikit-learn too.")] = True,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> int:
    """Predict the rows of FILE with several learners, each row before it is learned, and show how well each did.

    Peers run with their own defaults behind a scaler, those that are installed (pip install river scikit-learn
    lightgbm). Boosted trees are refitted on all past rows every 250 and every 1,000 rows, the last label a feature.
    """
    from undrift.cli.progress import ProgressBar
    from undrift.run import Settings, compare_file
    from undrift.run.finish.peers import versions

    path, values = options.read_settings(context, settings)  # which are the parameters from `target` to `seed`
    with ProgressBar(quiet) as bar:
        found, rows, results = compare_file(path, Settings.from_dict(values), peers=peers, log=bar.log)
    if json:
        facts = {"file": path, "task": found, "rows": rows, "versions": versions()}
        print_json(facts | {"results": [asdict(one) for one in results]})
        return 0
    measures = list(results[0].scores)
    print_table(
        ("learner", "from", *measures, "us/row"),
        [
            (one.name, one.kind, *(format_number(one.scores[m]) for m in measures), format_number(one.microseconds, 3))
            for one in results
        ],
    )
    kinds = ", ".join(f"{name} {version}" for name, version in versions().items())
    print(
        printable(f"{rows:,} rows of {path}, every one predicted before it was learned; {kinds}, defaults throughout.")
    )
    return 0
