"""The task of a target column, one inference for every command: a number, one of two classes, or of several.

| the first rows hold | taken as |
|---|---|
| two texts, or true and false | two classes: classification |
| three texts or more | several classes: multiclass |
| two different whole numbers: 0 and 1, -1 and 1, 1 and 2, or any two in 20 rows or more | two classes |
| three to ten different whole numbers, each 20 times on average or more | several classes, which is told |
| nothing but 0, 1, -1 or 2 in 100 rows or more of a longer file | refused: pass --task |
| any other numbers | numbers: regression |

`--task` always has the last word: `classification` is multiclass where the first rows hold three classes or more, and
`multiclass` takes classes that appear further down, however few there are at first. Of two classes the positive one is
`--positive`, or else the larger number, the later text, and never a text such as "no", "false", "ok" or "normal".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from undrift.errors import DataError, InputError
from undrift.stream.cells import label_text, parse_number
from undrift.stream.first_rows import FirstRows

SHARE_OF_A_KIND = 0.9
"""A column is of the kind (number, time) of at least this share of its first cells; the others are then errors."""
ALL_WELL = (
    "ok", "okay", "normal", "good", "healthy", "legit", "legitimate", "clean", "pass", "passed", "success", "none",
    "absent", "benign", "genuine",
)  # fmt: skip
"""Texts that say that nothing happened, where what happened is looked for."""
NEGATIVE = (*ALL_WELL, "0", "-1", "no", "n", "false", "f", "off", "neg", "negative", "bad", "down", "dead")
"""Texts of the negative class; beside one that says that all is well, the others are the positive one."""
LABELS = ({0.0, 1.0}, {-1.0, 1.0}, {1.0, 2.0})
"""Pairs of numbers that are two classes however few rows there are."""
FEW, REPEATED, CONSTANT = 10, 20, 100
"""Different whole numbers that may be classes, at most; rows for each of them, at least; rows of one value alone."""
SHOWN_CLASSES = 6
"""Classes that are named where a sentence tells what is predicted, at most."""
MOST_CLASSES = 100
"""Classes of a run: each has an estimator of its own, and a column in the predictions."""


def infer_task(first: FirstRows) -> tuple[str, tuple[str, ...] | None]:
    """Return the task and the classes, or say why the target cannot be predicted.

    Of two classes the negative one comes first; several are those of the first rows, in order of appearance.
    """
    source, settings, name = first.source, first.source.settings, first.source.settings.target
    column = first.columns[name]
    if isinstance(column, np.ndarray) and column.dtype.kind == "M":
        raise DataError(f"{source.name}: the target '{name}' is a time; it must be a number or a class")
    known = first.known_cells(name)
    if not known:
        raise DataError(f"{source.name}: the target '{name}' is missing in {first.where}; there is nothing to learn")
    cells = [cell for _, cell in known]
    values = [value for cell in cells if (value := parse_number(cell)) is not None]
    numeric = len(values) >= SHARE_OF_A_KIND * len(cells) and not _are_flags(cells)
    task: str = settings.task
    if task == "auto":
        named = settings.positive is not None or not numeric
        task = "classification" if named else _task_of_numbers(first, values)
    if task == "regression":
        found = {value for value in values if math.isfinite(value)}
        if len(found) == 1 and first.whole:
            raise DataError(
                f"{source.name}: the target '{name}' is {found.pop():g} in every row; there is nothing to learn"
            )
        if not numeric:
            first.numbers(name)  # which names the first cell that is none
        return task, None
    labels = list(dict.fromkeys(map(label_text, cells)))
    if task == "multiclass" or len(labels) > 2:
        _require_several(first, labels)
        return "multiclass", tuple(labels)
    return task, _order_classes(first, labels)


def infer_task_of_row(first: FirstRows) -> tuple[str, tuple[str, ...] | None]:
    """Return the task and the classes from the label of a single row, if it has one; "" is a class not seen yet."""
    settings = first.source.settings
    known = first.known_cells(settings.target) if settings.target in first.columns else []
    cell = known[0][1] if known else None
    task, positive = settings.task, settings.positive
    if task == "auto":
        is_flag = cell is not None and _are_flags([cell])
        is_text = cell is not None and parse_number(cell) is None
        task = "classification" if positive is not None or is_flag else "multiclass" if is_text else "regression"
    if task == "regression":
        return task, None
    if task == "multiclass":
        _require_several(first, [])
        return task, ()
    if positive is not None:
        return task, ("", label_text(positive))
    label = "" if cell is None else label_text(cell)
    return task, next((pair for pair in (("false", "true"), ("0", "1")) if label in pair), ("", ""))


def _are_flags(cells: list[object]) -> bool:
    """Whether cells are true and false, which are classes though they can be read as numbers."""
    return all(
        isinstance(cell, bool) or (isinstance(cell, str) and cell.strip().lower() in ("true", "false"))
        for cell in cells
    )


def _task_of_numbers(first: FirstRows, values: list[float]) -> str:
    """Return the task of a target that is numbers; refuse what says too little."""
    different = {value for value in values if math.isfinite(value)}
    if different in LABELS:
        return "classification"
    if len(different) > FEW or not all(value.is_integer() for value in different):
        return "regression"
    if len(different) == 2 and len(values) >= REPEATED:
        return "classification"
    if len(different) > 2 and len(values) >= REPEATED * len(different):
        return "multiclass"
    alone = any(different < pair for pair in LABELS)
    if alone and len(different) == 1 and len(values) >= CONSTANT and not first.whole:
        raise DataError(
            f"{first.source.name}: the target '{first.source.settings.target}' is {label_text(different.pop())} in "
            f"{first.where}: pass --task regression if it is a number, "
            "--task classification and --positive LABEL if it is one of two classes"
        )
    return "regression"


def _require_several(first: FirstRows, labels: list[str]) -> None:
    """Refuse several classes where an option is for two, or where there are too many."""
    settings, name = first.source.settings, f"{first.source.name}: the target '{first.source.settings.target}'"
    if len(labels) > MOST_CLASSES:
        raise DataError(
            f"{name} has {len(labels)} classes in {first.where}, where {MOST_CLASSES} are allowed; join rare ones, or "
            f"pass --task regression if they are numbers, written without what is beside them ({labels[0]!r:.40})"
        )
    if len(labels) == 1 and first.whole:
        raise DataError(f"{name} is {labels[0]!r} in every row; there is nothing to learn")
    for option, given in (
        ("--positive", settings.positive is not None),
        ("--candidate", bool(settings.candidate)),
        ("--lag", bool(settings.lag)),
    ):
        if given and not labels and settings.task == "auto":
            raise InputError(
                f"{name} may have several classes, as the first row holds a text, but {option} is for numbers or two "
                "classes; pass --task classification if there are two"
            )
        if given:
            shown = ", ".join(f"{label:.40}" for label in labels[:3]) or "--task multiclass"
            shown += ", ..." if len(labels) > 3 else ""
            numbers = bool(labels) and all(parse_number(label) is not None for label in labels)
            hint = "; pass --task regression if they count or grade something" if numbers else ""
            raise InputError(f"{name} has several classes ({shown}), but {option} is for numbers or two classes{hint}")


def note_on_numbers(classes: tuple[str, ...]) -> str | None:
    """Return what to tell about several classes that are numbers, of which another reading is possible."""
    if not all(parse_number(label) is not None for label in classes):
        return None
    shown = ", ".join(sorted(classes, key=_sort_key))
    return (
        f"The target holds {len(classes)} different whole numbers ({shown}), taken as classes; if they count or grade "
        "something, pass --task regression"
    )


def name_classes(classes: Sequence[str]) -> str:
    """Return classes in words: of two the one that probabilities are of first, and some of many.

    >>> name_classes(["no", "yes"]), name_classes(["a", "b", "c", "d"]), name_classes(list("abcdefg"))
    ('yes rather than no', 'one of 4 classes: a, b, c, d', 'one of 7 classes: a, b, c, d, e, f, ...')
    """
    if len(classes) == 2:
        return f"{classes[1]} rather than {classes[0] or '?'}"
    count = "one class so far" if len(classes) == 1 else f"one of {len(classes)} classes"
    return f"{count}: {', '.join(classes[:SHOWN_CLASSES])}{', ...' if len(classes) > SHOWN_CLASSES else ''}"


def _order_classes(first: FirstRows, labels: list[str]) -> tuple[str, ...]:
    """Return the classes, the negative one first."""
    settings, source, name = first.source.settings, first.source, first.source.settings.target
    if len(labels) == 1:
        if first.whole:
            raise DataError(
                f"{source.name}: the target '{name}' is {labels[0]!r} in every row; there is nothing to learn"
            )
        if settings.positive is None:
            raise DataError(
                f"{source.name}: the target '{name}' is {labels[0]!r} in {first.where}; "
                "say which label counts as 1 with --positive"
            )
        positive = label_text(settings.positive)
        return (labels[0] if labels[0] != positive else "", positive)  # "": not seen yet
    if settings.positive is not None:
        positive = label_text(settings.positive)
        if positive not in labels:
            raise InputError(f"--positive '{positive}': the target's labels are {labels[0]!r} and {labels[1]!r}")
        return tuple(sorted(labels, key=lambda label: label == positive))
    return tuple(negative_first(labels))


def negative_first(labels: Sequence[str]) -> list[str]:
    """Return labels in order: first those like "ok", then those like "no", then by size or alphabet.

    >>> negative_first(["yes", "no"]), negative_first(["10", "9"]), negative_first(["down", "ok"])
    (['no', 'yes'], ['9', '10'], ['ok', 'down'])
    """
    return sorted(
        labels, key=lambda label: (label.lower() not in ALL_WELL, label.lower() not in NEGATIVE, _sort_key(label))
    )


def _sort_key(label: str) -> tuple[float, str]:
    value = parse_number(label)
    return (math.inf if value is None else value, label)
