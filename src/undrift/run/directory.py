"""The run directory: what counts is what `run.json` names, and it is renamed into place last.

```
run.json               settings, provenance, how far the run is, and the names of the files that count
predictions-*.parquet  one part for each commit; joined into predictions.parquet when the run is finished
model-*.undrift        the model after the last commit, for `undrift.load`; model.undrift when finished
trace-*.undrift        snapshots (spectrum, weights, coefficients) and what the runner carries from row to row
report.html            when a report was asked for
```
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from undrift import store
from undrift.errors import InputError, ModelFileError, UndriftError
from undrift.run.data import BASELINES, RunData
from undrift.run.extras import LITERAL, polars

if TYPE_CHECKING:
    from polars import DataFrame

STATE = "run.json"
FORMAT = 1
State = dict[str, Any]
"""What `run.json` holds."""


class RunDirectory:
    """A folder that holds one run; a kill at any moment leaves the last commit whole."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        """Whether a run was ever committed here."""
        return (self.path / STATE).is_file()

    def prepare(self) -> None:
        """Make the folder, or say why that cannot be."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / ".probe"
            probe.touch()
            probe.unlink()

    def leave(self) -> None:
        """Remove the folder again if nothing came of it."""
        if [file.name for file in self.path.iterdir()] == [".lock"]:
            (self.path / ".lock").unlink()
            self.path.rmdir()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out; the lock goes with the process, however it ends."""
        try:
            import fcntl
        except ImportError:  # no such locks on this system: the user must keep two runs apart
            yield
            return
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(f"{self.path}: another process is writing this run; wait for it to end") from None
            yield

    def state(self) -> State:
        """Return what the last commit wrote."""
        path = self.path / STATE
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{self.path}: no run here ({STATE} is missing); name a folder of `undrift run`") from None
        except (OSError, ValueError) as error:
            raise ModelFileError(f"{path}: cannot be read ({error}); start the run again") from None
        if not isinstance(state, dict) or not isinstance(state.get("format"), int):
            raise ModelFileError(f"{path}: not a run of undrift's; name a folder `undrift run` made")
        if state["format"] > FORMAT:
            raise ModelFileError(f"{path}: format {state['format']} is newer than this undrift reads; upgrade undrift")
        return state

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Commit: from now on, the files this state names are the run."""
        text = json.dumps({"format": FORMAT, **state}, indent=1, allow_nan=False)
        with writing(self.path):
            store.replace(self.path / STATE, text.encode())

    def write_table(self, name: str, frame: DataFrame) -> None:
        """Write one part of the predictions, whole or not at all."""
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd")
        with writing(self.path):
            store.replace(self.path / name, buffer.getvalue())

    def write_arrays(self, name: str, header: store.Header, arrays: store.Arrays) -> None:
        """Write arrays and a header, whole or not at all."""
        with writing(self.path):
            store.write(self.path / name, header, arrays)

    def join(self, parts: list[str], name: str) -> None:
        """Join parts of the predictions into one file without holding them all."""
        pl = polars("predictions")
        temporary = self.path / f".{name}"
        with writing(self.path):
            try:
                frame = pl.scan_parquet([self.path.absolute() / part for part in parts], **LITERAL)
                frame.sink_parquet(temporary.absolute(), compression="zstd", maintain_order=True)
                with temporary.open("rb+") as file:
                    os.fsync(file.fileno())
                temporary.replace(self.path / name)
            except pl.exceptions.PolarsError as error:  # the engine writes by itself, and wraps what the disk answers
                number = re.search(r"os error (\d+)", str(error))
                raise OSError(int(number[1]) if number else errno.EIO, str(error).splitlines()[0]) from None
            finally:
                temporary.unlink(missing_ok=True)

    def sweep(self, state: Mapping[str, Any]) -> None:
        """Remove files of earlier commits and of killed ones; nothing that counts."""
        keep = {*state["parts"], state["model"], state["trace"]}
        for file in self.path.iterdir():
            stale = file.name.startswith((".predictions", ".model", ".trace", ".run.json"))
            ours = file.name.startswith(("predictions", "model", "trace")) and file.suffix in (".parquet", ".undrift")
            if stale or (ours and file.name not in keep):
                file.unlink(missing_ok=True)

    def table(self, state: Mapping[str, Any]) -> DataFrame:
        """Return the predictions of all rows."""
        pl = polars("predictions")
        parts = [self.path.absolute() / part for part in state["parts"]]
        missing = next((part for part in parts if not part.is_file()), None)
        if missing is not None:
            raise ModelFileError(f"{missing}: missing; the run is damaged, start it again")
        try:
            frame: DataFrame = pl.read_parquet(parts, **LITERAL)
        except pl.exceptions.PolarsError as error:
            raise ModelFileError(f"{self.path}: predictions cannot be read ({error}); start the run again") from None
        return frame


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what a disk may answer into one sentence."""
    try:
        yield
    except OSError as error:
        _refuse(path, error)


def _refuse(path: Path, error: OSError) -> NoReturn:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise UndriftError(f"{path}: the disk is full; make room, then continue with --resume") from None
    reason = (error.strerror or str(error)).lower()
    raise InputError(f"{path}: cannot be written ({reason}); choose another folder with --out") from None


def read_run(path: str | os.PathLike[str]) -> RunData:
    """Return what a run left behind, finished or not."""
    directory = RunDirectory(path)
    state = directory.state()
    try:
        return _read(directory, state)
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"{directory.path}: {STATE} lacks {error}; start the run again") from None


def _notes(state: State) -> list[str]:
    notes = list(state["notes"])
    if state["status"] != "finished":
        notes.append(f"The run was interrupted after {state['rows']:,} rows; what follows is about those.")
    elif not state["certificates"] and not any(note.startswith("Not certified") for note in notes):
        notes.append("Not certified yet: undrift certify does that.")
    return notes


def _read(directory: RunDirectory, state: State) -> RunData:
    table = directory.table(state)
    table = table.filter(table["y"].is_not_null())
    _, arrays = store.read(directory.path / state["trace"])
    columns: dict[str, np.ndarray[Any, Any]] = {
        name: table[name].to_numpy() for name in table.columns if table[name].dtype.is_float()
    }
    names = BASELINES[state["task"]]
    return RunData(
        settings=state["settings"],
        provenance=state["provenance"],
        task=state["task"],
        target=state["settings"]["target"],
        features=state["features"],
        classes=state["classes"],
        line=table["line"].to_numpy().astype(np.int64),
        time=table["time"].to_numpy().astype("datetime64[us]") if "time" in table.columns else None,
        y=columns["y"],
        yhat=columns["yhat"],
        lower=columns.get("lower"),
        upper=columns.get("upper"),
        baselines={name: columns[name] for name in names},
        spectrum_round=arrays["round"],
        half_lives=arrays["half_lives"],
        spectrum=arrays["spectrum"],
        candidates=state["candidates"],
        candidate_weights=arrays["weights"],
        coef_round=arrays["round"],
        coef_names=[*state["coefficients"], "(intercept)"],
        coef=arrays["coef"],
        certificates=state["certificates"],
        problems=state["problems"],
        notes=_notes(state),
    )
