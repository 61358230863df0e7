"""`undrift certify`: what is proven about a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undrift.cli.exit_codes import ExitCode
from undrift.cli.output import format_number, print_json, print_table, printable
from undrift.cli.run_options import Json

if TYPE_CHECKING:
    from undrift.run.play.state import RunState


def certify(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    within: Annotated[
        float | None,
        typer.Option("--within", help="Fail unless the loss is certified to be at most so many percent above theirs."),
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Play the run again first, and fail unless it predicts the same bits.")
    ] = False,
    json: Json = False,
) -> int:
    """Read the rows of RUN again, and bound its regret against comparators that knew all the answers.

    Exit code 4: a certificate does not hold, is not good enough for --within, or the run is not what its rows give. 5:
    refused, because its rows are gone or an assumption fails.
    """
    from undrift.run import certify_run, replay_run

    same = replay_run(run) if replay else None
    state = certify_run(run)
    found = state["certificates"]
    counted = [one for one in found if one["refused"] is None]
    failed = [one["name"] for one in counted if not one["holds"] or not _is_within(one, within)]
    if json:
        facts = {"run": str(run), "within": within, "replayed": same, "failed": failed, "notes": state["notes"]}
        print_json(facts | {"certificates": found})
    else:
        _show(state, counted, within, same, failed)
    if failed or same is False:
        return ExitCode.CERTIFICATE_FAILED
    return ExitCode.FINE if counted else ExitCode.CONDITION_NOT_MET


def _is_within(one: dict[str, Any], within: float | None) -> bool:
    return within is None or (one["ratio"] is not None and one["ratio"] <= 1.0 + within / 100.0)


def _show(
    state: RunState, counted: list[dict[str, Any]], within: float | None, same: bool | None, failed: list[str]
) -> None:
    if same is not None:
        print("replayed: the same bits" if same else "replayed: OTHER PREDICTIONS than those in the folder")
    terms = ("excess", "start", "stability", "variation", "potential_drift", "bound", "regret")
    print_table(
        ("comparator", "its loss", "own loss", *(term.replace("_", " ") for term in terms), "certified", ""),
        [
            (
                one["name"],
                format_number(one["comparator_loss"]),
                format_number(one["own_loss"]),
                *(format_number(one[term]) for term in terms),
                "-" if one["ratio"] is None else f"{one['ratio'] - 1.0:+.1%}",
                "fails" if one["name"] in failed else "holds",
            )
            for one in counted
        ],
    )
    for one in state["certificates"]:
        if one["refused"]:
            print(printable(f"{one['name']}: refused: {one['refused']}"))
    print("regret = own loss - its loss, never above bound = excess + start + stability + variation + potential drift.")
    print(
        "certified: how far the loss can be above the comparator's, by the bound alone; below 0 it cannot be as large."
    )
    for note in state["notes"]:
        print(printable(note))
    if within is not None and failed:
        print(f"not within {within:g}%: {', '.join(failed)}")
