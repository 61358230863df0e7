"""Ctrl-C at any line leaves a stream as before the call or as after it."""

import pytest

import undrift as ud
from tests.learners.test_interrupts import heed_ctrl_c, press_ctrl_c, run_until
from tests.stream.tables import CASES

__all__ = ["heed_ctrl_c"]  # a fixture

NAMES = ["many texts", "delay and lags", "weight", "two classes", "several classes", "skip"]


def require_all_or_nothing(base, call):
    """Press Ctrl-C at lines of `call(stream)`, each when it is run first and last."""
    after = base.copy()
    call(after)
    assert base != after
    lines = run_until(lambda: call(base.copy()))
    first = {line: place for place, line in reversed(list(enumerate(lines, 1)))}
    last = {line: place for place, line in enumerate(lines, 1)}
    inside = ("stream/stream.py", "stream/features.py", "stream/labels.py")
    places = sorted({*first.values(), *last.values()})
    seen = set()
    for k, place in enumerate(places):
        if not lines[place - 1][0].endswith(inside) and k % (1 + len(places) // 40):
            continue
        stream = base.copy()
        run_until(lambda: call(stream), place, press_ctrl_c)  # noqa: B023  (called at once)
        seen.add(
            which := "before" if stream == base else "after" if stream == after else f"neither: {lines[place - 1]}"
        )
        assert which in ("before", "after"), which
        if which == "before" and k % 20 == 0:
            call(stream)
            assert stream == after
    assert seen == {"before", "after"}


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_played_whole_or_not_at_all(name):
    rows, stream = CASES[name].rows(), CASES[name].stream()
    stream.play(rows[:60])
    require_all_or_nothing(stream, lambda found: found.play(rows[60:64]))


@pytest.mark.parametrize("name", ["few texts", "several classes"])
def test_first_rows_are_played_whole_or_not_at_all(name):
    rows = CASES[name].rows()
    require_all_or_nothing(CASES[name].stream(), lambda found: found.play(rows[:40]))
    require_all_or_nothing(CASES[name].stream(), lambda found: found.infer(rows[:40]))


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_asked_and_their_labels_learned_or_not(name):
    case, rows = CASES[name], CASES[name].rows()
    stream = case.stream()
    stream.play(rows[:60])
    more = [{key: cell for key, cell in row.items() if key != case.target} for row in rows[60:72]]
    require_all_or_nothing(stream, lambda found: found.ask(more[0], "a"))
    asked = stream.ask(more[:3] if name != "skip" else more)
    labels = [rows[0][case.target]] * len(asked)
    require_all_or_nothing(stream, lambda found: found.tell(asked, labels))
    require_all_or_nothing(stream, lambda found: found.tell(int(asked.serial[1]), labels[0]))


def test_a_column_that_comes_later_is_taken_in_or_not():
    stream = ud.Stream("y", speed="light")
    for t in range(20):
        stream.play({"x": float(t % 5), "y": float(t % 3)})
    require_all_or_nothing(stream, lambda found: found.play({"x": 1.0, "z": 2.0, "shop": "a", "y": 1.0}))
