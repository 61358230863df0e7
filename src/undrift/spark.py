"""Fleets on Spark: the same `Fleet`, keyed by the engine, its states exactly once.

Takes and returns DataFrames and never opens a source or a sink. Everything that decides about records is
`Fleet.advance`; the engine shuffles by key, keeps one `binary` per key in RocksDB, and restarts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from undrift._internal.names import find_closest
from undrift.errors import InputError, MissingExtraError
from undrift.fleet import Fleet, Output
from undrift.stream.answers import quantile_column
from undrift.stream.cells import MISSING
from undrift.stream.keyed.outputs import Outputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATE = "state"
"""Name of the state variable, and of the column that holds a key's bytes."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
KEY = "undrift_key"
"""Name of the column by which rows are grouped: the fleet's key, of several columns their texts, joined."""
_INTEGERS = ("byte", "short", "integer", "long")
_NUMBERS = (*_INTEGERS, "float", "double", "boolean")
_TIMES = ("timestamp", "timestamp_ntz", "date")
_BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001))))
"""What Python strips from texts."""


class TableResult(NamedTuple):
    """What `learn_table` returns: three views of one computation; cache or write `table` to do it once."""

    predictions: DataFrame
    """key, order, prediction, target, status, reason: a row for every record.

    With an interval lower and upper follow, with quantiles a column such as q0.1 for each. Of several classes the
    prediction is the likeliest label, and its probability follows. Orders that are times count since 1970.
    """
    models: DataFrame
    """key, state: what `start_from` of either function takes, and `Fleet.model` opens."""
    table: DataFrame
    """key, state, rows: a row for every key."""


def learn_stream(df: DataFrame, fleet: Fleet, start_from: DataFrame | None = None) -> DataFrame:
    """Return the stream of a fleet's outputs: predict before learning, a model per key.

    Parameters
    ----------
    df
        A streaming DataFrame with the fleet's columns. Timestamps are instants to the microsecond, whatever the time
        zone of the session; those without a zone, and dates, are taken as they are written.
    fleet
        It needs `order=` or `time=`: after a shuffle nothing else says what came first.
    start_from
        Models to begin with: `learn_table(...).models` or `read_models(...)`. Used by the first batch of a checkpoint.

    Notes
    -----
    The state store must be RocksDB. Write with a checkpoint, to a sink that is exactly-once (files), or to
    `foreachBatch` that replaces what it wrote for the same batch number. Latency is that of a micro-batch: seconds.
    """
    spark = _check_input(df, fleet)
    if not df.isStreaming:
        raise InputError("learn_stream: df must be a streaming DataFrame; use learn_table for one that ends")
    provider = spark.conf.get(PROVIDER, "")
    if provider != ROCKSDB:
        raise InputError(
            f"learn_stream: the state store must be RocksDB, got {provider or 'the default'}; "
            f'call spark.conf.set("{PROVIDER}", "{ROCKSDB}") before'
        )
    rows, fleet = _prepare(df, fleet)
    key = rows.schema[KEY].dataType
    initial = None if start_from is None else _check_models(start_from, key).groupBy("key")
    return rows.groupBy(KEY).transformWithState(
        statefulProcessor=Processor(fleet),
        outputStructType=_output_type(fleet, key),
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
        It needs `order=` or `time=`.
    start_from
        Models to begin with. Keys that have no records keep theirs.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    _check_input(df, fleet)
    if df.isStreaming:
        raise InputError("learn_table: df must be a DataFrame that ends; use learn_stream for a streaming one")
    rows, fleet = _prepare(df, fleet)
    key = rows.schema[KEY].dataType
    kinds = {"key": key, STATE: T.BinaryType(), "rows": T.ArrayType(_output_type(fleet, key))}
    schema = T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])
    worker = TableWorker(fleet)  # Spark counts the arguments of plain functions, hence the lambdas
    grouped = rows.groupBy(KEY)
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
        names = [*dict.fromkeys(self.fleet.fields.names)]  # the group's key comes last
        batch = self.fleet.batch([dict(zip(names, row, strict=False)) for row in rows])
        state, outputs = self.fleet.advance(None if kept is None else bytes(kept[0]), batch)
        if name is not None:
            self._state.update((state,))
        columns = _output_columns(self.fleet, outputs)
        make = Row(*columns)
        for row in zip(*columns.values(), strict=True):
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

        kind, name = keys[0].type, keys[0].as_py()
        state = None if models is None or not models.num_rows else models[STATE][0].as_py()
        outputs = Outputs.empty()
        if records.num_rows:
            batch = self.fleet.batch(records.to_pylist() if self.fleet.from_table else records)
            state, outputs = self.fleet.advance(state, batch)
        columns = _output_columns(self.fleet, outputs)
        types = {"key": kind, "order": pa.int64(), **dict.fromkeys(("status", "reason"), pa.string())}
        types |= dict.fromkeys(("prediction", "target"), pa.string() if self.fleet.several else pa.float64())
        arrays = [pa.array(cells, types.get(name, pa.float64())) for name, cells in columns.items()]
        rows = pa.StructArray.from_arrays(arrays, [*columns])
        return pa.table(
            {
                "key": pa.array([name], kind),
                STATE: pa.array([None if name is None else state], pa.binary()),
                "rows": pa.ListArray.from_arrays([0, len(rows)], rows),
            }
        )


