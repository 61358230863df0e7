"""KeyedStreams: a stream for each key of a table, advanced by a pure function of its state and its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift import kernels
from undrift._internal.names import find_similar
from undrift._internal.stopping import Interrupted
from undrift._typing import Matrix
from undrift.errors import InputError, UndriftError
from undrift.learners import Learner
from undrift.stream.cells import RowBatch, Times
from undrift.stream.first_rows import RowOrigin
from undrift.stream.frames import read_table
from undrift.stream.keyed.key_advance import KeyAdvance
from undrift.stream.keyed.key_state import KeyState
from undrift.stream.keyed.keyed_rows import (
    AcceptedInput,
    Fields,
    KeyedRows,
    RowReader,
    batch_from_frame,
    batch_from_records,
)
from undrift.stream.keyed.keys_and_orders import TimeColumn
from undrift.stream.keyed.outputs import ERROR, NO_EXTRAS, Key, OutputRow, Outputs
from undrift.stream.keyed.stream_pool import StreamPool
from undrift.stream.schema import Schema
from undrift.stream.settings import Settings
from undrift.stream.stream import Stream


class AdvanceResult(NamedTuple):
    """What `advance` returns."""

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


class KeyedStreams:
    """A stream for each key: what columns mean is known once, and every key has features and a model of its own.

    Parameters
    ----------
    fields
        Which columns mean what.
    settings
        Of each stream.
    schema
        What the columns are.
    prototype
        A fresh model.
    wait, hold, numbered, interval, on_error
        As for `Fleet`.
    time
        How times are written, if rows of tables are ordered by time.
    from_table
        Whether rows are those of tables as files hold them, texts and all; otherwise they hold numbers.
    """

    def __init__(
        self,
        fields: Fields,
        settings: Settings,
        schema: Schema,
        prototype: Learner,
        *,
        wait: int,
        hold: int,
        numbered: bool,
        interval: float | None,
        on_error: str,
        time: TimeColumn | None = None,
        from_table: bool = False,
    ) -> None:
        self.fields, self.settings, self.schema, self.prototype = fields, settings, schema, prototype
        self.wait, self.hold, self.numbered, self.interval, self.on_error = wait, hold, numbered, interval, on_error
        self.time, self.from_table = time, from_table
        self.classes = None if schema.classes is None or not from_table else list(schema.classes)
        """Of a table: the two labels, the negative one first, or those of the first rows; None for numbers."""
        self.origin = RowOrigin("this row", settings)
        self._pool: StreamPool | None = None
        self._lock = kernels.Lock()  # threads take turns at the one stream of the pool

    @property
    def binary(self) -> bool:
        """Whether labels are two classes."""
        return self.schema.task == "classification"

    @property
    def several(self) -> bool:
        """Whether labels are any number of classes."""
        return self.schema.task == "multiclass"

    @property
    def accepted_input(self) -> AcceptedInput:
        """What the models accept."""
        return AcceptedInput(self.prototype.accepts_nan, self.binary, len(self.settings.candidate))

    @property
    def features(self) -> list[str]:
        """Names of the features that models see before a key's own texts add some."""
        return list(self.pool.start.names)

    @property
    def one_by_one(self) -> bool:
        """Whether keys are advanced one after the other, as their features or labels depend on earlier rows."""
        asked = self.settings
        served = asked.delay or asked.candidate or asked.quantiles or self.interval is not None
        return bool(served or asked.weight or self.several or self.pool.start.need_earlier_rows)

    @property
    def pool(self) -> StreamPool:
        """The stream object that serves the keys, made when first used and not pickled."""
        with self._lock:
            if self._pool is None:
                self._pool = self.make_pool()
            return self._pool

    def make_pool(self) -> StreamPool:
        """Return a new stream object that can serve the keys."""
        bounded = self.interval is not None
        return StreamPool(self.settings, self.schema, self.prototype, named=self.from_table, bounded=bounded)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pool": None}

    @property
    def about(self) -> dict[str, Any]:
        """Everything that the results depend on, as JSON values by name; a folder's fleet is compared by it."""
        spec, fields = dict(self.pool.spec), self.fields
        parameters = spec.pop("parameters", None)
        named: dict[str, Any] = {f"model {name}": value for name, value in spec.items()}
        if isinstance(parameters, dict):
            named |= {f"model {name}": value for name, value in parameters.items()}
        columns = {**fields._asdict(), "key": ", ".join(fields.key), "features": list(fields.features)}
        if not self.from_table:
            columns = {name: value for name, value in columns.items() if name not in ("texts", "weight")}
        more = {"delay": self.settings.delay, "lags": list(self.settings.lag), "interval": self.interval}
        late = {name: value for name, value in more.items() if value}
        if self.from_table:
            late |= {"made": self.features[len(fields.features) :], "elapsed": self.schema.spacing}
            late |= {"quantiles": list(self.settings.quantiles), "missing": self.settings.missing}
        return {**named, **columns, "wait": self.wait, **late, "hold": self.hold, "numbered": self.numbered}

    # ---- rows --------------------------------------------------------------------------------------------------

    def batch(self, records: Any) -> KeyedRows:
        """Return records, mappings or a data frame of any library, as columns; a batch is returned as it is."""
        if isinstance(records, KeyedRows):
            return records
        if not hasattr(records, "columns") and not isinstance(records, Iterable):
            raise InputError(f"Fleet: records must be a data frame, or a list of dicts, got {records!r:.60}")
        if self.from_table:
            table = records if hasattr(records, "columns") else list(records)
            return self.read_rows(read_table("Fleet", table), self.origin)
        if hasattr(records, "columns"):
            return batch_from_frame(self.fields, self.accepted_input, records)
        return batch_from_records(self.fields, self.accepted_input, records)

    def read_rows(self, batch: RowBatch, origin: RowOrigin) -> KeyedRows:
        """Return rows of a table as files hold them; refuse a column that resembles a missing one."""
        lacking = [name for name in self.fields.names if name not in batch.columns]
        for name in batch.columns if lacking else ():
            if name not in self.fields.names and (meant := find_similar(name, lacking)) is not None:
                raise InputError(
                    f"{origin.name}: column '{name}' is unknown and '{meant}' is missing. Did you mean '{meant}'?"
                )
        return RowReader(self.fields, self.accepted_input, self.time, self.classes).read(batch, origin)

    def instants(self, order: NDArray[np.int64]) -> Times | None:
        """Return the times that orders count, NaT where there is none; None where orders are no times."""
        if self.schema.time is None:
            return None
        # what is absent is NaT
        return order.view(f"datetime64[{self.fields.unit}]").astype("datetime64[us]")

    def knows_texts(self, batch: KeyedRows) -> NDArray[np.bool_]:
        """Return which rows have no text that is new to a key that has learned none of its own."""
        known = np.ones(len(batch), dtype=bool)
        for name, cells in batch.texts.items():
            texts = {None, *self.pool.start.text_features.texts[name]}
            if not texts.issuperset(cells):
                known &= np.array([cell in texts for cell in cells])
        return known

    def plain_features(self, batch: KeyedRows, rows: NDArray[np.int64]) -> Matrix:
        """Return the features of some rows that depend on no earlier row."""
        Z, start = batch.Z[rows], self.pool.start
        if len(start.names) > Z.shape[1]:
            texts = {name: [cells[i] for i in rows.tolist()] for name, cells in batch.texts.items()}
            Z = start.fill_fixed(Z, self.instants(batch.order[rows]), texts)
        return np.ascontiguousarray(Z)

    # ---- keys --------------------------------------------------------------------------------------------------

    def advance(self, state: bytes | None, records: Iterable[Mapping[str, Any]] | KeyedRows) -> AdvanceResult:
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

    def advance_rows(self, state: bytes | None, batch: KeyedRows) -> tuple[bytes, list[OutputRow]]:
        """Do what `advance` does, but return the outputs row by row, so that columns are made once for many keys."""
        with self._lock:
            return self._advance_rows(state, batch)

    def _advance_rows(self, state: bytes | None, batch: KeyedRows) -> tuple[bytes, list[OutputRow]]:
        before = self._unpack(state)
        named = [key for key in batch.keys if key is not None]
        if any(key != named[0] for key in named):
            raise InputError(f"Fleet: advance takes records of one key, got {named[0]!r} and others; use run")
        advance = KeyAdvance(self, named[0] if named else None, before)
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
            advance = KeyAdvance(self, key, before)
            advance.finish()
            rows = advance.close()
            return AdvanceResult(self.pool.codec.pack(before), Outputs.from_rows(rows))

    def model(self, state: bytes) -> Learner:
        """Return the model in a key's state, as a learner of its own."""
        return self.pool.model(self._unpack(state))

    def stream(self, state: bytes | None) -> Stream:
        """Return the stream of a key by its state, as an object of its own; None: of a new key."""
        return self.pool.stream(self._unpack(state))

    def info(self, state: bytes) -> KeyInfo:
        """Return figures about the key whose state this is."""
        one = self._unpack(state)
        learned = one.counts.get("ok", 0) + one.counts.get("labelled", 0)
        mean = one.loss / (learned - one.unscored) if learned > one.unscored else 0.0
        return KeyInfo(learned, mean, dict(one.counts), len(one.waiting), len(one.unlabelled), len(state))

    def _unpack(self, state: bytes | None) -> KeyState:
        if not isinstance(state, (bytes, bytearray, memoryview, type(None))):
            raise InputError(f"Fleet: state must be bytes that an earlier call returned, or None, got {state!r:.60}")
        return KeyState() if state is None else self.pool.codec.unpack(state)

    def _report_failure(self, state: bytes | None, batch: KeyedRows, why: str) -> tuple[bytes, list[OutputRow]]:
        """Return the state as it was, and a row of output for every record of the batch."""
        columns = zip(batch.keys, batch.order.tolist(), batch.y.tolist(), strict=True)
        rows: list[OutputRow] = [(key, order, math.nan, y, ERROR, why, NO_EXTRAS) for key, order, y in columns]
        return self.pool.codec.pack(KeyState()) if state is None else bytes(state), rows
