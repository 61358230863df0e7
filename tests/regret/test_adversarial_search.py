"""A search that makes runs worse breaks no certificate, and breaks claims that are a little too small."""

import pytest

from tests.regret import adversarial

pytestmark = pytest.mark.slow

FAMILIES = pytest.mark.parametrize("family", adversarial.FAMILIES)


def worst(family, claim=None):
    """The largest excess that a small search ends with; `tests/stress/certificates.py --climb` looks much longer."""
    certified = None if claim is None else adversarial.WEAKER[claim]
    return adversarial.search(family, 60, 3, 25, 3, certified)[0][0]


@FAMILIES
def test_no_certificate_is_broken_by_searching(family):
    assert worst(family) <= 1e-12


@FAMILIES
@pytest.mark.parametrize("claim", ["less stability", "less start", "less variation"])
def test_the_same_search_breaks_claims_that_are_a_thousandth_too_small(family, claim):
    assert worst(family, claim) > 1e-12


def test_the_search_finds_rounding_that_is_not_paid_for():
    assert worst("DiscountedNewton", "without rounding") > 1e-12
