"""optax's own tests of contributed optimizers, with ours among them."""

import pytest

pytest.importorskip("optax", reason="optax is not installed")
pytest.importorskip("absl.testing", reason="absl is not installed")
try:
    from optax.contrib import _common_test as theirs
except ImportError:
    pytest.skip("this optax ships without its tests", allow_module_level=True)

import undrift.optax as uo  # after the skips

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs
OURS = {"clipped_adam": {"learning_rate": 1e-2}, "clip_free_adam": {"learning_rate": 1e-2}}
CHECKS = {
    "test_optimizers_accept_extra_args": [{"wrap": False}],
    "test_optimizers_can_be_wrapped_in_inject_hyperparams": [{}],
    "test_preserve_dtype": [{"dtype": dtype} for dtype in ("bfloat16", "float32")],
    "test_gradient_accumulation": [{"dtype": dtype} for dtype in ("bfloat16", "float32")],
}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    real = theirs._get_opt_factory
    monkeypatch.setattr(theirs, "_get_opt_factory", lambda name: getattr(uo, name, None) or real(name))


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("check", CHECKS)
def test_theirs(name, check):
    numbered = [getattr(theirs.ContribTest, key) for key in dir(theirs.ContribTest) if key.startswith(check)]
    bodies = [test.__wrapped__ for test in numbered if getattr(test, "__wrapped__", test).__name__ == check]
    if not bodies:
        pytest.skip(f"this optax has no {check}")
    for options in CHECKS[check]:
        given = {"opt_name": name, "opt_kwargs": OURS[name], "wrapper_name": None, "wrapper_kwargs": None, **options}
        bodies[0](theirs.ContribTest(), **given)
