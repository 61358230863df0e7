"""Several threads at one model: predictions are right, and no round is lost."""

from threading import Barrier, Thread

import numpy as np

import undrift as ud


def together(*works) -> None:
    """Run functions at the same time, and raise what one of them raised."""
    start, failed = Barrier(len(works)), []

    def go(work) -> None:
        start.wait()
        try:
            work()
        except BaseException as error:  # it would end in its thread
            failed.append(error)

    threads = [Thread(target=go, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_large_blocks_are_predicted_at_the_same_time() -> None:
    """So large that the kernel lets other threads run meanwhile."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(1600, 40))
    model = ud.linear_ensemble(1600)
    model.play(Z[:50], Z[:50, 0])
    blocks = [np.ascontiguousarray(Z[400 * k : 400 * k + 300 + 17 * k]) for k in range(4)]
    expected = [model.predict(block) for block in blocks]

    def predict(block, yhat):
        for _ in range(40):
            np.testing.assert_array_equal(model.predict(block), yhat)

    together(*(lambda b=block, e=yhat: predict(b, e) for block, yhat in zip(blocks, expected, strict=True)))
