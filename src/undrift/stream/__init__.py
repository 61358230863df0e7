"""Tables as people have them: what the columns mean, the model that learns them, and what waits for its label."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from undrift.stream.answers import Answers as Answers
    from undrift.stream.explanation import Contribution as Contribution
    from undrift.stream.explanation import Explanation as Explanation
    from undrift.stream.settings import Settings as Settings
    from undrift.stream.stream import Stream as Stream

_HOME = {
    "Answers": "answers",
    "Settings": "settings",
    "Contribution": "explanation",
    "Explanation": "explanation",
    "Stream": "stream",
}


def __getattr__(name: str) -> object:
    """Import a class where it is used: commands need the settings alone to show their help."""
    if name not in _HOME:
        raise AttributeError(f"module 'undrift.stream' has no attribute {name!r}")
    return getattr(import_module(f"undrift.stream.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
