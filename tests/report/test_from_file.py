"""From a file of rows to its report, markup in names and values included."""

import csv
import dataclasses
import json

import numpy as np
import pytest

from tests.report.test_render import EVIL, Elements
from undrift.cli.app import run
from undrift.report import render
from undrift.run import Interrupted, Settings, certify_run, play_file, read_run
from undrift.run.play import run_loop
from undrift.run.read import csv_file


def test_a_file_becomes_a_report(tmp_path, capsys):
    rng = np.random.default_rng(0)
    path, folder = tmp_path / "rows <b>.csv", tmp_path / "run"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["time", EVIL[0], EVIL[2], EVIL[1]])
        for day in range(300):
            x = rng.normal()
            stamp = np.datetime64("2024-01-01") + day
            rows.writerow(
                [stamp, x, "" if day == 7 else rng.choice(["<i>a</i>", "b"]), "yes" if x > 0 else "<u>no</u>"]
            )
    assert run(["run", str(path), "--target", EVIL[1], "--out", str(folder), "--quiet"]) == 0
    assert str(folder / "report.html") in capsys.readouterr().out
    page = Elements((folder / "report.html").read_text(encoding="utf-8"))
    assert not {"b", "i", "u", "img"} & set(page.tags)
    numbers = json.loads(page.blocks["numbers"])
    assert numbers["rounds"] == 300
    assert set(numbers["classes"]) == {"yes", "<u>no</u>"}
    assert f"{EVIL[2]}=<i>a</i>" in numbers["features"]
    assert numbers["loss"]["axis"]["time"][-1].startswith("2024-10-26")
    assert [one["lines"] for one in numbers["problems"] if one["kind"] == "missing"] == [[9]]
    assert len(numbers["certificates"]) == 3
    assert all(one["holds"] for one in numbers["certificates"] if one["refused"] is None)


def test_a_run_that_was_interrupted_gives_the_same_report(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "BATCH_ROWS", 64)
    monkeypatch.setattr(run_loop, "BATCHES_PER_COMMIT", 2)
    path = tmp_path / "rows.csv"
    assert run(["synth", "abrupt", str(path), "-n", "600"]) == 0
    settings, pages = Settings(target="y", speed="fast"), []
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    play_file(str(path), whole, settings)
    asked = iter([False, False, True])
    with pytest.raises(Interrupted):
        play_file(str(path), resumed, settings, stop=lambda: next(asked, True))
    play_file(str(path), resumed, settings, resume=True)
    for folder in (whole, resumed):
        certify_run(folder)
        data = read_run(folder)
        times = {"started": "", "finished": "", "seconds": 0.0, "command": ""}
        learned = [entry | {"when": ""} for entry in data.learned]
        data = dataclasses.replace(data, provenance={**data.provenance, **times}, learned=learned)
        pages.append(render(data, folder / "report.html").read_bytes())
    assert pages[0] == pages[1]
