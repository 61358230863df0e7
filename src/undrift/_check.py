"""Checks at the door: turn what a user passed into numbers we can trust, or say in one sentence why not."""

from __future__ import annotations

import math
import operator
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift._typing import Matrix, Vector
from undrift.errors import InputError

PathLike = str | os.PathLike[str]
LIMIT = 1e75
"""Largest |z_j| and |y| accepted: squares and their ratios to the pivot floor stay inside float64."""

ENCODE_TEXTS = "encode texts as 0 and 1, or learn these rows by ud.Stream, which takes texts"
LEAVE_TIMES = "leave times out, or learn these rows by ud.Stream(..., calendar=True), which makes features of them"


def name_of(who: object) -> str:
    """Return how an object is called in an error: a string as it is, anything else by its class."""
    return who if isinstance(who, str) else type(who).__name__


def number(who: object, name: str, value: object) -> float:
    """Return `value` as a float; refuse strings, arrays, booleans and NaN."""
    if isinstance(value, (bool, np.bool_, str, bytes)) or value is None:
        raise InputError(f"{name_of(who)}: {name} must be a number, got {value!r}")
    try:
        x = float(value)  # type: ignore[arg-type]  # anything else fails right here
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name_of(who)}: {name} must be a number, got {describe(value)}") from None
    if math.isnan(x):
        raise InputError(f"{name_of(who)}: {name} must be a number, got nan")
    return x


def interval(who: object, name: str, value: object, allowed: str) -> float:
    """Return `value` as a float inside `allowed`, written like "(0, 1]" or "[0, inf)"."""
    x = number(who, name, value)
    low, high = (float(end) for end in allowed[1:-1].split(","))
    above = x > low if allowed[0] == "(" else x >= low
    below = x < high if allowed[-1] == ")" else x <= high
    if not (above and below):
        raise InputError(f"{name_of(who)}: {name} must be in {allowed}, got {value!r}")
    return x


def percent_hint(value: object) -> str:
    """Return what a share is that somebody wrote in percent, for the end of an error; nothing for other values.

    >>> percent_hint(80.0), percent_hint(0.3)
    ('; 80% is 0.8', '')
    """
    return f"; {value:g}% is {value / 100.0:g}" if isinstance(value, (int, float)) and 1.0 < value < 100.0 else ""


def integer(who: object, name: str, value: object, low: int, high: int | None = None) -> int:
    """Return `value` as an int of at least `low` (and at most `high`)."""
    try:
        n = operator.index(value)  # type: ignore[arg-type]  # anything else fails right here
    except TypeError:
        n = None
    if n is None or isinstance(value, bool) or n < low or (high is not None and n > high):
        span = f">= {low}" if high is None else f"in [{low}, {high}]"
        raise InputError(f"{name_of(who)}: {name} must be an integer {span}, got {describe(value)}")
    return n


