"""The figures of a fleet's report."""

from __future__ import annotations

import math

from undrift.report.curves import Sheet
from undrift.report.figures.spec import HUES, Figure, Spec, View, hue, ref, safe
from undrift.report.words import count, memory, number, percent


def saved(sheet: Sheet | None) -> Figure | None:
    """How much better than naive, key by key."""
    if sheet is None:
        return None
    bars: Spec = {
        "type": "bar",
        "x": ref("saved", "middle"),
        "y": ref("saved", "count"),
        "customdata": ref("saved", "low"),
        "text": ref("saved", "high"),
        "textposition": "none",
        "name": "keys",
        "marker": {"color": hue("own")},
        "hovertemplate": "saved %{customdata:.0%} to %{text:.0%}: %{y:,} keys<extra></extra>",
    }
    zero = {
        "type": "line", "x0": 0, "x1": 0, "yref": "paper", "y0": 0, "y1": 1,
        "line": {"color": hue("line"), "dash": "dash", "width": 1.5},
    }  # fmt: skip
    clipped = f" {count(sheet['clipped'], 'key')} below -100% count in the lowest bar." if sheet["clipped"] else ""
    better = f"{sheet['better']:,} of {count(sheet['keys'], 'key')}"
    return Figure(
        "saved",
        "How much better than a naive guess",
        "Each bar counts keys by the part of the loss of a naive guess that undrift saved, against whichever naive "
        "guess did best on that key. Right of the dashed line undrift was better; at 100% it would never be wrong.",
        f"Histogram of saved loss over keys; {better} did better than the best naive guess, the middle key saved "
        f"{percent(sheet['median'])}.",
        "Measured: 1 minus undrift's total loss over the best naive guess's, which is known only afterwards; a key's "
        "first row is not scored. Held against: 0. "
        f"Better for {better}; middle key {percent(sheet['median'])}.{clipped}",
        [
            View(
                "",
                [bars],
                {
                    "xaxis": {
                        "tickformat": ".0%",
                        "title": {"text": "loss saved"},
                        "range": [min(sheet["low"][0], 0.0) - 0.02, 1.02],
                        "zeroline": False,
                    },
                    "yaxis": {"title": {"text": "keys"}, "rangemode": "tozero", "separatethousands": True},
                    "bargap": 0.06,
                    "shapes": [zero],
                    "showlegend": False,
                    "hovermode": "closest",
                },
                linked=False,
            )
        ],
        height=300,
    )


def ages(sheet: Sheet | None, task: str) -> Figure | None:
    """How many rows a key needs."""
    if sheet is None:
        return None
    traces: list[Spec] = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "x": ref("ages", "seen"),
            "y": ref("ages", "losses", k),
            "customdata": ref("ages", "keys"),
            "name": safe(name),
            "line": {"color": hue(HUES[k]), "width": 2.5 if k == 0 else 1.5},
            "marker": {"color": hue(HUES[k]), "size": 6 if k == 0 else 4},
            "hovertemplate": "%{y:.3r}, over %{customdata:,} keys<extra>%{fullData.name}</extra>",
        }
        for k, name in enumerate(sheet["names"])
    ]
    own = sheet["losses"][0]
    kind = "log-loss" if task == "classification" else "squared error"
    seen = sheet["seen"]
    return Figure(
        "ages",
        "How many rows a key needs",
        "How wrong predictions were when a key had seen so many rows, all keys together: where the thick line falls "
        "below the others, a new key is worth listening to.",
        f"Line chart of relative loss by rows seen: undrift starts at {number(own[0])} after {count(seen[0], 'row')} "
        f"and ends at {number(own[-1])} after {count(seen[-1], 'row')} and more.",
        f"Measured: mean {kind} of rounds with so many rows seen before (from each mark to the next), each key scaled "
        "so that the naive guess that did best on it has 1 over its whole stream. Only keys with that many rows count, "
        "so the last marks are of the longest streams.",
        [
            View(
                "",
                traces,
                {
                    "xaxis": {"type": "log", "title": {"text": "rows seen before"}, "tickvals": seen,
                              "ticktext": [f"{n:,}" for n in seen]},
                    "yaxis": {"title": {"text": "loss, naive = 1"}, "rangemode": "tozero"},
                    "hovermode": "x unified",
                },
                linked=False,
            )
        ],
        height=320,
    )  # fmt: skip


