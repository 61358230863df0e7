"""Certificate, theory units and diagnostics say what the run did."""

import math
import re

import numpy as np
import pytest

from tests.optim.stepper import Stepper, problem
from undrift import optim
from undrift.errors import ConditionError, InputError
from undrift.optim import core
from undrift.optim.stationarity import StationarityMeter
from undrift.torch import ClipFreeAdam, ClippedAdam

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

PROBLEM = optim.Problem(lipschitz=1.2, noise=0.2, gap=1.0, c=2.0, epsilon=0.5)


@pytest.mark.parametrize("norm", ["all", "tensor", "coord"])
def test_the_certificate_is_that_of_the_core(norm):
    start, stream = problem(seed=2, steps=25)
    params = [torch.nn.Parameter(torch.tensor(b)) for b in start]
    groups = [{"params": params[:2]}, {"params": params[2:]}]
    opt = ClippedAdam(groups, norm=norm, lr=0.01, c=3.0, noise=0.7, bias_correction=False, average_horizon=None)
    reference = Stepper(start, lr=0.01, betas=(0.9, 0.999), eps=1e-8, clip=1.0, norm=norm, average_horizon=None)
    meter = StationarityMeter(c=3.0, noise=0.7, gap1=reference.gap1)
    assert opt.certificate.rounds == 0
    for gradients in stream:
        for p, g in zip(params, gradients, strict=True):
            p.grad = torch.tensor(g)
        opt.step()
        reference.step(gradients)
        meter.observe(math.sqrt(reference.m_square), reference.warmth, reference.spread)
        found = opt.certificate
        assert found.theorem == pytest.approx(meter.certificate, rel=1e-10)
        assert found.bound == pytest.approx(meter.certificate.bound, rel=1e-10)
        assert found.gradient == pytest.approx(math.sqrt(reference.m_square) / reference.warmth, rel=1e-10)
        assert found.distance == pytest.approx(math.sqrt(reference.spread), rel=1e-10)
        slack = 0.7 * math.sqrt(0.1 * (2 - reference.warmth) / (1.9 * reference.warmth))
        assert found.noise == pytest.approx(slack, rel=1e-10)
        assert not found.estimated


def test_the_noise_is_estimated_where_it_is_not_given():
    """Gradients of one vector plus independent noise: the mean estimate is the true sigma."""
    rng, found = np.random.default_rng(3), []
    for _ in range(300):
        p = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
        opt = ClippedAdam([p], betas=(0.8, 0.999))
        for _ in range(12):
            p.grad = torch.tensor(2.0 + 0.5 * rng.normal(size=4))  # sigma^2 = 4 x 0.25
            opt.step()
        certificate = opt.certificate
        assert certificate.estimated
        group = opt.param_groups[0]
        found.append((certificate.noise / core.noise_slack(1.0, group["warmth"], 1.0 - 0.8)) ** 2)
    assert np.mean(found) == pytest.approx(1.0, abs=4 * np.std(found) / math.sqrt(len(found)))


def test_the_certificate_reads_like_what_it_is():
    p = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    opt = ClippedAdam([p], average_horizon=None)
    assert str(opt.certificate) == "no round yet"
    with pytest.raises(ConditionError, match="certificate: there is no bound before the first round"):
        _ = opt.certificate.bound
    for sign in (1.0, 1.0, -1.0):
        p.grad = sign * torch.ones(2, dtype=torch.float64)
        opt.step()
    assert re.fullmatch(
        r"mean gradient [\d.e-]+ over points at rms distance [\d.e-]+ from the averaged weights; "
        r"noise about [\d.]+ \(estimated\)",
        str(opt.certificate),
    )
    with pytest.raises(ConditionError, match="certificate: the bound needs c and noise, which the optimizer was not"):
        _ = opt.certificate.bound
    for group in opt.param_groups:
        group["c"], group["noise"] = 2.0, 0.5
    assert str(opt.certificate).endswith("for noise)")
    assert "<=" in str(opt.certificate)
    for group in opt.param_groups:
        group["average_horizon"] = "growing"
    assert "over the last points; averaged ones are at rms distance" in str(opt.certificate)
    assert opt.certificate.theorem is None  # the average has other weights than m
    with pytest.raises(ConditionError, match=r"with the horizon of the momentum; pass average_horizon=None"):
        _ = opt.certificate.bound  # c and noise were given: the horizon alone is at fault
    for group in opt.param_groups:
        group["average_horizon"], group["c"] = None, None
    with pytest.raises(ConditionError, match="the bound needs c, which the optimizer was not given"):
        _ = opt.certificate.bound


