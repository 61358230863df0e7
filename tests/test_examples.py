"""Every example runs, and says what it is meant to show."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_learned_memories_beat_naive_guesses(capsys):
    runpy.run_path(str(EXAMPLES / "learners.py"))["main"]()
    out = capsys.readouterr().out
    for task, naive in (("Regression", "same as last time"), ("Classification", "base rate")):
        table = out.split(task)[1]
        assert table.index("everything learned") < table.index(naive)


def test_a_learner_of_ones_own_is_certified():
    names = runpy.run_path(str(EXAMPLES / "certify_your_own.py"))
    certificate = names["certificate"]
    assert certificate.holds
    assert certificate.slack > 0.0
    terms = (certificate.start, certificate.stability, certificate.variation, certificate.potential_drift)
    assert all(term > 0.0 for term in terms)
