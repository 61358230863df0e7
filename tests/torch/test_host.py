"""A good citizen of torch: schedulers, scalers, hooks, closures, tensors as learning rates, and clear refusals."""

import copy
import warnings

import pytest

from undrift.errors import InputError, UndriftWarning
from undrift.torch import ClipFreeAdam, ClippedAdam

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def weights(n=3, dtype=torch.float64):
    return torch.nn.Parameter(torch.linspace(1.0, 2.0, n, dtype=dtype))


def snapshot(opt):
    return str(opt.state_dict())


def test_the_closure_is_called_with_gradients_on_and_its_loss_returned():
    w = weights()
    opt = ClippedAdam([w])

    def closure():
        opt.zero_grad()
        loss = (w**2).sum()
        loss.backward()
        return loss

    expected = float((w.detach() ** 2).sum())
    assert opt.step(closure).item() == expected
    assert opt.param_groups[0]["t"] == 1


def test_schedulers_drive_lr_and_momentum():
    w = weights()
    opt = ClippedAdam([w], lr=0.1, norm="all", bias_correction=False)
    plan = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.2, total_steps=20, cycle_momentum=True)
    for _ in range(15):
        w.grad = torch.ones_like(w)
        before = w.detach().clone()
        opt.step()
        moved = (w.detach() - before).abs()
        torch.testing.assert_close(moved, torch.full_like(moved, opt.param_groups[0]["lr"]))  # clipped: exactly lr
        plan.step()
    assert opt.param_groups[0]["betas"][0] != 0.9  # the scheduler moved it, and the step used it
    warm = torch.optim.lr_scheduler.LambdaLR(ClippedAdam([w]), lambda k: min(1.0, k / 5))  # starts at lr = 0
    assert warm.get_last_lr() == [0.0]
    before = w.detach().clone()
    warm.optimizer.step()
    assert torch.equal(w.detach(), before)


def test_a_tensor_is_a_learning_rate():
    one, two = weights(), weights()
    tensor = ClippedAdam([one], lr=torch.tensor(0.05, dtype=torch.float64))
    number = ClippedAdam([two], lr=0.05)
    for _ in range(5):
        one.grad, two.grad = one.detach().clone(), two.detach().clone()
        tensor.step()
        number.step()
        tensor.param_groups[0]["lr"] *= 0.5
        number.param_groups[0]["lr"] *= 0.5
    assert torch.equal(one, two)


def test_a_step_the_scaler_skips_advances_nothing():
    w = weights(dtype=torch.float32)
    opt = ClippedAdam([w], random_scaling="exp")
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for bad in (False, True, False):
        opt.zero_grad()
        loss = (w**2).sum() * (float("inf") if bad else 1.0)
        scaler.scale(loss).backward()
        before, state = w.detach().clone(), snapshot(opt)
        scaler.step(opt)
        scaler.update()
        assert torch.equal(w.detach(), before) is bad
        assert (snapshot(opt) == state) is bad
    assert opt.param_groups[0]["t"] == 2


def test_hooks_run_as_everywhere_in_torch():
    w = weights()
    opt, seen = ClippedAdam([w]), []
    opt.register_step_pre_hook(lambda *_: seen.append("pre"))
    opt.register_step_post_hook(lambda *_: seen.append("post"))
    opt.register_state_dict_post_hook(lambda o, d: {**d, "extra": 1})
    opt.register_load_state_dict_pre_hook(lambda o, d: {k: v for k, v in d.items() if k != "extra"})
    opt.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    w.grad = torch.ones_like(w)
    opt.step()
    saved = opt.state_dict()
    assert saved["extra"] == 1
    opt.load_state_dict(saved)
    assert seen == ["pre", "post", "loaded"]


def test_parameters_without_gradients_are_left_alone():
    w, idle = weights(), weights()
    opt = ClippedAdam([w, idle], norm="all")
    opt.step()  # nobody has a gradient: nothing happens
    assert opt.param_groups[0]["t"] == 0
    w.grad = torch.ones_like(w)
    opt.step()
    assert torch.equal(idle.detach(), weights().detach())
    assert idle not in opt.state
    idle.grad, w.grad = torch.ones_like(idle), None
    opt.step()
    assert opt.param_groups[0]["t"] == 2
    assert not torch.equal(idle.detach(), weights().detach())
    with opt.averaged():
        pass


