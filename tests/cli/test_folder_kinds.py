"""A run and a fleet never share a folder, and a command that is given the folder of another says what to do."""

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


def test_predict_says_where_fleets_and_forecasts_have_their_predictions(call):
    Path("s.csv").write_text("shop,x,y\n" + "".join(f"{'ab'[t % 2]},{t % 3},{t % 5}\n" for t in range(60)))
    Path("new.csv").write_text("shop,x,y\na,1,\nb,2,\n")
    assert call("fleet", "s.csv", "-k", "shop", "-t", "y", "--no-report", "-q")[0] == 0
    assert call("forecast", "s.csv", "-t", "y", "-H", "2", "--no-report", "-q", "-o", "one")[0] == 0
    assert call("forecast", "s.csv", "-t", "y", "-H", "2", "-k", "shop", "-q", "-o", "many")[0] == 0
    assert call("predict", "s-fleet", "new.csv") == (
        2,
        "",
        "undrift: s-fleet: the folder of a fleet, not of a run; undrift update s-fleet FILE predicts rows without a "
        "target, as the last lines of predictions.csv\n",
    )
    assert call("update", "s-fleet", "new.csv", "--no-report", "-q")[0] == 0
    last = Path("s-fleet/predictions.csv").read_text().splitlines()[-2:]
    assert [line.split(",")[0] for line in last] == ["a", "b"]
    for folder, name in (("one", "next.csv"), ("many", "next.csv")):
        assert call("predict", folder, "new.csv") == (
            2,
            "",
            f"undrift: {folder}: a folder of forecasts, not of a run; the next steps are in "
            f"{Path(folder, name)}, and undrift update {folder} FILE learns new rows\n",
        )
        assert Path(folder, name).exists()
