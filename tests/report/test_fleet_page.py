"""The report of a fleet: the keys that matter by name, the others in figures, and nothing injected."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

import undrift as ud
from tests.report.fleet_runs import fleet_run
from tests.report.test_render import EVIL, Elements
from undrift.errors import InputError
from undrift.fleet import STATUSES, FleetRun, Outputs
from undrift.losses import sigmoid
from undrift.report import render_fleet
from undrift.run import KeyReport

TASKS = ("regression", "classification")


def page(found, tmp_path):
    return Elements(render_fleet(found, tmp_path / "fleet.html").read_text(encoding="utf-8"))


def words(found, tmp_path):
    return re.sub(r"\s+", " ", " ".join(page(found, tmp_path).text))


@pytest.mark.parametrize("task", TASKS)
def test_the_numbers_are_those_of_the_run(task, tmp_path):
    run = fleet_run(task=task)
    found = page(run, tmp_path)
    numbers = json.loads(found.blocks["numbers"])
    assert (numbers["keys"], numbers["rounds"], numbers["task"]) == (40, sum(one.rounds for one in run.keys), task)
    assert [one["key"] for one in numbers["listed"]] == [one.key for one in run.keys]
    assert [one["skill"] for one in numbers["listed"]] == [one.skill for one in run.keys]
    assert sum(numbers["saved"]["count"]) == numbers["saved"]["keys"] == 40
    assert sum(numbers["memory"]["count"]) + numbers["memory"]["never"] == 40
    assert numbers["problems"][0]["count"] == run.problems[0].count
    assert {one["key"] for one in json.loads(found.blocks["figures"])} == {
        "saved",
        "ages",
        "memories",
        "points",
        "curve",
    }
    text = " ".join(found.text)
    better = sum(one.skill > 0.0 for one in run.keys)
    assert f"undrift beat the best naive guess on {better} of 40 keys" in text
    assert "Left out, as they are no numbers: site." in text


@pytest.mark.parametrize("task", TASKS)
def test_every_listed_key_has_its_last_rows_and_a_way_to_them(task, tmp_path):
    run = fleet_run(task=task, spoiled=False)
    found = page(run, tmp_path)
    curves, outputs = json.loads(found.blocks["numbers"])["curve"]["keys"], run.run.outputs
    assert [one["name"] for one in curves] == [one.key for one in run.keys]
    for one in curves:
        rows = [i for i, key in enumerate(outputs.keys) if key == one["name"]]
        assert one["at"] == outputs.order[rows].tolist()
        assert one["y"] == pytest.approx(outputs.target[rows].tolist(), rel=1e-3)
        said = outputs.prediction[rows]
        assert one["yhat"] == pytest.approx((sigmoid(said) if task == "classification" else said).tolist(), rel=1e-3)
    links = [int(value) for name, value in found.attributes if name == "data-shown"]
    assert set(links) == set(range(40))
    assert links[:8] == [run.keys.index(one) for one in run.worst[:8]]


def test_intervals_are_drawn_where_the_fleet_has_them(tmp_path):
    run = fleet_run(keys=2, rounds=30, spoiled=False)
    said = run.run.outputs
    outputs = replace(said, extras={"lower": said.prediction - 1.0, "upper": said.prediction + 2.0})
    model, fields = ud.OnlineRegressor(), {"key": "pump", "order": "n", "features": ["load"], "target": "heat"}
    fleet = ud.Fleet(model, **fields, interval=0.8)
    found = page(run._replace(run=FleetRun(fleet, {}, lambda: outputs)), tmp_path)
    for one in json.loads(found.blocks["numbers"])["curve"]["keys"]:
        assert one["lower"] == pytest.approx([x - 1.0 for x in one["yhat"]], abs=0.01)
        assert one["upper"] == pytest.approx([x + 2.0 for x in one["yhat"]], abs=0.01)
    assert '"80% interval"' in found.blocks["figures"]
    assert "interval" not in page(run, tmp_path).blocks["figures"]


def test_a_row_that_was_labelled_later_is_drawn_once_at_its_time(tmp_path):
    run = fleet_run(keys=1, rounds=30, spoiled=False)
    said = run.run.outputs
    said.status[3] = STATUSES.index("predicted")
    more = Outputs(["0"], np.array([3]), said.prediction[3:4], np.array([7.5]), np.array([2], np.uint8))
    target = said.target.copy()
    target[3] = math.nan
    joined = Outputs.concat([replace(said, target=target), more])
    drawn = page(run._replace(run=FleetRun(run.run.fleet, {}, lambda: joined), time_unit="s"), tmp_path)
    (curve,) = json.loads(drawn.blocks["numbers"])["curve"]["keys"]
    assert (len(curve["at"]), curve["at"][3], curve["y"][3]) == (30, "1970-01-01T00:00:03", 7.5)


def test_keys_that_turned_are_named(tmp_path):
    found = fleet_run()
    turned = max(found.keys, key=lambda one: one.change)
    assert turned.key == "39"
    text = words(found, tmp_path)
    assert "1 key clearly does worse lately: 39." in text
    assert re.search(r"the model itself failed on \d+ keys: ", text)
    clean = words(fleet_run(spoiled=False), tmp_path)
    assert "No record had a problem." in clean
    assert "None found" in clean


def test_the_middle_memory_is_the_same_wherever_it_is_told(tmp_path):
    found = fleet_run(spoiled=False)
    even = [replace(one, half_life=life) for one, life in zip(found.keys, [10.0, 20.0, 40.0, 80.0], strict=False)]
    text = words(found._replace(keys=even), tmp_path)
    assert "a row counts half after 30 rows" in text
    assert "memory (middle key) 30 rows" in text


def test_a_key_of_few_rows_is_not_called_the_worst(tmp_path):
    found = fleet_run(spoiled=False)
    young = KeyReport("young", rounds=3, loss=9.0, naives=(1.0, 2.0))
    text = words(found._replace(keys=[young, *found.keys]), tmp_path)
    worst = text[text.index("Worst keys") : text.index("Which keys drift", text.index("Worst keys"))]
    assert "young" not in worst
    assert found.keys[0].key in worst
    assert "1 key had fewer than 20 rows to be scored on" in text
    assert "young" in text[text.index("All keys") :]


@pytest.mark.slow
def test_a_hundred_thousand_keys_are_a_small_page(tmp_path):
    found = fleet_run(keys=100_000, rounds=4)
    small = render_fleet(fleet_run(keys=5), tmp_path / "small.html").stat().st_size
    path = render_fleet(found, tmp_path / "large.html")
    assert path.stat().st_size < small + 400_000
    page = Elements(path.read_text(encoding="utf-8"))
    numbers = json.loads(page.blocks["numbers"])
    assert (numbers["keys"], sum(numbers["saved"]["count"])) == (100_000, numbers["saved"]["keys"])
    assert 100 <= len(numbers["listed"]) <= 400
    assert "keys.csv has them all" in " ".join(page.text)


def test_keys_and_reasons_cannot_inject_anything(tmp_path):
    plain = page(fleet_run(keys=7), tmp_path)
    evil = page(fleet_run(keys=7, names=lambda k: EVIL[k], target=EVIL[1]), tmp_path)
    assert evil.tags.count("script") == plain.tags.count("script") == 6
    assert "img" not in evil.tags
    assert not any(name.startswith("on") for name, _ in evil.attributes)
    assert evil.blocks["script"] == plain.blocks["script"]
    text = " ".join(evil.text)
    assert all(one.replace("\x00", "\ufffd") in text or one in text for one in EVIL)
    assert {one["key"] for one in json.loads(evil.blocks["numbers"])["listed"]} == set(EVIL)


def test_it_fetches_nothing_and_is_the_same_every_time(tmp_path):
    found = page(fleet_run(), tmp_path)
    assert not {"link", "iframe", "img", "object", "embed", "base", "form"} & set(found.tags)
    assert all(value.startswith("#") for name, value in found.attributes if name in ("src", "href", "action"))
    first = (tmp_path / "fleet.html").read_bytes()
    assert render_fleet(fleet_run(), tmp_path / "again.html").read_bytes() == first
    assert found.tags.count("th") == sum(name == "scope" for name, _ in found.attributes)


@pytest.mark.parametrize("task", TASKS)
def test_one_key_with_one_row_is_enough(task, tmp_path):
    found = fleet_run(keys=1, rounds=1, task=task, spoiled=False)
    assert math.isnan(found.keys[0].skill)
    assert "No key has enough rows to be scored yet." in words(found, tmp_path)


def test_a_fleet_that_learned_nothing_is_refused(tmp_path):
    with pytest.raises(InputError, match="no row of the fleet was learned"):
        render_fleet(fleet_run()._replace(keys=[]), tmp_path / "r.html")
