"""undrift: learning on data that drifts."""

from __future__ import annotations

__version__ = "0.1.0"
