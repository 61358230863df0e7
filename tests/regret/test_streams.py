"""Certificates on the real streams of the data folder; skipped when it is absent."""

import runpy

import pytest

from tests.helpers import ROOT
from undrift.learners import DiscountedAIOLI, DiscountedVAW
from undrift.losses import logistic, squared
from undrift.regret import certify
from undrift.regret.comparators import fixed, piecewise, smooth

STREAMS = runpy.run_path(str(ROOT / "benchmarks" / "streams.py"))
NAMES = STREAMS["names"]()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not NAMES, reason="no streams: set UNDRIFT_DATA to the folder that holds them"),
]


@pytest.mark.skipif("bike_hourly" not in NAMES, reason="bike_hourly is not in the data folder")
def test_a_ridge_certificate_is_useful_not_only_true():
    stream = STREAMS["load"]("bike_hourly", 8000)
    learner = DiscountedVAW(beta=1.0, hint="ridge")
    cert = certify(learner, stream.Z, stream.y, learner.clone().play(stream.Z, stream.y), fixed)
    assert cert.holds
    assert cert.bound <= 1.15 * cert.regret
    assert cert.ratio < 1.02


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_first_rounds_of_every_stream_are_covered(name):
    stream = STREAMS["load"](name, 1200)
    loss, limit = (logistic, {"margin": 4.0}) if stream.binary else (squared, {})
    opponents = (
        fixed(stream.Z, stream.y, loss, **limit),
        piecewise(stream.Z, stream.y, loss, segments=6, **limit),
        smooth(stream.Z, stream.y, loss, tau=100.0, **limit),
    )
    for beta in (0.8, 0.99):
        learner = DiscountedAIOLI(beta=beta, bound=4.0) if stream.binary else DiscountedVAW(beta=beta, hint="last")
        trace = learner.clone().play(stream.Z, stream.y)
        for u in opponents:
            cert = certify(learner, stream.Z, stream.y, trace, u)
            assert cert.slack >= -1e-12 * cert.scale
