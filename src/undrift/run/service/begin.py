"""From a file with a stream or an estimator to the folder of a run that has learned nothing else yet."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from undrift.errors import InputError
from undrift.online import OnlineClassifier
from undrift.online.estimator import OnlineEstimator
from undrift.run.ledger import make_entry
from undrift.run.play.recorder import RunRecorder
from undrift.run.play.run_folder import RunFolder
from undrift.run.play.run_loop import RunWriter, make_provenance
from undrift.stream import Stream
from undrift.stream.schema import Schema, naive_lags
from undrift.stream.settings import Settings

TARGET = "y"
"""What the label of an estimator is called, which knows no name for it."""


def begin_run(folder: Path, file: Path, model: Stream | OnlineEstimator) -> None:
    """Make a folder that begins with what a file holds; refuse one that began with something else."""
    run = RunFolder(folder)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    with run.hold_lock():
        if run.exists:
            if run.state()["learned"][0]["sha256"] != digest:
                raise InputError(
                    f"{folder}: this service began with another model than {file} is now; serve the folder to go on "
                    f"from what it learned (undrift serve {folder}), or move it away to begin anew"
                )
            return
        run.refuse_foreign_files()
        stream = model if isinstance(model, Stream) else stream_around(model)
        if stream.schema is None or stream.model.dim is None:
            raise InputError("the model has learned no row yet, so nobody knows its features; let it learn one first")
        recorder = RunRecorder(stream, naive_lags(stream.settings, stream.schema.seasons), watched=False)
        recorder.keep_rows(np.empty((0, len(recorder.features.names))))
        writer = RunWriter(run, recorder)
        writer.provenance = make_provenance("undrift serve")
        about = {"absolute": str(file.absolute()), "size": file.stat().st_size, "sha256": digest}
        writer.learn_from(make_entry(file.name, "model") | about)
        if isinstance(model, OnlineClassifier) and not isinstance(model.columns[0], str):
            writer.provenance["labels"] = type(model.columns[0]).__name__
        recorder.add_none()
        writer.finish()


def stream_around(model: OnlineEstimator) -> Stream:
    """Return a stream of number columns around a copy of an estimator: x0, x1, ... where it knows no names."""
    header: Any
    header, arrays = model.snapshot()
    kept, candidates = header["parameters"], list(header["parameters"].get("candidates") or ())
    if model.names is None:
        width = (model.dim or 0) + len(candidates)
        columns = [f"x{j}" for j in range(width)]
        candidates = [columns[j] for j in candidates]
        names = [name for name in columns if name not in candidates]
    else:
        names = list(model.names)
    task, classes = "regression", None
    if isinstance(model, OnlineClassifier):
        task, classes = "classification", tuple(str(label) for label in model.columns)
        if model.several_classes:
            task, header["labels"] = "multiclass", {k: str(label) for k, label in header["labels"].items()}
    header["names"] = {str(j): name for j, name in enumerate(names)}
    if candidates:
        header["parameters"] = {**kept, "candidates": candidates}
    settings = Settings(
        target=TARGET,
        candidate=tuple(candidates),
        missing="indicators" if kept.get("indicators") else "fill",
        **{name: kept[name] for name in ("speed", "half_life", "seed") if name in kept},
    )
    schema = Schema(task, classes, None, "iso", False, (*names, *candidates), ())
    return Stream.around(type(model)._from_snapshot(header, arrays), settings, schema)
