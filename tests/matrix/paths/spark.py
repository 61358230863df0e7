"""Fleets on Spark: `learn_table`, the same `Fleet` with Spark's shuffle."""

from __future__ import annotations

import importlib
import math
import os
import shutil
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import undrift as ud

from ..outcome import Answers, PathDriver, Refused, explain_errors
from ..scenarios import CUT, Scenario
from .estimators import feature_names
from .keyed_rows import KEYS, expect_keys, join_keys, keyed_columns

FLEET = {"delay": "delay", "lag": "lags", "level": "interval"}
"""Options that `Fleet` has another word for; what it has no word for is passed as it is."""


class Spark(PathDriver):
    """Records of two keys with an order of their own."""

    name = "Spark"
    expect = staticmethod(expect_keys)

    def missing(self) -> str | None:
        """Return what keeps Spark from running here, None if nothing does."""
        for name in ("pyspark", "google.protobuf", "pyarrow"):
            try:
                importlib.import_module(name)
            except ImportError:
                return f"no {name} here; Spark's tests have an environment of their own"
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            return "no Java here; Spark needs 17 or newer (apt install openjdk-17-jre-headless)"
        return None

    def play(self, scenario: Scenario, folder: Path) -> Answers:
        """Learn the table of both keys."""
        from undrift.spark import learn_table

        asked = scenario.options
        columns = keyed_columns(scenario)
        columns["order"] = [row for row in range(scenario.rows) for _ in KEYS]
        if "classes" in asked:
            columns["y"] = [float(["blue", "green", "red"].index(label)) for label in columns["y"]]
        with explain_errors():
            fleet = _make_fleet(scenario)
            parts = [slice(0, 2 * CUT), slice(2 * CUT, None)] if "resume" in asked else [slice(None)]
            models, records = None, []
            for part in parts:
                result = learn_table(_frame({name: cells[part] for name, cells in columns.items()}), fleet, models)
                records += result.predictions.collect()
                models = result.models
        return Answers(_read(records, scenario))


def _make_fleet(scenario: Scenario) -> Any:
    asked, model = dict(scenario.options), dict[str, Any](speed="fast")
    kind = ud.OnlineClassifier if asked.pop("classes", None) else ud.OnlineRegressor
    if asked.pop("missing", None) is not None:
        model["indicators"] = True
    if "candidate" in asked:
        model["candidates"] = [asked.pop("candidate")]
    if "speed" in asked:
        model["speed"] = asked.pop("speed")
    asked.pop("resume", None)
    others = {FLEET.get(name, name): value for name, value in asked.items()}
    return ud.Fleet(
        kind(**model), key="key", order="order", features=feature_names(scenario), target="y", **others
    )  # fmt: skip


@lru_cache(maxsize=1)
def _session() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["OMP_NUM_THREADS"] = "1"
    builder = SparkSession.builder.master("local[1]")
    for name, value in {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def _frame(columns: dict[str, list[Any]]) -> Any:
    """Return a Spark frame with the columns, the types those of their cells."""
    kinds = {str: "string", float: "double", int: "long"}
    used = {name: cells for name, cells in columns.items() if name != "time"}
    types = [
        f"`{name}` {kinds[type(next(cell for cell in cells if cell is not None))]}" for name, cells in used.items()
    ]
    return _session().createDataFrame(list(zip(*used.values(), strict=True)), ", ".join(types))


def _read(records: list[Any], scenario: Scenario) -> dict[str, Any]:
    known = {"yhat": "prediction"}
    rows: ClassVar = [row.asDict() for row in records]
    reason = next((row["reason"] for row in rows if row["reason"]), None)
    if reason is not None:
        raise Refused(reason)
    out = {}
    for name in scenario.shows:
        column = known.get(name, name)
        if column in rows[0]:
            by_key = [sorted((row for row in rows if row["key"] == key), key=lambda row: row["order"]) for key in KEYS]
            numbers = [[math.nan if row[column] is None else row[column] for row in part] for part in by_key]
            out[name] = join_keys([np.array(values) for values in numbers])
    return out
