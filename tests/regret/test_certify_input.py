"""certify refuses what it cannot vouch for, in one sentence."""

import numpy as np
import pytest

import undrift as ud
from undrift._internal.discount import Discount
from undrift.errors import ConditionError, InputError
from undrift.learners import DiscountedAIOLI, DiscountedMean, DiscountedVAW, Learner, Persistence
from undrift.learners.base import Columns
from undrift.losses import logistic, squared
from undrift.regret import Template, certify, d2d_identity, discounted_regret, dynamic_regret, path_length
from undrift.theory import bounds, frontier
from undrift.theory import regret_lemmas as lemmas
from undrift.trace import Trace

rng = np.random.default_rng(0)
Z, Y = rng.normal(size=(40, 2)), rng.normal(size=40)
VAW = DiscountedVAW(beta=0.9)
TRACE = VAW.clone().play(Z, Y)
AIOLI = DiscountedAIOLI(beta=0.9, bound=0.5, radius=1.0)
ONES, HALF = np.ones((40, 1)), DiscountedVAW(half_life=7).play(Z, Y)
SIGNED = AIOLI.clone().play(Z, Y > 0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((VAW, Z[:39], Y, TRACE, [0.0, 0.0]), r"certify: y must have one number a round, 39, got 40"),
        ((VAW, Z[:39], Y[:39], TRACE, [0.0, 0.0]), r"certify: the trace must cover the 39 rounds given, it has 40"),
        ((VAW, Z, Y, TRACE, [0.0]), r"u must be one comparator \(2,\) or one a round \(40, 2\), got .* \(1,\)"),
        ((VAW, Z, Y, TRACE, np.zeros((39, 2))), r"one a round \(40, 2\), got an array of shape \(39, 2\)"),
        ((VAW, Z, Y, TRACE, [0.0, np.nan]), r"certify: u must be finite, got nan at \(0, 1\)"),
        ((VAW, Z, Y, TRACE, "best"), r"certify: u must be one comparator"),
        ((AIOLI, Z, Y > 0, TRACE, [0.0, 0.0]), r"the trace is of DiscountedVAW, the learner is DiscountedAIOLI"),
        ((DiscountedVAW(beta=0.8), Z, Y, TRACE, [0.0, 0.0]), r"played with beta=0.9, the learner has beta=0.8"),
        ((DiscountedVAW(beta=0.9, hint="last"), Z, Y, TRACE, [0.0, 0.0]), r"hint='zero', the learner has hint='last'"),
        ((Template(beta=0.8), Z, Y, TRACE, [0.0, 0.0]), r"the template has beta=0.8, the trace was .* beta=0.9"),
        ((Template(beta=0.9), Z, Y, Trace(Y), [0.0, 0.0]), r"has no stability and potential, so no promise covers it"),
        ((Template(Discount(0.5, 0.5)), Z, Y, HALF, [0.0, 0.0]), r"template has half_life=1, .* half_life=7"),
        ((DiscountedMean(), ONES, Y + 1.0, DiscountedMean().play(ONES, Y), [0.0]), r"trace does not fit these rows"),
        ((VAW, Z[::-1], Y, TRACE, [0.0, 0.0]), r"the trace does not fit these rows and labels: replayed, round"),
        ((VAW, Z, Y + 1.0, TRACE, [0.0, 0.0]), r"the trace does not fit these rows and labels"),
        ((AIOLI, Z, Y < 0, SIGNED, [0.0, 0.0]), r"the trace does not fit these rows and labels"),
        ((VAW, Z * np.nan, Y, TRACE, [0.0, 0.0]), r"certify: z must be finite and at most 1e75"),
    ],
)
def test_bad_input_is_one_sentence(arguments, text):
    with pytest.raises(InputError, match=text) as caught:
        certify(*arguments)
    assert str(caught.value).startswith("certify: ")
    assert "\n" not in str(caught.value)


def test_a_fragment_of_a_run_is_refused():
    learner = VAW.clone()
    learner.play(Z[:10], Y[:10])
    rest = learner.play(Z[10:], Y[10:])
    with pytest.raises(
        InputError, match=r"a fragment that starts after round 10; play the stream from its first round"
    ):
        certify(VAW, Z[10:], Y[10:], rest, [0.0, 0.0])


