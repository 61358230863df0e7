"""The kernel level: who chooses it, where it is written down, and what becomes of work moved to another one."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import undrift as ud
from undrift import kernels, store
from undrift.cli.app import run as undrift
from undrift.errors import UndriftWarning
from undrift.run import Interrupted, Settings, play_file, read_run
from undrift.run.play import run_loop
from undrift.run.read import csv_file

ASK = "from undrift import kernels; print(kernels.level(), end='')"


def other_level():
    """Return another level of this machine, or skip the test."""
    others = [name for name in kernels.levels() if name != kernels.level()]
    return others[0] if others else pytest.skip("this machine has one kernel level")


def told(code, **environment):
    """Run Python code in a new process; return its exit code and what it printed."""
    plain = {name: value for name, value in os.environ.items() if name != "UNDRIFT_KERNELS"}
    done = subprocess.run([sys.executable, "-c", code], env={**plain, **environment}, capture_output=True, text=True)
    return done.returncode, done.stdout or done.stderr


def test_the_best_level_is_chosen():
    assert told(ASK) == (0, kernels.levels()[0])


@pytest.mark.parametrize("name", kernels.levels())
def test_the_environment_chooses_the_level(name):
    assert told(ASK, UNDRIFT_KERNELS=name) == (0, name)


def test_an_unknown_level_is_refused_with_what_is_possible():
    sentence = f"UNDRIFT_KERNELS must be one of {', '.join(kernels.levels())} on this machine, got 'v9'; unset it to"
    code, text = told("import undrift.kernels", UNDRIFT_KERNELS="v9")
    assert code == 1
    assert f"ImportError: {sentence}" in text
    command = "import sys; from undrift.cli import main; sys.argv = ['undrift', 'doctor']; main()"
    code, text = told(command, UNDRIFT_KERNELS="v9")
    assert code == 2
    assert text == f"undrift: {sentence} let undrift choose\n"


@pytest.mark.parametrize("name", kernels.levels())
def test_a_level_is_used_inside_a_block_and_by_processes_started_there(name):
    before, variable = kernels.level(), os.environ.get("UNDRIFT_KERNELS")
    with kernels.use_level(name):
        assert kernels.level() == name
        child = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True)
        assert child.stdout == name
    assert kernels.level() == before
    assert os.environ.get("UNDRIFT_KERNELS") == variable


def test_a_block_refuses_what_the_machine_lacks():
    before = kernels.level()
    sentence = f"set_level: the level must be one of {', '.join(kernels.levels())} on this machine, got 'v9'"
    with pytest.raises(ValueError, match=sentence), kernels.use_level("v9"):
        pass
    assert kernels.level() == before


def test_an_error_in_a_block_ends_the_level_too():
    before = kernels.level()
    with pytest.raises(KeyError), kernels.use_level(other_level()):
        raise KeyError
    assert kernels.level() == before


def test_levels_do_compute_by_themselves():
    """Some bits differ from level to level: the one that is named is the one that runs."""
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(300, 9)), rng.normal(size=300)
    bits = {}
    for name in kernels.levels():
        with kernels.use_level(name):
            bits[name] = ud.linear_ensemble(horizon=300).play(Z, y).yhat.tobytes()
    assert len(set(bits.values())) >= min(2, len(bits))
    fused = {"neon", "v3", "v4"} & set(bits)
    assert all(bits[name] != bits["portable"] for name in fused)


def learned(rounds=30):
    rng = np.random.default_rng(1)
    Z, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    model = ud.linear_ensemble(horizon=60)
    model.play(Z[:rounds], y[:rounds])
    return model, Z, y


def test_a_saved_model_has_the_level_in_use_and_goes_on_at_another(tmp_path):
    other, here = other_level(), kernels.level()
    with kernels.use_level(other):
        model, Z, y = learned()
        model.save(tmp_path / "model.undrift")
        assert store.read(tmp_path / "model.undrift")[0]["level"] == other
    sentence = f"saved at kernel level {other}, the level in use is {here}: .* UNDRIFT_KERNELS={other} keeps the bits"
    with pytest.warns(UndriftWarning, match=sentence):
        moved = ud.load(tmp_path / "model.undrift")
    assert moved == model
    np.testing.assert_allclose(moved.play(Z[30:], y[30:]).yhat, model.copy().play(Z[30:], y[30:]).yhat, rtol=1e-9)


def test_a_level_this_machine_lacks_is_named_without_a_cure(tmp_path):
    model, _, _ = learned()
    model.save(tmp_path / "model.undrift")
    header, arrays = store.read(tmp_path / "model.undrift")
    store.write(tmp_path / "model.undrift", {**header, "level": "v9"}, arrays)
    with pytest.warns(UndriftWarning, match="saved at kernel level v9") as caught:
        ud.load(tmp_path / "model.undrift")
    assert "keeps the bits" not in str(caught[0].message)


def test_a_run_resumed_at_another_level_goes_on_with_one_sentence(tmp_path, monkeypatch, capsys):
    other, here = other_level(), kernels.level()
    monkeypatch.setattr(csv_file, "BATCH_ROWS", 64)
    monkeypatch.setattr(run_loop, "BATCHES_PER_COMMIT", 1)
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(400, 3)).round(6)
    source = tmp_path / "t.csv"
    source.write_text("x,z,y\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n")
    settings, moved, whole = Settings(target="y", speed="fast"), tmp_path / "moved", tmp_path / "whole"
    with kernels.use_level(other), pytest.raises(Interrupted):
        play_file(str(source), moved, settings, stop=lambda: (moved / "run.json").exists())
    assert json.loads((moved / "run.json").read_text())["provenance"]["kernels"] == other
    capsys.readouterr()
    assert undrift(["run", str(source), "-t", "y", "--speed", "fast", "-o", str(moved), "--resume", "--no-report"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "kernel level" in line]
    assert len(said) == 1
    assert said[0].startswith("undrift: ")
    assert f"saved at kernel level {other}, the level in use is {here}" in said[0]
    assert json.loads((moved / "run.json").read_text())["provenance"]["kernels"] == f"{other} then {here}"
    play_file(str(source), whole, settings)
    np.testing.assert_allclose(read_run(moved).yhat, read_run(whole).yhat, rtol=1e-7, atol=1e-7)


def test_a_fleet_goes_on_at_another_level(tmp_path):
    other, here = other_level(), kernels.level()
    rng = np.random.default_rng(3)
    names = ("n", "k", "x", "y")
    rows = [dict(zip(names, (n, k, *rng.normal(size=2)), strict=True)) for n in range(30) for k in "ab"]
    fleet = ud.Fleet(ud.linear_ensemble(horizon=30), key="k", order="n", features=["x"], target="y")
    with kernels.use_level(other):
        fleet.run(rows[:40], folder=tmp_path, source="s")
    with pytest.warns(UndriftWarning, match=f"states were made at kernel level {other}, the level in use is {here}"):
        moved = fleet.run(rows, folder=tmp_path, source="s")
    whole = fleet.run(rows)
    learned = [[row for row in run.outputs if row.order] for run in (moved, whole)]  # nothing is predicted at order 0
    one, two = ({(row.key, row.order): row.prediction for row in rows} for rows in learned)
    assert len(one) == 58
    assert one == pytest.approx(two, rel=1e-9, abs=1e-12)
    assert [fleet.model(moved.states[key]).rounds for key in "ab"] == [30, 30]  # and no warning: they are this level's
