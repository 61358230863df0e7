"""The declared status of every cell: what a feature does in a path today.

Whoever mends a cell changes its line here: `test_cells.py` measures every cell and fails where it differs from its
declaration. A cell has one status for all parts of its feature, or one for each part.

- `says` is a regular expression that the path's error message matches;
- `does` is what the path does instead, by the name that the scenario or the driver has for it;
- `why` is the reason, for readers of docs/matrix.md; what works may have one too, as a remark.
"""

from __future__ import annotations

from typing import NamedTuple

STATUSES = ("works", "partial", "refused", "absent", "wrong")
"""Statuses of a whole cell, as they are counted."""


class Status(NamedTuple):
    """What becomes of one part of a feature."""

    name: str
    """works, refused, excluded, absent, differs, or wrong."""
    evidence: str = ""
    """What the path says, or does instead."""
    why: str = ""
    """The reason, or what a user should know."""


Cell = Status | dict[str, Status]
"""One status for all parts, or one for each; None where the feature does not apply."""


def refused(says: str, why: str) -> Status:
    """The path knows the feature and refuses it with a sentence."""
    return Status("refused", says, why)


def excluded(says: str, why: str) -> Status:
    """The host library or the task has no place for it, and the path says so; the cell is what its other parts are."""
    return Status("excluded", says, why)


def works_as(does: str, why: str) -> Status:
    """It works, measured by another reference than `play`, which its documentation names."""
    return Status("works", does, why)


def absent(says: str, why: str) -> Status:
    """The path has no way to ask for it."""
    return Status("absent", says, why)


def differs(does: str, why: str) -> Status:
    """It does something else, as its documentation says."""
    return Status("differs", does, why)


def wrong(does: str, why: str) -> Status:
    """It does something else, and says nothing."""
    return Status("wrong", does, why)


def no_option(option: str, why: str) -> Status:
    """The command has no such option."""
    return absent(f"No such option: --{option}\\b", why)


def no_argument(argument: str, why: str) -> Status:
    """The class or method has no such argument."""
    return absent(f"unexpected keyword argument '{argument}'", why)


def status_of(cell: Cell) -> str:
    """Return the status of a whole cell: that of its parts if they agree, wrong if one of them is, else partial."""
    if isinstance(cell, Status):
        return "partial" if cell.name == "differs" else cell.name
    names = {status.name for status in cell.values()} - {"excluded"}
    if "wrong" in names:
        return "wrong"
    if names == {"refused", "absent"}:
        return "refused"
    return names.pop() if len(names) == 1 and "differs" not in names else "partial"


works = Status("works")

PEEKED = works_as(
    "features advance with the label",
    "nothing says which row has come before its label comes, so that what depends on features alone, running means and "
    "last-seen values, advances with the label; the reference is `peek` and `learn(served=...)`, which is `play` at "
    "speed light where no value is missing",
)
ARRAYS = "River's rows are dictionaries of numbers; `undrift.Stream` learns rows that are dictionaries of any columns"
PROOF = "the theorems cover numbers and two classes, every row counted once, and forgetting by rows"
LOOKED_BACK = "a value is also what later forecasts look back at, which no weight takes out; empty cells leave it out"