def test_replaced_state_and_moved_parameters_are_noticed():
    """Offloading tools swap tensors between steps; the slots kept from the last step must not be used then."""
    for norm in ("all", "coord"):
        one, two = weights(), weights()
        opt, plain = ClippedAdam([one], norm=norm), ClippedAdam([two], norm=norm)
        for k in range(6):
            one.grad, two.grad = one.detach().clone(), two.detach().clone()
            opt.step()
            plain.step()
            if k == 1:
                opt.state[one]["m"] = opt.state[one]["m"].clone()
            elif k == 2:
                opt.state[one] = copy.deepcopy(opt.state[one])
            elif k == 3:
                one.data = one.data.clone()
            elif k == 4:
                opt.state[one]["average"].data = opt.state[one]["average"].data.clone()
        assert torch.equal(one, two)
        assert torch.equal(opt.average_of(one), plain.average_of(two))


@pytest.mark.parametrize("norm", ["all", "tensor", "coord"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_model_may_change_its_type_between_steps(norm, dtype):
    """The state keeps the type it began with, which the kernel may not have for the new one."""
    sides = []
    for path in ({}, {"foreach": False}):
        w = weights(5000, torch.float32)
        opt = ClippedAdam([w], norm=norm, **path)
        for k in range(8):
            if k == 3:
                w.grad, w.data = None, w.data.to(dtype)
            w.grad = torch.cos(w.detach() + k)
            opt.step()
        assert opt.state[w]["m"].dtype is torch.float32
        sides.append((w.detach(), opt.average_of(w)))
    eps = torch.finfo(torch.float32 if dtype is torch.float64 else dtype).eps
    for one, two in zip(*sides, strict=True):
        torch.testing.assert_close(one, two, rtol=4 * eps, atol=4 * eps)


@pytest.mark.parametrize("path", [{}, {"foreach": True}, {"foreach": False}])
def test_a_parameter_that_outgrew_its_state_is_refused(path):
    w = weights()
    opt = ClippedAdam([w], **path)
    w.grad = torch.ones_like(w)
    opt.step()
    w.grad, w.data = None, torch.ones(5000, dtype=torch.float64)
    w.grad = torch.ones_like(w)
    with pytest.raises(RuntimeError, match="must match the size of tensor"):
        opt.step()
    assert bool((w == 1.0).all())


@pytest.mark.parametrize("path", [{}, {"foreach": True}, {"foreach": False}])
def test_gradients_whose_signs_torch_has_put_off_are_understood(path):
    """Behind complex numbers torch leaves a gradient as it is and notes that it counts negated, or conjugated."""
    w = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    z = torch.nn.Parameter(torch.ones(3, dtype=torch.complex128))
    opt = ClippedAdam([w, z], lr=0.1, betas=(0.0, 0.999), **path)
    for late in (False, True, True):  # the slots of the last step are kept for the third
        opt.zero_grad()
        loss = -(torch.complex(torch.ones_like(w), w).conj() ** 2).real.sum()
        if not late:
            loss = loss + (z.conj() * 1j).real.sum()
        loss.backward()
        assert w.grad.is_neg()
        assert late or z.grad.is_conj()
        opt.step()
    assert w.item() == pytest.approx(0.7, rel=0.05)
    torch.testing.assert_close(z.detach(), torch.full_like(z, 1 - 0.1j), rtol=1e-5, atol=1e-5)


def test_strided_and_channels_last_parameters_step_alike():
    torch.manual_seed(0)
    base = torch.randn(2, 3, 4, 5, dtype=torch.float64)
    plain = torch.nn.Parameter(base.clone())
    last = torch.nn.Parameter(base.clone().to(memory_format=torch.channels_last))
    strided = torch.nn.Parameter(base.clone().transpose(0, 3).contiguous().transpose(0, 3))
    for norm in ("all", "coord"):
        opts = [ClippedAdam([p], norm=norm) for p in (plain, last, strided)]
        for k in range(4):
            g = torch.randn(base.shape, generator=torch.Generator().manual_seed(k), dtype=torch.float64)
            for p, opt in zip((plain, last, strided), opts, strict=True):
                p.grad = g.clone()
                opt.step()
        torch.testing.assert_close(plain.detach(), last.detach(), rtol=1e-13, atol=1e-13)
        torch.testing.assert_close(plain.detach(), strided.detach(), rtol=1e-13, atol=1e-13)


def test_the_step_counts_as_a_change_of_the_parameter():
    w = weights()
    opt = ClippedAdam([w])
    loss = (w**2).sum()
    loss.backward(retain_graph=True)
    opt.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lr": -1.0}, "Invalid learning rate: -1.0"),
        ({"lr": float("nan")}, "Invalid learning rate: nan"),
        ({"lr": "fast"}, "Invalid learning rate: 'fast'; it must be a number"),
        ({"lr": torch.ones(2)}, "Tensor lr must be 1-element"),
        ({"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        ({"betas": (0.9, -0.1)}, "Invalid beta parameter at index 1: -0.1"),
        ({"betas": 0.9}, r"betas must be a pair \(beta1, beta2\), got 0.9"),
        ({"eps": -1e-8}, "Invalid epsilon value: -1e-08"),
        ({"weight_decay": -0.1}, "Invalid weight_decay value: -0.1"),
        ({"clip": 0.0}, r"clip must be in \(0, inf\), got 0.0"),
        ({"norm": "group"}, "norm must be one of all, tensor, coord, got 'group'"),
        ({"random_scaling": "uniform"}, "random_scaling must be one of exp, got 'uniform'"),
        ({"nonfinite": "drop"}, "nonfinite must be one of skip, raise, ignore, got 'drop'"),
        ({"average_horizon": 0.5}, r"average_horizon must be in \[1, inf\), got 0.5"),
        ({"average_horizon": "long"}, "average_horizon must be one of growing, got 'long'"),
        ({"bias_correction": "m"}, "bias_correction must be False, 'v' or True, got 'm'"),
        ({"seed": -1}, "seed must be an integer in"),
        ({"c": 0.0}, r"c must be in \(0, inf\), got 0.0"),
        ({"noise": -1.0}, r"noise must be in \[0, inf\), got -1.0"),
        ({"fused": True, "foreach": True}, "`fused` and `foreach` cannot be `True` together"),
        ({"capturable": True}, "capturable=True is not supported"),
        ({"differentiable": True}, "differentiable=True is not supported"),
        ({"process_group": object(), "norm": "tensor"}, "norm='tensor' has no meaning for flat shards"),
    ],
)
def test_bad_options_are_refused_in_the_words_of_torch(options, text):
    with pytest.raises(InputError, match=f"ClippedAdam: {text}"):
        ClippedAdam([weights()], **options)


def test_bad_groups_are_refused_and_change_nothing():
    with pytest.raises(InputError, match=r"ClipFreeAdam: mu must be in \[0, inf\), got -1.0"):
        ClipFreeAdam([weights()], mu=-1.0)
    opt = ClippedAdam([weights()])
    for group, text in [
        ({"norm": "all"}, "norm is one setting for all groups, here 'coord', got 'all'"),
        ({"lr": -1.0}, "Invalid learning rate: -1.0"),
        ({"seed": 4}, "seed is one setting for all groups"),
    ]:
        with pytest.raises(InputError, match=text):
            opt.add_param_group({"params": [weights()], **group})
    assert len(opt.param_groups) == 1


def test_rough_random_scaling_is_warned_of():
    options = {"norm": "all", "random_scaling": "exp"}
    with pytest.warns(UndriftWarning, match=r"ClipFreeAdam: .* mostly trained worse with lr >= 0.001; .* take"):
        ClipFreeAdam([weights()], lr=1e-3, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClipFreeAdam([weights()], **options)
        ClippedAdam([weights()], lr=1e-3, **options)
        ClipFreeAdam([weights()], lr=1e-3, norm="all")


def test_sparse_gradients_are_refused_before_anything_changes():
    dense, table = weights(), torch.nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1, 1])).sum().backward()
    dense.grad = torch.ones_like(dense)
    opt = ClippedAdam([dense, table.weight])
    before = dense.detach().clone()
    with pytest.raises(InputError, match="ClippedAdam does not support sparse gradients, please consider SparseAdam"):
        opt.step()
    assert torch.equal(dense.detach(), before)
    assert len(opt.state) == 0


