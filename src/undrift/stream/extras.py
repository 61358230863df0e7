"""Libraries that only runs need, imported when they are; and where their sentences go unless told otherwise."""

from __future__ import annotations

import importlib
import logging
from types import ModuleType

from undrift.errors import MissingExtraError

LITERAL = {"glob": False, "hive_partitioning": False}
"""For every absolute path given to polars: `data[1].parquet` is one file, not a pattern for `data1.parquet`."""


def log_sentence(text: str) -> None:
    """Tell a sentence for the user through `logging`, by the logger "undrift"."""
    logging.getLogger("undrift").info("%s", text)


def polars(what: str) -> ModuleType:
    """Return polars."""
    return extra("polars", what)


def extra(name: str, what: str) -> ModuleType:
    """Return an optional library, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingExtraError(f"{what}: needs {name}; install it with: pip install 'undrift[cli]'") from None
