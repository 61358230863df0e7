"""Play two checkouts on the same streams, through the library and the commands, and compare every number.

    python tools/same_bits.py OLD NEW [--data FOLDER] [--rows N] [--only TEXT] [--list]

OLD and NEW are checkouts, each with its own `.venv` (`make demo` makes one). Every case plays in a process of each
checkout and writes arrays; numbers must agree in every bit (0 and -0 count as equal), texts in every character. What
depends on the clock or on where files lie is left out. Exit code 1 if anything differs, with a list of where and how
much, or if a case fails on both sides. Cases use public names and the command line only: they outlive a redesign.
Commands (run, update, predict, live, compare, certify, fleet, forecast, serve) are played on the shipped file;
estimators, learners, forecasts, River's adapter and commands on the streams of the data folder (`../shared/data` beside
NEW, or --data) where there is one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator

import numpy as np

Arrays = dict[str, np.ndarray]
SPEEDS = ("light", "fast", "best", "max")
STREAMS = {
    "bike_hourly": "count",
    "metro_traffic": "traffic_volume",
    "air_quality_co": "co_ref",
    "elec2": "up",
    "weather_nebraska": "rain",
    "flights_late": "late15",
    "tables/diamonds": "target",
    "tables/fried": "target",
    "tables/kings_county": "target",
    "tables/turbine_co": "target",
    "shipped": "departures",
}
"""Files of the data folder and the shipped one, with their targets."""
BINARY = {"elec2", "weather_nebraska", "flights_late"}
VOLATILE = {
    *("seconds", "cpu_seconds", "microseconds", "created", "memory", "time_used"),
    *("folder", "out", "report", "path", "file", "model", "run", "source", "certificates_file"),
    *("size", "bytes", "digest", "version", "versions", "python", "platform"),
}
"""Keys of JSON output that hold times, places or digests of files."""
CASES: dict[str, Callable[[Places], Arrays]] = {}


class Places:
    """Where a case finds its input and may write."""

    def __init__(self, data: pathlib.Path | None, rows: int, scratch: pathlib.Path) -> None:
        self.data, self.rows, self.scratch = data, rows, scratch

    def stream(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return features and labels of a stream, the first rows of it."""
        import polars as pl

        frame = pl.read_csv(self.csv(name), infer_schema_length=None)
        target = STREAMS[name]
        Z = frame.drop(frame.columns[0], target).cast(pl.Float64).fill_null(np.nan).to_numpy()
        y = frame[target].cast(pl.Float64).to_numpy()
        return np.ascontiguousarray(Z), np.where(y > 0, 1.0, -1.0) if name in BINARY else y

    def csv(self, name: str, rows: int | None = None, skip: int = 0) -> pathlib.Path:
        """Write some rows of a stream as a CSV file and return its path."""
        if name == "shipped":
            import undrift

            source = pathlib.Path(undrift.__file__).parent / "data" / "nyc_departures.csv.gz"
        else:
            assert self.data is not None
            source = self.data / f"{name}.csv.gz"
        rows = self.rows if rows is None else rows
        path = self.scratch / f"{name.replace('/', '-')}-{skip}-{rows}.csv"
        with gzip.open(source, "rt", encoding="utf-8") as lines, path.open("w", encoding="utf-8") as out:
            out.write(next(lines))
            for number, line in enumerate(lines):
                if skip <= number < skip + rows:
                    out.write(line)
        return path

    def command(self, *words: object, read: bytes | None = None, codes: tuple[int, ...] = (0,)) -> str:
        """Run an undrift command and return what it printed."""
        line = [sys.executable, "-m", "undrift", *map(str, words)]
        done = subprocess.run(line, input=read, capture_output=True, cwd=self.scratch)
        if done.returncode not in codes:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr.decode()[-400:]}")
        return done.stdout.decode()

    def folder(self, name: str) -> pathlib.Path:
        """Return the path of an output folder."""
        return self.scratch / name


def case(function: Callable[..., Arrays], *arguments: object) -> None:
    """Register a case: a function and its arguments, which are also its name."""
    CASES[" ".join([function.__name__, *map(str, arguments)])] = lambda places: function(places, *arguments)


