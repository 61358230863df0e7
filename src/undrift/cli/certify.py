"""`undrift certify`: what is proven about a run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from undrift.cli.output import ExitCode, ProgressBar, format_number, print_json, print_table, printable
from undrift.cli.run_options import Json
from undrift.errors import InputError

if TYPE_CHECKING:
    from undrift.run.play.state import RunState

EXPLANATION = (
    "measured: how far the loss was above the comparator's; below 0 it was smaller.",
    "proven: how far it was, at most, above that of any predictor of its kind with coefficients no larger.",
    "promised: bound of the method, guaranteed before the run; vacuous if it exceeds the total loss.",
)


def certify(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, or of forecasts.")],
    within: Annotated[
        float | None,
        typer.Option("--within", help="Fail unless the method promises a loss at most so many percent above theirs."),
    ] = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Play the run again first, and fail unless it predicts the same bits.")
    ] = False,
    json: Json = False,
) -> int:
    """Read the files of RUN again, and bound its regret against comparators that knew all the answers.

    Shows what was measured, what is proven beyond that once the run is over (against every predictor of the
    comparator's kind with coefficients no larger), and what the method promises by itself, term by term. Exit code 4: a
    certificate does not hold, is not good enough for --within, or the run is not what its rows give. 5: refused,
    because its rows are gone or an assumption fails. Forecasts are certified step by step, against the best linear
    forecast of that step.
    """
    from undrift._internal.state_file import find_kind
    from undrift.run import certify_run, replay_run

    kind = find_kind(run)
    if kind == "forecast":
        return _certify_forecasts(run, within, replay=replay, json=json)
    if kind == "fleet":
        raise InputError(
            f"{run}: fleets are not certified, as their folder keeps no rows; make a run of the rows of one key "
            "(undrift run), and certify that"
        )
    with ProgressBar(quiet=json) as bar:
        same = replay_run(run) if replay else None
        state = certify_run(run, bar.show)
    found = state["certificates"]
    counted = [one for one in found if one["refused"] is None]
    failed = [one["name"] for one in counted if not _holds(one) or not _is_within(one, within)]
    if json:
        facts = {"run": str(run), "within": within, "replayed": same, "failed": failed, "notes": state["notes"]}
        print_json(facts | {"certificates": found})
    else:
        _show(state, counted, within, same, failed)
    if failed or same is False:
        return ExitCode.CERTIFICATE_FAILED
    return ExitCode.FINE if counted else ExitCode.CONDITION_NOT_MET


def _holds(one: dict[str, Any]) -> bool:
    return bool(one["holds"] and one["hindsight"]["holds"])


def _is_within(one: dict[str, Any], within: float | None) -> bool:
    return within is None or (one["ratio"] is not None and one["ratio"] <= 1.0 + within / 100.0)


def _show(
    state: RunState, counted: list[dict[str, Any]], within: float | None, same: bool | None, failed: list[str]
) -> None:
    if same is not None:
        print("replayed: the same bits" if same else "replayed: OTHER PREDICTIONS than those in the folder")
    print_table(
        ("comparator", "its loss", "own loss", "measured", "proven", "promised", ""),
        [
            (
                one["name"],
                format_number(one["comparator_loss"]),
                format_number(one["own_loss"]),
                _percent(one["regret"], one),
                _proven_percent(one["hindsight"]["bound"], one),
                f"{_percent(one['bound'], one)}{' (vacuous)' if one['vacuous'] else ''}",
                "fails" if one["name"] in failed else "holds",
            )
            for one in counted
        ],
    )
    for one in state["certificates"]:
        if one["refused"]:
            print(printable(f"{one['name']}: refused: {one['refused']}"))
    for line in EXPLANATION:
        print(line)
    for one in counted:
        print(printable(f"  {one['name']}: {one['words']}; its kind: {one['kind']}, with coefficients no larger"))
    print("The promises, term by term; excess, of the mix over its leading part, is measured:")
    terms = ("excess", "start", "stability", "variation", "potential_drift", "bound", "regret")
    print_table(
        ("comparator", *(term.replace("_", " ") for term in terms), "through"),
        [(one["name"], *(format_number(one[term]) for term in terms), printable(one["leaf"])) for one in counted],
    )
    for note in state["notes"]:
        print(printable(note))
    if within is not None and failed:
        print(f"not within {within:g}%: {', '.join(failed)}")


def _percent(difference: float | None, one: dict[str, Any]) -> str:
    """Return a difference of losses as a share of the comparator's."""
    if difference is None or not one["comparator_loss"]:
        return "-"
    return f"{difference / one['comparator_loss']:+.1%}"


def _proven_percent(bound: float, one: dict[str, Any]) -> str:
    """Return how far the loss is at most above that of any comparator of the kind, as a share of the latter's."""
    from undrift.run.finish.certificates import proven_share

    share = proven_share(one["own_loss"], bound)
    return f"{share:+.1%}" if math.isfinite(share) else "-"


def _certify_forecasts(folder: Path, within: float | None, *, replay: bool, json: bool) -> int:
    """Show what is proven about forecasts, step by step."""
    from undrift.errors import InputError
    from undrift.run import certify_forecasts

    if replay:
        raise InputError("undrift certify: --replay is for runs; forecasts are not played again")
    found, notes = certify_forecasts(folder)
    failed = [one for one in found if not one["holds"] or not _is_within(one, within)]
    if json:
        print_json({"run": str(folder), "within": within, "failed": len(failed), "notes": notes, "certificates": found})
    else:
        print_table(
            ("series", "step", "its loss", "own loss", "measured", "proven", "promised", ""),
            [
                (
                    printable(one["series"]), str(one["step"]),
                    format_number(one["comparator_loss"]), format_number(one["own_loss"]),
                    _percent(one["regret"], one), _proven_percent(one["proven"], one), _percent(one["promised"], one),
                    "fails" if one in failed else "holds",
                )
                for one in found
            ],
        )  # fmt: skip
        print(
            "The comparator is the best linear forecast of the step from the same rows, chosen with every answer known."
        )
        print("proven: against all linear forecasts with coefficients no larger than the comparator's.")
        print("promised: through a member told every value at once, and what lateness and mixing cost beyond it.")
        for note in notes:
            print(printable(note))
    return ExitCode.CERTIFICATE_FAILED if failed else ExitCode.FINE