def test_nothing_of_a_refused_or_certified_learner_changes():
    learner = VAW.clone()
    learner.play(Z, Y)
    before = learner.copy()
    certify(learner, Z, Y, TRACE, [0.0, 0.0])
    with pytest.raises(InputError):
        certify(learner, Z, Y, TRACE, [0.0])
    assert learner == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((AIOLI, Z, Y, SIGNED, [0.0, 0.0]), r"certify: y must be a binary label"),
        ((AIOLI, Z, Y > 0, SIGNED, [3.0, 0.0]), r"\|u.z\| <= BR = 0.5, the one of round 39 has .* on row .*margin=0.5"),
        ((DiscountedMean(), Z, Y, DiscountedMean().play(Z, Y), [0.0, 0.0]), r"certified on one constant feature"),
        ((VAW, Z, Y > 0, VAW.clone().play(Z, Y > 0), [0.0, 0.0], logistic), r"promise of DiscountedVAW is for squared"),
        ((AIOLI, Z, Y > 0, SIGNED, [0.0, 0.0], squared), r"promise of DiscountedAIOLI is for logistic"),
        (
            (Template(beta=0.9, loss=squared), Z, Y > 0, TRACE, [0.0, 0.0], logistic),
            r"for squared loss, not for logistic",
        ),
        (
            (Persistence(), Z, Y, Persistence().play(Z, Y), [0.0, 0.0]),
            r"Persistence makes no promise; pass a learner with a guarantee",
        ),
        ((object(), Z, Y, TRACE, [0.0, 0.0]), r"object makes no promise; pass a learner with a guarantee"),
        ((VAW, Z, Y, TRACE, [1e200, 0.0]), r"leave float64's range; rescale"),
    ],
)
def test_a_failed_assumption_is_named(arguments, text):
    with pytest.raises(ConditionError, match=text):
        certify(*arguments)


def test_only_rows_up_to_the_comparators_last_round_count_for_its_margin():
    rows, labels = np.ones((6, 1)), np.ones(6)
    rows[5] = 10.0
    learner = DiscountedAIOLI(beta=0.9, bound=1.0)
    trace = learner.clone().play(rows, labels)
    u = np.array([[1.0]] * 5 + [[0.1]])  # 1 on rows of size 1; 0.1 by the time the row of size 10 arrives
    assert certify(learner, rows, labels, trace, u).holds
    with pytest.raises(ConditionError, match=r"round 5 has 2 on row 5"):
        certify(learner, rows, labels, trace, np.array([[1.0]] * 5 + [[0.2]]))


def test_a_function_may_choose_the_comparator():
    cert = certify(VAW, Z, Y, TRACE, lambda rows, labels: np.zeros(rows.shape))
    assert cert.comparator_loss == pytest.approx(0.5 * np.sum(Y * Y), rel=1e-14)


def test_no_rounds_no_regret():
    cert = certify(VAW, np.zeros((0, 2)), [], VAW.clone().play(np.zeros((0, 2)), []), np.zeros((0, 2)))
    assert (cert.regret, cert.bound, cert.ratio, cert.holds) == (0.0, 0.0, 1.0, True)


def test_a_free_comparator_has_an_infinite_ratio():
    cert = certify(VAW, Z, Z @ [1.0, 2.0], VAW.clone().play(Z, Z @ [1.0, 2.0]), [1.0, 2.0])
    assert cert.ratio > 1e10


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: dynamic_regret([1.0], [1.0, 2.0]), r"dynamic_regret: comparator_losses must have shape \(1\), got"),
        (lambda: dynamic_regret([np.nan], [1.0]), r"dynamic_regret: incurred must be finite, got nan"),
        (lambda: discounted_regret([1.0], [1.0], 0.0), r"discounted_regret: beta must be in \(0, 1\], got 0.0"),
        (lambda: discounted_regret([1.0], [1.0], 1.5), r"discounted_regret: beta must be in \(0, 1\], got 1.5"),
        (lambda: d2d_identity(Z, Y, Y[:3], [0.0, 0.0], 0.9), r"d2d_identity: yhat must have shape \(40\), got \(3,\)"),
        (lambda: path_length([1.0]), r"path_length: u must have shape \(n, n\), got \(1,\)"),
        (lambda: Template(beta=-1.0), r"Template: beta must be in \(0, 1\], got -1.0"),
        (lambda: Template(beta=0.5, limit=-1.0), r"Template: limit must be in \[0, inf\], got -1.0"),
    ],
)
def test_measures_say_what_is_wrong(call, text):
    with pytest.raises(InputError, match=text):
        call()


