"""ForecastSource: a file of series, whose columns are named by other options than those of a run."""

from __future__ import annotations

from undrift.run.forecast.settings import ForecastSettings
from undrift.run.read.source import Source


class ForecastSource(Source):
    """A file of series."""

    def __init__(self, path: str, settings: ForecastSettings) -> None:
        super().__init__(path, settings.reading())
        candidates = {name.rpartition(":")[0] or name for name in settings.candidate}
        self._options = dict.fromkeys(candidates, "--candidate") | dict.fromkeys(settings.known, "--known")

    def leave_out(self, name: str) -> str:
        """Return how a column is left out, for an error."""
        option = self._options.get(name) or self._options.get(name.rpartition("_")[0])
        return "take that column out of the file" if option is None else f"leave it out of {option}"
