"""Names that resemble each other, for telling which known one an unknown one was meant to be."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

SHORT, LONG = 4, 9
"""Words of at least so many letters may differ by one slip, or by two."""
MOST = 1000
"""Rows that lack more names than this are sparse: a new name among them is no slip."""
LONGEST = 200
"""Longer names are not compared: the time it takes grows with the square of their length, and anyone may send one."""


def find_closest(name: str, others: Iterable[str]) -> str | None:
    """Return the one of `others` that looks most like `name`, whatever its capitals; None if none does.

    >>> find_closest("Tempp", ["load", "temp"]), find_closest("x" * 1000, ["x" * 999])
    ('temp', None)
    """
    candidates = {other.lower(): other for other in others if len(other) <= LONGEST}
    if len(name) > LONGEST or len(candidates) > MOST:
        return None
    near = difflib.get_close_matches(name.lower(), candidates, n=1, cutoff=0.5)
    return candidates[near[0]] if near else None


def find_similar(name: str, others: Iterable[str]) -> str | None:
    """Return the first of `others` that `name` is probably a slip for, None if there is none.

    Capitals, blanks and punctuation do not count. One word of the name may differ by a letter too many, too few, wrong
    or swapped (two in a long word), but never in its digits: `lag_1` and `lag_2`, `sensor_a` and `sensor_b` are two
    names each.

    >>> find_similar("tmp", ["load", "temp"]), find_similar("Wind-Speed", ["wind_speed"])
    ('temp', 'wind_speed')
    >>> find_similar("lag_2", ["lag_1"]) is None
    True
    """
    candidates = list(others)
    if len(candidates) > MOST:
        return None
    words = _words(name)
    return next((one for one in candidates if _alike(words, _words(one))), None)


def _words(name: str) -> list[str]:
    return re.findall(r"\w+", name.casefold().replace("_", " "))


def _alike(a: list[str], b: list[str]) -> bool:
    if "".join(a) == "".join(b):
        return True
    if len(a) != len(b):
        return False
    different = [(one, two) for one, two in zip(a, b, strict=True) if one != two]
    return len(different) == 1 and _differ_by_typos(*different[0])


def _differ_by_typos(a: str, b: str) -> bool:
    """Whether two different words differ by slips alone."""
    longest = max(len(a), len(b))
    allowed = 0 if longest < SHORT else 1 if longest < LONG else 2
    if longest > LONGEST or abs(len(a) - len(b)) > allowed or re.findall(r"\d", a) != re.findall(r"\d", b):
        return False
    return allowed > 0 and _distance(a, b) <= allowed


def _distance(a: str, b: str) -> int:
    """Return how many letters must be added, left out, replaced or swapped with their neighbour to get b from a."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i in range(1, len(a) + 1):
        before, last, row = row, before, [i]
        for j in range(1, len(b) + 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
