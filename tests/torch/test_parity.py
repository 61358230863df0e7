"""Every torch path walks the trajectory of optim.core, step by step."""

import math

import numpy as np
import pytest

from tests.optim.stepper import Stepper, problem
from undrift.torch import ClipFreeAdam, ClippedAdam

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

PATHS = {"loop": {"foreach": False, "fused": False}, "foreach": {"foreach": True}, "kernel": {"fused": True}}
CASES = [
    (ClippedAdam, {"clip": 0.3, "eps": 1e-8, "bias_correction": False, "average_horizon": None}),
    (ClippedAdam, {"clip": 0.02, "eps": 1e-8, "bias_correction": "v", "average_horizon": 3.5}),
    (ClippedAdam, {"clip": 1e9, "eps": 1e-3, "bias_correction": True}),  # never active
    (ClipFreeAdam, {"mu": 0.0, "eps": 0.0}),
    (ClipFreeAdam, {"mu": 7.0, "eps": 1e-8, "average_horizon": None}),
]


def params_of(start, dtype=torch.float64):
    return [torch.nn.Parameter(torch.tensor(np.array(b), dtype=dtype)) for b in start]


def feed(params, gradients):
    for p, g in zip(params, gradients, strict=True):
        p.grad = torch.tensor(np.array(g), dtype=p.dtype)


def close(tensor, array, scale):
    np.testing.assert_allclose(tensor.detach().numpy(), array, rtol=1e-12, atol=1e-12 * scale)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("norm", ["all", "tensor", "coord"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].__name__}-{case[1]}")
@pytest.mark.parametrize("seed", [None, 11])
@pytest.mark.filterwarnings("ignore:ClipFreeAdam. norm='all' with random_scaling")
def test_paths_agree_with_the_core(path, norm, case, seed):
    make, options = case
    start, stream = problem(seed=3, steps=40)
    reference = Stepper(start, lr=0.01, betas=(0.9, 0.99), norm=norm, seed=seed, **options)
    params = params_of(start)
    scaling = {} if seed is None else {"random_scaling": "exp", "seed": seed}
    opt = make(params, lr=0.01, betas=(0.9, 0.99), norm=norm, **options, **scaling, **PATHS[path])
    for gradients in stream:
        feed(params, gradients)
        opt.step()
        reference.step(gradients)
        group = opt.param_groups[0]
        for i, p in enumerate(params):
            close(p, reference.x[i], 10.0)
            close(opt.average_of(p), reference.average[i], 10.0)
            close(opt.state[p]["m"], reference.m[i], np.abs(reference.m[i]).max())
            if norm == "coord":
                close(opt.state[p]["v"], reference.v[i], np.abs(reference.v[i]).max())
            elif norm == "tensor":
                assert opt.state[p]["v"] == pytest.approx(reference.v[i], rel=1e-12)
            else:
                assert group["v"] == pytest.approx(reference.v[i], rel=1e-12)
        assert group["t"] == reference.t
        assert group["warmth"] == reference.warmth
        assert group["spread"] == pytest.approx(reference.spread, rel=1e-10, abs=1e-20)
        assert group["m_square"] == pytest.approx(reference.m_square, rel=1e-12)
    if options.get("clip", 9.0) < 1.0:
        assert reference.clipped > 20  # the clip was really active
    elif "clip" in options:
        assert reference.clipped == 0


@pytest.mark.parametrize("path", PATHS)
def test_bias_corrected_clip_free_is_torch_adam(path):
    start, stream = problem(seed=5, steps=60)
    ours, theirs = params_of(start), params_of(start)
    options = {"lr": 0.02, "betas": (0.8, 0.97), "weight_decay": 0.1, "maximize": True}
    opt = ClipFreeAdam(ours, bias_correction=True, eps=1e-6, decoupled_weight_decay=False, **options, **PATHS[path])
    adam = torch.optim.Adam(theirs, eps=1e-6, **options)
    for gradients in stream:
        feed(ours, gradients)
        feed(theirs, gradients)
        opt.step()
        adam.step()
    for p, q in zip(ours, theirs, strict=True):
        close(p, q.detach().numpy(), 10.0)


