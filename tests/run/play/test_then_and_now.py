"""The first and the last rows of a run depend on its rows alone, not on batches, stops or candidates."""

import numpy as np
import pytest

from undrift.run import Settings, play_file, read_run
from undrift.run.play import recorder
from undrift.run.play.recorder import ThenAndNow


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_batches_do_not_matter(size, monkeypatch):
    monkeypatch.setattr(recorder, "MOST_ROWS", 50)
    Z = np.arange(360.0).reshape(120, 3)
    kept = ThenAndNow()
    for a in range(0, 120, size):
        kept.add(Z[a : a + size])
        again = ThenAndNow()
        again.resume(kept.arrays())
        kept = again
    assert np.array_equal(kept.then, Z[:50])
    assert np.array_equal(kept.now, Z[-50:])


def test_features_that_come_later_are_missing_before():
    kept = ThenAndNow()
    kept.add(np.ones((3, 1)))
    kept.add(np.ones((2, 2)))
    assert np.array_equal(kept.then[:, 1], [np.nan] * 3 + [1.0] * 2, equal_nan=True)


def test_a_run_keeps_its_features_and_no_candidates(tmp_path):
    rows = [f"{t},{t % 5},{t / 2},{t + 1}" for t in range(60)]
    (tmp_path / "s.csv").write_text("\n".join(["a,b,other,y", *rows]))
    play_file(str(tmp_path / "s.csv"), tmp_path / "run", Settings(target="y", speed="light", candidate=("other",)))
    data = read_run(tmp_path / "run")
    assert list(data.features) == ["a", "b"]
    assert data.then.shape == data.now.shape == (60, 2)
    assert np.array_equal(data.then[:, 0], np.arange(60.0))
