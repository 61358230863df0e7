"""What the step saves, it saves without a difference; on an accelerator it is few operations and reads nothing."""

import weakref

import pytest

from undrift import kernels
from undrift.torch import ClipFreeAdam, ClippedAdam

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

import torch._dynamo.testing  # noqa: E402  # needs torch
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402  # needs torch

from undrift.torch import foreach, optimizer  # noqa: E402  # needs torch
from undrift.torch.scalars import SCALARS  # noqa: E402  # needs torch


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
        assert a.pop("g_mean") == pytest.approx(b.pop("g_mean"), rel=1e-6)
        assert a.pop("g_square") == pytest.approx(b.pop("g_square"), rel=1e-6)  # summed in another order
        assert a.pop("g_largest") == pytest.approx(b.pop("g_largest"), rel=1e-6)
        assert a == b


def new_state(state, p):
    state["m"] = state["m"] * 2


def moved_state(state, p):
    state["v"].data = state["v"] * 4


def transposed_state(state, p):
    if p.ndim == 2:
        state["average"] = state["average"].t().contiguous().t()  # the same numbers, no longer in the kernel's order


def wider_state(state, p):
    state["m"] = state["m"].double()


def moved_parameter(state, p):
    p.data = p.data.clone() + 1


def transposed_parameter(state, p):
    if p.ndim == 2:
        p.data = p.data.t().contiguous().t()


@pytest.mark.parametrize(
    "change", [new_state, moved_state, transposed_state, wider_state, moved_parameter, transposed_parameter]
)
def test_tensors_that_are_replaced_between_steps_are_the_ones_that_count(change):
    """The kernel does not ask state tensors again what they are, unless they are others or elsewhere."""
    one, two = params_of(), params_of()
    opts = ClippedAdam(one, lr=0.1), ClippedAdam(two, lr=0.1, foreach=True)
    for k in range(6):
        for params, opt in zip((one, two), opts, strict=True):
            noise(params, k)
            if k == 3:
                for p in params:
                    change(opt.state[p], p)
            opt.step()
    for p, q in zip(one, two, strict=True):
        torch.testing.assert_close(p, q)
        for name in ("m", "v", "average"):
            torch.testing.assert_close(opts[0].state[p][name], opts[1].state[q][name])


def test_gradients_are_not_kept_after_a_step():
    params = params_of()
    opt = ClippedAdam(params)
    noise(params, 0)
    gone = [weakref.ref(p.grad) for p in params]
    opt.step()
    opt.zero_grad()
    assert all(ref() is None for ref in gone)


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


def test_tensors_that_move_between_steps_are_found():
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


class Counter(TorchDispatchMode):
    """Counts operations that reach a device; views and allocations do not, copies to it would."""

    FREE = ("view", "detach", "t", "select", "slice", "alias", "unsqueeze", "empty_like")

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name not in self.FREE and not name.startswith("_record_function"):
            self.seen.append(name)
        if name in ("lift_fresh", "scalar_tensor", "_local_scalar_dense"):
            raise AssertionError(f"{name} goes between the host and the device")
        devices = {
            t.device.type for t in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)
        }
        assert devices <= {"meta"}, f"{name} has a tensor of the host"
        return func(*args, **(kwargs or {}))


def on_meta(make, count=100, **options):
    """Return the operations of a later step of a model on the meta device, where whoever read a number would fail."""
    params = [torch.nn.Parameter(torch.empty(3, 4, device="meta")) for _ in range(count)]
    opt = make(params, **options)
    for _ in range(4):
        for p in params:
            p.grad = torch.empty_like(p)
        with Counter() as counter:
            opt.step()
    assert opt.param_groups[0]["t"] == 4
    return counter.seen, opt


@pytest.mark.parametrize("make", [ClippedAdam, ClipFreeAdam])
@pytest.mark.parametrize("options", [{}, {"random_scaling": "exp"}, {"average_horizon": None}])
def test_a_step_on_an_accelerator_is_few_operations_and_no_copies(make, options):
    seen, opt = on_meta(make, nonfinite="ignore", **options)
    assert len(seen) <= 15, seen
    assert sum(name.startswith("_foreach") for name in seen) <= 12
    for read in (lambda: opt.certificate, lambda: opt.diagnostics, opt.state_dict):
        with pytest.raises(NotImplementedError, match="meta"):
            read()


def test_one_norm_over_all_parameters_is_worked_out_on_the_device():
    seen, _ = on_meta(ClippedAdam, norm="all", nonfinite="ignore")
    assert sum(name.startswith("_foreach") for name in seen) <= 8, seen
    assert len(seen) <= 40, seen  # the others are about single numbers


def test_more_tensors_are_not_more_operations():
    few, _ = on_meta(ClippedAdam, count=3, nonfinite="ignore")
    many, _ = on_meta(ClippedAdam, count=300, nonfinite="ignore")
    assert few == many


def test_what_waits_on_an_accelerator_is_read_in_the_end(monkeypatch):
    """The sums of a round are tensors there; held back on the CPU, they must add up to the same record."""
    monkeypatch.setattr(foreach.ForeachPart, "_host", lambda self, sums: sums)
    monkeypatch.setattr(optimizer, "_PENDING", 7)
    for norm in ("all", "coord"):
        one, two = params_of(), params_of()
        waiting = ClippedAdam(one, norm=norm, foreach=True, nonfinite="ignore")
        plain = ClippedAdam(two, norm=norm, nonfinite="ignore")
        for k in range(10):
            noise(one, k)
            noise(two, k)
            waiting.step()
            plain.step()
        assert len(waiting._pending) == 3
        assert waiting.diagnostics[:6] == pytest.approx(plain.diagnostics[:6], rel=1e-5)
        assert waiting._pending == []
        for a, b in zip(scalars(waiting), scalars(plain), strict=True):
            assert {name: a[name] for name in SCALARS} == pytest.approx({name: b[name] for name in SCALARS}, rel=1e-5)


@pytest.mark.parametrize("make", [ClippedAdam, ClipFreeAdam])
@pytest.mark.parametrize("norm", ["all", "coord"])
def test_a_compiled_step_is_one_graph_and_the_step(make, norm):
    """Without a break, and made once more, when there is a state; scalars that change are inputs of it.

    Gradients stay where they are, as with zero_grad(set_to_none=False): torch compiles anew for new tensors.
    """
    one, two = params_of(), params_of()
    opt = make(one, norm=norm, nonfinite="ignore")
    plain = make(two, norm=norm, nonfinite="ignore")
    torch._dynamo.reset()
    frames = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(opt.step, backend=frames, fullgraph=True)
    made = []
    for p in one:
        p.grad = torch.empty_like(p)
    for k in range(6):
        noise(two, k)
        for p, q in zip(one, two, strict=True):
            p.grad.copy_(q.grad)
        compiled()
        plain.step()
        made.append(frames.frame_count)
    for p, q in zip(one, two, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(opt.average_of(p), plain.average_of(q), rtol=1e-5, atol=1e-6)
    assert opt.diagnostics[:6] == pytest.approx(plain.diagnostics[:6], rel=1e-5)
    assert made == [1, 2, 2, 2, 2, 2]


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