class LeakyDescent(Learner):
    """Gradient descent whose weights leak: x <- beta (x - eta g), a learner of one's own with a promise."""

    def __init__(self, *, eta: float, claims: float = 1.0) -> None:
        super().__init__(eta=eta, claims=claims)
        self.eta, self.claims = eta, claims

    @property
    def discount(self):
        return Discount(0.9, 0.1)

    def _begin(self, dim):
        self._x = np.zeros(dim)

    def _arrays(self):
        return {"x": self._x}

    def _predict(self, Z, elapsed=1.0):
        return Z @ self._x

    def _play(self, Z, y, context):
        yhat, stability = np.empty(len(y)), np.empty(len(y))
        for t, (z, label) in enumerate(zip(Z, y, strict=True)):
            yhat[t] = z @ self._x
            g = (yhat[t] - label) * z
            stability[t] = self.claims * 0.5 * self.eta * (g @ g)
            self._x[...] = 0.9 * (self._x - self.eta * g)
        return Columns(yhat, stability, np.full(len(y), 1.0 / self.eta))


def test_a_learner_that_returns_stability_and_potential_is_certified():
    learner, u = LeakyDescent(eta=0.05), np.repeat([[1.0, -1.0], [2.0, 0.0]], 20, axis=0)
    labels = np.sum(Z * u, axis=1)
    trace = learner.play(Z, labels)
    cert = certify(learner, Z, labels, trace, u)
    by_hand = certify(Template(beta=0.9, loss=squared), Z, labels, trace, u)
    assert cert.bound == pytest.approx(by_hand.bound, rel=1e-12)
    assert cert.regret <= cert.bound
    with pytest.raises(InputError, match=r"played with claims=1.0, the learner has claims=0.5"):
        certify(LeakyDescent(eta=0.05, claims=0.5), Z, labels, trace, u)
    with pytest.raises(InputError, match=r"the trace does not fit these rows"):
        certify(learner, Z, labels + 1.0, trace, u)


def test_a_learner_is_played_where_no_trace_is_given():
    given = certify(VAW, Z, Y, TRACE, [1.0, 0.0])
    assert certify(VAW, Z, Y, u=[1.0, 0.0]) == given
    with pytest.raises(InputError, match=r"certify: give u, the comparators, or a function that finds them"):
        certify(VAW, Z, Y, TRACE)
    with pytest.raises(InputError, match=r"certify: give trace, what play returned; Template cannot be played again"):
        certify(Template(beta=0.9), Z, Y, u=[0.0, 0.0])


NONE, SAME = np.zeros((0, 2)), np.ones((3000, 2))


@pytest.mark.parametrize(
    "call",
    [
        lambda: lemmas.vaw_rescaled(SAME, SAME[:, 0], [1.0, 1.0], beta=0.5),
        lambda: lemmas.vaw_rescaled(SAME[:1], [1.0], [1.0, 1.0], reg=0.0),
        lambda: lemmas.aioli_rescaled(SAME, SAME[:, 0], [0.1, 0.1], bound=1.0, radius=2.0, beta=0.5),
        lambda: lemmas.discounted_potential(SAME, SAME[:, 0], beta=0.5),
    ],
)
def test_a_matrix_that_cannot_be_inverted_is_one_sentence(call):
    with pytest.raises(ConditionError, match=r"lemmas: the information matrix is singular in float64; take a longer"):
        call()


def test_no_rounds_are_no_trouble():
    learner = VAW.clone()
    assert lemmas.vaw_rescaled(NONE, [], [1.0, 1.0]) == (0.0, 0.0)
    assert lemmas.aioli_rescaled(NONE, [], [1.0, 1.0], bound=1.0, radius=1.0).left == 0.0
    assert [point.certificate.bound for point in frontier(learner, NONE, [], learner.clone().play(NONE, []))] == [0.0]
    assert bounds.logistic_ensemble(NONE, [], [0.1, 0.1], bound=1.0, radius=1.0).path == 0.0


@pytest.mark.parametrize("make", [ud.DiscountedSoftmax, ud.softmax_ensemble])
def test_a_run_of_several_classes_without_rounds_has_an_empty_certificate(make):
    model = make(3)
    Z, y = np.zeros((0, 2)), np.zeros(0)
    trace = model.play(Z, y)
    assert trace.yhat.shape == (0, 3)
    cert = certify(make(3), Z, y, trace, np.zeros((3, 2)))
    assert (cert.certified, cert.incurred, cert.regret, cert.holds) == (0.0, 0.0, 0.0, True)
