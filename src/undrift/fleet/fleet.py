"""Fleet: one model per key, the same object on one machine and on a cluster."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from undrift import _check
from undrift._internal.folder import Folder
from undrift.errors import InputError
from undrift.learners import Learner
from undrift.learners.intervals import LEVELS
from undrift.online import OnlineRegressor
from undrift.stream.first_rows import FirstRows, RowOrigin, first_rows_of
from undrift.stream.frames import python_words, read_table
from undrift.stream.keyed.columns import KeyedColumns, infer_keyed_columns
from undrift.stream.keyed.keyed_rows import Fields
from undrift.stream.keyed.keyed_streams import KeyedStreams
from undrift.stream.keyed.keys_and_orders import parse_wait
from undrift.stream.keyed.outputs import Key
from undrift.stream.keyed.stream_pool import fresh_prototype, take_two_classes
from undrift.stream.labels import UNKNOWN
from undrift.stream.model import make_model
from undrift.stream.schema import Schema
from undrift.stream.settings import FleetSettings, Settings
from undrift.stream.stream import FILES

if TYPE_CHECKING:
    from undrift.fleet.run import FleetRun


HOLD = 256
"""Rows of a key that wait for their label, at most, unless told otherwise."""
MAX_LAG = 100_000
"""Longest lag in rows: a key's state holds as many labels."""
MAX_WAIT = 2**61
"""Longest wait in orders: an order less a wait still fits 64 bits."""


