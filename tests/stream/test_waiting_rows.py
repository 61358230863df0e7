"""Rows that wait for their labels: in any order, saved, given up when they are too many, and never mixed up."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import undrift as ud
from tests.stream.tables import CASES
from undrift.errors import InputError, UndriftError
from undrift.stream import stream as stream_module


def task_of(case):
    return {"kind": "multiclass", "two": "classification", "flag": "classification"}.get(case.target, "regression")


def test_the_oldest_row_is_given_up_when_too_many_wait(monkeypatch):
    case, rows = CASES["weight"], CASES["weight"].rows()
    stream, twin = case.stream().infer(rows), case.stream().infer(rows)
    for t in range(7):
        row = {"x": rows[t]["x"], "w": rows[t]["w"]}
        with monkeypatch.context() as patch:
            patch.setattr(stream_module, "MOST_WAITING", 4)
            stream.ask(row, f"row {t}")
        twin.ask(row, f"row {t}")
        if t >= 4:
            twin.tell(f"row {t - 4}", None)  # which never comes
    assert stream.waiting == [4, 5, 6, 7]
    assert dict(stream.references) == {f"row {t}": t + 1 for t in (3, 4, 5, 6)}
    assert stream == twin
    with pytest.raises(InputError, match="no row with the reference 'row 2' waits for its label"):
        stream.tell("row 2", 1.0)
    for t in (6, 3, 5, 4):
        stream.tell(f"row {t}", rows[t]["y"])
    assert (stream.waiting, stream.rounds) == ([], 4)


def test_many_rows_at_once_are_not_more_than_may_wait(monkeypatch):
    monkeypatch.setattr(stream_module, "MOST_WAITING", 3)
    rows = CASES["few texts"].rows()
    stream = CASES["few texts"].stream().infer(rows)
    answers = stream.ask(rows[:8], list(range(100, 108)))
    assert len(answers) == 8
    assert stream.waiting == [6, 7, 8]
    assert [*stream.references] == [105, 106, 107]


def test_labels_that_wait_in_a_delay_are_not_given_up(monkeypatch):
    monkeypatch.setattr(stream_module, "MOST_WAITING", 2)
    rows, case = CASES["delay"].rows(), CASES["delay"]
    stream, twin = case.stream(), case.stream()
    stream.play(rows)
    monkeypatch.setattr(stream_module, "MOST_WAITING", 1000)
    twin.play(rows)
    assert stream == twin
    asked = [{"x": row["x"], "many": row["many"]} for row in rows[:4]]
    expected = [twin.ask(row).yhat[0] for row in asked]
    monkeypatch.setattr(stream_module, "MOST_WAITING", 2)
    assert [stream.ask(row).yhat[0] for row in asked] == expected
    assert len(stream.waiting) == 2


def test_references_skip_rows_that_are_left_out():
    case, rows = CASES["skip"], CASES["skip"].rows()
    stream = case.stream().infer(rows)
    kept = [row["often"] is not None and row["torn"] is not None for row in rows[:20]]
    assert not all(kept)
    answers = stream.ask(rows[:20], [f"row {t}" for t in range(20)])
    assert len(answers) == sum(kept)
    assert [*stream.references] == [f"row {t}" for t in range(20) if kept[t]]
    assert [*stream.references.values()] == answers.serial.tolist()


def test_a_weight_stands_beside_the_row_or_the_label():
    case, rows = CASES["weight"], CASES["weight"].rows()
    beside, told, plain = (case.stream().infer(rows) for _ in range(3))
    for row in rows[:40]:
        beside.tell(beside.ask({"x": row["x"], "w": row["w"]}), row["y"])
        told.tell(told.ask({"x": row["x"], "w": 1.0}), row["y"], weight=row["w"])
        plain.tell(plain.ask({"x": row["x"], "w": 1.0}), row["y"])
    assert beside.model == told.model != plain.model


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_labels_come_in_any_order_through_any_copy(data):
    """The order of labels is that of the estimator's own `tell`; saving on the way changes nothing."""
    name = data.draw(st.sampled_from(["numbers", "lags", "many texts", "two classes", "several classes", "weight"]))
    case, rows = CASES[name], CASES[name].rows(24)
    stream = case.stream().infer(CASES[name].rows())
    twin, waiting, learned = stream.copy(), [], 0
    for t, row in enumerate(rows):
        question = {key: cell for key, cell in row.items() if key != case.target}
        first, second = stream.ask(question, t), twin.ask(question)
        assert repr(first[0]) == repr(second[0])
        waiting.append((t, second))
        while waiting and data.draw(st.booleans()):
            at, answers = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
            label = None if data.draw(st.integers(0, 5)) == 0 else rows[at][case.target]
            stream.tell(at, label)
            twin.tell(answers, math.nan if label is None else label)
            learned += label is not None
        if data.draw(st.integers(0, 4)) == 0:
            stream = stream.copy()
    assert stream.rounds == twin.rounds == learned
    assert [*stream.references] == [t for t, _ in waiting]
    assert stream.waiting == twin.waiting
    assert stream.model == twin.model
    question = {key: cell for key, cell in rows[0].items() if key != case.target}
    assert repr(stream.predict(question)[0]) == repr(twin.predict(question)[0])


@settings(max_examples=30, deadline=None)
@example(cuts=[1], name="delay", first=2)  # a column that is learned by means from the middle of a block on
@example(cuts=[2], name="every hole an indicator", first=2)  # a text is missing before another one first comes
@given(
    cuts=st.lists(st.integers(0, 100), max_size=6).map(sorted),
    name=st.sampled_from(sorted(CASES)),
    first=st.sampled_from([2, 5, 30, 100]),
)
def test_a_table_may_be_cut_anywhere(cuts, name, first):
    """Also where texts and classes come later than the rows that columns were inferred from."""
    rows = CASES[name].rows(100)
    head, settings_of_few = rows[:first], {} if first == 100 else {"task": task_of(CASES[name])}
    try:
        whole = CASES[name].stream(speed="light", **settings_of_few).infer(head)
    except UndriftError:  # so few rows do not show what the columns are
        return
    parts = CASES[name].stream(speed="light", **settings_of_few).infer(head)
    expected, ends = whole.play(rows), [0, *cuts, 100]
    answers = [parts.play(rows[a:b]) for a, b in pairwise(ends) if b > a]
    np.testing.assert_array_equal(ud.stream.answers.join_answers(answers).yhat, expected.yhat)
    assert parts == whole


def test_labels_of_several_rows_are_told_by_their_names():
    rows = [{"x": float(t % 7), "y": float(t % 5)} for t in range(60)]
    stream, other = (ud.Stream("y", speed="light") for _ in range(2))
    for each in (stream, other):
        each.play(rows)
    names = np.array([7, 8, 9])
    stream.ask(rows[:3], names)
    stream.tell(list(names), [1.0, 2.0, 3.0])
    other.tell(other.ask(rows[:3]), [1.0, 2.0, 3.0])
    assert stream == other


def test_a_row_that_is_asked_without_a_weight_counts_once():
    rows = [{"x": float(t % 7), "w": 1.0 + t % 2, "y": float(t % 5)} for t in range(60)]
    stream, other = (ud.Stream("y", weight="w", speed="light") for _ in range(2))
    for each, row in ((stream, {"x": 1.0}), (other, {"x": 1.0, "w": 1.0})):
        each.play(rows)
        each.tell(each.ask(row), 2.0)
    assert stream == other
