"""What the compiled step saves, it saves without a difference: passes that are left out, addresses that are kept."""

import copy
import functools

import numpy as np
import pytest

from undrift import kernels
from undrift.torch import ClipFreeAdam, ClippedAdam, fused

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def params_of(seed=0):
    rng = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=rng)) for shape in [(40, 30), (7,), (3, 4)]]


def noise(params, seed, scale=1.0):
    rng = torch.Generator().manual_seed(seed)
    for p in params:
        p.grad = scale * torch.randn(p.shape, generator=rng)


def scalars(opt):
    return [{k: v for k, v in group.items() if k not in ("params", "nonfinite", "fused")} for group in opt.param_groups]


@pytest.fixture
def looks(monkeypatch):
    """The `with_m` of every first pass."""
    seen, real = [], kernels.adam_measure

    def spy(*arguments):
        seen.append(arguments[7])
        real(*arguments)

    monkeypatch.setattr(kernels, "adam_measure", spy)
    return seen


@pytest.mark.parametrize("make", [ClippedAdam, ClipFreeAdam])
def test_trusting_the_gradients_changes_no_number(make, looks):
    one, two = params_of(), params_of()
    checked, trusting = make(one), make(two, nonfinite="ignore")
    for k in range(20):
        noise(one, k)
        checked.step()
        assert len(looks) == k + 1
        noise(two, k)
        trusting.step()
        assert len(looks) == k + 1  # one pass only
    for p, q in zip(one, two, strict=True):
        assert torch.equal(p, q)
        for name in ("m", "v", "average"):
            assert torch.equal(checked.state[p][name], trusting.state[q][name])
    for a, b in zip(scalars(checked), scalars(trusting), strict=True):
        assert a.pop("g_square") == pytest.approx(b.pop("g_square"), rel=1e-6)  # summed in another order
        assert a.pop("g_largest") == pytest.approx(b.pop("g_largest"), rel=1e-6)
        assert a == b


@pytest.mark.parametrize("path", [{"foreach": True}, {"foreach": False}, {}], ids=["foreach", "loop", "kernel"])
@pytest.mark.parametrize("norm", ["all", "tensor", "coord"])
def test_trusting_the_gradients_is_at_ones_own_risk(norm, path):
    params = params_of()
    opt = ClippedAdam(params, norm=norm, nonfinite="ignore", **path)
    noise(params, 1)
    opt.step()
    square = sum(float(p.grad.double().square().sum()) for p in params)
    assert opt.param_groups[0]["g_square"] == pytest.approx(square, rel=1e-6)
    params[1].grad[2] = float("nan")
    opt.step()
    assert params[1][2].isnan()
    assert opt.param_groups[0]["skipped"] == 0


def test_an_idle_clip_is_not_measured_and_a_burst_is(looks):
    """The reference measures always: it is built anew for every step, so it knows nothing of the last one."""
    one, two = params_of(), params_of()
    opt = ClippedAdam(one, norm="all", betas=(0.9, 0.995))
    state, clipped = None, []
    for k in range(130):
        scale = {60: 50.0, 61: 50.0, 100: 500.0}.get(k, 1.0)
        noise(one, k, scale)
        del looks[:]
        opt.step()
        mine = list(looks)
        noise(two, k, scale)
        fresh = ClippedAdam(two, norm="all", betas=(0.9, 0.995))
        if state is not None:
            fresh.load_state_dict(state)
        before = fresh.param_groups[0]["clipped"]
        fresh.step()
        clipped.append(fresh.param_groups[0]["clipped"] - before)
        state = copy.deepcopy(fresh.state_dict())
        assert scalars(opt) == scalars(fresh)
        for p, q in zip(one, two, strict=True):
            assert torch.equal(p, q)
        if k in (60, 100):
            assert mine == [False, True]
    assert mine == [False]
    assert sum(clipped[:30]) > 3
    assert clipped[60] == clipped[100] == 1.0
    assert sum(clipped[115:]) == 0


