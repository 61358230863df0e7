"""How many keys have which half-life."""

from __future__ import annotations

import math

import numpy as np

from undrift.report.figures.figure import Figure, Measured, Numbers, key_histogram
from undrift.report.formatting import half_life_text, number, plural
from undrift.report.key_lists import known_half_lives
from undrift.report.plot_spec import round_numbers
from undrift.run import FleetResult

SECTION = "drift"


def measure(fleet: FleetResult) -> Measured:
    """Return the number of keys by half-life, two bars for a doubling; those that never forget are counted apart."""
    known = known_half_lives(fleet)
    if not len(known):
        return {"memory": None}
    finite = known[np.isfinite(known)]
    steps = np.floor(2.0 * np.log2(np.maximum(finite, 0.5))).astype(np.int64)
    low, high = (int(steps.min()), int(steps.max())) if len(finite) else (0, 0)
    margin = max(0, 4 - (high - low) // 2)  # where all keys are alike, the axis still shows a range
    low, high = low - low % 2 - margin, high + 1 - high % 2 + margin
    low, high = low - low % 2, high + 1 - high % 2  # whole doublings
    edges = [2.0 ** (k / 2.0) for k in range(low, high + 2)]
    return {
        "memory": {
            "from": round_numbers(edges[:-1]),
            "to": round_numbers(edges[1:]),
            "at": list(range(high - low + 1)),
            "count": np.bincount(steps - low, minlength=high - low + 1).tolist(),
            "never": len(known) - len(finite),
            "keys": len(known),
            "of": len(fleet.keys),
            "median": float(np.median(known)),
        }
    }


def draw(fleet: FleetResult, numbers: Numbers) -> Figure:
    """Draw a histogram over keys."""
    memory = numbers["memory"]
    edges = [*memory["from"], memory["to"][-1]]
    every = 2 * math.ceil(len(edges) / 24)
    never = f" {plural(memory['never'], 'key')} never forget and are not drawn." if memory["never"] else ""
    part = "" if memory["keys"] == memory["of"] else f" Looked at: the {memory['keys']:,} keys with most rows."
    xaxis = {
        "tickvals": [k - 0.5 for k in range(0, len(edges), every)],
        "ticktext": [number(edge) for edge in edges[::every]],
        "title": {"text": "half-life (rows)"},
    }
    hover = "half-life %{customdata:,} to %{text:,} rows"
    return Figure(
        "memories",
        "How long keys remember",
        "Each bar counts keys by the half-life their model found best: after so many rows a row counts half. Left: "
        "keys that change fast, where only recent rows help. Right: keys that are steady.",
        f"Histogram of half-lives over {plural(memory['keys'], 'key')}; the middle key has "
        f"{half_life_text(memory['median'])}.",
        "Measured: the half-life all weights of a key's model amount to at the end; every second bar is twice as "
        f"long.{never}{part} Keys `linear-ensemble`, `logistic-ensemble`.",
        [key_histogram("memory", "at", "from", "to", hover, xaxis)],
        height=300,
    )
