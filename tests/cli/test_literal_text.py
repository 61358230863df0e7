"""Names from files are printed as they are, and the terminal, the report and --json lead with one measure."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from undrift.cli import doctor
from undrift.cli.output import console, print_table

HOSTILE = [
    "shop[north]", "shop[south]", "[/]", "[bold]x[/bold]", "[red]", ":smile:", "[link=https://example.org]x[/link]",
    "a\x1b[31mb", "a\nb", "[[[", "\\[x]", "[@click=bell]x[/]", "{x}", "%s", "\u202ereversed", "\udc80", "x" * 400,
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_tables_print_every_name_literally(capsys, name):
    print_table([name, "n"], [(name, "1"), ("other", "2")], title=name)
    shown = "".join("".join(c if c.isprintable() else repr(c)[1:-1] for c in name).split())
    out = "".join(capsys.readouterr().out.split())
    assert out.count(shown) >= 1 if len(name) > 100 else out.count(shown) == 3
    assert len(re.findall("x", out)) == 3 * name.count("x") + 3 * shown.count("\\x") - 3 * name.count("\\x")
    assert "\x1b" not in out


def test_the_progress_console_prints_literally_too():
    file = io.StringIO()
    console(file).print("shop[north] [/] :smile:")
    assert file.getvalue() == "shop[north] [/] :smile:\n"


def test_doctor_names_the_extra_to_install(call, monkeypatch):
    monkeypatch.setitem(doctor.EXTRAS, "torch", ("a library that nobody has",))
    _, out, _ = call("doctor")
    assert "pip install 'undrift[torch]'" in out


def test_run_and_predict_print_hostile_names_literally(call):
    rng = np.random.default_rng(0)
    rows = "\n".join(f"{x},{'[red]' if x > 0 else '[/]'},{2 * x + e}" for x, e in rng.normal(size=(300, 2)).tolist())
    Path("shop[north].csv").write_text(f"[/],city[x],y[bold]\n{rows}\n")
    options = ("-t", "y[bold]", "--speed", "fast", "--no-certify")
    code, out, err = call("run", "shop[north].csv", *options)
    assert code == 0
    assert "Predicted 'y[bold]' (a number) 299 times in shop[north].csv" in out
    assert "[/]" in err
    assert "shop[north]-run/report.html" in out
    code, out, _ = call("predict", "shop[north]-run", "shop[north].csv", "-o", "[p].csv")
    assert code == 0
    assert "predictions of 'y[bold]' from" in out


def test_fleets_print_keys_literally(call):
    rng = np.random.default_rng(0)
    keys = ["shop[north]", "shop[south]", "[/]", "[bold]", ":smile:"]
    rows = [f"{keys[t % 5]},{x},{x + e}" for t, (x, e) in enumerate(rng.normal(size=(300, 2)).tolist())]
    Path("f.csv").write_text("key[x],x,y\n" + "\n".join(rows))
    code, out, _ = call("fleet", "f.csv", "-k", "key[x]", "-t", "y", "--no-report", "-q")
    assert code == 0
    worst = [
        line.split()[0]
        for line in out.split("worst keys")[1].split("shortest memory")[0].splitlines()[2:]
        if line.strip()
    ]
    assert sorted(worst) == sorted(keys)


def test_one_measure_leads_everywhere(call):
    """A stream where the last value is the better naive guess by mean absolute error, the mean by squared error."""
    rng = np.random.default_rng(1)
    level = np.where(rng.random(2000) < 0.2, 30.0, 0.0)
    y = np.repeat(level, 1 + np.arange(2000) % 2) + 0.01 * rng.normal(size=3000)
    Path("rare.csv").write_text("x,y\n" + "\n".join(f"{a},{b}" for a, b in zip(rng.normal(size=3000), y, strict=True)))
    code, out, _ = call("run", "rare.csv", "-t", "y", "--speed", "fast", "--no-certify", "-q")
    assert code == 0
    _, answer, _ = call("run", "rare.csv", "-t", "y", "--speed", "fast", "--no-certify", "-q", "--resume", "--json")
    facts = json.loads(answer)
    scores = facts["scores"]
    assert facts["measure"] == next(iter(scores["model"])) == "rmse"
    best = min(("last value", "running mean"), key=lambda name: scores[name]["rmse"])
    mean = min(("last value", "running mean"), key=lambda name: scores[name]["mean absolute error"])
    assert best != mean  # the two measures do contradict each other here
    sentence = re.search(r"Typical error \(RMSE\) (\S+), (.*) the best naive guess \('(.*?)'", out)
    page = Path("rare-run/report.html").read_text()
    found = re.search(
        r"undrift's typical error in “y” was (\S+?)[:,] (.*?) the best naive guess, “(.*?)”", page.replace("&#39;", "'")
    )
    assert sentence.groups() == found.groups()
    assert sentence[3] == best
