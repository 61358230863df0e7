"""Damaged journals open as they were, or are refused in one sentence; tests/stress/damaged_journals.py: more."""

import runpy

from tests.helpers import ROOT


def test_damaged_journals_open_as_they_were_or_are_refused_in_one_sentence(capsys):
    script = runpy.run_path(str(ROOT / "tests" / "stress" / "damaged_journals.py"))
    ends = script["main"](40, seed=3)
    assert {end for _, end in ends} <= {"as it was", "refused", "different"}, capsys.readouterr().out
    assert sum(count for (_, end), count in ends.items() if end == "refused") > 10
    assert not [way for way, end in ends if end == "different" and way not in ("forged", "log")]
