"""A run and a fleet never share a folder: neither replaces or deletes what the other wrote."""

from pathlib import Path

import numpy as np


def visible(folder):
    return {file.name: file.read_bytes() for file in Path(folder).iterdir() if file.is_file()}


def test_a_fleet_and_a_run_leave_each_other_alone(call):
    rng = np.random.default_rng(0)
    rows = [f"{'ab'[t % 2]},{x},{x + e}" for t, (x, e) in enumerate(rng.normal(size=(200, 2)).tolist())]
    Path("s.csv").write_text("shop,x,y\n" + "\n".join(rows))
    run = ("run", "s.csv", "-t", "y", "--speed", "fast", "--no-certify", "--no-report", "-q", "-o")
    fleet = ("fleet", "s.csv", "-k", "shop", "-t", "y", "--no-report", "-q", "-o")
    assert call(*run, "r")[0] == 0
    assert call(*fleet, "f")[0] == 0
    for mine, theirs, options in ((run, "f", ["--resume", "--force"]), (fleet, "r", ["--force"])):
        before = visible(theirs)
        for option in ([], *([one] for one in options)):
            code, out, err = call(*mine, theirs, *option)
            assert (code, out) == (2, "")
            assert "choose another with --out" in err
            assert err.count("\n") == 1
        assert visible(theirs) == before