class Fleet(KeyedStreams):
    r"""Thousands of streams, each with a model of its own.

    Parameters
    ----------
    make_model
        A fresh learner, or a function that returns one; every key gets a clone. Online estimators are taken without
        their trees (`trees=False`), which would be megabytes for each key; `speed="max"` is refused.
    key
        Column that names the stream: text or integers; times, booleans and the like by their text. Of several columns
        the texts are joined.
    features
        Columns that make up z.
    target
        Column of the label y. Missing (None, NaN): the record only asks for a prediction, and waits for its label,
        which may come in a copy of the record that has one.
    order
        Column of integers or times that says a record's place in its stream, and is unique there. None: order of
        arrival; then nothing can be recognised as a duplicate.
    label_of
        Column for labels that come later, in records of their own with an order of their own: the order of the record
        they belong to, missing in all others. Their features are ignored.
    wait
        Records may come late: one waits until no order more than `wait` behind it can come any more. 0: never. For
        times a `timedelta`; an integer counts in `time_unit`.
    delay
        Labels become known so many rows of their key late, though they stand beside their row.
    lags
        Give the model the label of so many rows of the key ago as a feature, for each of these numbers, NaN where it is
        not known; each must be larger than `delay`. Keys are then advanced one by one.
    interval
        Level of the intervals that are put out with every prediction (`Outputs.intervals`), for `OnlineRegressor`: 0.5,
        0.6, 0.7, 0.8, 0.9, 0.95, 0.98 or 0.99; None: none. Keys are then advanced one by one. Of rows of a key that
        follow each other without a label between them only the first has one, as they hold one row ahead.
    hold
        At most this many rows of a key wait for their label; the oldest is let go for one more.
    numbered
        Whether orders count 1 by 1, so that gaps are worth reporting; False for times.
    time_unit
        What orders that are times count in, "us" or "ns"; finer times are refused.
    on_error
        "raise" stops when a model raises something that is not a refusal of a row; "report" leaves that key as it was
        and goes on with the others.

    Notes
    -----
    Everything follows from one pure function, `advance`. Predictions and models are the same bits for any cut of a
    stream into batches and any shuffle that moves no record by more than `wait` orders; copies may come at any time
    while the last 64 gaps are remembered. Threads may share a fleet; they take turns at it.

    Examples
    --------
    >>> import undrift as ud
    >>> fleet = Fleet(ud.DiscountedVAW(half_life=50), key="pump", order="n", features=["load"], target="heat")
    >>> records = [{"pump": p, "n": n, "load": 1.0, "heat": h} for n in range(20) for p, h in [("a", 1.0), ("b", 5.0)]]
    >>> run = fleet.run(records)
    >>> run.outputs.count()
    {'ok': 40}
    >>> round(run.model("b").predict([1.0]), 1)
    4.5
    """

    def __init__(
        self,
        make_model: Learner | Callable[[], Learner],
        *,
        key: str | Sequence[str],
        features: Sequence[str],
        target: str,
        order: str | None = None,
        label_of: str | None = None,
        wait: int | dt.timedelta = 0,
        delay: int = 0,
        lags: Sequence[int] = (),
        interval: float | None = None,
        hold: int = HOLD,
        numbered: bool = True,
        time_unit: str = "us",
        on_error: str = "raise",
    ) -> None:
        prototype = fresh_prototype(make_model)
        if isinstance(features, str) or not all(isinstance(name, str) for name in features):
            raise InputError(f"Fleet: features must be a list of column names, got {features!r}")
        _check.choice(self, "time_unit", time_unit, ("us", "ns"))
        keys = (key,) if isinstance(key, str) else tuple(key)
        fields = Fields(keys, order, tuple(features), target, label_of, time_unit)
        names = fields.names
        for name in names:
            if not isinstance(name, str) or names.count(name) > 1:
                raise InputError(f"Fleet: columns must have different names, text all of them, got {name!r} in {names}")
        if isinstance(lags, (int, str)):
            raise InputError(f"Fleet: lags must be a list of whole numbers, got {lags!r}")
        lags = tuple(_check.integer(self, "lags", lag, 1, MAX_LAG) for lag in lags)
        if len(features) + len(lags) < prototype.least_dim:
            raise InputError("Fleet: features must name at least one column, got none")
        if isinstance(wait, dt.timedelta):
            wait = wait // dt.timedelta(microseconds=1) * (1000 if time_unit == "ns" else 1)
        wait = _check.integer(self, "wait", wait, 0, MAX_WAIT)
        delay = _check.integer(self, "delay", delay, 0, 1_000_000)
        if lags and (min(lags) <= delay or len({*lags}) < len(lags)):
            raise InputError(
                f"Fleet: lags must be different numbers above the delay, {delay}, got {list(lags)}; a label "
                "is known only so many rows after its own"
            )
        if lags and not prototype.accepts_nan:
            raise InputError(
                f"Fleet: lags need a model that takes missing values, as the first rows have none, got "
                f"{type(prototype).__name__}; use OnlineRegressor or OnlineClassifier"
            )
        if interval is not None:
            if not isinstance(prototype, OnlineRegressor):
                raise InputError(
                    f"Fleet: interval is for OnlineRegressor, got {type(prototype).__name__}; leave it out"
                )
            _check_interval(interval)
        hold = _check.integer(self, "hold", hold, 0, 1_000_000)
        on_error = _check.choice(self, "on_error", on_error, ("raise", "report"))
        if order is None and (wait or label_of is not None):
            raise InputError("Fleet: wait and label_of need order=, the column that says a record's place")
        settings = Settings(target=target, lag=lags, delay=delay, level=0.9 if interval is None else interval)
        task = "classification" if prototype.binary else "regression"
        labels = ("-1", "1") if prototype.binary else None
        schema = Schema(task, labels, None, "iso", False, tuple(features), ())
        super().__init__(
            fields, settings, schema, prototype, wait=wait, hold=hold, numbered=bool(numbered), interval=interval,
            on_error=on_error,
        )  # fmt: skip

    @classmethod
    def of_table(
        cls, table: Any, target: str, *, key: str | Sequence[str], on_error: str = "raise", **settings: Any
    ) -> Fleet:
        """Return a fleet for tables as people have them: texts, times and holes, as `undrift fleet` takes them.

        Parameters
        ----------
        table
            Rows of all keys, from which the columns are found: a data frame of any library, or a list of dicts.
        target
            Column to predict: numbers, two classes, or several.
        key
            Column that names the stream; several columns name it together.
        on_error
            As above.
        settings
            Those of `undrift fleet` by name: `order` or `time`, `wait`, `hold`, `lag`, `delay`, `interval`,
            `quantiles`, `weight`, `elapsed`, `calendar`, `candidate`, `missing`, `categories`, `speed`, ...
            `undrift.run.FleetSettings` describes each.

        Examples
        --------
        >>> skies = ["sun", "sun", "rain"]
        >>> rows = [{"shop": "ab"[t % 2], "day": t // 2, "sky": skies[t % 3], "sold": 0.1 * t} for t in range(80)]
        >>> fleet = Fleet.of_table(rows, "sold", key="shop", order="day")
        >>> fleet.features
        ['sky=sun', 'sky=rain']
        >>> fleet.run(rows).outputs.count()
        {'ok': 80}
        """
        if "certify" in settings:
            raise InputError("Fleet: fleets are not certified, as they keep no rows; certify a Stream of one key")
        wrong = next((name for name in settings if name in FILES), None)
        if wrong is not None:
            cure = ", and give outputs to undrift.events.KeyedWatch (on Spark in foreachBatch)" * (wrong == "alert")
            raise InputError(f"Fleet: {wrong} is for files, with undrift.run.play_fleet; leave it out{cure}")
        if not isinstance(key, str) and not isinstance(key, Sequence):
            raise InputError(f"Fleet: key must be the name of a column, or a list of names, got {key!r:.60}")
        keys = (key,) if isinstance(key, str) else tuple(key)
        if isinstance(wait := settings.get("wait"), dt.timedelta):
            settings["wait"] = f"{wait // dt.timedelta(microseconds=1)}us"
        elif isinstance(wait, int):
            settings["wait"] = str(wait)
        asked = FleetSettings.from_dict({"target": target, "key": keys, **settings}, "Fleet")
        with python_words():
            batch = first_rows_of(read_table("Fleet", table, asked.drop))
            if not len(batch.lines):
                raise InputError("Fleet: the table has no rows; the columns of a fleet are found from some")
            first = FirstRows(RowOrigin("the table", asked), [batch], whole=False)
            columns = infer_keyed_columns(first, asked)
        if UNKNOWN in (columns.schema.classes or ()):
            raise InputError(
                f"Fleet: '{target}' has one label in these rows, and a fleet finds no other one later; give rows "
                "that have both"
            )
        return cls.of_columns(asked, columns, on_error=on_error)

    @classmethod
    def of_columns(cls, settings: FleetSettings, columns: KeyedColumns, *, on_error: str = "report") -> Fleet:
        """Return the fleet of a table whose columns are known."""
        schema, time = columns.schema, columns.time
        fleet = cls.__new__(cls)
        asked = settings.of_stream()
        if asked.quantiles and schema.task != "regression":
            raise InputError("Fleet: quantiles are for targets that are numbers, not for classes; leave them out")
        if settings.interval is not None:
            if schema.task != "regression":
                raise InputError(
                    "Fleet: --interval is for numbers, and the target is one of several classes; leave it out"
                )
            _check_interval(settings.interval)
        prototype = make_model(asked, schema.task).without_trees()  # which take megabytes a key
        KeyedStreams.__init__(
            fleet,
            Fields(
                settings.key,
                settings.order or settings.time,
                schema.numbers,
                settings.target,
                None,
                "us" if time is None else time.unit,
                tuple(schema.text_columns),
                settings.weight,
            ),
            asked,
            schema,
            prototype if schema.task == "multiclass" else take_two_classes(prototype),
            wait=parse_wait(settings.wait, None if time is None else time.unit),
            hold=settings.hold,
            numbered=settings.order is not None,
            interval=settings.interval,
            on_error=_check.choice(fleet, "on_error", on_error, ("raise", "report")),
            time=time,
            from_table=True,
        )
        return fleet

    def run(
        self,
        records: Any,
        *,
        states: Mapping[Key, bytes] | None = None,
        folder: str | os.PathLike[str] | Folder | None = None,
        source: str = "",
        about: Mapping[str, Any] | None = None,
        replace: bool = False,
        finish: bool = False,
        batch: int = 100_000,
        workers: int = 1,
        progress: Callable[[int], None] | None = None,
    ) -> FleetRun:
        """Advance every key of a source, on this machine.

        Parameters
        ----------
        records
            A data frame of any library, or an iterable of mappings (or of its own `KeyedRows`).
        states
            States to go on from, by key; they are not changed.
        folder
            Keep states, outputs and progress there, saved after each batch; killed at any moment, the same call goes
            on where it stopped, to the same bits. One process at a time; a `Folder` is locked by the caller. Refused if
            the folder's fleet has other columns, another model or another wait, or if the records that were learned
            before are not the first ones of these.
        source
            Name of the records, when a folder is fed from several sources one after the other: progress is kept by
            source.
        about
            What else the results depend on, JSON values by name; kept in the folder and compared like the fleet itself.
        replace
            Begin anew in a folder that holds a fleet. It is replaced once the first batch of the new one is learned.
        finish
            Release the records that still wait after the last one: nothing before them will come any more.
        batch
            Records advanced, and saved, at a time.
        workers
            Threads, or processes for models that have no compiled rounds. The results do not depend on it.
        progress
            Called with the number of records done so far.

        Returns
        -------
        FleetRun
            With a folder, `outputs` and `states` are read from there.
        """
        from undrift.fleet.executor import Executor
        from undrift.fleet.run import FleetRunner

        _check.integer(self, "batch", batch, 1)
        _check.integer(self, "workers", workers, 1, 1024)
        with Executor(self, workers) as executor:
            runner = FleetRunner(self, executor, records, source, batch, progress or (lambda done: None))
            if folder is None:
                return runner.run_in_memory(states or {}, finish=finish)
            kept = folder if isinstance(folder, Folder) else Folder(folder, "fleet")
            with nullcontext() if kept is folder else kept.hold_lock():
                compared = {**self.about, **(about or {})}
                return runner.run_in_folder(kept, compared, states or {}, replace=replace, finish=finish)

    def __repr__(self) -> str:
        f = self.fields
        order = "" if f.order is None else f", order={f.order!r}"
        key = f.key[0] if len(f.key) == 1 else f.key
        return f"Fleet({self.prototype!r}, key={key!r}{order}, features={list(f.features)!r}, target={f.target!r})"


def _check_interval(level: float) -> None:
    """Refuse a level that models do not keep intervals at."""
    if level not in LEVELS.tolist():
        levels = ", ".join(f"{one:g}" for one in LEVELS)
        raise InputError(f"Fleet: interval must be one of {levels}, got {level!r:.40}{_check.percent_hint(level)}")
