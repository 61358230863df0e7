"""Forecasters of many keys in files of a few dozen each: only one file's are in memory at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from undrift import kernels, store
from undrift.errors import ModelFileError
from undrift.forecast import Forecaster, forecast_file
from undrift.learners.serializable import warn_if_level_differs
from undrift.run.forecast.scores import PARTS, StepScores

SHARD_KEYS = 64
"""Keys in one file."""


class KeyModel(NamedTuple):
    """What is known of one key."""

    key: str
    model: Forecaster
    scores: StepScores


def write_shard(path: Path, keys: list[KeyModel]) -> None:
    """Write the models and scores of some keys."""
    header: store.Header = {
        "class": "ForecastShard",
        "level": kernels.level(),
        "keys": json.dumps([one.key for one in keys]),
    }
    arrays: dict[str, NDArray[np.float64]] = {}
    for i, one in enumerate(keys):
        header[f"model {i}"], own = forecast_file.describe(one.model)
        arrays |= {f"{i}/model/{name}": array for name, array in own.items()}
        arrays |= {f"{i}/scores/{name}": array for name, array in one.scores.arrays().items()}
    store.write(path, header, arrays)


def read_shard(path: Path) -> list[KeyModel]:
    """Return the models and scores that `write_shard` wrote."""
    header, arrays = store.read(path)
    parts: dict[str, dict[str, NDArray[np.float64]]] = {}
    for name, array in arrays.items():
        where, _, own = name.rpartition("/")
        parts.setdefault(where, {})[own] = array
    try:
        if header.pop("class") != "ForecastShard":
            raise ModelFileError("not the forecasters of some keys")
        level = header.pop("level")
        names = [str(name) for name in json.loads(str(header["keys"]))]
        found = [_read_key(i, name, header[f"model {i}"], parts) for i, name in enumerate(names)]
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: damaged ({' '.join(str(error).split())[:100]})") from None
    warn_if_level_differs(f"{path} was saved", level)
    return found


def _read_key(i: int, name: str, header: object, parts: dict[str, dict[str, NDArray[np.float64]]]) -> KeyModel:
    if not isinstance(header, dict):
        raise ModelFileError("the model of a key is missing")
    model = forecast_file.restore(Forecaster, header, parts.get(f"{i}/model", {}))
    scores, saved = StepScores(model.horizon, model.level), parts.get(f"{i}/scores", {})
    if any(saved[part].shape != getattr(scores, part).shape for part in PARTS):
        raise ModelFileError("the scores of a key have a wrong shape")
    scores.load(saved)
    return KeyModel(name, model, scores)