def flatten(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield the leaves of a JSON value with their paths, without volatile keys."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in VOLATILE:
                yield from flatten(inner, f"{name}.{key}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from flatten(inner, f"{name}[{number}]")
    else:
        yield name, value


def from_json(text: str, places: Places) -> Arrays:
    """Return the leaves of JSON output as arrays; paths of this run are cut out of texts."""
    out: Arrays = {}
    for name, value in flatten(json.loads(text)):
        if isinstance(value, str):
            value = value.replace(str(places.scratch), "SCRATCH")
        out[name] = np.array("null" if value is None else value)
    return out


def from_table(path: pathlib.Path) -> Arrays:
    """Return the columns of a Parquet or CSV table as arrays of float64 or text."""
    import polars as pl

    frame = pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema_length=None)
    out: Arrays = {}
    for name in frame.columns:
        column = frame[name]
        if column.dtype.is_numeric():
            out[name] = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
        else:
            out[name] = np.array([str(value) for value in column])
    return out


def tables(folder: pathlib.Path) -> Arrays:
    """Return every Parquet and CSV table of a folder, columns named by file."""
    out: Arrays = {}
    for path in sorted([*folder.glob("*.parquet"), *folder.glob("*.csv")]):
        out.update({f"{path.name}:{name}": column for name, column in from_table(path).items()})
    return out


def trace_columns(trace: object) -> Arrays:
    """Return the array fields of a trace."""
    fields = getattr(trace, "__dataclass_fields__", None) or getattr(trace, "_fields", None) or vars(trace)
    values = {name: getattr(trace, name) for name in fields if not name.startswith("_")}
    return {name: np.asarray(value) for name, value in values.items() if isinstance(value, (np.ndarray, float))}


def prefix(text: str, arrays: Arrays) -> Arrays:
    """Return arrays under longer names."""
    return {f"{text}:{name}": array for name, array in arrays.items()}


def estimator(name: str, speed: str, **options: object) -> object:
    """Return a new estimator for a stream."""
    import undrift as ud

    return (ud.OnlineClassifier if name in BINARY else ud.OnlineRegressor)(speed=speed, **options)


# The library.


def play(places: Places, name: str, speed: str) -> Arrays:
    """Replay in two blocks, with a saved and loaded model in between."""
    import undrift as ud

    Z, y = places.stream(name)
    if speed == "max":
        Z, y = Z[:1500], y[:1500]
    model, half = estimator(name, speed), len(y) // 2
    first = model.play(Z[:half], y[:half])
    model.save(places.folder("model.undrift"))
    model = ud.load(places.folder("model.undrift"))
    second = model.play(Z[half:], y[half:])
    out = prefix("first", trace_columns(first)) | prefix("second", trace_columns(second))
    if name not in BINARY:
        intervals = model.predict_interval(Z[-5:])
        out |= {f"interval {k}": np.asarray(v) for k, v in enumerate(intervals)}
        out["quantiles"] = np.asarray(model.predict_quantiles(Z[-5:], [0.1, 0.5, 0.9]))
    return out


def contexts(places: Places, name: str, speed: str) -> Arrays:
    """Late labels, weights and elapsed times."""
    Z, y = places.stream(name)
    rng = np.random.default_rng(0)
    weight, elapsed = rng.uniform(0.2, 3.0, len(y)), rng.exponential(size=len(y))
    out: Arrays = {}
    for label, options in {
        "late": {"delay": 24},
        "days": {"delay": 23 - np.arange(len(y)) % 24},
        "weighted": {"weight": weight},
        "elapsed": {"elapsed": elapsed},
    }.items():
        out |= prefix(label, trace_columns(estimator(name, speed).play(Z, y, **options)))
    return out


def rows(places: Places, name: str, speed: str) -> Arrays:
    """Predict and learn row by row, then ask and tell."""
    Z, y = places.stream(name)
    model, out, asked = estimator(name, speed), [], []
    for z, label in zip(Z[:400], y[:400].tolist(), strict=True):
        out.append(model.predict(z))
        model.learn(z, label)
    waiting = [model.ask(z) for z in Z[400:440]]
    asked = [getattr(served, "yhat", served) for served in waiting]
    for served, label in zip(reversed(waiting), reversed(y[400:440].tolist()), strict=True):
        model.tell(served, label)
    later = [model.predict(z) for z in Z[440:460]]
    return {"rows": np.array(out), "asked": np.array(asked, dtype=float), "later": np.array(later)}


def candidates(places: Places, name: str) -> Arrays:
    """Two given predictions, one of them with holes."""
    import polars as pl

    Z, y = places.stream(name)
    columns = {f"x{j}": Z[:, j] for j in range(Z.shape[1])}
    columns |= {"last": np.roll(y, 1), "before": np.where(np.arange(len(y)) % 7 == 0, np.nan, np.roll(y, 2))}
    return trace_columns(estimator(name, "fast", candidates=["last", "before"]).play(pl.DataFrame(columns), y))


def classes(places: Places, name: str, speed: str) -> Arrays:
    """Three classes: thirds of a number."""
    import undrift as ud

    Z, y = places.stream(name)
    code = np.searchsorted(np.quantile(y, [1 / 3, 2 / 3]), y)
    labels = np.array(["low", "middle", "high"])[code]
    model = ud.OnlineClassifier(speed=speed)
    out = trace_columns(model.play(Z[:1200], labels[:1200]))
    return out | {"proba": np.asarray(model.predict_proba(Z[1200:1220]))}


def learners(places: Places, name: str) -> Arrays:
    """Single learners and ensembles, each with its own loss."""
    import undrift as ud

    Z, y = places.stream(name)
    Z = np.nan_to_num((Z - np.nanmean(Z, axis=0)) / (np.nanstd(Z, axis=0) + 1e-9))
    kinds: dict[str, object] = (
        {"aioli": ud.DiscountedAIOLI(), "logistic": ud.logistic_ensemble(bound=5.0, radius=40.0)}
        if name in BINARY
        else {
            "vaw": ud.DiscountedVAW(),
            "drift": ud.DriftVAW(10.0),
            "newton": ud.DiscountedNewton("absolute"),
            "linear": ud.linear_ensemble(),
            "drifts": ud.drift_ensemble(),
            "mean": ud.DiscountedMean(),
        }
    )
    out: Arrays = {}
    for label, learner in kinds.items():
        out |= prefix(label, trace_columns(learner.play(Z, y)))
        out[f"{label}:next"] = np.array([learner.predict(z) for z in Z[-3:]])
    return out


def forecaster(places: Places, name: str, horizon: int) -> Arrays:
    """Forecasts of a series after every row."""
    import undrift as ud

    _, y = places.stream(name)
    model = ud.Forecaster(horizon=horizon)
    out = trace_columns(model.play(y[:900]))
    return out | prefix("next", trace_columns(model.forecast()))


def mix(places: Places, loss: str) -> Arrays:
    """Forecasts made elsewhere, mixed."""
    import undrift as ud

    _, y = places.stream("bike_hourly")
    given = np.column_stack([np.roll(y, k) for k in (1, 2, 24)])
    return trace_columns(ud.Mix(loss=loss).play(given, y))


def river(places: Places, name: str) -> Arrays:
    """River's adapter, row by row."""
    from undrift.river import DriftClassifier, DriftRegressor

    Z, y = places.stream(name)
    model = (DriftClassifier if name in BINARY else DriftRegressor)()
    out = []
    for z, label in zip(Z[:300], y[:300].tolist(), strict=True):
        x = {f"x{j}": value for j, value in enumerate(z.tolist())}
        answer = model.predict_proba_one(x).get(True, 0.0) if name in BINARY else model.predict_one(x)
        out.append(float(answer))
        model.learn_one(x, label > 0 if name in BINARY else label)
    return {"yhat": np.array(out)}


def certified(places: Places, name: str) -> Arrays:
    """The certificate of a learner against a path of pieces."""
    import undrift as ud

    Z, y = places.stream(name)
    Z = np.nan_to_num((Z - np.nanmean(Z, axis=0)) / (np.nanstd(Z, axis=0) + 1e-9))[:600]
    learner = ud.DiscountedVAW()
    u = ud.regret.comparators.piecewise(Z, y[:600], segments=6)
    certificate = ud.regret.certify(learner, Z, y[:600], learner.clone().play(Z, y[:600]), u)
    return trace_columns(certificate) | {"bound": np.array(certificate.bound), "regret": np.array(certificate.regret)}


# Commands.


def run(places: Places, name: str, *options: str) -> Arrays:
    """`undrift run`, then certificates, an update and predictions."""
    out, target = places.folder("run"), STREAMS[name]
    file, later = places.csv(name), places.csv(name, 300, places.rows)
    text = places.command("run", file, "-t", target, "-o", out, "--json", "--no-report", *options)
    arrays = prefix("json", from_json(text, places)) | prefix("run", tables(out))
    places.command("predict", out, later, "-o", places.scratch / "predicted.csv")
    arrays |= prefix("predicted", from_table(places.scratch / "predicted.csv"))
    text = places.command("update", out, later, "--json", "--no-report")
    return arrays | prefix("update json", from_json(text, places)) | prefix("update", tables(out))


def records(path: pathlib.Path) -> list[dict[str, object]]:
    """Return the rows of a CSV file as JSON objects: numbers where they are, null where cells are empty."""
    import polars as pl

    return pl.read_csv(path, infer_schema_length=None).to_dicts()


def live(places: Places, name: str) -> Arrays:
    """`undrift run --live`, labels in the row itself."""
    rows = "".join(json.dumps(record) + "\n" for record in records(places.csv(name, 400)))
    text = places.command("run", "-", "-t", STREAMS[name], "--live", "--speed", "fast", read=rows.encode())
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    return {"lines": np.array([json.dumps(line, sort_keys=True) for line in lines])}


def compare(places: Places, name: str) -> Arrays:
    """`undrift compare` without peers."""
    text = places.command("compare", places.csv(name, 1500), "-t", STREAMS[name], "--json", "--no-peers")
    return from_json(text, places)


def certify(places: Places, name: str) -> Arrays:
    """`undrift certify` of a run."""
    out = places.folder("run")
    places.command("run", places.csv(name), "-t", STREAMS[name], "-o", out, "--speed", "fast", "--no-report", "-q")
    return from_json(places.command("certify", out, "--json", "--replay"), places)


def fleet(places: Places, name: str, *options: str) -> Arrays:
    """`undrift fleet` over seven made keys, then an update."""
    out = places.folder("fleet")
    file, later = (keyed(places, name, skip) for skip in (0, places.rows))
    words = ("-k", "key", "--order", "order", "-t", STREAMS[name], "--drop", "time", "-o", out, "--json", "--no-report")
    text = places.command("fleet", file, *words, *options)
    arrays = prefix("json", from_json(text, places)) | tables(out)
    places.command("update", out, later, "--no-report", "-q")
    return arrays | prefix("update", tables(out))


def keyed(places: Places, name: str, skip: int) -> pathlib.Path:
    """Write a stream with a column `key` of seven values and a column `order`."""
    lines = places.csv(name, None, skip).read_text(encoding="utf-8").splitlines()
    out = places.scratch / f"keyed-{skip}.csv"
    rows = [f"k{(skip + n) % 7},{(skip + n) // 7},{line}" for n, line in enumerate(lines[1:])]
    out.write_text("\n".join([f"key,order,{lines[0]}", *rows]) + "\n", encoding="utf-8")
    return out


def forecast(places: Places, name: str, *options: str) -> Arrays:
    """`undrift forecast`, then an update."""
    out = places.folder("forecast")
    words = ("-t", STREAMS[name], "-H", "12", "-o", out, "--json", "--no-report", *options)
    file = keyed(places, name, 0) if "--key" in options else places.csv(name, 900)
    later = keyed(places, name, places.rows) if "--key" in options else places.csv(name, 100, 900)
    arrays = prefix("json", from_json(places.command("forecast", file, *words), places)) | tables(out)
    places.command("update", out, later, "--no-report", "-q")
    return arrays | prefix("update", tables(out))


def serve(places: Places, name: str) -> Arrays:
    """A service on a run: rows in tens, labels a little later."""
    out = places.folder("run")
    file, target = places.csv(name, 1000), STREAMS[name]
    places.command("run", file, "-t", target, "-o", out, "--speed", "fast", "--no-report", "--no-certify", "-q")
    asked = records(places.csv(name, 60, 1000))
    labels = [record.pop(target) for record in asked]
    port = 20000 + os.getpid() % 20000
    command = [sys.executable, "-m", "undrift", "serve", str(out), "--port", str(port), "-q"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def post(path: str, body: object) -> dict[str, object]:
        data = json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read())

    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).read()
                break
            except OSError:
                time.sleep(0.1)
        replies = []
        for first in range(0, len(asked), 10):
            answer = post("/predict", {"rows": asked[first : first + 10]})
            replies.append(json.dumps(answer, sort_keys=True))
            ids = [row["id"] for row in answer["predictions"]]
            told = [{"id": i, "y": label} for i, label in zip(ids, labels[first : first + 10], strict=True)]
            post("/learn", {"labels": told})
        return {"replies": np.array(replies)}
    finally:
        process.terminate()
        process.wait(30)


