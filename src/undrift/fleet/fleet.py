"""Fleet: one model per key, the same object on one machine and on a cluster."""

from __future__ import annotations

import datetime as dt
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from undrift import _check, kernels
from undrift._internal.folder import Folder
from undrift._internal.stopping import Interrupted
from undrift.errors import InputError, UndriftError
from undrift.fleet.key_advance import KeyAdvance
from undrift.fleet.key_state import KeyState, lag_names
from undrift.fleet.model_pool import ModelPool, fresh_prototype
from undrift.fleet.outputs import ERROR, NO_INTERVAL, Key, OutputRow, Outputs
from undrift.fleet.record_batch import AcceptedInput, Fields, RecordBatch, batch_from_frame, batch_from_records
from undrift.learners import Learner
from undrift.learners.intervals import LEVELS
from undrift.online import OnlineRegressor

if TYPE_CHECKING:
    from undrift.fleet.run import FleetRun


HOLD = 256
"""Rows of a key that wait for their label, at most, unless told otherwise."""
MAX_LAG = 100_000
"""Longest lag in rows: a key's state holds as many labels."""
MAX_WAIT = 2**61
"""Longest wait in orders: an order less a wait still fits_in_slots 64 bits."""


class AdvanceResult(NamedTuple):
    """What `Fleet.advance` returns."""

    state: bytes
    """The key's new state."""
    outputs: Outputs
    """What became of each record."""


class KeyInfo(NamedTuple):
    """Figures about one key."""

    rounds: int
    """Rounds learned."""
    mean_loss: float
    """Half the squared error, or the log-loss, by round; rounds predicted before any label was known do not count."""
    counts: dict[str, int]
    """How many records ended with each status."""
    waiting: int
    """Records that wait for those before them."""
    unlabelled: int
    """Rows that wait for their label."""
    bytes: int
    """Size of the state."""


