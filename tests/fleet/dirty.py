"""A fleet's stream as it really arrives, and what must become of it, by a plain loop that knows nothing of `Fleet`."""

import math

import numpy as np

FEATURES = ["a", "b", "c"]
WAIT = 8
POISONS = (
    {"a": math.inf},
    {"b": 1e76},
    {"c": None},
    {"a": math.nan},
    {"y": -math.inf},
)
"""What typed columns can hold."""
UNTYPED = ({"a": "warm"}, {"b": [1.0]}, {"y": "high"}, {"y": 1j})
"""What mappings can hold besides."""


def clean(keys, rounds, seed, *, ask=0.1, later=0.5, binary=False):
    """Return each key's records in order: rows, questions, and labels that come later in records of their own."""
    rng = np.random.default_rng(seed)
    streams = {}
    for k in range(keys):
        stream, open_rows = [], []
        u = rng.normal(size=3)
        while len(stream) < rounds:
            u += rng.normal(scale=0.1, size=3)
            if open_rows and rng.random() < 0.1:
                of, label = open_rows.pop(int(rng.integers(len(open_rows))))
                stream.append({"y": label, "of": of, "a": None, "b": None, "c": None})
            else:
                z = rng.normal(size=3)
                y = float(z @ u + rng.normal(scale=0.1))
                y = (1.0 if y > 0 else -1.0) if binary else y
                row = {**dict(zip(FEATURES, z.tolist(), strict=True)), "y": y, "of": None}
                if rng.random() < ask:
                    if rng.random() < later:
                        open_rows.append((len(stream), y))
                    row["y"] = None
                stream.append(row)
        streams[f"k{k}"] = [{"key": f"k{k}", "n": n, **row} for n, row in enumerate(stream)]
    return streams


def spoil(streams, seed, *, poison=0.03, drop=0.02, untyped=True, holes=False):
    """Spoil some records for good, and lose some; `holes`: a missing number spoils nothing."""
    rng = np.random.default_rng(seed)
    kinds = POISONS + (UNTYPED if untyped else ())
    if holes:
        kinds = tuple(one for one in kinds if not any(x is None or x != x for x in one.values()))
    out = {}
    for key, stream in streams.items():
        kept = []
        for n, row in enumerate(stream):
            if n and row["of"] is None and row["y"] is not None and rng.random() < poison:
                kept.append({**row, **kinds[int(rng.integers(len(kinds)))], "spoiled": True})
            elif n == 0 or rng.random() >= drop:
                kept.append(row)
        out[key] = kept
    return out


def arrivals(streams, seed, *, copies=0.03, wait=WAIT):
    """Mix the streams: bounded disorder within each, copies that come at most `wait` orders after the original."""
    rng = np.random.default_rng(seed)
    tagged = []
    for stream in streams.values():
        for row in stream:
            plain = {name: value for name, value in row.items() if name != "spoiled"}
            times = [row["n"] + wait * rng.random() * 0.999]
            if rng.random() < copies:
                times.append(times[0] + (row["n"] + wait - times[0]) * rng.random())
            tagged += [(time, plain) for time in times]
    return [row for _, row in sorted(tagged, key=lambda one: one[0])]


def plain_loop(make_model, streams, binary=False):
    """Return ({key: model}, rows) of a loop over keys and their records in order."""
    models, rows = {}, []
    for key, stream in streams.items():
        model, waiting, last = make_model(), {}, None
        labels = 0
        for row in stream:
            n, y = row["n"], row["y"]
            if last is not None and n > last + 1:
                rows.append((key, last + 1, None, None, "gap", f"{n - last - 1} missing"))
            last = n
            if row.get("spoiled"):
                rows.append((key, n, None, None, "poison", ""))
            elif row["of"] is not None:
                if row["of"] in waiting:
                    served = waiting.pop(row["of"])
                    said = served.yhat if served.known else None
                    rows.append((key, n, said, y, "labelled", f"label of {row['of']}"))
                    model.tell(served, y)
                    labels += 1
                else:
                    rows.append((key, n, None, y, "poison", f"no record {row['of']} waits for a label"))
            else:
                z = [row[name] for name in FEATURES]
                yhat = getattr(model, "log_odds", model.predict)(z) if labels else None
                if y is None:
                    waiting[n] = model.ask(z)
                    rows.append((key, n, yhat, None, "predicted", ""))
                else:
                    rows.append((key, n, yhat, y, "ok", ""))
                    model.learn(z, y)
                    labels += 1
        models[key] = model
    return models, rows


def comparable(rows):
    """Drop what the plain loop does not know: copies, and the words and numbers of poisoned records."""
    out = []
    for key, order, prediction, target, status, reason in rows:
        if status == "poison" and "waits for a label" not in reason:
            out.append((key, order, None, None, "poison", ""))
        elif status != "duplicate":
            out.append((key, order, prediction, target, status, reason))
    return out


def cuts(rows, seed):
    """Cut a stream into batches at random places."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.integers(0, len(rows) + 1, size=int(rng.integers(0, 12))))
    return [part.tolist() for part in np.split(np.array(rows, dtype=object), at) if len(part)]
