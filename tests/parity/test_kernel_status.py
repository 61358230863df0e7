"""A kernel that may not use a number says where it is, changes nothing, and nobody overlooks it."""

import ast
from pathlib import Path

import numpy as np
import pytest

import undrift as ud
from tests.twins.ensemble import EnsembleKernel
from undrift import _check, kernels
from undrift.ensemble.stacked_members import AIOLIStack, DiscountedLeaders, VAWStack
from undrift.errors import InputError
from undrift.kernels import layout
from undrift.learners.row_context import ORDINARY

SOURCE = Path(ud.__file__).parent
STATUS = {"vaw_play", "vaw_predict", "aioli_play", "aioli_predict", "play_keys", "predict_rows", "o2nc_play"}


def rounds(kind, binary: bool):
    """Return whole rounds of one learner over three features, and its state."""
    state = layout.fresh(3, np.ones(1))
    kernel = kind(
        binary=binary,
        state=state,
        beta=np.array([0.9]),
        inverse_curvature=np.ones(1) if binary else np.empty(0),
        leader=np.zeros(1, dtype=np.int64),
        hint=np.zeros(1, dtype=np.int64),
        last_label=np.zeros(1),
        stability=np.zeros(1),
        mixer=None,
    )
    return kernel, state


@pytest.mark.parametrize("kind", [kernels.EnsembleKernel, EnsembleKernel])
@pytest.mark.parametrize("binary", [False, True])
def test_rounds_say_where_the_number_is(kind, binary) -> None:
    one, state = rounds(kind, binary)
    before, yhat, none = state.copy(), np.zeros(4), np.empty((0, 1))
    Z, y = np.ones((4, 3)), np.ones(4)
    for value in (np.nan, np.inf, -1e76):
        bad = Z.copy()
        bad[2, 1] = value
        assert one.play(0, bad, y, yhat, none) == 1 + 7
        assert one.predict_rows(0, bad, yhat) == 1 + 7
    labels = y.copy()
    labels[3] = 2.0 if binary else np.nan
    assert one.play(0, Z, labels, yhat, none) == -1 - 3
    np.testing.assert_array_equal(state, before)
    np.testing.assert_array_equal(yhat, np.zeros(4))
    assert one.predict_rows(0, Z, yhat) == one.play(0, Z, y, yhat, none) == 0


def test_what_a_kernel_refuses_is_an_error_and_never_an_empty_array() -> None:
    Z, y = np.ones((5, 3)), np.ones(5)
    Z[3, 2] = np.nan
    leaders = DiscountedLeaders(np.array([0.9, 0.8]), np.ones(2), 3)
    stacks = VAWStack([ud.DiscountedVAW()], 3), AIOLIStack([ud.DiscountedAIOLI()], 3)
    for part in (leaders, *stacks):
        for call in (lambda part=part: part.play(Z, y, 0), lambda part=part: part.predict(Z, 0)):
            with pytest.raises(InputError, match="which z in row 3, feature 2 is not"):
                call()
    for model in (ud.DiscountedVAW(), ud.DiscountedAIOLI(), ud.linear_ensemble()):
        model.play(np.ones((2, 3)), np.ones(2))
        for call in (lambda model=model: model._play(Z, y, ORDINARY), lambda model=model: model._predict(Z)):
            with pytest.raises(InputError, match="which z in row 3, feature 2 is not"):
                call()


def test_the_error_names_the_label() -> None:
    _check.raise_on_status("here", 0, 3)
    with pytest.raises(
        InputError, match=r"here: numbers must be finite and at most 1e75 in size, which y in row 4 is not"
    ):
        _check.raise_on_status("here", -5, 3)


def test_no_status_is_dropped() -> None:
    dropped = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                called = node.value.func
                name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
                if name in STATUS and not path.name.startswith("reference"):
                    dropped.append(f"{path.name}:{node.lineno}")
    assert not dropped
