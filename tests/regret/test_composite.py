"""A composite is certified through its best leaf: measured excess plus the leaf's own bound."""

import numpy as np
import pytest

from undrift.ensemble import Ensemble
from undrift.errors import ConditionError, InputError
from undrift.learners import DiscountedAIOLI, DiscountedVAW, Persistence
from undrift.losses import logistic, squared
from undrift.regret import Leaf, ReferenceLearners, certify, comparators
from undrift.theory import frontier
from undrift.trace import Trace


class Average:
    """The mean of several VAW learners, each on rows and labels of its own scale; some rounds are warm-up."""

    def __init__(self, betas, scale=1.0, warm=0, hint="zero"):
        self.members = [DiscountedVAW(beta=b, hint=hint) for b in betas]
        self.scale, self.warm = scale, warm

    def play(self, Z, y):
        yhat = np.mean([leaf.trace.yhat * self.scale for leaf in self.leaves(Z, y, None)], axis=0)
        return Trace(np.concatenate([np.zeros(self.warm), yhat]), learner="Average")

    def leaves(self, Z, y, u):
        rows, labels = 3.0 * Z[self.warm :], y[self.warm :] / self.scale
        path = None if u is None else u[self.warm :] / (3.0 * self.scale)
        out = []
        for member in self.members:
            trace = member.clone().play(rows, labels)
            rounds = np.arange(self.warm, len(y))
            name = f"beta={member.beta}"
            out.append(Leaf(name, member, rows, labels, trace, path, rounds, unit=self.scale**2))
        return out


