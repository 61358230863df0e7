"""Several threads at one stream: predictions are those of a state it was in, and no row is lost."""

import pickle
from threading import Event

import pytest

import undrift as ud
from tests.learners.test_threads import together
from tests.stream.tables import CASES, ROWS


@pytest.mark.parametrize("name", ["numbers", "many texts", "lags", "two classes", "several classes", "elapsed"])
def test_predictions_while_a_stream_plays_are_those_of_its_states(name, tmp_path):
    case, rows = CASES[name], CASES[name].rows()
    stream = case.stream().infer(rows)
    stream.play(rows[:60])
    twin, question = stream.copy(), {key: cell for key, cell in rows[7].items() if key != case.target}
    states = {twin.rounds: repr(twin.predict(question)[0])}
    for begin in range(60, ROWS, 10):
        twin.play(rows[begin : begin + 10])
        states[twin.rounds] = repr(twin.predict(question)[0])
    seen, explained, finished = [], [], Event()

    def play():
        for begin in range(60, ROWS, 10):
            stream.play(rows[begin : begin + 10])
        finished.set()

    def look():
        while not finished.is_set() or not seen:
            seen.append(repr(stream.predict(question)[0]))
            explained.append(stream.explain(question).prediction)
            for copied in (stream.copy(), pickle.loads(pickle.dumps(stream))):
                assert repr(copied.predict(question)[0]) == states[copied.rounds]

    together(play, look, look)
    assert {*seen} <= {*states.values()}
    assert stream == twin


def test_rows_of_several_threads_come_one_after_the_other():
    rows = CASES["few texts"].rows()
    halves = rows[:60], rows[60:]
    orders = []
    for order in (halves, halves[::-1]):
        serial = CASES["few texts"].stream().infer(rows)
        for part in order:
            serial.play(part)
        orders.append(serial)
    for _ in range(3):
        stream = CASES["few texts"].stream().infer(rows)
        together(*(lambda part=part, stream=stream: stream.play(part) for part in halves))
        assert stream in orders


def test_rows_that_are_asked_in_many_threads_get_their_own_labels():
    rows = CASES["numbers"].rows()
    stream = CASES["numbers"].stream().infer(rows)

    def serve(k):
        for t in range(k, ROWS, 3):
            stream.ask({"x": rows[t]["x"], "holes": rows[t]["holes"]}, f"row {t}")
            stream.tell(f"row {t}", rows[t]["y"])

    together(*(lambda k=k: serve(k) for k in range(3)))
    assert (stream.rounds, stream.waiting, dict(stream.references)) == (ROWS, [], {})
    assert isinstance(stream.model, ud.OnlineRegressor)
