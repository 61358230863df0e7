"""Tensors as rows and labels of learners."""

import pytest

import undrift as ud
from tests.helpers import refused

torch = pytest.importorskip("torch")


def test_tensors_with_a_gradient() -> None:
    z, label = torch.ones(2, requires_grad=True), torch.tensor(1.0, requires_grad=True)
    for model in (ud.DiscountedVAW(), ud.linear_ensemble(), ud.OnlineRegressor()):
        refused(lambda model=model: model.predict(z), r"z must be an array of numbers, got tensor.*tensor\.detach\(\)")
        refused(
            lambda model=model: model.learn(z, 1.0), r"z must be an array of numbers, got tensor.*tensor\.detach\(\)"
        )
        refused(
            lambda model=model: model.learn([1.0, 2.0], label), r"y must be an array of numbers.*tensor\.detach\(\)"
        )
        assert model.rounds == 0
        model.learn(z.detach(), label.detach())
        assert model.rounds == 1