CELLS: dict[str, dict[str, Cell | None]] = {
    "several classes": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": works,
        "compare": works,
        "certify": refused("proofs cover runs that predict a number or one of two classes", PROOF),
        "fleet": works,
        "Spark": works,
        "serve": works,
        "serve by key": works,
        "forecast": None,
        "forecast by key": None,
        "River": {"labels in time": works, "late labels": PEEKED, "late labels at speed light": works},
        "sklearn": works,
    },
    "weights": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": None,
        "compare": works,
        "certify": refused("proofs cover runs in which every row counts once", PROOF),
        "fleet": works,
        "Spark": works,
        "serve": works,
        "serve by key": works,
        "forecast": refused("--weight is not supported", LOOKED_BACK),
        "forecast by key": refused("--weight is not supported", LOOKED_BACK),
        "River": works,
        "sklearn": works,
    },
    "elapsed": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": works,
        "compare": works,
        "certify": refused("proofs cover runs in which every row counts once and memories forget by rows", PROOF),
        "fleet": works,
        "Spark": works,
        "serve": works,
        "serve by key": works,
        "forecast": {
            "whole gaps": works,
            "uneven times": excluded(
                "is between two of them; round the times", "forecasts of steps ahead need evenly spaced rows"
            ),
            "intervals": works,
        },
        "forecast by key": {
            "whole gaps": works,
            "uneven times": excluded(
                "is between two of them; round the times", "forecasts of steps ahead need evenly spaced rows"
            ),
            "intervals": works,
        },
        "River": works,
        "sklearn": works,
    },
    "late labels": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": None,
        "compare": works,
        "certify": works,
        "fleet": works,
        "Spark": works,
        "serve": works,
        "serve by key": works,
        "forecast": works,
        "forecast by key": works,
        "River": {"labels": PEEKED, "labels at speed light": works},
        "sklearn": works,
    },
    "lags": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": works,
        "compare": works,
        "certify": works,
        "fleet": works,
        "Spark": works,
        "serve": works,
        "serve by key": works,
        "forecast": works,
        "forecast by key": works,
        "River": works,
        "sklearn": works,
    },
    "many texts": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": works,
        "compare": works,
        "certify": works,
        "fleet": works,
        "Spark": works,
        "serve": works,
        "serve by key": works,
        "forecast": works,
        "forecast by key": works,
        "River": refused("must be a number, got .* ud.Stream, which takes texts", ARRAYS),
        "sklearn": works,
    },
    "missing values": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": works,
        "compare": works,
        "certify": works,
        "fleet": works,
        "Spark": works,
        "serve": works,
        "serve by key": works,
        "forecast": works,
        "forecast by key": works,
        "River": works,
        "sklearn": {
            "cells": works,
            "labels": excluded(
                "scikit-learn requires a label for every row", "scikit-learn requires a label for every row"
            ),
            "indicators": works,
        },
    },
    "candidates": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": works,
        "compare": works,
        "certify": works,
        "fleet": works,
        "Spark": works,
        "serve": works,
        "serve by key": works,
        "forecast": works,
        "forecast by key": works,
        "River": works,
        "sklearn": works,
    },
    "intervals, quantiles": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": works,
        "compare": works,
        "certify": None,
        "fleet": works,
        "Spark": works,
        "serve": works,
        "serve by key": works,
        "forecast": works,
        "forecast by key": works,
        "River": works,
        "sklearn": works,
    },
    "speed max": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": works,
        "compare": works,
        "certify": works,
        "fleet": refused("speed max is for single streams", "trees would take megabytes for each key"),
        "Spark": refused("speed max is for single streams", "trees would take megabytes for each key"),
        "serve": works,
        "serve by key": refused("speed max is for single streams", "trees would take megabytes for each key"),
        "forecast": None,
        "forecast by key": None,
        "River": works,
        "sklearn": works,
    },
    "certificates": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": refused("--certify: not with --live", "rows from a pipe cannot be read again"),
        "update": works,
        "predict": None,
        "compare": None,
        "certify": works,
        "fleet": refused(
            "fleets are not certified", "the folder of a fleet keeps no rows to certify; make a run of one key"
        ),
        "Spark": refused("fleets are not certified", "a fleet keeps no rows to certify; certify a stream of one key"),
        "serve": refused("its rows came one by one", "rows of requests cannot be read again"),
        "serve by key": refused("fleets are not certified", "requests cannot be read again"),
        "forecast": works,
        "forecast by key": works,
        "River": works,
        "sklearn": works,
    },
    "calendar": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": works,
        "compare": works,
        "certify": works,
        "fleet": works,
        "Spark": works,
        "serve": works,
        "serve by key": works,
        "forecast": works,
        "forecast by key": works,
        "River": refused(r"must be a number, got a datetime; .* ud.Stream\(..., calendar=True\)", ARRAYS),
        "sklearn": works,
    },
    "alerts": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": None,
        "compare": refused("--alert is not supported", "a comparison does not watch the stream"),
        "certify": None,
        "fleet": works,
        "Spark": refused(
            "alert is for files, .* give outputs to undrift.events.KeyedWatch",
            "Spark puts the rows out; filter them there, or give them to `undrift.events.KeyedWatch`",
        ),
        "serve": works,
        "serve by key": works,
        "forecast": works,
        "forecast by key": works,
        "River": works,
        "sklearn": works,
    },
    "save, resume": {
        "play": works,
        "predict, learn": works,
        "ask, tell": works,
        "run": works,
        "live": works,
        "update": works,
        "predict": None,
        "compare": refused("--resume is not supported", "a comparison always starts from the first row"),
        "certify": works,
        "fleet": works,
        "Spark": works,
        "serve": works,
        "serve by key": works,
        "forecast": works,
        "forecast by key": works,
        "River": works,
        "sklearn": works,
    },
}
