"""What tests of several folders share: places of the project, and generators of streams."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from undrift._internal.state_file import write_state
from undrift.errors import InputError

ROOT = Path(__file__).parents[1]
"""The checkout."""
DATA = Path(os.environ.get("UNDRIFT_DATA", ROOT.parent / "shared" / "data"))
"""Public streams that are not part of the project; tests of them are skipped where they are missing."""


def edit_state(path: Path, **words) -> None:
    """Change words of a `run.json`, or of a file of its form, as somebody would who knows how its checksum is made."""
    state = json.loads(path.read_text(encoding="utf-8")) | words
    path.write_bytes(write_state(state, state["kind"]))


def refused(call, words: str) -> None:
    """Assert that a call ends in one short sentence with these words."""
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def draw_stream(rows, dim, signal=None, *, noise=1.0, seed=0, drift=False, scale=1.0, offset=0.0):
    """Return normal rows and their labels: `signal` of the rows plus normal noise.

    `signal` takes the rows (none: labels are noise); with `drift`, noise adds up to a random walk. Columns have this
    `scale` and `offset`. `seed` may be a generator, from which the caller goes on to draw.
    """
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, dim)) * scale + offset
    errors = noise * rng.normal(size=rows)
    if drift:
        errors = np.cumsum(errors)
    return Z, errors if signal is None else signal(Z) + errors


def draw_classes(rows, dim=3, *, sharpness=3.0, seed=0):
    """Return normal rows, and for each the number of its class, 0 to 2: the likeliest by the first three columns."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, dim))
    return Z, np.argmax(sharpness * Z[:, :3] + rng.gumbel(size=(rows, 3)), axis=1)


def draw_records(rows, label, *, keys="ab", seed=0):
    """Return records of several keys, row by row; `label` takes features and noise (rows, keys) and returns labels."""
    rng = np.random.default_rng(seed)
    x, noise = rng.normal(size=(rows, len(keys))), rng.normal(size=(rows, len(keys)))
    y = label(x, noise)
    return [{"k": k, "n": n, "x": x[n, j], "y": y[n, j]} for n in range(rows) for j, k in enumerate(keys)]


def draw_log_odds(K: int, T: int, seed: int = 0):
    """Draw log-odds of K classes against the rest, biased and too sure, and the classes."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(T, K))
    y = np.argmax(logits + rng.gumbel(size=(T, K)), axis=1).astype(float)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return 1.7 * np.log(p / (1.0 - p)) + rng.normal(size=K), y
