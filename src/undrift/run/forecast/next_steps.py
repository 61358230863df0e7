"""The next steps of some series as a table, and as the CSV that people open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from undrift.forecast import Forecaster
from undrift.run.extras import polars
from undrift.run.write.tables import as_csv


def next_frame(model: Forecaster, names: Sequence[str], rows: int, *, timed: bool) -> Any:
    """Return the steps after the last row as a table: series, step, time, yhat, lower, upper.

    Without times, `time` is the number of the row, the first one being 0; with them, it is missing until two rows show
    how far apart rows are.
    """
    pl = polars("next steps")
    found, steps = model.forecast(), np.arange(1, model.horizon + 1)
    when: Any = rows - 1 + steps
    if timed:
        when = model.times().astype("datetime64[us]") if model.spacing else np.full(len(steps), "NaT", "datetime64[us]")
    return pl.DataFrame(
        {
            "series": [name for name in names for _ in steps],
            "step": np.tile(steps.astype(np.int32), len(names)),
            "time": np.tile(when, len(names)),
            **{name: getattr(found, name).ravel() for name in ("yhat", "lower", "upper")},
        },
        schema_overrides={"series": pl.String, "time": pl.Datetime("us") if timed else pl.Int64},
    )


def as_next_csv(frame: Any) -> bytes:
    """Return the next steps as CSV: times to the second, and `yhat` under the name `forecast`."""
    pl = polars("next steps")
    texts = frame.with_columns(pl.col(pl.Datetime).dt.to_string("%Y-%m-%dT%H:%M:%S"))
    return as_csv(texts.rename({"yhat": "forecast"})).encode()