@pytest.mark.parametrize("path", PATHS)
def test_decoupled_decay_is_adamw(path):
    start, stream = problem(seed=6, steps=30)
    ours, theirs = params_of(start), params_of(start)
    opt = ClipFreeAdam(
        ours, lr=0.02, bias_correction=True, weight_decay=0.3, decoupled_weight_decay=True, **PATHS[path]
    )
    adamw = torch.optim.AdamW(theirs, lr=0.02, weight_decay=0.3)
    for gradients in stream:
        feed(ours, gradients)
        feed(theirs, gradients)
        opt.step()
        adamw.step()
    for p, q in zip(ours, theirs, strict=True):
        close(p, q.detach().numpy(), 10.0)


@pytest.mark.parametrize("path", PATHS)
def test_one_norm_covers_all_groups(path):
    start, stream = problem(seed=7, steps=30)
    one, two = params_of(start), params_of(start)
    options = {"lr": 0.01, "norm": "all", "clip": 0.2, **PATHS[path]}
    whole = ClippedAdam(one, **options)
    split = ClippedAdam([{"params": two[:2]}, {"params": two[2:]}], **options)
    for gradients in stream:
        feed(one, gradients)
        feed(two, gradients)
        whole.step()
        split.step()
    for p, q in zip(one, two, strict=True):
        close(p, q.detach().numpy(), 10.0)
    assert sum(g["spread"] for g in split.param_groups) == pytest.approx(whole.param_groups[0]["spread"], rel=1e-12)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("norm", ["all", "tensor", "coord"])
def test_half_precision_parameters_keep_single_precision_state(path, norm):
    start, stream = problem(seed=8, steps=30)
    halves = params_of(start, torch.bfloat16)
    plain = params_of(start, torch.bfloat16)
    opt = ClippedAdam(halves, lr=0.01, norm=norm, **PATHS[path])
    loop = ClippedAdam(plain, lr=0.01, norm=norm, foreach=False, fused=False)
    for gradients in stream:
        feed(halves, gradients)
        feed(plain, gradients)
        opt.step()
        loop.step()
    for p, q in zip(halves, plain, strict=True):
        assert p.dtype == torch.bfloat16
        for name in ("m", "average"):
            assert opt.state[p][name].dtype == torch.float32
        torch.testing.assert_close(opt.state[p]["m"], loop.state[q]["m"], rtol=1e-5, atol=1e-5)
        # x may round to a neighbour: 2^-8 relative, once or twice
        torch.testing.assert_close(opt.average_of(p), loop.average_of(q), rtol=1e-2, atol=1e-3)
        torch.testing.assert_close(p, q, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("norm", ["all", "tensor", "coord"])
def test_complex_is_pairs_of_reals(path, norm):
    rng = np.random.default_rng(9)
    z = rng.normal(size=(3, 2)) + 1j * rng.normal(size=(3, 2))
    pairs = torch.nn.Parameter(torch.view_as_real(torch.tensor(z)).clone())
    complex_ = torch.nn.Parameter(torch.tensor(z))
    one = ClippedAdam([pairs], lr=0.01, norm=norm, **PATHS[path])
    two = ClippedAdam([complex_], lr=0.01, norm=norm, **PATHS[path])
    for _ in range(20):
        g = torch.tensor(rng.normal(size=(3, 2)) + 1j * rng.normal(size=(3, 2)))
        pairs.grad, complex_.grad = torch.view_as_real(g).clone(), g
        one.step()
        two.step()
    torch.testing.assert_close(torch.view_as_real(complex_.detach()), pairs.detach(), rtol=1e-14, atol=1e-14)
    assert two.state[complex_]["average"].is_complex()


def test_lr_is_the_change_per_coordinate_in_every_scope():
    """A constant gradient with the clip active moves every coordinate by lr on root mean square."""
    for norm in ("all", "tensor", "coord"):
        p = torch.nn.Parameter(torch.zeros(50, dtype=torch.float64))
        opt = ClippedAdam([p], lr=0.25, norm=norm, bias_correction=False)
        for _ in range(3):
            before = p.detach().clone()
            p.grad = torch.ones_like(p)
            opt.step()
        assert math.sqrt(((p.detach() - before) ** 2).mean()) == pytest.approx(0.25, rel=1e-12)
