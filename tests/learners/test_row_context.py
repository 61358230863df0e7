"""RowContext: what comes with rows goes with them, and what a learner does not take is refused in one place."""

import numpy as np
import pytest

import undrift as ud
from undrift._internal.discount import Discount
from undrift.errors import InputError
from undrift.learners.row_context import ORDINARY, RowContext, check_context

GIVEN = {"weight": [1.0, 2.0, 0.0], "elapsed": [1.0, 0.0, 3.0]}


def test_ones_are_an_ordinary_context():
    assert check_context("test", 3) is ORDINARY
    assert check_context("test", 2, weight=[1, 1], elapsed=[1.0, 1.0]) == ORDINARY
    assert check_context("test", 3, delay=[0, 2, 1]).ordinary
    assert ORDINARY.weights(2).tolist() == ORDINARY.times(2).tolist() == [1.0, 1.0]
    assert ORDINARY.discounts(Discount(0.5, 0.5), 2).tolist() == [0.5, 0.5]
    assert not len(ORDINARY.extra_age)
    assert not ORDINARY.needs


def test_weights_and_times_are_given_together():
    alone = check_context("test", 2, weight=[1.0, 2.0])
    assert alone.times(2).tolist() == [1.0, 1.0]
    assert not alone.ordinary
    assert alone.needs == ["weight"]
    assert check_context("test", 3, **GIVEN, levels=np.array([0.5])).needs == ["weight", "elapsed", "quantiles"]


def test_parts_of_a_block_have_the_context_of_their_rows():
    context = check_context("test", 3, **GIVEN, delay=[4, 0, 2])
    later = context.between(1, 3)
    assert (later.weights(2).tolist(), later.times(2).tolist(), later.delay) == ([2.0, 0.0], [0.0, 3.0], [0, 2])
    last = context.row(2)
    assert (last.weights(1).tolist(), last.times(1).tolist(), last.delay) == ([0.0], [3.0], 2)
    assert ORDINARY.between(1, 3) == ORDINARY.row(1) == ORDINARY
    assert (context.longest_delay, last.longest_delay, RowContext(delay=[]).longest_delay) == (4, 2, 0)
    assert context.extra_age.tolist() == [0.0, -1.0, 2.0]
    assert context.discounts(Discount(0.5, 0.5), 3).tolist() == [0.5, 1.0, 0.125]


def test_delays_that_fit_no_row_are_refused():
    with pytest.raises(InputError, match="delay must be an integer, or one for each of the 3 rows, got 2"):
        check_context("test", 3, delay=[1, 2])
    with pytest.raises(InputError, match=r"delay\[1\]"):
        check_context("test", 2, delay=[1, -2])


def test_ensembles_support_what_all_their_members_do():
    assert ud.Ensemble([ud.DiscountedVAW(), ud.Zero()]).supports == {"weight", "elapsed"}
    assert not ud.Ensemble([ud.DiscountedVAW(), ud.DiscountedMean()]).supports
    nested = ud.Ensemble([ud.linear_ensemble(), ud.OnlineRegressor(speed="light")])
    assert nested.supports == {"weight", "elapsed"}
    assert ud.ClassEnsemble([ud.DiscountedSoftmax(3), ud.OneVsRest(3)]).supports == {"weight", "elapsed"}
    with pytest.raises(InputError, match="Zero: quantiles are not supported; leave them out"):
        ud.Zero().require("weight", "quantiles")


@pytest.mark.parametrize("given", [{"delay": 2}, {"delay": [0, 1]}])
def test_no_rows_may_be_played_while_labels_wait(given):
    model = ud.DiscountedVAW()
    model.play([[1.0], [2.0]], [1.0, 2.0], **given)
    before = model.copy()
    assert len(model.play([], [], delay=[])) == 0
    assert model == before