class Fleet:
    r"""Thousands of streams, each with a model of its own.

    Parameters
    ----------
    make_model
        A fresh learner, or a function that returns one; every key gets a clone. Online estimators are taken without
        their trees (`trees=False`), which would be megabytes for each key; `speed="max"` is refused.
    key
        Column that names the stream: text or integers; times, booleans and the like by their text.
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
        key: str,
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
        self.prototype = fresh_prototype(make_model)
        if isinstance(features, str) or not all(isinstance(name, str) for name in features):
            raise InputError(f"Fleet: features must be a list of column names, got {features!r}")
        _check.choice(self, "time_unit", time_unit, ("us", "ns"))
        self.fields = Fields(key, order, tuple(features), target, label_of, time_unit)
        names = self.fields.names
        for name in names:
            if not isinstance(name, str) or names.count(name) > 1:
                raise InputError(f"Fleet: columns must have different names, text all of them, got {name!r} in {names}")
        if isinstance(lags, (int, str)):
            raise InputError(f"Fleet: lags must be a list of whole numbers, got {lags!r}")
        self.lags = tuple(_check.integer(self, "lags", lag, 1, MAX_LAG) for lag in lags)
        if len(self.features) < self.prototype.least_dim:
            raise InputError("Fleet: features must name at least one column, got none")
        if isinstance(wait, dt.timedelta):
            wait = wait // dt.timedelta(microseconds=1) * (1000 if time_unit == "ns" else 1)
        self.wait = _check.integer(self, "wait", wait, 0, MAX_WAIT)
        self.delay = _check.integer(self, "delay", delay, 0, 1_000_000)
        if self.lags and (min(self.lags) <= self.delay or len({*self.lags}) < len(self.lags)):
            raise InputError(
                f"Fleet: lags must be different numbers above the delay, {self.delay}, got {list(self.lags)}; a label "
                "is known only so many rows after its own"
            )
        if self.lags and not self.prototype.accepts_nan:
            raise InputError(
                f"Fleet: lags need a model that takes missing values, as the first rows have none, got "
                f"{type(self.prototype).__name__}; use OnlineRegressor or OnlineClassifier"
            )
        self.interval = interval
        if interval is not None:
            if not isinstance(self.prototype, OnlineRegressor):
                raise InputError(
                    f"Fleet: interval is for OnlineRegressor, got {type(self.prototype).__name__}; leave it out"
                )
            if interval not in LEVELS.tolist():
                levels = ", ".join(f"{level:g}" for level in LEVELS)
                raise InputError(
                    f"Fleet: interval must be one of {levels}, got {interval!r:.40}{_check.percent_hint(interval)}"
                )
        self.hold = _check.integer(self, "hold", hold, 0, 1_000_000)
        self.numbered = bool(numbered)
        self.on_error = _check.choice(self, "on_error", on_error, ("raise", "report"))
        if order is None and (wait or label_of is not None):
            raise InputError("Fleet: wait and label_of need order=, the column that says a record's place")
        self._pool: ModelPool | None = None
        self._lock = kernels.Lock()  # threads take turns at the one model of the pool

    @property
    def accepted_input(self) -> AcceptedInput:
        """What the model accepts."""
        return AcceptedInput(self.prototype.accepts_nan, self.prototype.binary)

    @property
    def features(self) -> list[str]:
        """Names of the features that models see: the columns, then the lags."""
        return [*self.fields.features, *lag_names(self.fields.target, self.lags)]

    @property
    def one_by_one(self) -> bool:
        """Whether keys are advanced one after the other: labels are used later, or intervals are asked for."""
        return bool(self.delay or self.lags or self.interval is not None)

    @property
    def pool(self) -> ModelPool:
        """The model object that serves the keys, made when first used and not pickled with the fleet."""
        with self._lock:
            if self._pool is None:
                self._pool = self.make_pool()
            return self._pool

    def make_pool(self) -> ModelPool:
        """Return a new model object that can serve the keys."""
        return ModelPool(self.prototype, self.features, len(self.lags))

    @property
    def about(self) -> dict[str, Any]:
        """Everything that the results depend on, as JSON values by name; a folder's fleet is compared by it."""
        spec, fields = dict(self.pool.spec), self.fields
        parameters = spec.pop("parameters", None)
        named: dict[str, Any] = {f"model {name}": value for name, value in spec.items()}
        if isinstance(parameters, dict):
            named |= {f"model {name}": value for name, value in parameters.items()}
        columns = {**fields._asdict(), "features": list(fields.features)}
        more = {"delay": self.delay, "lags": list(self.lags), "interval": self.interval}
        late = {name: value for name, value in more.items() if value}
        return {**named, **columns, "wait": self.wait, **late, "hold": self.hold, "numbered": self.numbered}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    def advance(self, state: bytes | None, records: Iterable[Mapping[str, Any]] | RecordBatch) -> AdvanceResult:
        """Advance one key: predict before learning, record by record; nothing but the result changes.

        It is a pure function of bytes and records, so that a machine, a process and Spark advance a key alike, and a
        batch that is repeated after a failure gives the same bytes.

        Parameters
        ----------
        state
            What an earlier call returned for this key; None for a new one.
        records
            The key's records, mappings of column names to values. What cannot be used is reported in the outputs.
        """
        after, rows = self.advance_rows(state, self.batch(records))
        return AdvanceResult(after, Outputs.from_rows(rows))

    def advance_rows(self, state: bytes | None, batch: RecordBatch) -> tuple[bytes, list[OutputRow]]:
        """Do what `advance` does, but return the outputs row by row, so that columns are made once for many keys."""
        with self._lock:
            return self._advance_rows(state, batch)

    def _advance_rows(self, state: bytes | None, batch: RecordBatch) -> tuple[bytes, list[OutputRow]]:
        before = self._unpack(state)
        named = [key for key in batch.keys if key is not None]
        if any(key != named[0] for key in named):
            raise InputError(f"Fleet: advance takes records of one key, got {named[0]!r} and others; use run")
        advance = self._key_advance(named[0] if named else None, before)
        try:
            advance.take(batch, self.fields.order is not None)
            rows = advance.close()
        except (UndriftError, Interrupted):
            raise
        except Exception as error:
            self._pool = None  # the model may be half changed, so no other key may use it
            if self.on_error == "raise":
                error.add_note(f"Fleet: while advancing key {advance.key!r}; its state is as it was before this batch")
                raise
            return self._report_failure(state, batch, f"{type(error).__name__}: {error}")
        return self.pool.codec.pack(before), rows

    def finish(self, state: bytes, key: Key = None) -> AdvanceResult:
        """Release the records that still wait: nothing before them will come any more."""
        with self._lock:
            before = self._unpack(state)
            advance = self._key_advance(key, before)
            advance.finish()
            rows = advance.close()
            return AdvanceResult(self.pool.codec.pack(before), Outputs.from_rows(rows))

    def batch(self, records: Any) -> RecordBatch:
        """Return records, mappings or a data frame of any library, as columns; a batch is returned as it is."""
        if isinstance(records, RecordBatch):
            return records
        if hasattr(records, "columns"):
            return batch_from_frame(self.fields, self.accepted_input, records)
        return batch_from_records(self.fields, self.accepted_input, records)

    def model(self, state: bytes) -> Learner:
        """Return the model in a key's state, as a learner of its own."""
        return self.pool.model(self._unpack(state))

    def info(self, state: bytes) -> KeyInfo:
        """Return figures about the key whose state this is."""
        one = self._unpack(state)
        learned = one.counts.get("ok", 0) + one.counts.get("labelled", 0)
        mean = one.loss / (learned - one.unscored) if learned > one.unscored else 0.0
        return KeyInfo(learned, mean, dict(one.counts), len(one.waiting), len(one.unlabelled), len(state))

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
            A data frame of any library, or an iterable of mappings (or of `undrift.fleet.record_batch.RecordBatch`).
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

    def _key_advance(self, key: Key, state: KeyState) -> KeyAdvance:
        return KeyAdvance(
            self.pool,
            key,
            state,
            wait=self.wait,
            delay=self.delay,
            lags=self.lags,
            interval=self.interval,
            hold=self.hold,
            numbered=self.numbered,
        )

    def _unpack(self, state: bytes | None) -> KeyState:
        return KeyState() if state is None else self.pool.codec.unpack(state)

    def _report_failure(self, state: bytes | None, batch: RecordBatch, why: str) -> tuple[bytes, list[OutputRow]]:
        """Return the state as it was, and a row of output for every record of the batch."""
        columns = zip(batch.keys, batch.order.tolist(), batch.y.tolist(), strict=True)
        rows: list[OutputRow] = [(key, order, math.nan, y, ERROR, why, NO_INTERVAL) for key, order, y in columns]
        return self.pool.codec.pack(KeyState()) if state is None else bytes(state), rows

    def __repr__(self) -> str:
        f = self.fields
        order = "" if f.order is None else f", order={f.order!r}"
        return f"Fleet({self.prototype!r}, key={f.key!r}{order}, features={list(f.features)!r}, target={f.target!r})"
