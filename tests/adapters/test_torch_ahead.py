"""Averages that run a round ahead: nobody can tell, whatever happens between two steps."""

import copy
import io

import pytest

from undrift.errors import UndriftWarning
from undrift.torch import ClipFreeAdam, ClippedAdam

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from undrift.torch import ahead  # noqa: E402  # needs torch


def params_of(dtype=torch.float64):
    torch.manual_seed(3)
    return [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in ((5, 3), (7,), (600,))]


def noise(params, seed):
    rng = torch.Generator().manual_seed(seed)
    for p in params:
        p.grad = torch.randn(p.shape, generator=rng, dtype=torch.float64).to(p.dtype)


class Pair:
    """The same run twice: averages touched in every second step, and in every step."""

    def __init__(self, monkeypatch, make=ClippedAdam, dtype=torch.float64, steps=0, **options):
        self.patch = monkeypatch
        self.sides = []
        for worth in (0, 10**9):
            params = params_of(dtype)
            self.sides.append((params, make(params, **options), worth))
        for k in range(steps):
            self.step(k)

    def step(self, seed, change=None):
        for params, opt, worth in self.sides:
            self.patch.setattr(ahead, "WORTH_IT", worth)
            noise(params, seed)
            if change is not None:
                change(params, opt)
            opt.step()

    def group(self, name):
        return [opt.param_groups[0][name] for _, opt, _ in self.sides]

    def close(self, rtol=1e-13):
        (one, opt, _), (two, plain, _) = self.sides
        for p, q in zip(one, two, strict=True):
            torch.testing.assert_close(p, q, rtol=rtol, atol=rtol)
            torch.testing.assert_close(opt.average_of(p), plain.average_of(q), rtol=rtol, atol=rtol)
        assert opt.certificate.value == pytest.approx(plain.certificate.value, rel=1e-12)