def register(data: pathlib.Path | None) -> None:
    """List the cases that can run."""
    for speed in SPEEDS:
        case(run, "shipped", "--speed", speed)
    case(run, "shipped", "--speed", "fast", "--lag", "4,24,168", "--calendar", "--delay", "3")
    case(live, "shipped")
    case(compare, "shipped")
    case(certify, "shipped")
    case(fleet, "shipped")
    case(fleet, "shipped", "--lag", "3", "--delay", "2", "--interval", "0.9")
    case(forecast, "shipped")
    case(forecast, "shipped", "--key", "key")
    case(serve, "shipped")
    if data is None:
        return
    for name in STREAMS:
        if name == "shipped":
            continue
        for speed in SPEEDS:
            case(play, name, speed)
        case(contexts, name, "fast")
        case(rows, name, "fast")
        case(learners, name)
        case(run, name, "--speed", "fast")
        if name not in BINARY:
            case(candidates, name)
            case(forecaster, name, 12)
            case(certified, name)
    for name in ("bike_hourly", "elec2"):
        case(contexts, name, "best")
        case(rows, name, "best")
        case(river, name)
        case(live, name)
        case(compare, name)
        case(certify, name)
        case(fleet, name)
        case(serve, name)
        case(run, name, "--speed", "best")
    for speed in ("light", "fast"):
        case(classes, "bike_hourly", speed)
    for loss in ("squared", "absolute"):
        case(mix, loss)


