"""Damaged folders give the right result or one sentence, whatever reads them; more: tests/stress/run_folders.py."""

from tests.stress.run_folders import damages


def test_damaged_folders_are_read_right_or_refused_in_one_sentence(capsys):
    damages(24, seed=5)
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith("24 damaged folders, ")
    assert len(said) == 1
