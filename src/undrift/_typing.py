"""Aliases of types: what a function takes and returns, said once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
"""One-dimensional float64 array."""

Matrix = NDArray[np.float64]
"""Two-dimensional float64 array, rounds first."""

Arrays = dict[str, NDArray[np.float64]]
"""State by name."""

Rounds = NDArray[np.int64]
"""Indices of rounds, from 0."""

Scalar = float | int | str | bool | None
"""What a parameter may be, so that it can live in a JSON header."""

JsonObject = Mapping[str, Any]
"""A JSON object: texts, numbers, lists, and objects again."""
