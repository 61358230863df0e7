"""Fleets on Spark: `learn_table`, the same `Fleet` of a table with Spark's shuffle."""

from __future__ import annotations

import datetime as dt
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
from ..scenarios import CUT, Reference, Scenario
from .keyed_rows import KEYS, expect_keys, join_keys, keyed_columns, second_key
from .streams import answer_columns, make_rows, make_stream

NOT_SETTINGS = ("texts", "classes", "level", "resume")
"""Options that are found in the columns, or that fleets have another word for."""


class Spark(PathDriver):
    """Rows of two keys, ordered by time."""

    name = "Spark"

    def expect(self, scenario: Scenario, reference: Reference) -> Answers:
        """Return what the library says about each key; of texts, when a stream has seen those of both keys."""
        if scenario.feature == "many texts" and reference is scenario.reference:
            return _expect_streams(scenario)
        expected = expect_keys(scenario, reference)
        return _likeliest(expected) if "classes" in scenario.options else expected

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
        with explain_errors():
            fleet = _make_fleet(scenario, columns)
            parts = [slice(0, 2 * CUT), slice(2 * CUT, None)] if "resume" in asked else [slice(None)]
            models, records = None, []
            for part in parts:
                result = learn_table(_frame({name: cells[part] for name, cells in columns.items()}), fleet, models)
                records += result.predictions.collect()
                models = result.models
        return Answers(_read(records, scenario))


def _make_fleet(scenario: Scenario, columns: dict[str, list[Any]]) -> Any:
    asked: dict[str, Any] = {"speed": "fast", **scenario.options}
    settings = {name: value for name, value in asked.items() if name not in NOT_SETTINGS}
    if "elapsed" in settings:
        settings["elapsed"] = True
    if "candidate" in settings:
        settings["candidate"] = (settings["candidate"],)
    if "level" in asked:
        settings["interval"] = asked["level"]
    if "alert" in asked:
        settings["alert"] = True
    return ud.Fleet.of_table(_dicts(columns), "y", key="key", time="time", **settings)


def _dicts(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _expect_streams(scenario: Scenario) -> Answers:
    """Return what a stream says about each key whose columns are those of the rows of both."""
    both = [{name: cell for name, cell in row.items() if name != "key"} for row in _dicts(keyed_columns(scenario))]
    keys = scenario, second_key(scenario)
    by_key = [answer_columns(make_stream(own).infer(both).play(make_rows(own)), own) for own in keys]
    return Answers({name: join_keys([own[name] for own in by_key]) for name in by_key[0]})


def _likeliest(expected: Answers) -> Answers:
    """Return the likeliest label of each row and its probability, which is what Spark's rows have."""
    if not expected.columns:
        return expected
    labels = np.array([name[2:-1] for name in expected.columns])
    p = np.stack([*expected.columns.values()])
    return Answers({"prediction": labels[np.argmax(p, axis=0)], "probability": np.max(p, axis=0)})


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
    kinds = {str: "string", float: "double", int: "long", dt.datetime: "timestamp"}
    types = [
        f"`{name}` {kinds[type(next(cell for cell in cells if cell is not None))]}" for name, cells in columns.items()
    ]
    return _session().createDataFrame(list(zip(*columns.values(), strict=True)), ", ".join(types))


def _read(records: list[Any], scenario: Scenario) -> dict[str, Any]:
    known = {"yhat": "prediction"}
    rows: ClassVar = [row.asDict() for row in records]
    reason = next((row["reason"] for row in rows if row["reason"]), None)
    if reason is not None:
        raise Refused(reason)
    out = {}
    for name in ("prediction", "probability") if "classes" in scenario.options else scenario.shows:
        column = known.get(name, name)
        if column in rows[0]:
            by_key = [sorted((row for row in rows if row["key"] == key), key=lambda row: row["order"]) for key in KEYS]
            cells = [[math.nan if row[column] is None else row[column] for row in part] for part in by_key]
            out[name] = join_keys([np.array(values) for values in cells])
    return out
