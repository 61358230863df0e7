"""Checkpoints, copies, averages: what users of other optimizers trip over, each as a claim."""

import copy
import io
import pickle

import numpy as np
import pytest

from tests.optim.stepper import Stepper, problem
from undrift.errors import InputError, UndriftWarning
from undrift.torch import ClipFreeAdam, ClippedAdam

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

MODES = [
    (make, {"norm": norm, **extra})
    for make in (ClippedAdam, ClipFreeAdam)
    for norm in ("all", "tensor", "coord")
    for extra in ({}, {"random_scaling": "exp", "seed": 5, "average_horizon": 5.0, "weight_decay": 0.1})
]
NAMES = [f"{make.__name__}-{options['norm']}-{len(options)}" for make, options in MODES]


def model_of(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1)).to(dtype)


def train(model, opt, steps, start=0):
    for k in range(start, start + steps):
        rng = torch.Generator().manual_seed(1000 + k)
        z = torch.randn(8, 4, generator=rng).to(next(model.parameters()).dtype)
        opt.zero_grad()
        (model(z) - z[:, :1].abs()).square().mean().backward()
        opt.step()


def same(model, other):
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(p, q)


def same_state(opt, other):
    one, two = opt.state_dict(), other.state_dict()
    assert one["param_groups"] == two["param_groups"]
    assert one["state"].keys() == two["state"].keys()
    for index, state in one["state"].items():
        assert state.keys() == two["state"][index].keys()
        for name, value in state.items():
            found = two["state"][index][name]
            if isinstance(value, torch.Tensor):
                assert torch.equal(value, found)
                assert value.dtype == found.dtype
            else:
                assert value == found


