"""The folder of forecasts: what counts is what `run.json` names, and it is renamed into place last.

```
run.json                 settings, plan, how far it is, files that were learned, scores, and the names that count
forecasts.parquet        series, origin, step, time, yhat, lower, upper of every origin
values.parquet           the values as they were learned: time and one column for each series
next.csv                 the next steps: series, step, time, forecast, lower, upper
model.undrift            the forecaster after the last row, for `Forecaster.load`
report.html              when a report was asked for
journal.sqlite           while a service runs, or after it was killed: the rows that came since the last commit
```

With a forecaster for each key there are, in place of the model:

```
models-*.undrift         the forecasters of a few dozen keys each
keys.parquet             a row for each key: rows, last time, season, errors, coverage
next.parquet             the next steps of every key, to the last bit
```

There the series of the other tables are the keys, and values begin with the key. While a file is learned, new rows are
in parts, `forecasts-*.parquet` and `values-*.parquet`, which the end of the pass joins.

After a kill some of these names may have the number of a commit behind them; the next command makes that good.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from undrift._internal.folder import Folder, regular_file
from undrift._internal.state_file import JOURNAL, STATE, explain_damage, find_kind, read_state, write_state
from undrift.errors import InputError, ModelFileError, UndriftError
from undrift.events import Event
from undrift.forecast import Forecaster
from undrift.run.forecast.panel import PanelPlan
from undrift.run.ledger import require_ledger
from undrift.run.tables import join_parquet, write_parquet
from undrift.stream.extras import LITERAL, polars

NEXT, REPORT = "next.csv", "report.html"
FINAL = {"model": "model.undrift", "next": NEXT, "ahead": "next.parquet"} | {
    name: f"{name}.parquet" for name in ("forecasts", "values", "keys")
}
"""Names of the files that a finished command leaves."""
NAMES = (
    r"run\.json|next\.csv|report\.html|(forecasts|values|keys|next|ahead)(-\d{6,})?\.parquet|model\.undrift|models?-\d{6,}\.undrift"
    r"|journal\.sqlite(-wal|-shm)?"
)


NOTHING: Mapping[str, Sequence[str]] = MappingProxyType({})
LATEST = 10**11
"""Seconds since 1970 of the last time that files may hold, or of the first before 1970."""
_KINDS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("settings", "files"), dict),
    **dict.fromkeys(("rows", "commits"), int),
    "plan": (dict, type(None)),
    "notes": list,
}


class ForecastFolder:
    """A folder with the forecasts of some series; a kill at any moment leaves the last commit whole."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.files = Folder(path, "forecast", names=NAMES)

    @property
    def exists(self) -> bool:
        """Whether forecasts were ever committed here."""
        return os.path.lexists(self.path / STATE)

    @contextlib.contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Keep other writers out; what fails leaves the last commit and nothing else."""
        with self.files.hold_lock():
            try:
                yield
            except BaseException:
                with contextlib.suppress(UndriftError):
                    self.sweep(self.read_state() if self.exists else None)
                raise

    def read_state(self) -> dict[str, Any]:
        """Return what `run.json` holds."""
        state = read_state(self.path, "forecast")
        with explain_damage(self.path, "forecast"):
            require_ledger(state["learned"])
            for name, kind in _KINDS.items():
                if not isinstance(state[name], kind):
                    raise TypeError(f"'{name}' is {type(state[name]).__name__}")
            last, link = state.get("last"), state.get("journal")
            if last is not None and not (type(last) is int and abs(last) <= LATEST):
                raise ValueError("'last' must be a time in seconds since 1970")
            if link is not None and not isinstance(link, dict):
                raise TypeError(f"'journal' is {type(link).__name__}")
            if not all(isinstance(name, str) for name in name_files(state)):
                raise TypeError("'files' must hold names")
            if not isinstance(state.get("shards", []), list):
                raise TypeError("'shards' must be a list")
            if not all(type(one["passes"]) is int for one in state.get("shards", ())):
                raise TypeError("'passes' must be numbers")
            for event in map(Event.from_dict, state.get("events", ())):
                if type(event.row) is not int or not isinstance(event.sentence, str):
                    raise TypeError("'events' must hold rows and sentences")
            if self.read_plan(state) is not None and not state["settings"]["target"]:
                raise ValueError("'target' is empty")
        return state

    def read_plan(self, state: dict[str, Any]) -> PanelPlan | None:
        """Return what the first file decided; None before one was read."""
        with explain_damage(self.path, "forecast"):
            return None if state["plan"] is None else PanelPlan.from_dict(state["plan"])

    def adopt_files(self, state: dict[str, Any]) -> None:
        """Count the files that `run.json` names as ours if the list of our files is lost, as in a copy."""
        lost = [] if self.files.knows(STATE) else [STATE, REPORT]
        self.files.adopt(*lost, *(name for name in name_files(state) if not self.files.knows(name)))

    def read_model(self, state: dict[str, Any]) -> Forecaster:
        """Return the forecaster after the last commit."""
        return Forecaster.load(regular_file(self.path, state["files"]["model"]))

    def read_table(self, state: dict[str, Any], name: str) -> Any:
        """Return a table of the last commit as a frame."""
        pl = polars(str(self.path))
        try:
            return pl.read_parquet(regular_file(self.path, state["files"][name]).absolute(), **LITERAL)
        except pl.exceptions.PolarsError as error:
            raise ModelFileError(f"{self.path}: {name} cannot be read ({str(error).splitlines()[0]:.100})") from None

    def commit(
        self, state: dict[str, Any], tables: dict[str, Any], ahead: bytes | None, model: Forecaster | None = None,
        joined: Mapping[str, Sequence[str]] = NOTHING,
    ) -> dict[str, Any]:  # fmt: skip
        """Write tables and at last the state that names them; drop what no longer counts.

        A kill between the next steps and the state leaves those of a commit that giving the command again repeats.

        Parameters
        ----------
        state
            What `run.json` will say; with many keys it names forecasters and parts that were written before.
        tables
            Frames by name.
        ahead
            The next steps as CSV; None: there are none.
        model
            The forecaster of series that are forecast together.
        joined
            Tables that become one file, and the files that they are joined from.
        """
        number, files = int(state["commits"]) + 1, state.get("files", {})
        names = {name: files[name] for name in ("forecasts", "values") if name in files}
        for name in (*tables, *joined):
            names[name] = self.files.next_free_name(f"{name}-", ".parquet", number)
            with self.files.new_file(names[name], durable=False) as path:
                if name in tables:
                    write_parquet(tables[name], path)
                else:
                    join_parquet([regular_file(self.path, part) for part in joined[name]], path)
        if model is not None:
            names["model"] = self.files.next_free_name("model-", ".undrift", number)
            with self.files.new_file(names["model"], durable=False) as path:
                model.save(path)
        if ahead is not None:
            names["next"] = NEXT
        return self.commit_state({**state, "commits": number, "files": names}, ahead)

    def commit_state(self, state: dict[str, Any], ahead: bytes | None = None) -> dict[str, Any]:
        """Put the next steps, if there are new ones, and the state in place, and drop files that it does not name."""
        with self.files.new_file(STATE) as temporary:
            temporary.write_bytes(write_state(state, "forecast"))  # a full disk is noticed before anything is replaced
            if ahead is not None:
                self.files.put(NEXT, ahead, durable=False)
        with contextlib.suppress(UndriftError):  # the next commit makes up for it
            self.sweep(state)
            if not state.get("parts"):  # else the pass goes on
                return self._use_final_names(state)
        return state

    def _use_final_names(self, state: dict[str, Any]) -> dict[str, Any]:
        """Give the files of a commit the names that they have after every command."""
        given = state["files"]
        final = {name: FINAL[name] for name in given}
        if final == given:
            return state
        for name in [name for name in given if given[name] != final[name]]:
            self.files.link(given[name], final[name])
        named = {**state, "files": final}
        self.files.put(STATE, write_state(named, "forecast"))
        self.sweep(named)
        return named

    def sweep(self, state: dict[str, Any] | None) -> None:
        """Drop files of ours that a state does not name; all of them if there is none."""
        self.files.delete_except(() if state is None else [STATE, REPORT, *name_files(state)])

    def put_report(self, write: Any) -> Path:
        """Let `write` make the report at a path, and put it into the folder."""
        with self.files.new_file(REPORT) as path:
            write(path)
        return self.path / REPORT


def name_files(state: dict[str, Any]) -> list[str]:
    """Return the names of the files that count."""
    shards = (one["name"] for one in state.get("shards", ()))
    journal = JOURNAL if state.get("journal") else ()
    return [*state["files"].values(), *state.get("parts", ()), *shards, *journal]


def require_free(folder: ForecastFolder, *, force: bool) -> None:
    """Refuse a folder that holds forecasts already, or what an earlier undrift wrote."""
    if not force and find_kind(folder.path) is not None:
        raise InputError(
            f"{folder.path}: there are forecasts already; continue with undrift update {folder.path} FILE, replace "
            "them with --force, or choose another folder with --out"
        )
