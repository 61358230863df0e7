"""Fleets on Spark: the same `Fleet`, keyed by the engine, its states exactly once.

Takes and returns DataFrames and never opens a source or a sink. Everything that decides about records is
`Fleet.advance`; the engine shuffles by key, keeps one `binary` per key in RocksDB, and restarts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from undrift._internal.names import find_closest
from undrift.errors import InputError, MissingExtraError
from undrift.fleet import Fleet, Output
from undrift.stream.keyed.keyed_rows import KeyedRows, mark_unusable
from undrift.stream.keyed.outputs import ABSENT, Key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATE = "state"
"""Name of the state variable, and of the column that holds a key's bytes."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_INTEGERS = ("byte", "short", "integer", "long")
_NUMBERS = (*_INTEGERS, "float", "double", "boolean")


class TableResult(NamedTuple):
    """What `learn_table` returns: three views of one computation; cache or write `table` to do it once."""

    predictions: DataFrame
    """key, order, prediction, target, status, reason: a row for every record."""
    models: DataFrame
    """key, state: what `start_from` of either function takes, and `Fleet.model` opens."""
    table: DataFrame
    """key, state, outputs: a row for every key."""


def learn_stream(df: DataFrame, fleet: Fleet, start_from: DataFrame | None = None) -> DataFrame:
    """Return the stream of a fleet's outputs: predict before learning, a model per key.

    Parameters
    ----------
    df
        A streaming DataFrame with the fleet's columns.
    fleet
        It needs `order=`: after a shuffle nothing else says what came first.
    start_from
        Models to begin with: `learn_table(...).models` or `read_models(...)`. Used by the first batch of a checkpoint.

    Notes
    -----
    The state store must be RocksDB. Write with a checkpoint, to a sink that is exactly-once (files), or to
    `foreachBatch` that replaces what it wrote for the same batch number. Latency is that of a micro-batch: seconds.
    """
    spark, key = _check_input(df, fleet)
    if not df.isStreaming:
        raise InputError("learn_stream: df must be a streaming DataFrame; use learn_table for one that ends")
    provider = spark.conf.get(PROVIDER, "")
    if provider != ROCKSDB:
        raise InputError(
            f"learn_stream: the state store must be RocksDB, got {provider or 'the default'}; "
            f'call spark.conf.set("{PROVIDER}", "{ROCKSDB}") before'
        )
    grouped = df.select(*fleet.fields.names).groupBy(fleet.fields.key)
    initial = None if start_from is None else _check_models(start_from, key).groupBy("key")
    return grouped.transformWithState(
        statefulProcessor=Processor(fleet),
        outputStructType=_output_type(key),
        outputMode="Append",
        timeMode="None",
        initialState=initial,
    )


def learn_table(df: DataFrame, fleet: Fleet, start_from: DataFrame | None = None) -> TableResult:
    """Learn a table that ends, all of a key's records at once, and return predictions and models.

    Parameters
    ----------
    df
        A DataFrame with the fleet's columns, not a streaming one.
    fleet
        It needs `order=`.
    start_from
        Models to begin with. Keys that have no records keep theirs.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    _, key = _check_input(df, fleet)
    if df.isStreaming:
        raise InputError("learn_table: df must be a DataFrame that ends; use learn_stream for a streaming one")
    kinds = {"key": key, STATE: T.BinaryType(), "rows": T.ArrayType(_output_type(key))}
    schema = T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])
    worker = TableWorker(fleet)  # Spark counts the arguments of plain functions, hence the lambdas
    grouped = df.select(*fleet.fields.names).groupBy(fleet.fields.key)
    if start_from is None:
        table = grouped.applyInArrow(lambda key, records: worker.advance(key, None, records), schema)
    else:
        both = grouped.cogroup(_check_models(start_from, key).groupBy("key"))
        table = both.applyInArrow(lambda key, records, models: worker.advance(key, models, records), schema)
    return TableResult(
        table.select(F.explode("rows").alias("row")).select("row.*"),
        table.where(F.col(STATE).isNotNull()).select("key", STATE),
        table,
    )


def read_models(spark: SparkSession, checkpoint: str) -> DataFrame:
    """Return (key, state) of the last committed batch of a stream's checkpoint.

    `Fleet.model(state)` opens a state anywhere; `Fleet.run(..., states=...)` goes on from them on one machine.
    """
    from pyspark.sql import functions as F

    states = spark.read.format("statestore").option("stateVarName", STATE).load(checkpoint)
    name = states.schema["key"].dataType.names[0]
    return states.select(F.col("key").getField(name).alias("key"), F.col("value").getField(STATE).alias(STATE))


class Processor:
    """The stateful processor: one `binary` per key, advanced by `Fleet.advance`.

    Spark calls the methods by name; deriving from its abstract class would need Spark to import this module.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def init(self, handle: Any) -> None:
        """Ask for the state variable."""
        self._state = handle.getValueState(STATE, f"{STATE} binary")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Take over a model made elsewhere."""
        self._state.update((bytes(initialState[STATE]),))

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:
        """Advance one key by the records of a batch."""
        from pyspark.sql import Row

        name = key[0]
        kept = self._state.get() if name is not None and self._state.exists() else None
        state, outputs = self.fleet.advance(None if kept is None else bytes(kept[0]), _to_batch(self.fleet, name, rows))
        if name is not None:
            self._state.update((state,))
        make = Row(*Output._fields)
        for row in outputs:
            yield make(*row)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
        """No timers are set."""
        return iter(())

    def close(self) -> None:
        """Nothing to close."""


class TableWorker:
    """Advances one key of a table, through Arrow, which keeps types and missing values as they are."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def advance(self, keys: tuple[Any, ...], models: Any, records: Any) -> Any:
        """Return key, state and outputs of the records, from nothing or from a model made before."""
        import pyarrow as pa

        key = keys[0].as_py()
        state = None if models is None or not models.num_rows else models[STATE][0].as_py()
        rows: list[dict[str, Any]] = []
        if records.num_rows:
            state, outputs = self.fleet.advance(state, self.fleet.batch(records))
            rows = [row._asdict() for row in outputs]
        kind = pa.int64() if isinstance(key, int) else pa.string()
        fields = dict(zip(Output._fields, (kind, pa.int64(), *[pa.float64()] * 2, *[pa.string()] * 2), strict=True))
        return pa.table(
            {
                "key": pa.array([key], kind),
                STATE: pa.array([None if key is None else state], pa.binary()),
                "rows": pa.array([rows], pa.list_(pa.struct(list(fields.items())))),
            }
        )