def choice(who: object, name: str, value: object, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of the words `allowed`."""
    if not isinstance(value, str) or value not in allowed:
        raise InputError(f"{name_of(who)}: {name} must be one of {', '.join(allowed)}, got {describe(value)}")
    return value


def flag(who: object, name: str, value: object) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name_of(who)}: {name} must be True or False, got {describe(value)}")
    return bool(value)


def path(who: object, value: PathLike) -> PathLike:
    """Return `value` if it can name a file."""
    if not isinstance(value, (str, os.PathLike)):
        raise InputError(f"{name_of(who)}: path must be text or a Path, got {describe(value)}")
    return value


def as_rows(who: object, Z: ArrayLike, dim: int | None = None) -> Matrix:
    """Return features as a C-contiguous float64 matrix (rounds, dim), values unseen; a row becomes a matrix of one."""
    array = _real_array(who, "z", Z)
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim != 2:
        raise InputError(f"{name_of(who)}: z must be one row (d,) or rows (n, d), got an array of shape {array.shape}")
    if dim is not None and array.shape[1] != dim:
        raise InputError(f"{name_of(who)}: z must have {dim} features as before, got {array.shape[1]}")
    return np.ascontiguousarray(array)


def as_column(who: object, name: str, y: ArrayLike, length: int | None = None) -> Vector:
    """Return labels, hints or weights as a contiguous float64 vector of the given length, values unseen."""
    array = _real_array(who, name, y)
    if array.ndim == 0:
        array = array[None]
    if array.ndim != 1:
        several = name == "y" and array.ndim == 2
        cure = "; several outputs are for MultiOutputRegressor(model, outputs)" if several else ""
        cure = "; pass its one column" if several and array.shape[1] == 1 else cure
        raise InputError(
            f"{name_of(who)}: {name} must be one number a round, got an array of shape {array.shape}{cure}"
        )
    if length is not None and len(array) != length:
        raise InputError(f"{name_of(who)}: {name} must have one number a round, {length}, got {len(array)}")
    return np.ascontiguousarray(array)


def rows(who: object, Z: ArrayLike, dim: int | None = None, *, nan: bool = False) -> Matrix:
    """Return features as `as_rows` does, every number finite and at most LIMIT in size (NaN only if allowed)."""
    return within_limit(who, "z", as_rows(who, Z, dim), nan=nan)


def column(who: object, name: str, y: ArrayLike, length: int | None = None, *, nan: bool = False) -> Vector:
    """Return one number a round as `as_column` does, each finite and at most LIMIT in size (NaN only if allowed)."""
    return within_limit(who, name, as_column(who, name, y, length), nan=nan)


def signs(who: object, y: ArrayLike, length: int | None = None) -> Vector:
    """Return binary labels as -1.0 or +1.0; {-1, +1}, {0, 1} and booleans are accepted."""
    labels = as_column(who, "y", y, length)
    zero, minus = labels == 0.0, labels == -1.0
    bad = ~(zero | minus | (labels == 1.0))
    if bad.any():
        at = int(np.argmax(bad))
        raise InputError(
            f"{name_of(who)}: y must be a binary label (-1 or +1, 0 or 1, or bool), got {labels[at]:g} in row {at}"
        )
    if zero.any() and minus.any():
        raise InputError(f"{name_of(who)}: y must be -1 and +1, or 0 and 1; got -1 and 0 in one block")
    return np.where(labels == 1.0, 1.0, -1.0)


def finite_array(who: object, name: str, x: ArrayLike, shape: tuple[int | None, ...]) -> NDArray[np.float64]:
    """Return an array of finite numbers of the given shape (None: any length), of any magnitude."""
    array = np.ascontiguousarray(_real_array(who, name, x))
    fits = array.ndim == len(shape) and all(
        want is None or want == n for want, n in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = "(" + ", ".join("n" if want is None else str(want) for want in shape) + ")"
        raise InputError(f"{name_of(who)}: {name} must have shape {wanted}, got {array.shape}")
    if not np.isfinite(array).all():
        at = tuple(int(k) for k in np.argwhere(~np.isfinite(array))[0])
        raise InputError(f"{name_of(who)}: {name} must be finite, got {array[at]} at {at}")
    return array


def within_limit(who: object, name: str, array: NDArray[np.float64], *, nan: bool = False) -> NDArray[np.float64]:
    """Refuse NaN (unless allowed), infinities and magnitudes above LIMIT, naming the first bad cell."""
    low, high = (np.fmin, np.fmax) if nan else (np.minimum, np.maximum)  # the latter two pass a NaN on
    if not array.size or (low.reduce(array, axis=None) >= -LIMIT and high.reduce(array, axis=None) <= LIMIT):
        return array
    fine = np.abs(array) <= LIMIT
    if nan:
        fine |= np.isnan(array)
    if not fine.all():
        at = tuple(int(k) for k in np.argwhere(~fine)[0])
        place = f"row {at[0]}" if array.ndim == 1 else f"row {at[0]}, feature {at[1]}"
        cure = "; fill or drop what is missing or masked" if np.isnan(array[at]) else ""
        raise InputError(
            f"{name_of(who)}: {name} must be finite and at most 1e75 in size, got {array[at]} in {place}{cure}"
        )
    return array


def raise_on_status(who: object, status: int, width: int) -> None:
    """Raise if a kernel refused its input, rows of `width` features: nothing was changed, and its outputs are empty.

    `status` is 0, 1 + the flat index of the first z that may not be used, or -(1 + index) of the first such y.
    """
    if not status:
        return
    at = abs(status) - 1
    place = f"z in row {at // width}, feature {at % width}" if status > 0 else f"y in row {at}"
    raise InputError(f"{name_of(who)}: numbers must be finite and at most 1e75 in size, which {place} is not")


def _real_array(who: object, name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return float64 from anything that holds real numbers and nothing else; never a view that we write to.

    What is masked (NumPy) or NA (pandas, Arrow) becomes NaN.
    """
    try:
        value = fill_masked(value)
        array = np.asarray(value)
        if array.dtype == object and not isinstance(value, np.ndarray):
            if _holds_plain_numbers(value):
                array = np.asarray(value, dtype=np.float64)  # Python integers beyond int64
            elif is_nullable(value):
                array = np.asarray(value.to_numpy(dtype=np.float64, na_value=np.nan))  # type: ignore[union-attr]  # just asked
    except Exception as error:  # whatever a user's own class raises when it is asked for its numbers
        why = "" if isinstance(value, (list, tuple)) else f" ({one_line(str(error), 120)})"
        raise InputError(f"{name_of(who)}: {name} must be an array of numbers, got {describe(value)}{why}") from None
    if array.dtype.kind not in "fiub":
        cure = _cure(name, array)
        raise InputError(f"{name_of(who)}: {name} must be an array of numbers, got {describe(value)}{cure}")
    with np.errstate(over="ignore"):
        array = array.astype(np.float64, copy=False)
    return array if array.flags.aligned else array.copy()  # received over a network, or out of packed records


def _cure(name: str, array: NDArray[Any]) -> str:
    """Return what to do about features or labels that are no numbers."""
    if array.dtype.kind in "US" or any(isinstance(one, (str, bytes)) for one in array.flat):
        return "; texts as labels are for OnlineClassifier" if name == "y" else f"; {ENCODE_TEXTS}" * (name == "z")
    if array.dtype.kind in "mM":
        return f"; {LEAVE_TIMES}" * (name == "z")
    numbers = array.size and all(one is None or _holds_plain_numbers(one) for one in array.flat)
    return "; convert it with astype(float)" if numbers else ""


def fill_masked(value: Any) -> Any:
    """Return masked arrays, and lists of them, as ordinary ones with NaN where they are masked; the rest as it is."""
    if isinstance(value, (list, tuple)) and any(isinstance(one, np.ma.MaskedArray) for one in value):
        value = [np.nan if one is np.ma.masked else one for one in value]
        value = np.ma.array(value) if any(isinstance(one, np.ma.MaskedArray) for one in value) else value
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if not np.ma.is_masked(value):
        return value.data
    return np.ma.filled(value.astype(np.float64), np.nan) if value.dtype.kind in "fiub" else value.astype(object)


def is_nullable(value: object) -> bool:
    """Whether this is a pandas array, series or frame of numbers that may be NA; text that looks like one is none."""
    kinds: Any = getattr(value, "dtypes", getattr(value, "dtype", None))
    each = list(kinds) if hasattr(kinds, "__iter__") else [kinds]
    return hasattr(value, "to_numpy") and all(getattr(kind, "kind", "O") in "fiub" for kind in each)


def _holds_plain_numbers(value: object) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_holds_plain_numbers(item) for item in value)
    return isinstance(value, (int, float, np.number))


def one_line(text: str, most: int = 60) -> str:
    """Return a text as it may stand in an error: one line, cut where it gets long."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}..."


def describe(value: object) -> str:
    """Return a value as it may stand in an error: its kind, and its text while that is short."""
    if isinstance(value, np.ndarray):
        return f"an array of dtype {value.dtype} and shape {value.shape}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a user's own class or an int too long to print: name the kind instead
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"a {type(value).__name__} ({text[:40]}...)"
