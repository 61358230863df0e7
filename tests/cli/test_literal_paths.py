"""Paths are names, not patterns: what shells and libraries take for a wildcard is an ordinary character to us."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from undrift.run import read_run

NAMES = {"data[1]": "data1", "s*": "s-other", "what?": "whatx", "k=1, {a,b}": "k=1, a", "100%41 ~": "100A ~"}
"""Names, and the name of a decoy that each would match as a pattern."""


def keyed_frame(seed):
    rng = np.random.default_rng(seed)
    key = np.arange(60) % 3
    return pl.DataFrame({"key": [f"k{k}" for k in key], "x": rng.normal(size=60), "y": rng.normal(size=60)})


def save(name, frame):
    with Path(name).open("wb") as file:
        frame.write_parquet(file) if name.endswith(".parquet") else frame.write_csv(file)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_every_command_reads_and_writes_the_path_it_was_given(call, name, ending):
    file, folder, y = f"{name}.{ending}", f"out {name}", keyed_frame(0)["y"].to_list()
    save(file, keyed_frame(0))
    for decoy in (NAMES[name], "s-second"):
        save(f"{decoy}.{ending}", keyed_frame(1))
        Path(f"out {decoy}").mkdir(exist_ok=True)
        save(f"out {decoy}/predictions.parquet", keyed_frame(1))
    options = ("-t", "y", "--drop", "key", "--speed", "fast", "-q")

    assert call("run", file, *options, "-o", folder)[0] == 0
    run = read_run(folder)
    assert run.y.tolist() == y
    assert call("certify", folder, "--replay")[0] == 0
    assert call("run", file, *options, "-o", folder, "--resume")[0] == 0

    assert call("predict", folder, file, "-o", f"said {file}", "-q")[0] == 0
    said = Path(f"said {file}").read_bytes()
    assert call("predict", folder, file, "-o", f"plain.{ending}", "-q")[0] == 0
    assert said == Path(f"plain.{ending}").read_bytes()
    assert len(said) > 0

    code, out, _ = call("compare", file, "-t", "y", "--drop", "key", "--no-peers", "-q", "--json")
    assert (code, json.loads(out)["rows"]) == (0, 60)

    assert call("fleet", file, "-t", "y", "--key", "key", "-o", f"fleet {name}", "-q")[0] == 0
    rows = pl.read_csv(Path(f"fleet {name}", "predictions.csv").read_bytes())
    assert sorted(rows["target"]) == sorted(y)
    assert Path(f"fleet {name}", "report.html").is_file()

    assert call("synth", "abrupt", f"made {file}", "-n", "30", "--truth", f"true {file}")[0] == 0
    assert call("run", f"made {file}", "-t", "y", "--speed", "fast", "-q", "-o", f"{folder} 2")[0] == 0
    assert read_run(f"{folder} 2").rounds == 30
    assert Path(f"true {file}").is_file()
