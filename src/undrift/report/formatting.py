"""Numbers, shares, durations and lists as text for readers."""

from __future__ import annotations

import math
from collections.abc import Sequence

NONE = "-"
"""Shown in place of a number that does not exist."""
_UNITS = (
    ("year", 365.25 * 86400.0),
    ("month", 30.44 * 86400.0),
    ("day", 86400.0),
    ("hour", 3600.0),
    ("minute", 60.0),
    ("second", 1.0),
    ("millisecond", 1e-3),
)
"""Units of time in seconds, the largest first."""


def number(x: float | None, digits: int = 3) -> str:
    """Return a number with so many significant digits, thousands set apart.

    >>> number(1234567.8), number(0.012345), number(98.76), number(-3.0), number(None), number(2.5e-9)
    ('1,234,568', '0.0123', '98.8', '-3', '-', '2.5e-09')
    """
    if x is None or not math.isfinite(x):
        return NONE
    if x == 0.0:
        return "0"
    size = math.floor(math.log10(abs(x)))
    if size < -4 or size > 11:
        return f"{x:.{digits}g}"
    text = f"{x:,.{max(0, digits - 1 - size)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plural(n: int, noun: str) -> str:
    """Return a number of things.

    >>> plural(1, "row"), plural(12345, "row")
    ('1 row', '12,345 rows')
    """
    return f"{n:,} {noun if n == 1 else noun + 's'}"


def percent(share: float | None, digits: int = 3) -> str:
    """Return a share as a percentage.

    >>> percent(0.1234), percent(1.0), percent(0.99996), percent(-0.000203), percent(None)
    ('12.3%', '100%', '99.996%', '-0.02%', '-')
    >>> percent(0.42, 2), percent(0.9965, 2), percent(0.994, 2)  # nothing but all is 100%
    ('42%', '99.7%', '99%')
    """
    if share is None or not math.isfinite(share):
        return NONE
    near = 1.0 - abs(share)
    if 0.0 < near < 1e-3:
        digits = min(9, -1 - math.floor(math.log10(near)))
        return f"{f'{100.0 * share:.{digits}f}'.rstrip('0')}%"
    if abs(share) < 1e-2:
        return f"{number(round(100.0 * share, 2), 2)}%"
    text = number(100.0 * share, digits)
    return f"{number(100.0 * share, digits + 1) if near > 0.0 and text.endswith('100') else text}%"


def duration(seconds: float) -> str:
    """Return a length of time in the largest unit of which it holds two.

    >>> duration(90.0), duration(86400.0 * 13), duration(3600.0), duration(7.3 * 3600)
    ('90 seconds', '13 days', '60 minutes', '7.3 hours')
    """
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= 2.0 * size), ("second", 1.0))
    return f"{number(seconds / size, 2)} {unit}s"


def half_life_number(half_life: float, never: str = "∞") -> str:
    """Return a half-life in rows as a bare number, and `never` where nothing is forgotten.

    >>> half_life_number(31.04), half_life_number(310.4), half_life_number(math.inf)
    ('31', '310', '∞')
    """
    return number(half_life, 2 if half_life < 100 else 3) if math.isfinite(half_life) else never


def half_life_text(half_life: float, spacing: float | None = None, unit: float | None = None) -> str:
    """Return a half-life in rows and, when rows are `spacing` seconds apart, as time.

    Where memories forget by time it is in units of so many seconds, and told as time alone.

    >>> half_life_text(310.4), half_life_text(310.4, 3600.0), half_life_text(math.inf)
    ('310 rows', '310 rows (about 13 days)', 'no forgetting')
    >>> half_life_text(310.4, 3600.0, unit=60.0)
    '5.2 hours'
    """
    if not math.isfinite(half_life):
        return "no forgetting"
    if unit is not None:
        return duration(half_life * unit)
    text = f"{half_life_number(half_life)} rows"
    return f"{text} (about {duration(half_life * spacing)})" if spacing else text


def join_items(items: Sequence[str], most: int = 6, total: int | None = None) -> str:
    """Return the first items with commas between them, and how many of the total are left out.

    >>> join_items(["a", "b", "c"]), join_items(["a", "b", "c"], most=2), join_items(["a", "b"], total=9)
    ('a, b, c', 'a, b and 1 more', 'a, b and 7 more')
    """
    left_out = (len(items) if total is None else total) - min(len(items), most)
    return ", ".join(items[:most]) + (f" and {left_out:,} more" if left_out > 0 else "")


def join_words(words: Sequence[str]) -> str:
    """Return words with commas between them, and "and" before the last.

    >>> join_words(["a"]), join_words(["a", "b"]), join_words(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def shorten(text: str, most: int = 40) -> str:
    """Return text cut to a length that fits a figure."""
    return text if len(text) <= most else text[: most - 1] + "…"


def capitalize(text: str) -> str:
    """Return text with a capital first letter and the rest as it is."""
    return text[:1].upper() + text[1:]