def problem(rng, T=80, d=2):
    Z = rng.normal(size=(T, d))
    u = np.repeat(rng.normal(size=(4, d)), T // 4, axis=0)
    return Z, 50.0 * (np.sum(Z * u, axis=1) + rng.normal(size=T)), 50.0 * u


def test_the_bound_holds_for_mixtures_in_other_coordinates():
    rng = np.random.default_rng(0)
    leaves = set()
    for _ in range(60):
        Z, y, u = problem(rng)
        betas = rng.choice([0.3, 0.8, 0.95, 0.99, 1.0], size=3, replace=False)
        composite = Average(betas, scale=10.0 ** rng.integers(-2, 3), warm=int(rng.integers(0, 20)))
        u = u if rng.integers(2) else u[0]
        cert = certify(composite, Z, y, composite.play(Z, y), u)
        assert cert.slack >= -1e-12 * cert.scale
        path = np.broadcast_to(u, Z.shape)
        assert cert.comparator_loss == pytest.approx(squared.value(np.sum(Z * path, axis=1), y).sum(), rel=1e-12)
        assert cert.regret == pytest.approx(cert.incurred - cert.comparator_loss, rel=1e-9, abs=1e-9 * cert.scale)
        leaves.add(cert.leaf)
    assert len(leaves) > 2


def test_one_leaf_alone_has_no_excess():
    Z, y, u = problem(np.random.default_rng(1))
    composite = Average([0.9])
    cert = certify(composite, Z, y, composite.play(Z, y), u)
    own = certify(composite.members[0], 3.0 * Z, y, composite.members[0].clone().play(3.0 * Z, y), u / 3.0)
    assert cert.leaf == "beta=0.9"
    assert abs(cert.excess) <= 1e-12 * cert.scale
    assert cert.bound == pytest.approx(own.bound, rel=1e-12)


def test_a_function_sees_each_leafs_own_rows():
    Z, y, _ = problem(np.random.default_rng(2))
    composite = Average([0.9, 1.0], scale=50.0, warm=7)
    cert = certify(composite, Z, y, composite.play(Z, y), comparators.fixed)
    best = squared.value(np.sum(Z[7:] * comparators.fixed(Z[7:], y[7:]), axis=1), y[7:]).sum()
    assert cert.comparator_loss == pytest.approx(best, rel=1e-9)
    assert cert.holds
    points = frontier(composite, Z, y, composite.play(Z, y))
    assert all(point.certificate.holds for point in points)
    assert [p.certificate.comparator_loss for p in points] == sorted(
        (p.certificate.comparator_loss for p in points), reverse=True
    )


class Nested(Average):
    """An average of averages."""

    def leaves(self, Z, y, u):
        inner = Average([0.5, 0.9])
        return [Leaf("inner", inner, Z, y, inner.play(Z, y), u)]


def test_composites_nest_and_name_the_way():
    Z, y, u = problem(np.random.default_rng(3))
    outer = Nested([])
    trace = Trace(Average([0.5, 0.9]).play(Z, y).yhat + 1.0)
    cert = certify(outer, Z, y, trace, u)
    assert cert.leaf in ("inner/beta=0.5", "inner/beta=0.9")
    assert cert.holds


class Pair:
    """Two AIOLI learners of different bounds; only one covers a far comparator."""

    def leaves(self, Z, y, u):
        members = [DiscountedAIOLI(bound=b) for b in (0.5, 50.0)]
        return [Leaf(f"B={m.parameters['bound']}", m, Z, y, m.clone().play(Z, y), u) for m in members]


def test_a_leaf_that_does_not_cover_the_comparator_is_passed_over():
    rng = np.random.default_rng(4)
    Z, y = rng.normal(size=(60, 2)), np.sign(rng.normal(size=60))
    yhat = Pair().leaves(Z, y, None)[0].trace.yhat
    near = certify(Pair(), Z, y, Trace(yhat), [0.1, 0.0], logistic)
    far = certify(Pair(), Z, y, Trace(yhat), [2.0, 0.0], logistic)
    assert (near.leaf, far.leaf) == ("B=0.5", "B=50.0")
    with pytest.raises(ConditionError, match=r"no leaf of Pair covers this comparator; B=0.5: .*; B=50.0: .*BR = 50"):
        certify(Pair(), Z, y, Trace(yhat), [200.0, 0.0], logistic)


class Mute(Average):
    def leaves(self, Z, y, u):
        return [Leaf("mute", self.members[0], Z, y, self.members[0].clone().play(Z, y))]


def test_bad_input_is_one_sentence():
    Z, y, u = problem(np.random.default_rng(5))
    composite = Average([0.9])
    trace = composite.play(Z, y)
    with pytest.raises(InputError, match=r"certify: the trace must cover the 79 rounds given, it has 80"):
        certify(composite, Z[1:], y[1:], trace, u[1:])
    with pytest.raises(InputError, match=r"the trace is of Average, the learner is Nested"):
        certify(Nested([]), Z, y, trace, u)
    with pytest.raises(InputError, match=r"a fragment that starts after round 5"):
        certify(composite, Z, y, Trace(trace.yhat, first=5), u)
    with pytest.raises(InputError, match=r"certify: u must be finite, got nan"):
        certify(composite, Z, y, trace, u * np.nan)
    with pytest.raises(ConditionError, match=r"mute: cannot express this comparator in its own coordinates"):
        certify(Mute([0.9]), Z, y, Trace(trace.yhat), u)


def test_the_members_of_an_ensemble_are_its_leaves():
    Z, y, u = problem(np.random.default_rng(6))
    members = [DiscountedVAW(beta=0.9), Persistence(), DiscountedVAW(beta=1.0, hint="last")]
    fresh, played = Ensemble(members), Ensemble(members)
    trace = played.play(Z, y)
    before = played.copy()
    names = {certify(learner, Z, y, trace, path).leaf for learner in (fresh, played) for path in (u, 0.0 * u[0])}
    assert names <= {repr(members[0]), repr(members[2])}
    assert certify(played, Z, y, trace, u).holds
    assert played == before


def test_any_predictions_are_certified_through_learners_they_do_not_contain():
    rng = np.random.default_rng(7)
    for _ in range(40):
        Z, y, u = problem(rng)
        someone = Trace(y + 30.0 * rng.normal(size=len(y)), learner="SomeoneElse", parameters={"beta": 0.3})
        beside = ReferenceLearners([DiscountedVAW(beta=b, hint="ridge") for b in (0.8, 0.99, 1.0)])
        for opponent in (u, comparators.fixed):
            cert = certify(beside, Z, y, someone, opponent)
            assert cert.slack >= -1e-12 * cert.scale
            assert cert.leaf.startswith("DiscountedVAW(beta=")
    signs = np.sign(y)
    logit = ReferenceLearners([DiscountedAIOLI(beta=0.99, bound=9.0)])
    assert certify(logit, Z, signs, Trace(signs), [0.1, 0.2]).holds
    with pytest.raises(InputError, match=r"ReferenceLearners: learners must be learners with a guarantee"):
        ReferenceLearners([])
    with pytest.raises(ConditionError, match=r"no leaf of ReferenceLearners covers .*Persistence makes no promise"):
        certify(ReferenceLearners([Persistence()]), Z, y, someone, u)