def _to_batch(fleet: Fleet, key: Key, rows: Iterable[Any]) -> KeyedRows:
    """Return the rows of one key as columns; their types are the schema's."""
    fields = fleet.fields
    table = [tuple(row) for row in rows]
    columns = dict(zip(fields.names, zip(*table, strict=True), strict=True))
    n = len(table)
    bad: dict[int, str] = {}

    def integers(name: str | None) -> Any:
        values = [None] * n if name is None else columns[name]
        return np.array([ABSENT if value is None else value for value in values], np.int64)

    order = integers(fields.order)
    for i in np.flatnonzero(order == ABSENT).tolist():
        bad[i] = f"'{fields.order}' is missing"
    if key is None:
        bad = dict.fromkeys(range(n), f"key '{fields.key}' is missing")
    features = [columns[name] for name in fields.features]
    Z = np.array(features, np.float64).T.copy() if features else np.empty((n, 0))
    y = np.array([math.nan if value is None else value for value in columns[fields.target]], np.float64)
    batch = KeyedRows([key] * n, order, Z, y, integers(fields.label_of), bad)
    mark_unusable(fields, fleet.accepted_input, batch)
    return batch


def _check_input(df: DataFrame, fleet: Fleet) -> tuple[SparkSession, Any]:
    """Refuse missing packages and wrong columns before anything starts; return the session and the key's type."""
    try:
        import google.protobuf  # noqa: F401  (Spark's state client needs it and does not install it)
        import pyarrow  # noqa: F401  # only asked whether it is there
        from pyspark.sql import GroupedData
    except ImportError as error:
        raise MissingExtraError(
            f"undrift.spark needs {error.name}; install it here and on every worker with: pip install 'undrift[spark]'"
        ) from None
    if not hasattr(GroupedData, "transformWithState"):
        raise MissingExtraError("undrift.spark needs pyspark >= 4.1; install it with: pip install 'undrift[spark]'")
    fields = fleet.fields
    if fields.order is None:
        raise InputError("undrift.spark: the fleet needs order=, since a shuffle forgets what came first")
    if fleet.interval is not None:
        raise InputError("undrift.spark: rows of outputs have no intervals; make the fleet without interval=")
    for name in fields.names:
        if name not in df.columns:
            near = find_closest(name, df.columns)
            hint = f". Did you mean '{near}'?" if near else ""
            raise InputError(f"undrift.spark: column '{name}' not found; columns are {', '.join(df.columns)}{hint}")
        allowed: tuple[str, ...] = _NUMBERS
        if name in (fields.order, fields.label_of):
            allowed = _INTEGERS
        elif name == fields.key:
            allowed = ("string", *_INTEGERS)
        kind = df.schema[name].dataType.typeName()
        if kind not in allowed:
            raise InputError(
                f"undrift.spark: column '{name}' must be one of {', '.join(allowed)}, got {kind}; cast it first"
            )
    return df.sparkSession, df.schema[fields.key].dataType


def _check_models(models: DataFrame, key: Any) -> DataFrame:
    """Refuse a DataFrame that does not hold models, or has keys of another type."""
    kinds = {field.name: field.dataType.typeName() for field in models.schema}
    wanted = {"key": key.typeName(), STATE: "binary"}
    if any(kinds.get(name) != kind for name, kind in wanted.items()):
        raise InputError(f"undrift.spark: start_from must have the columns {wanted}, got {kinds}")
    return models.select("key", STATE)


def _output_type(key: Any) -> Any:
    from pyspark.sql import types as T

    kinds = (key, T.LongType(), T.DoubleType(), T.DoubleType(), T.StringType(), T.StringType())
    return T.StructType([T.StructField(name, kind) for name, kind in zip(Output._fields, kinds, strict=True)])