@pytest.mark.parametrize("quick", [True, False])
def test_tensors_that_move_between_steps_are_found(quick, monkeypatch):
    monkeypatch.setattr(fused, "QUICK", quick and fused.QUICK)
    one, two = params_of(), params_of()
    kept, plain = ClippedAdam(one, fused=True), ClippedAdam(two, foreach=False, fused=False)

    def both(change):
        for opt, params in ((kept, one), (plain, two)):
            change(opt, params)

    def elsewhere(opt, params):
        params[0].data = params[0].data.clone()
        opt.state[params[1]]["m"].data = opt.state[params[1]]["m"].data.clone()

    def across(opt, params):
        params[0].grad = params[0].grad.t().contiguous().t()

    def strided(opt, params):
        params[2].data = params[2].data.t().contiguous().t()

    def fewer(opt, params):
        params[1].grad = None

    for k, change in enumerate([None, None, elsewhere, across, None, fewer, None, strided, None]):
        noise(one, k)
        noise(two, k)
        if change is not None:
            both(change)
        kept.step()
        plain.step()
        for p, q in zip(one, two, strict=True):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(kept.average_of(p), plain.average_of(q), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [ClippedAdam, ClipFreeAdam])
def test_a_trusting_step_reads_nothing_from_the_device(make):
    """Tensors on the meta device have no numbers: whoever read one would fail."""
    params = [torch.nn.Parameter(torch.empty(3, 4, device="meta")) for _ in range(3)]
    opt = make([{"params": params[:1]}, {"params": params[1:], "lr": 0.1}], nonfinite="ignore", random_scaling="exp")
    for _ in range(3):
        for p in params:
            p.grad = torch.empty_like(p)
        opt.step()
    assert opt.param_groups[0]["t"] == 3
    for name in ("m_square", "spread", "g_square", "g_largest", "gradient_sum", "spread_sum"):
        assert opt.param_groups[0][name].is_meta
    for read in (lambda: opt.certificate, lambda: opt.diagnostics, opt.state_dict):
        with pytest.raises(RuntimeError, match="meta"):
            read()


def test_addresses_are_those_of_the_tensors():
    if not kernels.can_find_tensors(torch.Tensor):
        pytest.skip("this torch does not offer addresses in C")
    assert not kernels.can_find_tensors(np.ndarray)
    base = torch.randn(4, 6)
    tensors = [base, base[1:], base[2], torch.nn.Parameter(base.clone()), torch.empty(0), torch.ones(3, 1).t()]
    size = np.array([t.numel() for t in tensors])
    out = np.zeros(len(tensors), dtype=np.uint64)
    find = functools.partial(kernels.find_tensors, torch.Tensor)
    assert find(tensors, 2, 32, size, out) == 1
    assert out.tolist() == [t.data_ptr() for t in tensors]
    assert find(tensors, 2, 32, size, out) == 2
    for bad in (base.t(), base[:, 1:], base.double(), base.bfloat16(), base.to("meta"), base.to_sparse(), None, 3.0):
        assert find([bad], 2, 32, np.array([24]), out[:1].copy()) == 0
    assert find([base], 2, 32, np.array([23]), out[:1]) == 0
    assert find([base, base], 2, 32, size[:1], out[:1]) == 0
    assert find([base.double()], 2, 64, size[:1], out[:1].copy()) == 1
    assert find([base.bfloat16()], 4, 16, size[:1], out[:1].copy()) == 1


def test_dictionaries_hold_objects_or_do_not():
    one, two = torch.ones(1), torch.ones(1)
    assert kernels.all_hold([{"m": one}, {"m": two}], "m", [one, two])
    assert kernels.all_hold([], "m", [])
    for dictionaries in ([{"m": one}, {"m": one}], [{"m": one}, {}], [{"m": one}], [{"m": one}, 3]):
        assert not kernels.all_hold(dictionaries, "m", [one, two])


@pytest.mark.parametrize("norm", ["all", "coord"])
def test_bits_do_not_depend_on_torchs_threads(norm):
    """With torch loaded the kernel works on torch's own threads."""
    found = []
    for threads in (1, 2, 3):
        p = torch.nn.Parameter(torch.linspace(-1.0, 1.0, 300_001))
        opt = ClippedAdam([p], norm=norm)
        torch.set_num_threads(threads)
        try:
            for k in range(3):
                noise([p], k)
                opt.step()
        finally:
            torch.set_num_threads(1)
        found.append((p.detach(), opt.average_of(p), scalars(opt)))
    for p, average, numbers in found[1:]:
        assert torch.equal(p, found[0][0])
        assert torch.equal(average, found[0][1])
        assert numbers == found[0][2]