@pytest.mark.parametrize(("make", "theorem"), [(ClippedAdam, "clipped/nu"), (ClipFreeAdam, "clip-free/margin")])
def test_from_tuning_walks_the_run_of_algorithm_2(make, theorem):
    """The same numbers, the same random scaling, the same certificate as optim's own loop."""
    tuning = optim.tune(PROBLEM, theorem)
    x0 = np.array([0.7, -0.4, 1.1])

    def gradient(x):
        return np.sign(x) * np.minimum(np.abs(x), 0.5)

    seen = []

    def recorded(x, *_):
        seen.append(np.array(x))
        return gradient(x)

    run = optim.o2nc(recorded, x0, tuning, 200, 9)
    w = torch.nn.Parameter(torch.tensor(x0))
    opt = make.from_tuning([w], tuning, seed=9)
    for x in seen:
        np.testing.assert_allclose(w.detach().numpy(), x, rtol=1e-13)
        w.grad = torch.tensor(gradient(w.detach().numpy()))
        opt.step()
    np.testing.assert_allclose(opt.average_of(w).numpy(), run.average, rtol=1e-13)
    assert opt.certificate.theorem == pytest.approx(run.certificate, rel=1e-9)
    (theory,) = opt.theory
    for name in ("gamma", "gap1", "gap2", "nu", "mu"):
        assert getattr(theory, name) == pytest.approx(getattr(tuning, name), rel=1e-14)
    assert (theory.gap1, theory.gap2) == (tuning.gap1, tuning.gap2)  # exact where a float beta is not
    assert theory.ball == (pytest.approx(tuning.ball, rel=1e-14) if make is ClippedAdam else None)


def test_from_tuning_refuses_the_other_variant():
    w = torch.nn.Parameter(torch.zeros(2))
    with pytest.raises(InputError, match="ClippedAdam: this tuning is for clip-free Adam"):
        ClippedAdam.from_tuning([w], optim.tune(PROBLEM, "clip-free/nu"))
    with pytest.raises(InputError, match="ClipFreeAdam: this tuning is for clipped Adam"):
        ClipFreeAdam.from_tuning([w], optim.tune(PROBLEM, "clipped/nu"))
    with pytest.raises(InputError, match="the tuning has no clip_norm"):
        ClippedAdam.from_tuning([w], core.Tuning(gamma=1.0, gap1=0.1, gap2=0.1, nu=1.0))


def test_the_certificate_says_when_it_cannot_be():
    w = torch.nn.Parameter(torch.zeros(2))
    other = torch.nn.Parameter(torch.zeros(2))
    with pytest.raises(ConditionError, match="needs one beta1 for all groups"):
        _ = ClippedAdam([{"params": [w]}, {"params": [other], "betas": (0.5, 0.999)}]).certificate
    with pytest.raises(ConditionError, match="average=False keeps none"):
        _ = ClippedAdam([w], average=False).certificate


def test_diagnostics_count():
    w = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
    opt = ClippedAdam([w], norm="all", clip=1.0, bias_correction=False)
    for k in range(10):
        w.grad = torch.full((4,), 10.0 ** (-k), dtype=torch.float64)
        opt.step()
    found = opt.diagnostics
    assert (found.rounds, found.skipped, found.largest_gradient) == (10, 0, pytest.approx(2.0))
    assert found.gradient == pytest.approx(2e-9)
    assert 0.0 < found.clip_rate <= 1.0
    assert found.momentum == pytest.approx(float(opt.state[w]["m"].norm()), rel=1e-12)
    assert ClippedAdam([w]).diagnostics.clip_rate is None


def test_a_writer_gets_the_numbers_every_so_many_steps():
    class Writer:
        def __init__(self):
            self.rows = []

        def add_scalar(self, tag, scalar_value, global_step):
            self.rows.append((tag, scalar_value, global_step))

    w = torch.nn.Parameter(torch.ones(3))
    opt, writer = ClippedAdam([w]), Writer()
    handle = opt.log_to(writer, every=2, prefix="o/")
    for _ in range(5):
        w.grad = torch.ones(3)
        opt.step()
    assert sorted({step for _, _, step in writer.rows}) == [2, 4]
    rows = {tag: value for tag, value, step in writer.rows if step == 4}
    assert rows["o/gradient"] == pytest.approx(math.sqrt(3))
    assert {"o/mean_gradient", "o/distance", "o/noise", "o/spread", "o/momentum", "o/skipped"} <= rows.keys()
    handle.remove()
    opt.step()
    assert max(step for _, _, step in writer.rows) == 4
    with pytest.raises(InputError, match="every must be >= 1, got 0"):
        opt.log_to(writer, every=0)
    with pytest.raises(InputError, match=r"log_to needs a writer with add_scalar\(tag, value, step\), got a object"):
        opt.log_to(object())
