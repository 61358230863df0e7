"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

NONE = "-"
"""In place of a number that is not there."""
_SPANS = (
    ("year", 365.25 * 86400.0),
    ("month", 30.44 * 86400.0),
    ("day", 86400.0),
    ("hour", 3600.0),
    ("minute", 60.0),
    ("second", 1.0),
    ("millisecond", 1e-3),
)


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


def count(n: int, one: str, many: str | None = None) -> str:
    """Return a number of things.

    >>> count(1, "row"), count(12345, "row"), count(2, "class", "classes")
    ('1 row', '12,345 rows', '2 classes')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def percent(share: float | None, digits: int = 3) -> str:
    """Return a share as a percentage.

    >>> percent(0.1234), percent(1.0), percent(0.99996), percent(-0.000203), percent(None)
    ('12.3%', '100%', '99.996%', '-0.02%', '-')
    """
    if share is None or not math.isfinite(share):
        return NONE
    near = 1.0 - abs(share)
    if 0.0 < near < 1e-3:
        digits = min(9, -1 - math.floor(math.log10(near)))
        return f"{f'{100.0 * share:.{digits}f}'.rstrip('0')}%"
    if abs(share) < 1e-2:
        return f"{number(round(100.0 * share, 2), 2)}%"
    return f"{number(100.0 * share, digits)}%"


def span(seconds: float) -> str:
    """Return a length of time in its largest fitting unit.

    >>> span(90.0), span(86400.0 * 13), span(3600.0), span(7.3 * 3600)
    ('90 seconds', '13 days', '60 minutes', '7.3 hours')
    """
    for unit, size in _SPANS:
        if seconds >= 2.0 * size:
            text = number(seconds / size, 2)
            return f"{text} {unit}s"
    return f"{number(seconds, 2)} seconds"


def memory(half_life: float, seconds: float | None = None) -> str:
    """Return a half-life in rows and, when rows are this many seconds apart, as time.

    >>> memory(310.4), memory(310.4, 3600.0), memory(math.inf)
    ('310 rows', '310 rows (about 13 days)', 'no forgetting')
    """
    if not math.isfinite(half_life):
        return "no forgetting"
    text = f"{number(half_life, 2 if half_life < 100 else 3)} rows"
    return text if not seconds else f"{text} (about {span(half_life * seconds)})"


def listed(items: Sequence[str], most: int = 6) -> str:
    """Return items in a row, the rest counted.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=2)
    ('a, b, c', 'a, b and 1 more')
    """
    if len(items) <= most:
        return ", ".join(items)
    return f"{', '.join(items[:most])} and {len(items) - most:,} more"


def short(text: str, most: int = 40) -> str:
    """Return text cut to a length that fits a figure."""
    return text if len(text) <= most else text[: most - 1] + "…"
