"""PyTorch's own inputs for optimizer tests, from torch.testing._internal.common_optimizers, with ours registered."""

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="expecttest, which torch's tests need, is not installed")

from torch.testing._internal import common_optimizers as theirs  # noqa: E402  # after the skips

from undrift.torch import ClipFreeAdam, ClippedAdam  # noqa: E402  # after the skips

OURS = (ClippedAdam, ClipFreeAdam)
MORE = ("lr as a Tensor is not supported", "betas must be either both", "as a Tensor is not supported for capturable")
"""Errors of Adam about what ours can do: tensors as options, on every path."""
REFUSED = {"amsgrad", "capturable", "differentiable"}
"""Options of Adam that ours do not have, or say they do not support."""


def info_of(make):
    return theirs.OptimizerInfo(
        make,
        optim_inputs_func=theirs.optim_inputs_func_adam,
        optim_error_inputs_func=theirs.optim_error_inputs_func_adam,
        supported_impls=("foreach", "fused"),
    )


def inputs(make):
    """Return their inputs for Adam whose options ours have."""
    found = info_of(make).optim_inputs_func(device="cpu")
    return [one for one in found if not REFUSED & one.kwargs.keys()]


def problem(seed=0):
    torch.manual_seed(seed)
    weight, bias = torch.nn.Parameter(torch.randn(10, 5)), torch.nn.Parameter(torch.randn(10))
    z = torch.randn(5)

    def closure():
        loss = (weight.mv(z) + bias).square().sum()
        for p in (weight, bias):
            p.grad = None
        loss.backward()
        return loss

    return [weight, bias], closure


@pytest.mark.parametrize("make", OURS)
@pytest.mark.parametrize("path", [{}, {"foreach": True}, {"foreach": False}, {"fused": True}])
def test_steps_go_in_the_right_direction(make, path):
    for given in inputs(make):
        params, closure = problem()
        opt = make(params, **{**given.kwargs, "lr": 0.01}, **path)
        start = float(closure().detach())
        sign = -1.0 if given.kwargs.get("maximize") else 1.0
        for _ in range(20):
            opt.step(closure)
        assert sign * float(closure().detach()) < sign * start, given.desc


@pytest.mark.parametrize("make", OURS)
def test_every_path_takes_the_same_steps(make):
    for given in inputs(make):
        found = []
        for path in ({"foreach": False}, {"foreach": True}, {"fused": True}):
            params, closure = problem()
            opt = make(params, **given.kwargs, **path)
            for _ in range(7):
                opt.step(closure)
            found.append([*params, *(opt.average_of(p) for p in params)])
        for other in found[1:]:
            for p, q in zip(found[0], other, strict=True):
                torch.testing.assert_close(p, q, msg=given.desc)


@pytest.mark.parametrize("make", OURS)
def test_a_loaded_state_goes_on_as_the_saved_one(make):
    for given in inputs(make):
        params, closure = problem()
        opt = make(params, **given.kwargs)
        for _ in range(3):
            opt.step(closure)
        copied, again = problem()
        with torch.no_grad():
            for p, q in zip(copied, params, strict=True):
                p.copy_(q)
        other = make(copied, **given.kwargs)
        other.load_state_dict(copy.deepcopy(opt.state_dict()))
        for _ in range(3):
            opt.step(closure)
            other.step(again)
        assert all(torch.equal(p, q) for p, q in zip(params, copied, strict=True)), given.desc


@pytest.mark.parametrize("make", OURS)
def test_their_bad_inputs_are_refused(make):
    for bad in info_of(make).optim_error_inputs_func(device="cpu", dtype=torch.float32):
        given = bad.optimizer_error_input
        if any(words in bad.error_regex for words in MORE):
            continue
        params = problem()[0] if given.params is None else given.params
        if issubclass(bad.error_type, Warning):
            with pytest.warns(bad.error_type, match=bad.error_regex):
                make(params, **given.kwargs)
        else:
            with pytest.raises(bad.error_type, match=bad.error_regex):
                make(params, **given.kwargs)