@pytest.mark.parametrize(("make", "options"), MODES, ids=NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_resume_is_exact(make, options, dtype):
    straight, first = model_of(dtype=dtype), model_of(dtype=dtype)
    one, two = make(straight.parameters(), **options), make(first.parameters(), **options)
    train(straight, one, 12)
    train(first, two, 5)
    file = io.BytesIO()
    torch.save({"model": first.state_dict(), "opt": two.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again = model_of(seed=99, dtype=dtype)
    again.load_state_dict(saved["model"])
    three = make(again.parameters(), lr=0.5)  # everything comes from the file
    three.load_state_dict(saved["opt"])
    train(again, three, 7, start=5)
    same(straight, again)
    same_state(one, three)


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copies_go_on_alike_and_apart(copier):
    model = model_of()
    opt = ClippedAdam(model.parameters(), norm="all", random_scaling="exp")
    train(model, opt, 4)
    other, twin = copier((model, opt))
    train(model, opt, 4, start=4)
    train(other, twin, 4, start=4)
    same(model, other)
    same_state(opt, twin)
    with twin.averaged():
        pass


def test_the_average_is_in_place_inside_the_block_only():
    model = model_of(dtype=torch.float64)
    opt = ClippedAdam(model.parameters())
    train(model, opt, 10)
    before = copy.deepcopy(model)
    averages = [opt.average_of(p).clone() for p in model.parameters()]
    with opt.averaged():
        for p, average in zip(model.parameters(), averages, strict=True):
            assert torch.equal(p, average)
        with opt.averaged():  # nested: no harm
            pass
        assert torch.equal(next(model.parameters()), averages[0])
    same(model, before)
    assert not torch.equal(next(model.parameters()), averages[0])


def test_training_weights_come_back_after_an_exception():
    model = model_of()
    opt = ClippedAdam(model.parameters())
    train(model, opt, 3)
    before = copy.deepcopy(model)
    with pytest.raises(ZeroDivisionError), opt.averaged():
        1 / 0  # noqa: B018  # raises on purpose
    same(model, before)


def test_eval_and_train_are_idempotent_and_need_not_be_called():
    model, plain = model_of(), model_of()
    opt, other = ClippedAdam(model.parameters()), ClippedAdam(plain.parameters())
    opt.train()  # before anything
    train(model, opt, 3)
    opt.eval()
    opt.eval()
    opt.train()
    opt.train()
    train(model, opt, 3, start=3)
    train(plain, other, 6)
    same(model, plain)


def test_a_step_while_swapped_is_refused():
    model = model_of()
    opt = ClippedAdam(model.parameters())
    train(model, opt, 2)
    with (
        opt.averaged(),
        pytest.raises(InputError, match="ClippedAdam: step while the averaged weights are in place"),
    ):
        opt.step()
    assert opt.param_groups[0]["t"] == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("how", ["state_dict", "deepcopy", "pickle"])
def test_what_is_saved_while_swapped_goes_on_as_if_nothing_had_been(dtype, how):
    """Trainers put the averaged weights in place to evaluate, save, and put x back in the next step."""
    model, plain = model_of(dtype=dtype), model_of(dtype=dtype)
    opt, other = ClippedAdam(model.parameters()), ClippedAdam(plain.parameters())
    train(model, opt, 5)
    train(plain, other, 5)
    opt.eval()
    if how == "state_dict":
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        again = model_of(seed=9, dtype=dtype)
        again.load_state_dict(saved["model"])
        resumed = ClippedAdam(again.parameters())
        resumed.load_state_dict(saved["opt"])
    else:
        again, resumed = copy.deepcopy((model, opt)) if how == "deepcopy" else pickle.loads(pickle.dumps((model, opt)))
    with other.averaged():
        same(again, plain)  # what was saved is the averaged model
    for p, q in zip(again.parameters(), plain.parameters(), strict=True):
        assert torch.equal(resumed.average_of(p).to(dtype), other.average_of(q).to(dtype))
    with pytest.raises(InputError, match="step while the averaged weights are in place"):
        resumed.step()
    resumed.train()
    train(again, resumed, 4, start=5)
    train(plain, other, 4, start=5)
    same(again, plain)
    same_state(resumed, other)


def test_the_averages_need_no_second_model():
    """Values are exchanged in place: the tensor that held the average holds x meanwhile."""
    model = model_of()
    opt = ClippedAdam(model.parameters())
    train(model, opt, 3)
    tensors = {p: opt.state[p]["average"] for p in model.parameters()}
    opt.eval()
    for p, tensor in tensors.items():
        assert opt.state[p]["x"] is tensor
        assert opt.state[p].keys() == {"m", "v", "x"}
    opt.train()
    assert all(opt.state[p]["average"] is tensor for p, tensor in tensors.items())


def test_averaging_turned_on_at_resume_is_not_silently_off():
    model = model_of()
    lean = ClippedAdam(model.parameters(), average=False)
    train(model, lean, 3)
    opt = ClippedAdam(model.parameters())
    with pytest.warns(UndriftWarning, match=r"the loaded run keeps no averages .* set `average` to True"):
        opt.load_state_dict(lean.state_dict())
    with pytest.raises(InputError, match="no average is kept with average=False"), opt.averaged():
        pass
    opt.param_groups[0]["average"] = True
    start = copy.deepcopy(model)
    train(model, opt, 1, start=3)
    for p, q in zip(model.parameters(), start.parameters(), strict=True):  # of the point it began at
        torch.testing.assert_close(opt.average_of(p), q.detach())
    train(model, opt, 1, start=4)
    assert not torch.equal(opt.average_of(next(model.parameters())), next(start.parameters()))


def test_weights_changed_by_hand_are_averaged_as_they_are_left():
    """In large models too: 2^20 coordinates and more, on an even and on an odd round."""
    p = torch.nn.Parameter(torch.zeros(1 << 20))
    opt = ClippedAdam([p], average_horizon=2)
    for k in range(1, 5):
        with torch.no_grad():
            p.fill_(float(k))
        p.grad = torch.ones_like(p)
        opt.step()
        weights = np.array([0.5 ** (k - s) for s in range(1, k + 1)])
        expected = float(weights @ np.arange(1, k + 1) / weights.sum())
        assert opt.state[p]["average"][0].item() == pytest.approx(expected, rel=1e-6)
        for _ in range(2):  # going in and out counts nothing twice
            with opt.averaged():
                assert p[0].item() == pytest.approx(expected, rel=1e-6)


def test_averages_are_of_about_the_last_tenth_of_the_run():
    p = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    opt = ClippedAdam([p], lr=0.0)
    for k in range(1, 1001):
        with torch.no_grad():
            p.fill_(float(k))
        p.grad = torch.ones_like(p)
        opt.step()
    # weights s (s + 1) ... (s + 8): the mean of s is (10 t + 1) / 11 - 1 / 11 up to the offset of a rising factorial
    assert opt.average_of(p).item() == pytest.approx(1000 * 10 / 11, rel=2e-3)


def test_a_closure_that_leaves_the_averages_in_place_is_noticed():
    model = model_of()
    opt = ClippedAdam(model.parameters())
    train(model, opt, 2)
    with pytest.raises(InputError, match="ClippedAdam: step while the averaged weights are in place"):
        opt.step(opt.eval)
    assert opt.param_groups[0]["t"] == 2


def test_average_goes_to_a_copy_by_name_or_by_order():
    model = model_of()
    opt = ClippedAdam(reversed(list(model.parameters())))
    train(model, opt, 5)
    copied = copy.deepcopy(model)
    opt.copy_average_to(copied, source=model)
    with opt.averaged():
        same(model, copied)
    loaded = model_of(seed=7)
    loaded.load_state_dict(opt.average_state_dict(model))
    same(loaded, copied)
    with pytest.raises(InputError, match="do not line up with the optimizer's; pass source="):
        opt.copy_average_to(loaded)
    with pytest.raises(InputError, match="would overwrite the weights in training"):
        opt.copy_average_to(model)
    straight = ClippedAdam(model.parameters())
    train(model, straight, 3)
    straight.copy_average_to(loaded)
    with straight.averaged():
        same(model, loaded)


def test_without_an_average_the_step_is_the_same_and_saves_memory():
    model, other = model_of(), model_of()
    opt, lean = ClippedAdam(model.parameters(), norm="all"), ClippedAdam(other.parameters(), norm="all", average=False)
    train(model, opt, 5)
    train(other, lean, 5)
    same(model, other)
    assert {name for state in lean.state.values() for name in state} == {"m"}
    assert {name for state in opt.state.values() for name in state} == {"m", "average"}  # Adam's memory
    with pytest.raises(InputError, match="no average is kept with average=False"), lean.averaged():
        pass
    lean.eval()  # trainers call these for every optimizer that has them
    train(other, lean, 1, start=5)
    lean.train()


def test_gradients_are_never_written():
    model = model_of()
    opt = ClippedAdam(model.parameters(), weight_decay=0.1, maximize=True)
    train(model, opt, 2)
    before = [p.grad.clone() for p in model.parameters()]
    versions = [p.grad._version for p in model.parameters()]
    opt.step()
    assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), before, strict=True))
    assert [p.grad._version for p in model.parameters()] == versions


