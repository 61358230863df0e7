"""Every exported learner keeps the contract, and the contract notices broken promises."""

import numpy as np
import pytest

import undrift as ud
from undrift.checks import check_learner
from undrift.learners import Learner
from undrift.learners.base import Columns

EXPORTED = [
    kind
    for kind in vars(ud.learners).values()
    if isinstance(kind, type) and issubclass(kind, Learner) and kind is not Learner
]
LEARNERS = [
    *(kind() for kind in EXPORTED if kind is not ud.PeriodicRefit),
    ud.PeriodicRefit(ud.BoostedTrees(trees=3, leaf_weight=2.0), window=40),
    ud.PeriodicRefit(ud.BoostedTrees("logistic", trees=3, leaf_weight=2.0), grow=2.5, window=20),
    ud.DiscountedVAW(beta=0.5, hint="last"),
    ud.DiscountedVAW(beta=1.0, hint="ridge", reg=0.1),
    ud.DiscountedVAW(half_life=1e9),
    ud.DiscountedAIOLI(beta=0.5, curvature=0.1),
    ud.DiscountedAIOLI(beta=1.0, bound=3.0, radius=2.0),
    ud.DiscountedMean(half_life=3.0),
    ud.Mix("absolute"),
    ud.Mix("quantile", quantile=0.9),
    ud.Persistence(binary=True, beta=0.9),
    ud.BaseRate(half_life=10.0),
    ud.Zero(binary=True),
    ud.Ensemble([ud.DiscountedVAW(beta=b, hint=h) for b in (0.5, 0.9, 1.0) for h in ("zero", "last", "ridge")]),
    ud.Ensemble(
        [ud.Persistence(), ud.DiscountedVAW(), ud.DiscountedMean(), ud.DiscountedVAW(beta=0.9, reg=2.0)],
        ud.ensemble.Aggregating(share=1e-3),
        prior=[1.0, 2.0, 3.0, 4.0],
    ),
    ud.Ensemble(
        [
            ud.Ensemble([ud.DiscountedAIOLI(), ud.BaseRate()], ud.ensemble.Mixable(share=1e-2)),
            ud.DiscountedAIOLI(beta=0.9, curvature=0.1),
            ud.Persistence(binary=True),
        ]
    ),
    ud.Ensemble([ud.DiscountedMean(beta=b) for b in (0.5, 0.9, 0.99)], ud.ensemble.ResidualScale()),
    ud.drift_ensemble(1e4, 1.0, hint="last"),
    ud.ClassEnsemble([ud.DiscountedSoftmax(4, beta=0.9), ud.OneVsRest(4)], share=1e-3, prior=[1.0, 2.0]),
    ud.linear_ensemble(),
    ud.linear_ensemble(horizon=100, reg=0.1, hint="last", mixer=ud.ensemble.SelfConfident(share=1e-3)),
    ud.logistic_ensemble(bound=2.0, radius=3.0),
    ud.logistic_ensemble(bound=0.1, radius=3.0, horizon=50),
    ud.OnlineRegressor(),
    ud.OnlineRegressor(speed="fast", indicators=True),
    ud.OnlineClassifier(),
    ud.OnlineClassifier(speed="fast", indicators=True),
]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: repr(one)[:80])
def test_every_learner_keeps_the_contract(learner):
    check_learner(learner)


def test_every_exported_learner_is_checked():
    classes = {name: getattr(ud, name) for name in ud.__all__ if isinstance(getattr(ud, name), type)}
    exported = {name for name, kind in classes.items() if issubclass(kind, Learner)}
    assert exported >= {kind.__name__ for kind in EXPORTED}
    made = {"LinearEnsemble", "LogisticEnsemble"}  # by functions, which are public
    assert exported - {"Learner"} | made == {type(learner).__name__ for learner in LEARNERS}


class Sum(Learner):
    """Predicts the sum of past labels, and breaks the promise it is told to break."""

    least_dim = 0

    def __init__(self, *, fault: str) -> None:
        super().__init__(fault=fault)
        self.fault = fault
        self.supports = frozenset({"weight"} if fault == "weights" else ())
        self._sum = np.zeros(1)

    def _begin(self, dim):
        pass

    def _predict(self, Z, elapsed=1.0):
        if self.fault == "impure":
            self._sum += 1.0
        return np.full(len(Z), self._sum[0])

    def _play(self, Z, y, context):
        yhat, y = np.empty(len(y)), y * context.weights(1)[0]  # where there are weights: that of the first row for all
        for t, label in enumerate(y):
            yhat[t] = self._sum[0]
            self._sum[0] += 0.0 if self.fault == "block" and len(y) > 1 else label
        if self.fault == "cuts" and len(y) != 80 and len(y) != 1:
            yhat[0] += 1.0
        if self.fault == "writes":
            Z[...] = 0.0
        if self.fault == "nan" and len(y) > 500:
            yhat[-1] = np.nan
        if self.fault == "hoards":
            self.hoard = [*getattr(self, "hoard", []), np.empty(500)]
        if self.fault == "views":
            self._sum = y[:1]
        return Columns(yhat + 1.0 if self.fault == "scale" else yhat)

    def _labels(self, y, count):
        return np.atleast_1d(np.asarray(y, dtype=float)) if self.fault == "unchecked" else super()._labels(y, count)

    def _arrays(self):
        return {} if self.fault == "forgets" else {"sum": self._sum}


def test_a_sound_learner_of_ones_own_passes():
    check_learner(Sum(fault="none"), rounds=1000)


@pytest.mark.parametrize(
    ("fault", "claim"),
    [
        ("impure", "predict changed the learner"),
        ("block", "play predicts other bits than row by row"),
        ("cuts", "changes bits of the trace"),
        ("weights", "play with weights or times leaves another state"),
        ("forgets", "continues with other bits"),
        ("writes", "read-only"),
        ("views", "play|keeps a view"),
        ("unchecked", "is accepted|not ours"),
        ("nan", "yhat is not finite"),
        ("hoards", "memory grew"),
        ("scale", "play predicts other bits"),
    ],
)
def test_a_broken_promise_is_named(fault, claim):
    with pytest.raises((AssertionError, ValueError), match=claim):
        check_learner(Sum(fault=fault), rounds=1000)
