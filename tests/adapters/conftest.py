"""Tests of the torch optimizers run twice: as they are for small models, and with averages that run ahead."""

import pytest


def pytest_generate_tests(metafunc):
    name = metafunc.module.__name__
    if name.startswith("test_torch_") and name not in ("test_torch_distributed", "test_torch_ahead"):
        metafunc.fixturenames.append("averages_run_ahead")
        metafunc.parametrize("averages_run_ahead", [False, True], indirect=True, ids=["", "ahead"])


@pytest.fixture
def averages_run_ahead(request, monkeypatch):
    from undrift.torch import ahead

    if request.param:
        monkeypatch.setattr(ahead, "WORTH_IT", 0)