@pytest.mark.parametrize(("make", "options"), MODES, ids=NAMES)
def test_zero_learning_rate_and_zero_gradients_are_safe(make, options):
    model = model_of()
    before = copy.deepcopy(model)
    opt = make(model.parameters(), eps=0.0, **{**options, "weight_decay": 0.0})
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    for lr in (0.0, 0.1):
        opt.param_groups[0]["lr"] = lr
        opt.step(closure=None)
    same(model, before)


PATHS = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "kernel": {"fused": True}}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("make", "options"), MODES, ids=NAMES)
@pytest.mark.parametrize("bad", [float("nan"), -float("inf"), 1e200])
def test_unusable_gradients_advance_nothing(make, options, bad, path):
    """Not one bit, wherever in the gradients it is: here in the first number of the last tensor, and the other way."""
    model = model_of(dtype=torch.float64)
    opt = make(model.parameters(), **options, **PATHS[path])
    train(model, opt, 3)
    other, twin = copy.deepcopy((model, opt))
    loud = make(model.parameters(), nonfinite="raise", **options, **PATHS[path])
    grads = [p.grad.view(-1) for p in model.parameters()]
    for k, place in enumerate([grads[-1][:1], grads[0][-1:]]):
        kept = place.clone()
        place.fill_(bad)
        with pytest.warns(UndriftWarning, match="not finite or too large .* the step is skipped"):
            opt.step()
        assert opt.param_groups[0]["skipped"] == k + 1
        with pytest.raises(InputError, match="too large to be squared; nothing was advanced; find its origin"):
            loud.step()
        place.copy_(kept)
    same(model, other)
    assert loud.param_groups[0]["t"] == 0
    opt.param_groups[0]["skipped"] = 0
    same_state(opt, twin)
    train(model, opt, 2, start=3)  # and on it goes, as if nothing had been
    train(other, twin, 2, start=3)
    same(model, other)