def memories(sheet: Sheet | None) -> Figure | None:
    """Memory of the keys."""
    if sheet is None:
        return None
    bars: Spec = {
        "type": "bar",
        "x": ref("memory", "at"),
        "y": ref("memory", "count"),
        "customdata": ref("memory", "from"),
        "text": ref("memory", "to"),
        "textposition": "none",
        "marker": {"color": hue("own")},
        "name": "keys",
        "hovertemplate": "half-life %{customdata:,} to %{text:,} rows: %{y:,} keys<extra></extra>",
    }
    edges = [*sheet["from"], sheet["to"][-1]]
    every = 2 * math.ceil(len(edges) / 24)
    never = f" {count(sheet['never'], 'key')} never forget and are not drawn." if sheet["never"] else ""
    looked = "" if sheet["keys"] == sheet["of"] else f" Looked at: the {sheet['keys']:,} keys with most rows."
    return Figure(
        "memories",
        "How long keys remember",
        "Each bar counts keys by the half-life their model found best: after so many rows a row counts half. Left: "
        "keys that change fast, where only recent rows help. Right: keys that are steady.",
        f"Histogram of half-lives over {count(sheet['keys'], 'key')}; the middle key has {memory(sheet['median'])}.",
        "Measured: the half-life all weights of a key's model amount to at the end; every second bar is twice as "
        f"long.{never}{looked} Keys `linear-ensemble`, `logistic-ensemble`.",
        [
            View(
                "",
                [bars],
                {
                    "xaxis": {
                        "tickvals": [k - 0.5 for k in range(0, len(edges), every)],
                        "ticktext": [number(edge) for edge in edges[::every]],
                        "zeroline": False,
                        "title": {"text": "half-life (rows)"},
                    },
                    "yaxis": {"title": {"text": "keys"}, "rangemode": "tozero", "separatethousands": True},
                    "bargap": 0.06,
                    "showlegend": False,
                    "hovermode": "closest",
                },
                linked=False,
            )
        ],
        height=300,
    )


def points(sheet: Sheet | None) -> Figure | None:
    """Keys one by one: memory and quality."""
    if sheet is None:
        return None
    n = len(sheet["key"])
    dots: Spec = {
        "type": "scatter",
        "mode": "markers",
        "x": ref("points", "half_life"),
        "y": ref("points", "saved"),
        "text": [safe(key) for key in sheet["key"]],
        "customdata": ref("points", "rounds"),
        "name": "keys",
        "marker": {"color": hue("own"), "size": 9 if n < 100 else 6, "opacity": 0.75 if n < 100 else 0.45},
        "hovertemplate": "%{text}<br>half-life %{x:,.3r} rows, saved %{y:.1%}<br>%{customdata:,} rows<extra></extra>",
    }
    ticks = _ticks(min(sheet["half_life"]), max(sheet["half_life"]))
    shown = "" if n == sheet["of"] else f" Shown: {n:,} of {count(sheet['of'], 'key')}, those with most rows."
    return Figure(
        "points",
        "Memory and quality, key by key",
        "Each dot is a key; point at one for its name. Low dots are keys where undrift is hardly better than guessing, "
        "dots on the left are keys that change fast; low and left is where to look first.",
        f"Scatter plot of {count(n, 'key')}: half-life against saved loss.",
        f"Measured: half-life at the end, and loss saved against the best naive guess, at least -100%.{shown}",
        [
            View(
                "",
                [dots],
                {
                    "xaxis": {
                        "type": "log",
                        "title": {"text": "half-life (rows)"},
                        "tickvals": ticks,
                        "ticktext": [number(tick) for tick in ticks],
                        "range": [math.log10(ticks[0]) - 0.02, math.log10(ticks[-1]) + 0.02],
                    },
                    "yaxis": {"tickformat": ".0%", "title": {"text": "loss saved"}},
                    "showlegend": False,
                    "hovermode": "closest",
                },
                linked=False,
            )
        ],
        height=380,
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers of a logarithmic axis: 1, 2, 5, 10, ..., or powers of ten where that is too many.

    >>> _ticks(4.0, 60.0), _ticks(1.0, 1e6)
    ([2.0, 5.0, 10.0, 20.0, 50.0, 100.0], [1.0, 10.0, 100.0, 1000.0, 10000.0, 100000.0, 1000000.0])
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    fine = [step * 10.0**k for k in range(first, last + 1) for step in (1.0, 2.0, 5.0)]
    fine = [x for a, x, b in zip([0.0, *fine], fine, [*fine[1:], math.inf], strict=False) if b > low and a < high]
    return fine if len(fine) <= 10 else [10.0**k for k in range(first, last + 1)]