def _check_input(df: DataFrame, fleet: Fleet) -> SparkSession:
    """Refuse missing packages and wrong columns before anything starts; return the session."""
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
        raise InputError("undrift.spark: the fleet needs order= or time=, since a shuffle forgets what came first")
    for name in fields.names:
        if name not in df.columns:
            near = find_closest(name, df.columns)
            hint = f". Did you mean '{near}'?" if near else ""
            raise InputError(f"undrift.spark: column '{name}' not found; columns are {', '.join(df.columns)}{hint}")
        kind, allowed = df.schema[name].dataType.typeName(), _allowed_types(fleet, name)
        if kind not in allowed:
            raise InputError(
                f"undrift.spark: column '{name}' must be one of {', '.join(allowed)}, got {kind}; cast it first"
            )
    return df.sparkSession


def _allowed_types(fleet: Fleet, name: str) -> tuple[str, ...]:
    """Return the types of Spark that a column may have."""
    fields, times = fleet.fields, _TIMES if fleet.fields.unit == "us" else ()
    if name in fields.key:
        return ("string", *_INTEGERS)
    if name in (fields.order, fields.label_of):
        if not fleet.from_table:
            return (*_INTEGERS, *times)
        return (*_INTEGERS, "string") if fleet.time is None or fleet.time.format == "epoch" else ("string", *times)
    if name in fields.texts:
        return ("string",)
    return (*_NUMBERS, "decimal", "string") if fleet.from_table else _NUMBERS


def _prepare(df: DataFrame, fleet: Fleet) -> tuple[DataFrame, Fleet]:
    """Return the fleet's columns with the key beside them, and a fleet that takes times as the counts they are now."""
    from pyspark.sql import functions as F

    fields, kinds = fleet.fields, {field.name: field.dataType.typeName() for field in df.schema}
    columns = {name: F.col(f"`{name.replace('`', '``')}`") for name in fields.names}
    key = _key_column(fleet, columns, kinds)
    timed = [name for name in (fields.order, fields.label_of) if name is not None and kinds[name] in _TIMES]
    for name in timed:  # counts of microseconds, which no time zone of a worker changes
        if kinds[name] == "timestamp":
            columns[name] = F.unix_micros(columns[name])
        elif kinds[name] == "date":
            columns[name] = F.unix_date(columns[name]).cast("long") * 86_400_000_000
        else:
            epoch = F.lit("1970-01-01").cast("timestamp_ntz")
            columns[name] = F.timestamp_diff("MICROSECOND", epoch, columns[name])
    if timed and (time := fleet.time) is not None:
        fleet = copy.copy(fleet)
        fleet.time = time._replace(format="epoch")
    if fleet.from_table and kinds[fields.target] == "boolean":  # as dictionaries or as data frames have it
        words = fleet.classes is not None and "true" in fleet.classes
        columns[fields.target] = columns[fields.target].cast("string" if words else "double")
    return df.select(*(column.alias(name) for name, column in columns.items()), key.alias(KEY)), fleet


def _key_column(fleet: Fleet, columns: Mapping[str, Any], kinds: Mapping[str, str]) -> Any:
    """Return the key that `Fleet.batch` gives a row, null where there is none, so that Spark groups by it."""
    from pyspark.sql import functions as F

    names = fleet.fields.key
    if len(names) == 1 and not fleet.from_table:
        return columns[names[0]]
    parts = []
    for name in names:
        text = columns[name].cast("string")
        if fleet.from_table and kinds[name] == "string":  # as RowReader reads keys
            text = F.btrim(text, F.lit(_BLANKS))
            text = F.when(~(F.lower(text).isin(*MISSING) | text.isin(*fleet.origin.na)), text)
        if len(names) > 1:  # as join_key
            text = F.replace(F.replace(text, F.lit("~"), F.lit("~~")), F.lit("/"), F.lit("~/"))
        parts += [F.lit("/"), text]
    return F.concat(*parts[1:])


def _check_models(models: DataFrame, key: Any) -> DataFrame:
    """Refuse a DataFrame that does not hold models, or has keys of another type."""
    kinds = {field.name: field.dataType.typeName() for field in models.schema}
    wanted = {"key": key.typeName(), STATE: "binary"}
    if any(kinds.get(name) != kind for name, kind in wanted.items()):
        raise InputError(f"undrift.spark: start_from must have the columns {wanted}, got {kinds}")
    return models.select("key", STATE)


def _extra_names(fleet: Fleet) -> list[str]:
    """Return the columns that follow those of `Output`."""
    ends = ["lower", "upper"] if fleet.interval is not None else []
    return [*ends, *map(quantile_column, fleet.settings.quantiles), *(["probability"] if fleet.several else [])]


def _output_columns(fleet: Fleet, outputs: Outputs) -> dict[str, list[Any]]:
    """Return rows of outputs as columns, always the same ones."""
    columns, nothing = outputs.columns(), [None] * len(outputs)
    if fleet.several and outputs.extras:  # of the likeliest label
        best = np.fmax.reduce([*outputs.extras.values()])
        columns["probability"] = [None if p != p else p for p in best.tolist()]
    return {name: columns.get(name, nothing) for name in (*Output._fields, *_extra_names(fleet))}


def _output_type(fleet: Fleet, key: Any) -> Any:
    from pyspark.sql import types as T

    label = T.StringType() if fleet.several else T.DoubleType()
    own = (key, T.LongType(), label, label, T.StringType(), T.StringType())
    kinds = dict(zip(Output._fields, own, strict=True)) | dict.fromkeys(_extra_names(fleet), T.DoubleType())
    return T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])