class Hollow(torch.Tensor):
    """A tensor made of another one, as libraries of quantized or sparse weights have them: no memory of its own."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = torch.utils._pytree.tree_map_only(cls, lambda t: t.inner, args)
        out = func(*args, **(kwargs or {}))
        return torch.utils._pytree.tree_map_only(torch.Tensor, cls, out)


@pytest.mark.parametrize("norm", ["all", "tensor", "coord"])
@pytest.mark.parametrize("nonfinite", ["skip", "ignore"])
def test_tensors_without_memory_of_their_own_step_by_torchs_operations(norm, nonfinite):
    w, plain = torch.nn.Parameter(Hollow(torch.ones(3))), torch.nn.Parameter(torch.ones(3))
    opt, other = (ClippedAdam([p], norm=norm, nonfinite=nonfinite) for p in (w, plain))
    for k in range(4):
        g = torch.tensor([1.0, -2.0, 0.5]) + k
        w.grad, plain.grad = Hollow(g), g
        opt.step()
        other.step()
    torch.testing.assert_close(w.detach().inner, plain.detach())
    torch.testing.assert_close(opt.average_of(w).inner, other.average_of(plain))
    assert opt.certificate.gradient == pytest.approx(other.certificate.gradient)


def test_a_group_may_be_frozen_by_its_learning_rate():
    w, frozen = weights(), weights()
    opt = ClippedAdam([{"params": [w]}, {"params": [frozen], "lr": 0.0, "weight_decay": 0.1}])
    w.grad, frozen.grad = torch.ones_like(w), torch.ones_like(frozen)
    opt.step()
    assert torch.equal(frozen.detach(), weights().detach())
    assert not torch.equal(w.detach(), weights().detach())


def test_weight_decay_is_decoupled_unless_it_is_asked_for_in_the_gradient():
    w, x = weights(), weights()
    decoupled = ClippedAdam([w], lr=0.1, weight_decay=0.5)
    l2 = ClippedAdam([x], lr=0.1, weight_decay=0.5, decoupled_weight_decay=False)
    for p, opt in ((w, decoupled), (x, l2)):
        p.grad = torch.zeros_like(p)
        opt.step()
    torch.testing.assert_close(w.detach(), 0.95 * weights().detach())
    torch.testing.assert_close(x.detach(), weights().detach() - 0.01)  # one step of Adam, a tenth of it in round 1


def test_an_optimizer_says_what_it_is_in_a_line():
    w = weights()
    opt = ClippedAdam([{"params": [w]}, {"params": [weights()], "lr": 0.5}], lr=0.1, average_horizon=30)
    assert str(opt) == (
        "ClippedAdam(lr=0.1, betas=(0.9, 0.999), norm='coord', average_horizon=30, 1 tensors, 0 rounds; "
        "lr=0.5, betas=(0.9, 0.999), norm='coord', average_horizon=30, 1 tensors, 0 rounds)"
    )


def test_training_raises_no_warning():
    w = weights()
    opt = ClippedAdam([w], random_scaling="exp", norm="all")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            w.grad = torch.ones_like(w)
            opt.step()


def test_the_warning_of_a_skipped_step_points_at_the_line_that_stepped():
    w = weights()
    opt = ClippedAdam([w])
    w.grad = torch.full_like(w, torch.nan)
    with pytest.warns(UndriftWarning, match="skipped") as caught:
        opt.step()
    assert caught[0].filename == __file__