def test_single_precision_coordinates_refuse_what_they_cannot_square():
    p = torch.nn.Parameter(torch.zeros(3))
    p.grad = torch.full((3,), 1e30)
    with pytest.warns(UndriftWarning, match="too large to be squared"):
        ClippedAdam([p]).step()
    opt = ClippedAdam([p], norm="all", lr=0.5, bias_correction=False)
    opt.step()
    torch.testing.assert_close(p.detach(), torch.full((3,), -0.5))


def test_late_groups_start_as_if_their_gradients_had_been_zero():
    start, stream = problem(seed=1, steps=20)
    quiet = [[*gradients[:3], *(np.zeros_like(g) for g in gradients[3:])] for gradients in stream[:8]]
    reference = Stepper(start, lr=0.01, betas=(0.9, 0.99), eps=1e-8, clip=0.5, norm="all")
    params = [torch.nn.Parameter(torch.tensor(b)) for b in start]
    numel = sum(p.numel() for p in params)
    opt = ClippedAdam(params[:3], lr=0.01, betas=(0.9, 0.99), clip=0.5, norm="all", bias_correction=False)
    late = 0
    for k, gradients in enumerate([*quiet, *stream[8:]]):
        if k == 8:
            opt.add_param_group({"params": params[3:]})
            late = 3
        here = params[:3] if not late else params
        # lr counts the coordinates that have gradients: keep gamma the same for the comparison
        share = (numel / sum(p.numel() for p in here)) ** 0.5
        for group in opt.param_groups:
            group["lr"] = 0.01 * share
        for p, g in zip(here, gradients, strict=False):
            p.grad = torch.tensor(g)
        opt.step()
        reference.step(gradients)
    for i, p in enumerate(params):
        np.testing.assert_allclose(p.detach().numpy(), reference.x[i], rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(opt.average_of(p).numpy(), reference.average[i], rtol=1e-11, atol=1e-11)


def test_checkpoints_of_something_else_are_refused_and_change_nothing():
    model = model_of()
    opt = ClippedAdam(model.parameters())
    train(model, opt, 2)
    saved = copy.deepcopy(opt.state_dict())
    adam = torch.optim.Adam(model.parameters())
    adam.step()
    free = ClipFreeAdam(model.parameters())
    other = ClippedAdam(torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Linear(6, 1)).parameters())
    for p in other.param_groups[0]["params"]:
        p.grad = torch.ones_like(p)
    other.step()
    torn = copy.deepcopy(saved)
    del torn["param_groups"][0]["warmth"]
    single = ClippedAdam([next(model.parameters())])
    for found, text in [
        (adam.state_dict(), "loaded state dict is of another optimizer"),
        (free.state_dict(), "loaded state dict is of ClipFreeAdam; load it into the class that saved it"),
        (other.state_dict(), r"has m of shape \(6, 5\) for a parameter of shape \(6, 4\)"),
        (torn, "loaded state dict lacks warmth"),
        (single.state_dict(), "doesn't match the size of optimizer's group"),
    ]:
        with pytest.raises(ValueError, match=text):
            opt.load_state_dict(found)
        assert str(opt.state_dict()) == str(saved)
