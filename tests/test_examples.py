"""Every example runs, and says what it is meant to show."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_a_learner_of_ones_own_is_certified():
    names = runpy.run_path(str(EXAMPLES / "certify_your_own.py"))
    certificate = names["certificate"]
    assert certificate.holds
    assert certificate.slack > 0.0
    terms = (certificate.start, certificate.stability, certificate.variation, certificate.potential_drift)
    assert all(term > 0.0 for term in terms)
