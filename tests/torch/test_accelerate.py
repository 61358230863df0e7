"""accelerate: save_state with the averaged weights in place, load_state, and on."""

import pytest

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")

from undrift.torch import ClippedAdam  # noqa: E402  # after the skips

pytestmark = pytest.mark.filterwarnings("ignore")  # accelerate's own


def prepared(seed=0):
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 2)
    accelerator = accelerate.Accelerator(cpu=True)
    return accelerator, *accelerator.prepare(model, ClippedAdam(model.parameters(), lr=0.05))


def steps(accelerator, model, opt, start, count):
    for k in range(start, start + count):
        z = torch.randn(5, 3, generator=torch.Generator().manual_seed(k))
        opt.zero_grad()
        accelerator.backward(model(z).square().mean())
        opt.step()


def test_state_saved_in_eval_mode_goes_on(tmp_path):
    accelerator, model, opt = prepared()
    steps(accelerator, model, opt, 0, 4)
    opt.eval()
    accelerator.save_state(str(tmp_path))
    other, again, resumed = prepared(seed=5)
    other.load_state(str(tmp_path))
    for one, its in ((opt, model), (resumed, again)):
        one.train()
        steps(accelerator, its, one, 4, 3)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), again.parameters(), strict=True))


def test_the_recipe_for_the_averaged_weights():
    accelerator, model, opt = prepared()
    steps(accelerator, model, opt, 0, 4)
    last = model.weight.detach().clone()
    with opt.optimizer.averaged():
        assert not torch.equal(model.weight, last)
    assert torch.equal(model.weight, last)
