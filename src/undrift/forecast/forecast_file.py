"""A forecaster as data: a JSON header and float64 arrays, and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from undrift import store
from undrift._typing import Arrays
from undrift.errors import ModelFileError
from undrift.forecast.core import REFITS, ForecastCore, Shape
from undrift.forecast.design import RowDesign, count_columns
from undrift.forecast.forecast_input import check_seasons
from undrift.forecast.members import BETAS, Members
from undrift.kernels import layout
from undrift.learners import serializable

if TYPE_CHECKING:
    from undrift.forecast.forecaster import Forecaster

Made = TypeVar("Made", bound="Forecaster")
NAN_ALLOWED = {"rows", "served", "mixed", "half", "own", "own_before"}
COUNTS = {"member_rounds", "known_rounds"}


def describe(model: Forecaster) -> tuple[store.Header, Arrays]:
    """Return everything a forecaster is: a JSON header and its arrays, copied."""
    header: store.Header = {
        "class": "Forecaster",
        "horizon": model.horizon,
        "season": None if model.given_seasons is None else _words(model.given_seasons),
        "level_of_intervals": model.level,
        "every": model.every,
        "flat": model._flat,
        "names": None if model.names is None else json.dumps(model.names),
    }
    if model.nonnegative is not None:
        header["nonnegative"] = model.nonnegative
    if model.own:
        header["candidates"] = json.dumps(model.own)
    core = model._core
    if core is None:
        return header, {}
    header |= {
        "series": core.shape.series,
        "columns": core.shape.columns,
        "timed": core.shape.timed,
        "rows": core.rows.total,
        "spacing": core.spacing,
        "found": None if core.fitted is None else _words(core.fitted[0].seasons),
    }
    return header, {name: np.array(array) for name, array in _arrays(core).items()}


def _words(seasons: tuple[int, ...]) -> str:
    return ",".join(str(season) for season in seasons)


def _seasons(words: object) -> tuple[int, ...]:
    return tuple(int(word) for word in str(words).split(",") if word)


def _arrays(core: ForecastCore) -> Arrays:
    arrays: Arrays = {
        "rows": core.rows.array(),
        "jumps": core.rows.jumps,
        "least": core.least,
        "most": core.most,
        "nonnegative": core.nonnegative,
        "answers": core.answers,
        "mixed": core.mixed,
        "anchor": core.anchor,
        "served": core.served,
        "half": core.half,
        "ahead": core.ahead,
        "column_scale": core.column_scale,
        **core.weights.arrays(),
        **core.intervals.arrays(),
        **core.effect.arrays(),
    }
    if core.shape.own:
        arrays["own"] = core.own
        arrays["own_before"] = core.own_before
    if core.fitted is not None and core.banks is not None:
        design, members = core.fitted
        arrays |= {"center": design.center, "scale": design.scale, **members.arrays(), **core.banks.arrays()}
    return arrays


def restore(cls: type[Made], header: store.Header, arrays: Arrays) -> Made:
    """Return the forecaster that `describe` described; refuse what does not fit."""
    if header.get("class") != "Forecaster":
        raise ModelFileError(f"holds a {header.get('class')!r:.60}, not a Forecaster")
    try:
        return serializable.restore(cls, _read_construction(header), header, arrays)
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError) as error:
        why = " ".join(str(error).split())
        raise ModelFileError(f"Forecaster: the saved state cannot be used ({why:.200})") from None


def _read_construction(header: store.Header) -> serializable.Construction:
    """Return the arguments that a saved forecaster was made with; its `__init__` checks every one of them."""
    season = None if header["season"] is None else _seasons(header["season"])
    named = {
        "level": header["level_of_intervals"],
        "every": header["every"],
        "candidates": json.loads(str(header["candidates"])) if "candidates" in header else None,
        "nonnegative": header.get("nonnegative"),
    }
    return serializable.Construction((header["horizon"], season), named)


def load_state(model: Forecaster, header: store.Header, arrays: Arrays) -> None:
    """Give a fresh forecaster the state that `describe` described; refuse what does not fit."""
    model._flat = bool(header["flat"])
    model.names = None if header["names"] is None else [str(name) for name in json.loads(str(header["names"]))]
    if "rows" in header:
        model._core = _restore_core(model, header, arrays)
    elif arrays:
        raise ModelFileError("Forecaster: it has arrays but no rows")


def _restore_core(model: Forecaster, header: store.Header, arrays: Arrays) -> ForecastCore:
    series, columns, total = (_count(header, name) for name in ("series", "columns", "rows"))
    horizon = model.horizon
    size = arrays["answers"].size if "answers" in arrays else 0
    if series < 1 or not 1 <= series * horizon * horizon <= max(size, 1):  # before making room for it
        raise ModelFileError("Forecaster: the saved arrays are too small for its series and steps")
    known = arrays["known_information"].size if "known_information" in arrays else 0
    if columns * (columns - 1) // 2 > known:
        raise ModelFileError("Forecaster: the saved arrays are too small for its columns")
    core = ForecastCore(horizon, model.given_seasons, Shape(series, columns, bool(header["timed"]), len(model.own)))
    core.spacing = _count(header, "spacing")
    if header["found"] is not None:
        seasons = _seasons(header["found"])
        check_seasons(model, seasons or None)
        core.fitted = _restore_members(core, seasons, arrays)
        core.banks = core.make_banks(seasons)
    rows = arrays.get("rows", np.empty((0, 0)))
    if rows.ndim != 2 or rows.shape[1] != 3 * series + 1 + columns or len(rows) != min(total, core.rows.keep):
        raise ModelFileError("Forecaster: the saved rows have a wrong shape")
    core.rows.load(rows, total)
    if core.shape.timed and not (np.abs(core.rows.seconds) < 2.0**53).all():
        raise ModelFileError("Forecaster: the saved rows have unusable times")
    if core.shape.own:
        kept = arrays["own_before"]
        if kept.shape[1:] != core.own.shape or len(kept) < (total if total <= REFITS[-1] else 0):
            raise ModelFileError("Forecaster: the saved own forecasts have a wrong shape")
        core.own_before = np.array(kept)
    own = _arrays(core)
    for name in sorted(own.keys() ^ arrays.keys()):
        raise ModelFileError(
            f"Forecaster: the saved arrays {'lack' if name in own else 'hold an unknown'} {name!r:.60}"
        )
    for name, array in own.items():
        saved = arrays[name]
        fine = np.isfinite(saved) | (np.isnan(saved) | np.isposinf(saved) if name in NAN_ALLOWED else False)
        if saved.shape != array.shape or not fine.all():
            raise ModelFileError(f"Forecaster: the saved array '{name}' has a wrong shape or unusable numbers")
        if name in COUNTS and not ((saved >= 0.0) & (saved < 2.0**53) & (saved % 1.0 == 0.0)).all():
            raise ModelFileError(f"Forecaster: the saved array '{name}' must hold counts")
    for name, array in own.items():
        if name != "rows":  # which were loaded above
            array[...] = arrays[name]
    return core


def _count(header: store.Header, name: str) -> int:
    value = header[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ModelFileError(f"Forecaster: {name} must be a count, got {value!r:.60}")
    return value


def _restore_members(core: ForecastCore, seasons: tuple[int, ...], arrays: Arrays) -> tuple[RowDesign, Members]:
    """Return the design and members of saved arrays, whose sizes are looked at before room is made for them."""
    center, scale = arrays["center"], arrays["scale"]
    if center.ndim != 2 or center.shape != scale.shape or len(center) != core.shape.series:
        raise ModelFileError("Forecaster: the saved scaling has a wrong shape")
    width, outputs = center.shape[1], 2 * core.horizon
    wanted = (core.shape.series, len(BETAS), layout.length(width), 1)
    if arrays["information"].shape != wanted or not (scale > 0.0).all():
        raise ModelFileError("Forecaster: the saved members do not fit the saved scaling")
    if width != count_columns(seasons, core.spacing, core.shape.series, timed=core.shape.timed):
        raise ModelFileError("Forecaster: the saved scaling is not that of its seasons and times")
    design = RowDesign(seasons, core.spacing, np.array(center), np.array(scale))
    return design, Members(core.shape.series, width, outputs)