@pytest.mark.parametrize("make", [ClippedAdam, ClipFreeAdam])
@pytest.mark.parametrize("norm", ["all", "tensor", "coord"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_runs_are_the_same_bit_by_bit(make, norm, dtype, monkeypatch):
    pair = Pair(monkeypatch, make, dtype, norm=norm, weight_decay=0.1)
    (one, opt, _), (two, plain, _) = pair.sides
    for k in range(9):
        pair.step(k)
        assert ahead.is_ahead(opt.param_groups[0]) == (k % 2 == 1)
        assert opt.certificate == plain.certificate
        for p, q in zip(one, two, strict=True):
            assert torch.equal(p, q)
            assert torch.equal(opt.state[p]["m"], plain.state[q]["m"])
            if k % 2 == 0:
                assert torch.equal(opt.average_of(p), plain.average_of(q))
            else:
                eps = torch.finfo(opt.average_of(p).dtype).eps
                torch.testing.assert_close(opt.average_of(p), plain.average_of(q), rtol=8 * eps, atol=8 * eps)
    assert pair.group("ahead") == [0.0, 0.0]


def test_small_models_and_short_memories_are_averaged_in_every_step(monkeypatch):
    params = params_of()
    opt = ClippedAdam(params)
    noise(params, 0)
    for _ in range(4):
        opt.step()
        assert opt.param_groups[0]["ahead"] == 0.0
    pair = Pair(monkeypatch, ema_beta=0.1)
    for k in range(4):
        pair.step(k)
        assert pair.group("ahead") == [0.0, 0.0]


def test_parameters_that_come_and_go(monkeypatch):
    def fewer(params, _):
        params[1].grad = None

    def more(params, opt):
        params.append(torch.nn.Parameter(torch.ones(4, dtype=torch.float64)))
        params[-1].grad = torch.full((4,), 0.5, dtype=torch.float64)
        opt.add_param_group({"params": [params[-1]], "lr": 0.1})

    pair = Pair(monkeypatch)
    for k in range(20):
        pair.step(k, {4: fewer, 7: fewer, 11: more, 14: fewer}.get(k))
        pair.close()


def test_weights_of_the_average_that_change_from_round_to_round(monkeypatch):
    """Schedulers may cycle beta1: the average of the certificate must keep up, so it does not run ahead any more."""
    pair = Pair(monkeypatch, lr=0.01)
    schedulers = [
        torch.optim.lr_scheduler.OneCycleLR(opt, 0.02, total_steps=30, base_momentum=0.8, max_momentum=0.95)
        for _, opt, _ in pair.sides
    ]
    for k in range(12):
        pair.step(k)
        pair.close()
        for scheduler in schedulers:
            scheduler.step()
    assert pair.group("ahead") == [-1.0, 0.0]


@pytest.mark.parametrize("steps", [5, 6])
def test_a_run_goes_on_by_another_path(steps, monkeypatch):
    pair = Pair(monkeypatch, steps=steps, norm="all")
    (one, opt, _), _ = pair.sides
    file = io.BytesIO()
    torch.save(opt.state_dict(), file)
    for foreach in (False, True):
        file.seek(0)
        params = [torch.nn.Parameter(p.detach().clone()) for p in one]
        again = ClippedAdam(params, norm="all")
        again.load_state_dict(torch.load(file, weights_only=True))
        again.param_groups[0]["foreach"] = foreach
        for p, q in zip(params, one, strict=True):
            assert torch.equal(again.average_of(p), opt.average_of(q))
        mine, other = copy.deepcopy((pair.sides[1][0], pair.sides[1][1]))
        for k in range(4):
            for weights, optimizer in ((params, again), (mine, other)):
                noise(weights, 100 + k)
                optimizer.step()
            for p, q in zip(params, mine, strict=True):
                torch.testing.assert_close(again.average_of(p), other.average_of(q), rtol=1e-12, atol=1e-12)


def test_a_skipped_step_changes_nothing(monkeypatch):
    def spoil(params, _):
        params[2].grad[5] = torch.inf

    pair = Pair(monkeypatch, steps=4)
    params, opt, _ = pair.sides[0]
    assert ahead.is_ahead(opt.param_groups[0])
    before = copy.deepcopy((opt.state_dict()["state"], params))
    with pytest.warns(UndriftWarning, match="nothing was advanced"):
        pair.step(9, spoil)
    for index, state in opt.state_dict()["state"].items():
        for name, value in state.items():
            assert torch.equal(value, before[0][index][name])
    for p, q in zip(params, before[1], strict=True):
        assert torch.equal(p, q)
    pair.step(10)
    pair.close()


def test_averages_are_found_while_they_are_in_place(monkeypatch):
    pair = Pair(monkeypatch, steps=4)
    params, opt, _ = pair.sides[0]
    expected = [opt.average_of(p).clone() for p in params]
    for _ in range(2):  # going in and out counts as no change of the weights
        with opt.averaged():
            for p, average in zip(params, expected, strict=True):
                assert torch.equal(p, average)
                assert torch.equal(opt.average_of(p), average)
        for p, average in zip(params, expected, strict=True):
            assert torch.equal(opt.average_of(p), average)
    pair.close()


def test_weights_changed_by_hand_do_not_spoil_the_average(monkeypatch):
    """The average of the last round cannot be worked out then; the one with the last step's weights is given."""
    pair = Pair(monkeypatch, steps=4)
    params, opt, _ = pair.sides[0]
    exact = opt.average_of(params[0]).clone()
    left = params[0].detach().clone()
    with torch.no_grad():
        params[0].fill_(1e6)
    weight = opt.param_groups[0]["ahead"]
    torch.testing.assert_close(opt.average_of(params[0]), exact + weight * (left - exact))
    later = opt.state[params[0]]["average"].clone()
    params[1].grad = None  # so averages must be taken back; that of the changed weights stays
    opt.step()
    gap, rounds = 0.1, 5
    torch.testing.assert_close(opt.average_of(params[0]), later + gap / (1 - 0.9**rounds) * (1e6 - later))


def test_projected_weights_are_averaged_as_they_are(monkeypatch):
    """Who changes the weights after every step (clamps, renormalised embeddings) wants the average of what is left."""
    pair = Pair(monkeypatch, lr=0.1)
    for k in range(9):
        pair.step(k)
        for params, _, _ in pair.sides:
            with torch.no_grad():
                for p in params:
                    p.clamp_(-0.5, 0.5)
        pair.close()
    assert pair.group("ahead") == [-1.0, 0.0]


@pytest.mark.parametrize("how", ["deepcopy", "state_dict"])
def test_copies_know_of_weights_changed_by_hand(how, monkeypatch):
    pair = Pair(monkeypatch, steps=4)
    params, opt, _ = pair.sides[0]
    with torch.no_grad():
        params[0].fill_(1e6)
    if how == "deepcopy":
        mine, again = copy.deepcopy((params, opt))
    else:
        mine = copy.deepcopy(params)
        again = ClippedAdam(mine)
        again.load_state_dict(opt.state_dict())
    for _ in range(2):
        for p, q in zip(params, mine, strict=True):
            assert torch.equal(opt.average_of(p), again.average_of(q))
        for weights, optimizer in ((params, opt), (mine, again)):
            noise(weights, 9)
            optimizer.step()


def test_what_is_done_to_the_averaged_weights_is_undone(monkeypatch):
    pair = Pair(monkeypatch, steps=4)
    params, opt, _ = pair.sides[0]
    expected = [opt.average_of(p).clone() for p in params]
    with opt.averaged(), torch.no_grad():
        for p, average in zip(params, expected, strict=True):
            p.round_()
            assert torch.equal(opt.average_of(p), average)
    for p, average in zip(params, expected, strict=True):
        assert torch.equal(opt.average_of(p), average)
    pair.step(9)
    pair.close()
    assert pair.group("ahead") == [0.0, 0.0]


def test_one_average_costs_no_more_than_itself(monkeypatch):
    pair = Pair(monkeypatch, steps=4)
    params, opt, _ = pair.sides[0]
    worked_out = []
    monkeypatch.setattr(ahead, "taken_back", lambda average, x, weight: worked_out.append(x) or average)
    opt.average_of(params[1])
    assert len(worked_out) == 1


def test_checkpoints_from_before_are_read(monkeypatch):
    pair = Pair(monkeypatch, steps=3)
    params, opt, _ = pair.sides[0]
    old = opt.state_dict()
    for name in ("ahead", "ahead_square"):
        for group in old["param_groups"]:
            del group[name]
    again = ClippedAdam(params)
    again.load_state_dict(old)
    monkeypatch.setattr(ahead, "WORTH_IT", 0)
    for _ in range(3):
        noise(params, 7)
        again.step()
    assert ahead.is_ahead(again.param_groups[0])