def play_cases(out: pathlib.Path, names: list[str], data: pathlib.Path | None, count: int) -> None:
    """Play cases in this process and write their arrays, or the error they ended with."""
    for number, name in enumerate(names):
        with tempfile.TemporaryDirectory() as folder:
            try:
                arrays = CASES[name](Places(data, count, pathlib.Path(folder)))
            except Exception as error:
                arrays = {"error": np.array(f"{type(error).__name__}: {str(error).replace(folder, 'SCRATCH')}")}
        np.savez(out / f"{number}.npz", **arrays)


def difference(a: np.ndarray, b: np.ndarray) -> str | None:
    """Return how two arrays differ, or None."""
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return f"shape {a.shape} {a.dtype}, then {b.shape} {b.dtype}"
    if a.dtype.kind in "US":
        a, b = np.atleast_1d(a), np.atleast_1d(b)
        differs = np.flatnonzero(a != b)
        return f"{len(differs)} texts, first {a[differs[0]]!r:.90} / {b[differs[0]]!r:.90}" if len(differs) else None
    if a.tobytes() == b.tobytes() or (a.dtype.kind == "f" and np.array_equal(a, b, equal_nan=True)):
        return None
    with np.errstate(all="ignore"):
        gap = np.nanmax(np.abs(a.astype(float) - b.astype(float))) / np.nanmax(np.abs(a.astype(float)))
    return f"{int(np.sum(a != b))} of {a.size} numbers, by {gap:.2g} of the largest"


