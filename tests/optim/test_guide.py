"""The guide's examples run."""

import doctest

from tests.helpers import ROOT


def test_the_examples_of_the_guide_run():
    guide = ROOT / "docs" / "adam.md"
    failed, tried = doctest.testfile(str(guide), module_relative=False)
    assert tried > 8
    assert failed == 0
