"""check_learner: the contract every learner must pass, ours and yours."""

from __future__ import annotations

import copy
import gc
import pickle
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from undrift._typing import Matrix, Vector
from undrift.errors import UndriftError
from undrift.learners import Learner, load
from undrift.trace import Trace

Check = Callable[[Learner, "SampleStream"], None]


class SampleStream:
    """A small drifting stream with labels of the kind the learner wants."""

    def __init__(self, learner: Learner, rounds: int = 80, dim: int = 3, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.Z: Matrix = rng.normal(size=(rounds, dim))
        drift = np.cumsum(rng.normal(scale=0.1, size=(rounds, dim)), axis=0)
        self.y: Vector = np.sum(self.Z * (1.0 + drift), axis=1) + rng.normal(scale=0.1, size=rounds)
        if learner.binary:
            self.y = np.where(self.y > 0.0, 1.0, -1.0)
        if learner.outputs > 1:
            edges = np.quantile(self.y, np.linspace(0.0, 1.0, learner.outputs + 1)[1:-1])
            self.y = np.digitize(self.y, edges).astype(np.float64)


def check_learner(learner: Learner, *, rounds: int = 100_000) -> None:
    """Raise an AssertionError that names the first promise `learner` breaks.

    Parameters
    ----------
    learner
        A fresh learner; only clones of it are used.
    rounds
        Length of the runs on degenerate features (constant, zero, duplicated), where numbers must stay finite.

    Examples
    --------
    >>> import undrift as ud
    >>> check_learner(ud.DiscountedMean(beta=0.9), rounds=1000)
    """
    stream = SampleStream(learner)
    for check in _CHECKS:
        check(learner.clone(), stream)
    _stays_finite_on_degenerate_features(learner.clone(), rounds)


def _bits(*traces: Trace) -> list[bytes]:
    """Return the columns of a run, given in one trace or in several, as bytes."""
    runs = [trace for trace in traces if len(trace)]
    columns = ([getattr(run, name) for run in runs] for name in ("yhat", "stability", "potential"))
    return [b"".join(part.tobytes() for part in column if part is not None) for column in columns]


def _score(learner: Learner, z: ArrayLike) -> Any:
    """Return what a trace holds for a row that comes next: the prediction, or log-odds where `predict` gives labels."""
    return getattr(learner, "log_odds", learner.predict)(z)


def _claim(holds: object, learner: Learner, what: str) -> None:
    if not holds:
        raise AssertionError(f"{learner!r}: {what}")


def _predict_is_pure(learner: Learner, stream: SampleStream) -> None:
    _claim(np.isfinite(_score(learner, stream.Z[0])).all(), learner, "predict fails before the first round")
    _claim(learner.dim is None, learner, "predict before the first round changed the learner")
    learner.play(stream.Z[:30], stream.y[:30])
    before = learner.copy()
    one = [_score(learner, z) for z in stream.Z[30:40]]
    many = _score(learner, stream.Z[30:40])
    shape = () if learner.outputs == 1 else (learner.outputs,)
    single = all(isinstance(yhat, float) for yhat in one) or (shape and all(np.shape(yhat) == shape for yhat in one))
    _claim(single, learner, "predict of one row is not a float, or one for each class")
    _claim(learner == before, learner, "predict changed the learner")
    right = many.shape == (10, *shape) and many.dtype == np.float64
    _claim(right, learner, "predict of rows is not a float64 vector, or matrix for classes")
    _claim(np.array(one).tobytes() == many.tobytes(), learner, "predict of rows differs from row by row")


def _play_equals_row_by_row(learner: Learner, stream: SampleStream) -> None:
    slow, yhat = learner.clone(), []
    for z, y in zip(stream.Z, stream.y, strict=True):
        yhat.append(_score(slow, z))
        returned: object = slow.learn(z, y)  # type: ignore[func-returns-value]  # nothing, or so it says
        _claim(returned is None, learner, "learn returns something")
    trace = learner.play(stream.Z, stream.y)
    _claim(np.array(yhat).tobytes() == trace.yhat.tobytes(), learner, "play predicts other bits than row by row")
    _claim(slow == learner, learner, "play leaves another state than row by row")
    _claim(learner.rounds == len(stream.y), learner, "rounds are not counted")
    for column in (trace.yhat, trace.stability, trace.potential):
        _claim(column is None or len(column) == len(stream.y), learner, "a column of the trace has a wrong length")


def _cuts_do_not_matter(learner: Learner, stream: SampleStream) -> None:
    whole = learner.clone()
    expected = _bits(whole.play(stream.Z, stream.y))
    rng = np.random.default_rng(1)
    for _ in range(5):
        cut = learner.clone()
        at = [0, *np.sort(rng.integers(0, len(stream.y), size=3)).tolist(), len(stream.y)]
        traces = [cut.play(stream.Z[a:b], stream.y[a:b]) for a, b in pairwise(at)]
        _claim(_bits(*traces) == expected, learner, f"cutting the stream at {at[1:-1]} changes bits of the trace")
        _claim(cut == whole, learner, f"cutting the stream at {at[1:-1]} changes bits of the state")


def _weights_and_times_go_with_their_rows(learner: Learner, stream: SampleStream) -> None:
    """What the learner supports is the same in blocks as row by row; all else is among the bad calls."""
    given = [need for need in ("weight", "elapsed") if need in learner.supports]
    slow, counts = learner.clone(), np.resize([0.5, 1.0, 2.0], len(stream.y))
    learner.play(stream.Z, stream.y, **dict.fromkeys(given, counts))
    for z, y, count in zip(stream.Z, stream.y, counts.tolist(), strict=True):
        slow.learn(z, y, **dict.fromkeys(given, count))
    _claim(slow == learner, learner, "play with weights or times leaves another state than row by row")


def _files_resume_exactly(learner: Learner, stream: SampleStream) -> None:
    learner.play(stream.Z[:37], stream.y[:37])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.undrift"
        learner.save(path)
        loaded = load(path, cls=type(learner), model=getattr(learner, "model", None))
    others = {"load": loaded, "copy": learner.copy(), "pickle": pickle.loads(pickle.dumps(learner))}
    others["deepcopy"] = copy.deepcopy(learner)
    expected = _bits(learner.play(stream.Z[37:], stream.y[37:]))
    for how, other in others.items():
        _claim(_bits(other.play(stream.Z[37:], stream.y[37:])) == expected, learner, f"{how} continues with other bits")
        _claim(other == learner, learner, f"{how} ends in another state")
    _claim(learner.clone().rounds == 0, learner, "clone is not fresh")


def _ask_and_tell_at_once_are_learn(learner: Learner, stream: SampleStream) -> None:
    prompt, yhat = learner.clone(), []
    for z, y in zip(stream.Z, stream.y, strict=True):
        before = _score(prompt, z)
        served = prompt.ask(z)
        yhat.append(served.yhat)
        _claim(np.array_equal(served.yhat, before), learner, "ask answers otherwise than predict")
        _claim(len(prompt.pending) == 1, learner, "ask keeps no record, or tell does not settle it")
        prompt.tell(served, float(y))
    trace = learner.play(stream.Z, stream.y)
    _claim(np.array(yhat).tobytes() == trace.yhat.tobytes(), learner, "ask and tell at once predict other bits")
    _claim(prompt == learner, learner, "ask and tell at once leave another state than learn")


def _late_labels_are_learned_when_they_come(learner: Learner, stream: SampleStream) -> None:
    """A delayed `play` is `ask` now and `tell` later, wherever it is cut, saved or copied; 0 is no delay."""
    prompt, on_time = learner.clone(), learner.clone()
    same = _bits(prompt.play(stream.Z, stream.y, delay=0)) == _bits(on_time.play(stream.Z, stream.y))
    _claim(same and prompt == on_time, learner, "delay=0 is not play")
    for delay in (1, 5, len(stream.y) + 3):
        late, yhat = learner.clone(), []
        for t, z in enumerate(stream.Z):
            yhat.append(late.ask(z).yhat)
            if t >= delay:
                late.tell(late.pending[0], float(stream.y[t - delay]))
        whole = learner.clone()
        trace = whole.play(stream.Z, stream.y, delay=delay)
        _claim(trace.yhat.tobytes() == np.array(yhat).tobytes(), learner, f"delay={delay} serves other bits than ask")
        _claim(len(whole.pending) == min(delay, len(yhat)), learner, f"delay={delay} keeps a wrong number of records")
        parts = _cut_by_copies(learner, stream, delay)
        _claim(_bits(*parts[0]) == _bits(trace), learner, f"delay={delay}: cutting the stream changes what is served")
        _claim(parts[1] == whole, learner, f"delay={delay}: cutting, saving or copying changes the state")


def _cut_by_copies(learner: Learner, stream: SampleStream, delay: int) -> tuple[list[Trace], Learner]:
    """Play a stream in four parts, going on with a copy, a pickle and a file of the learner in between."""
    part, traces = learner.clone(), []
    for k, (a, b) in enumerate(pairwise((0, 3, 37, 38, len(stream.y)))):
        traces.append(part.play(stream.Z[a:b], stream.y[a:b], delay=delay))
        if k == 0:
            part = part.copy()
        elif k == 1:
            part = pickle.loads(pickle.dumps(part))
        else:
            with tempfile.TemporaryDirectory() as folder:
                part.save(Path(folder) / "model.undrift")
                part = load(Path(folder) / "model.undrift", cls=type(learner), model=getattr(learner, "model", None))
    return traces, part


def _records_of_others_are_refused(learner: Learner, stream: SampleStream) -> None:
    learner.play(stream.Z[:20], stream.y[:20])
    other, label = learner.copy(), float(stream.y[20])
    served, elsewhere = learner.ask(stream.Z[20]), other.ask(stream.Z[21])
    closed = learner.copy()
    _claim_refused(closed, learner, "the record of another model", partial(closed.tell, elsewhere, label))
    learner.tell(served, label)
    _claim_refused(learner, learner.copy(), "a label told twice", partial(learner.tell, served, label))
    rounds, unlabelled = closed.rounds, closed.pending[0]
    closed.tell(unlabelled, float("nan"))
    _claim(closed.rounds == rounds and not closed.pending, learner, "a NaN label does not close its record")
    _claim_refused(closed, closed.copy(), "a label after its record was closed", partial(closed.tell, served, label))


def _threads_take_turns(learner: Learner, stream: SampleStream) -> None:
    """Two threads play at once, and two others predict meanwhile: the result is that of one order or the other."""
    parts = slice(10, 40), slice(40, 80)
    orders: list[Learner] = []
    said: list[bytes] = []
    seen: list[bytes] = []
    for order in (parts, parts[::-1]):
        serial = learner.clone()
        serial.play(stream.Z[:10], stream.y[:10])
        said.append(np.asarray(_score(serial, stream.Z[0])).tobytes())
        for part in order:
            serial.play(stream.Z[part], stream.y[part])
            said.append(np.asarray(_score(serial, stream.Z[0])).tobytes())
        orders.append(serial)
    learner.play(stream.Z[:10], stream.y[:10])

    def look() -> None:
        seen.extend(np.asarray(_score(learner, stream.Z[0])).tobytes() for _ in range(20))

    works: list[Callable[[], object]] = [
        look,
        *(partial(learner.play, stream.Z[part], stream.y[part]) for part in parts),
        look,
    ]
    threads = [Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _claim(learner in orders, learner, "two threads that play at once leave a state that no order of them leaves")
    _claim(set(seen) <= set(said), learner, "a prediction made while another thread plays is that of no finished state")


def _inputs_are_left_alone(learner: Learner, stream: SampleStream) -> None:
    expected = _bits(learner.clone().play(stream.Z, stream.y))
    for kind, (Z, y) in _kinds(stream).items():
        Z.flags.writeable = y.flags.writeable = False
        _claim(_bits(learner.clone().play(Z, y)) == expected, learner, f"{kind} input gives other bits")
    Z, y, kept = stream.Z.copy(), stream.y.copy(), learner.clone()
    kept.play(Z, y)
    before = kept.copy()
    Z += 1.0
    y += 1.0
    _claim(kept == before, learner, "it keeps a view of its input")


def _kinds(stream: SampleStream) -> dict[str, tuple[NDArray[np.generic], NDArray[np.generic]]]:
    wide = np.zeros((len(stream.Z), 2 * stream.Z.shape[1]))
    wide[:, ::2] = stream.Z
    return {
        "read-only": (stream.Z.copy(), stream.y.copy()),
        "Fortran-ordered": (np.asfortranarray(stream.Z), stream.y.copy()),
        "strided": (wide[:, ::2], np.repeat(stream.y, 2)[::2]),
        "big-endian": (stream.Z.astype(">f8"), stream.y.astype(">f8")),
        "unaligned": (_make_unaligned(stream.Z), _make_unaligned(stream.y)),
    }


def _make_unaligned(array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a copy that begins at an odd address, as arrays out of messages may."""
    out = np.empty(array.nbytes + 1, np.uint8)[1:].view(np.float64).reshape(array.shape)
    out[...] = array
    return out


def _narrow_types_work(learner: Learner, stream: SampleStream) -> None:
    for dtype in (np.float32, np.float16, np.int64, np.int8, np.bool_):
        Z = (4.0 * stream.Z).astype(dtype)
        y = stream.y.astype(np.int8 if learner.binary or learner.outputs > 1 else dtype)
        a = learner.clone().play(Z, y)
        b = learner.clone().play(Z.astype(np.float64), y.astype(np.float64))
        _claim(_bits(a) == _bits(b), learner, f"{dtype.__name__} input differs from the same numbers as float64")


def _zero_rows_are_a_no_op(learner: Learner, stream: SampleStream) -> None:
    learner.play(stream.Z[:5], stream.y[:5])
    before = learner.copy()
    nothing: tuple[ArrayLike, ...] = (stream.Z[:0], [])
    for Z in nothing:
        _claim(len(learner.play(Z, [])) == 0, learner, "zero rows leave a trace")
    _claim(learner == before, learner, "zero rows changed the learner")
    _claim(len(_score(learner, stream.Z[:0])) == 0, learner, "predict of zero rows is not empty")


def _bad_input_is_refused(learner: Learner, stream: SampleStream) -> None:
    learner.play(stream.Z[:20], stream.y[:20])
    before = learner.copy()
    for what, call in _bad_calls(learner, stream):
        _claim_refused(learner, before, what, call)


def _claim_refused(learner: Learner, before: Learner, what: str, call: Callable[[], object]) -> None:
    """Claim that a call raises one sentence of ours and leaves the learner as it was `before`."""
    try:
        call()
    except UndriftError as error:
        _claim("\n" not in str(error) and str(error), learner, f"the error for {what} is not one sentence")
    except Exception as error:
        raise AssertionError(f"{learner!r}: {what} raises {type(error).__name__}, not ours") from error
    else:
        raise AssertionError(f"{learner!r}: {what} is accepted")
    _claim(learner == before, learner, f"{what} was refused but changed the learner")


def _bad_calls(learner: Learner, stream: SampleStream) -> Iterator[tuple[str, Callable[[], object]]]:
    Z, y = stream.Z[20:30], stream.y[20:30]

    def with_value(array: NDArray[np.float64], value: float) -> NDArray[np.float64]:
        array = array.copy()
        array.flat[array.size // 2] = value
        return array

    for value in (np.inf, -np.inf, 1e76) if learner.accepts_nan else (np.nan, np.inf, -np.inf, 1e76):
        yield f"z = {value}", partial(learner.play, with_value(Z, value), y)
        yield f"predict of z = {value}", partial(learner.predict, with_value(Z, value)[5])
        yield f"learn of z = {value}", partial(learner.learn, with_value(Z, value)[5], float(y[5]))
    for value in (np.inf, 1e76) if learner.accepts_nan else (np.nan, np.inf, 1e76):
        yield f"y = {value}", partial(learner.play, Z, with_value(y, value))
    if not learner.grows:
        yield "one feature too many", lambda: learner.play(np.hstack([Z, Z[:, :1]]), y)
        yield "predict of one feature too few", lambda: _score(learner, Z[0, 1:])
    if learner.binary:
        if not learner.any_labels:
            yield "label 2", lambda: learner.play(Z, with_value(y, 2.0))
        yield "label 0.5", lambda: learner.learn(Z[0], 0.5)
    if learner.outputs > 1:
        yield "a class beyond the last", lambda: learner.play(Z, with_value(y, float(learner.outputs)))
        yield "class 0.5", lambda: learner.learn(Z[0], 0.5)
    for need in ("weight", "elapsed"):
        value = -1.0 if need in learner.supports else 2.0
        yield f"{need} = {value:g}", partial(learner.play, Z, y, **{need: np.full(len(y), value)})
    yield "fewer labels than rows", lambda: learner.play(Z, y[:-1])
    yield "a cube of features", lambda: learner.play(Z[None], y)
    yield "a matrix of labels", lambda: learner.play(Z, y[:, None])
    yield "an object array", lambda: learner.play(Z.astype(object), y)
    yield "text", lambda: learner.play([["a", "b", "c"]], [1.0])
    yield "ragged rows", lambda: learner.play([[1.0, 2.0, 3.0], [1.0, 2.0]], [1.0, 1.0])
    yield "an integer beyond float64", lambda: learner.learn([10**400, 1, 1], 1.0)
    yield "a label beyond float64", lambda: learner.learn(Z[0], 10**400)
    yield "no label", lambda: learner.learn(Z[0], None)  # type: ignore[arg-type]  # wrong on purpose
    yield "a complex number", lambda: _score(learner, Z[0] + 1j)
    yield "several rows to learn", lambda: learner.learn(Z, 1.0)


def _labels_scale(learner: Learner, stream: SampleStream) -> None:
    if learner.loss.name != "squared":
        return
    scaled = (1024.0 if learner.mixes_columns else 1.0) * stream.Z
    a, b = learner.clone().play(stream.Z, stream.y).yhat, learner.clone().play(scaled, 1024.0 * stream.y).yhat
    size = float(np.max(np.abs(b))) + 1e-300
    _claim(np.max(np.abs(1024.0 * a - b)) <= 1e-9 * size, learner, "labels x 1024 do not scale predictions by 1024")


def _memory_stays_constant(learner: Learner, stream: SampleStream) -> None:
    learner.play(stream.Z, stream.y)
    saved = _saved_bytes(learner)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(50):
            learner.play(stream.Z, stream.y)
        gc.collect()  # also empties lists of freed tuples, which are the interpreter's
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    kept = 2 * (_saved_bytes(learner) - saved) if learner.keeps_rows else 0  # there may be as much room as rows
    _claim(grown < 20_000 + kept, learner, f"memory grew by {grown} bytes in 4000 rounds")


def _saved_bytes(learner: Learner) -> int:
    return sum(array.nbytes for array in learner.snapshot()[1].values())


def _stays_finite_on_degenerate_features(learner: Learner, rounds: int) -> None:
    stream = SampleStream(learner, rounds, 4, seed=3)
    Z = stream.Z.copy()
    Z[:, 1], Z[:, 2], Z[:, 3] = 1.0, 0.0, Z[:, 0]
    trace = learner.play(Z, stream.y)
    for name in ("yhat", "stability", "potential"):
        column = getattr(trace, name)
        _claim(column is None or np.isfinite(column).all(), learner, f"{name} is not finite on degenerate features")


_CHECKS: tuple[Check, ...] = (
    _predict_is_pure,
    _play_equals_row_by_row,
    _cuts_do_not_matter,
    _weights_and_times_go_with_their_rows,
    _files_resume_exactly,
    _threads_take_turns,
    _inputs_are_left_alone,
    _narrow_types_work,
    _zero_rows_are_a_no_op,
    _bad_input_is_refused,
    _ask_and_tell_at_once_are_learn,
    _late_labels_are_learned_when_they_come,
    _records_of_others_are_refused,
    _labels_scale,
    _memory_stays_constant,
)