def main() -> int:
    """Play both sides, case by case and side by side, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=pathlib.Path, nargs="?")
    parser.add_argument("new", type=pathlib.Path, nargs="?")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--play", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    data = arguments.data
    if data is None and arguments.new is not None:
        beside = arguments.new.resolve().parent / "shared" / "data"
        data = beside if beside.exists() else None
    register(data)
    names = [name for name in CASES if arguments.only in name]
    if arguments.play:
        play_cases(arguments.play, names, data, arguments.rows)
        return 0
    if arguments.list or arguments.old is None or arguments.new is None:
        print(*names, sep="\n")
        return 0
    if data is None:
        print("no data folder: only cases on the shipped file are played")
    with tempfile.TemporaryDirectory() as folder:
        outs = [pathlib.Path(folder) / side for side in ("old", "new")]
        started = []
        for out, checkout in zip(outs, (arguments.old, arguments.new), strict=True):
            out.mkdir()
            words = [checkout.resolve() / ".venv/bin/python", pathlib.Path(__file__).resolve(), "--play", out]
            words += ["--rows", arguments.rows, "--only", arguments.only]
            words += ["--data", data.resolve()] if data else []
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            started.append(subprocess.Popen([str(word) for word in words], cwd=folder, env=environment))
        if any(process.wait() for process in started):
            print("a side ended with an error; see above")
            return 1
        return report(names, outs)


def report(names: list[str], outs: list[pathlib.Path]) -> int:
    """Print the cases that differ, and how many arrays agree."""
    same = different = failed = 0
    for number, name in enumerate(names):
        old, new = (dict(np.load(out / f"{number}.npz")) for out in outs)
        found = dict.fromkeys(old.keys() ^ new.keys(), "only on one side")
        found |= {key: text for key in old.keys() & new.keys() if (text := difference(old[key], new[key]))}
        if "error" in old and not found:
            failed += 1
            print(f"{name}: fails on both sides: {old['error']}")
        same += len(old.keys() & new.keys()) - len(found.keys() & old.keys() & new.keys())
        different += bool(found)
        for key, text in list(found.items())[:4]:
            errors = [str(side["error"]) for side in (old, new) if "error" in side]
            print(f"{name}: {key}: {text} {'; '.join(errors)}")
    print(f"{len(names)} cases: {different} differ, {failed} fail on both sides, {same} arrays are the same")
    return 1 if different or failed else 0


if __name__ == "__main__":
    sys.exit(main())
