"""The example and the tutorial that train a network run, and show what they are meant to show."""

import pytest

from tests.docs.test_examples import run
from tests.docs.test_tutorials import tutorials
from tests.helpers import ROOT

torch = pytest.importorskip("torch")


def test_both_optimizers_train_and_are_certified():
    names, said = run("train_network")
    assert said.strip()
    for loss, last, averaged, certificate in names["runs"].values():
        assert loss < 0.2
        assert min(last, averaged) > 0.95
        assert 0.0 < certificate.gradient < 1.0


def test_the_tutorial_runs_and_keeps_its_claims(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = ROOT / "docs" / "tutorials" / "network.md"
    assert "\nassert " in path.read_text(encoding="utf-8")
    names = tutorials.play_page(path)
    assert len(names) > 5
