"""undrift adam check | plan | map: what the user sees."""

import json
import re
import subprocess
import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

from undrift.cli.app import run


def call(capsys, *arguments):
    code = run(["adam", *arguments])
    seen = capsys.readouterr()
    return code, seen.out, seen.err


def test_check_says_that_the_usual_setting_is_not_covered(capsys):
    code, out, err = call(capsys, "check", "0.9", "0.999")
    assert code == 5
    assert err == ""
    assert "rho = 0.98947, 1/sqrt(1 - rho^2) = 6.9102" in out
    assert re.search(r"clipped/nu +not covered +5.06 vacuous", out)
    assert "smallest epsilon / (G + sigma)" in out
    assert "clipped/nu: needs 1 - beta2 <= nu / (G + sigma), got 0.001 against 1.00e-08: 1.00e+05 times too much" in out
    assert re.search(r"clipped/margin +vacuous +140 vacuous", out)
    assert "one norm over all parameters; they hold in expectation" in " ".join(out.split())


def test_check_with_a_problem_gives_steps_and_exit_code_zero(capsys):
    problem = ("-G", "1", "-s", "0.2", "-F", "1", "-c", "1", "-e", "0.25")
    code, out, _ = call(capsys, "check", "0.9999", "0.9999", "--nu", "0.5", *problem)
    assert code == 0
    assert re.search(r"clipped/nu +covered +0.192 +8,868,101", out)
    code, out, _ = call(capsys, "check", "0.9999", "0.9999", "--nu", "0.5", *problem, "--steps", "1000")
    assert code == 5
    assert "T must be at least 8,868,101, got 1,000" in out


def test_check_json_has_every_clause(capsys):
    code, out, _ = call(capsys, "check", "--gap1", "1e-15", "--gap2", "1e-15", "--nu", "1", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["covered"] is True
    assert answer["norm"] == "all"
    first = answer["verdicts"][0]
    assert first["theorem"] == "clipped/nu"
    assert {"holds", "status", "failing", "margin", "rho", "amplification", "epsilon", "vacuous", "steps"} <= set(first)
    assert {"name", "holds", "value", "limit", "margin", "text"} == set(first["clauses"][0])
    assert first["nearest"]["gap1"] == 1e-15
    code, out, _ = call(capsys, "check", "0.999", "0.5", "--json")  # beta2 below beta1^2: no epsilon, so null
    assert code == 5
    assert json.loads(out)["verdicts"][1]["epsilon"] is None


def test_plan_prints_parameters_and_the_split(capsys):
    code, out, err = call(capsys, "plan", "-G", "1.2", "-s", "0.2", "-F", "1", "-c", "1", "-e", "0.25")
    assert (code, err) == (0, "")
    assert re.search(r"steps T +7,119,453 +32,883,344 +10,068,427 +322,189,650", out)
    assert re.search(r"spread +25.0% +25.0% +12.5% +12.5%", out)
    assert "fewest steps, then smallest epsilon: clipped/nu" in out


def test_plan_inverts_and_says_it_in_other_senses(capsys):
    where = ("-G", "1.2", "-s", "0.2", "-F", "1")
    code, out, _ = call(capsys, "plan", *where, "-c", "1", "-T", "7119453", "--theorem", "clipped/nu", "--json")
    (plan,) = json.loads(out)["plans"]
    assert code == 0
    assert plan["epsilon"] == pytest.approx(0.25, rel=1e-6)
    assert plan["steps"] <= 7119453
    assert sum(plan["budget"].values()) < plan["epsilon"]
    code, out, _ = call(capsys, "plan", *where, "--smoothness", "2", "-e", "0.5", "--delta", "0.5", "--json")
    for plan in json.loads(out)["plans"]:
        assert plan["epsilon"] == pytest.approx(0.4)
        assert plan["c"] == pytest.approx(10.0)
        assert plan["goldstein"]["epsilon"] == pytest.approx(0.4 * (1 + 2 * 1.2 / (10.0 * 0.25)))
    code, out, _ = call(capsys, "plan", *where, "--hessian", "2", "-e", "0.5", "--delta", "0.5")
    assert code == 0
    assert "Goldstein at 0.5" in out


def test_plan_reports_refused_theorems_on_stderr(capsys):
    where = ("plan", "-G", "1", "-F", "1", "-c", "1")
    code, out, err = call(capsys, *where, "-e", "0.1", "--beta1", "0.9")
    assert (code, out) == (5, "")
    assert err.count("needs 1 - beta1 <=") == 4
    code, out, err = call(capsys, *where, "-T", "1000000", "--rho", "0.5", "--json")
    assert code == 0
    assert list(json.loads(out)["refused"]) == ["clip-free/margin"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["check"], 2, "beta1 is missing; give beta1 or gap1"),
        (["check", "1.0", "0.9"], 2, "beta1 must be in (0, 1), got 1.0"),
        (["check", "nan", "0.9"], 2, "beta1 must be a number, got nan"),
        (["check", "x", "0.9"], 2, "Invalid value for"),
        (["check", "0.9", "0.9", "-G", "1"], 2, "--gap, --c missing; give --lipschitz, --gap and --c together"),
        (["check", "0.9", "0.9", "-T", "5"], 2, "steps need a problem"),
        (["plan"], 2, "give --epsilon (how many steps?) or --steps (what epsilon?), one of the two"),
        (["plan", "-e", "0.1"], 2, "--lipschitz, --gap, --c missing"),
        (["plan", "-T", "100"], 2, "--lipschitz, --gap, --c missing; a plan needs all three"),
        (
            ["plan", "-G", "1", "-F", "1", "-c", "1", "-e", "3"],
            5,
            "epsilon must be at most lipschitz + noise = 1, got 3",
        ),
        (["plan", "-G", "1", "-F", "1", "-c", "1", "-e", "1e-9"], 5, "rounds to 1 in float64"),
        (["plan", "-G", "1", "-F", "-1", "-c", "1", "-e", "0.1"], 2, "gap must be in [1e-150, 1e150], got -1.0"),
        (
            ["plan", "-G", "1", "-F", "1", "-c", "1", "-e", "0.1", "--theorem", "x"],
            2,
            "--theorem must be one of clipped/nu",
        ),
        (
            ["plan", "-G", "1", "-F", "1", "-c", "1", "-e", "0.1", "--smoothness", "2"],
            2,
            "all choose c; give one of them",
        ),
        (["plan", "-G", "1", "-e", "0.1", "--smoothness", "2"], 2, "--lipschitz or --gap missing; a plan needs both"),
        (["plan", "-G", "1", "-F", "1", "-T", "10", "--hessian", "2"], 2, "give it as --epsilon"),
        (["map", "x.pdf"], 2, "the map is written as .html or .png, got .pdf"),
        (["map", "x"], 2, "got no ending"),
        (["map", "no/such/place/x.png"], 2, "cannot write no/such/place/x.png: there is no such folder to write into"),
        (["map", "x.png", "--mark", "1"], 2, "--mark must be beta1,beta2 or beta1,beta2,name, got '1'"),
        (["map", "x.png", "--mark", "1,2"], 2, "beta1 must be in (0, 1), got 1.0"),
        (["map", "x.png", "--epsilon", "2"], 5, "epsilon must be at most"),
        (["nonsense"], 2, "No such command"),
        ([], 2, "check"),
    ],
)
def test_bad_calls_say_why(capsys, tmp_path, monkeypatch, arguments, code, text):
    monkeypatch.chdir(tmp_path)
    got, out, err = call(capsys, *arguments)
    assert got == code
    assert text in (err or out)
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_map_writes_a_picture_and_a_page(capsys, tmp_path):
    picture, page = tmp_path / "map.png", tmp_path / "map.html"
    code, out, _ = call(capsys, "map", str(picture))
    assert (code, out) == (0, f"wrote {picture}\n")
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    code, out, _ = call(capsys, "map", str(page), "--mark", "0.9999,0.99995,<mine>", "--nu", "0.01", "--json")
    assert json.loads(out)["marks"]["<mine>"]["covered_by"] == [
        "clipped/nu",
        "clipped/margin",
        "clip-free/nu",
        "clip-free/margin",
    ]
    text = page.read_text()
    assert text.count("<svg") == 1
    assert "&lt;mine&gt;" in text
    assert "<mine>" not in text
    assert not re.search(r"(src|href)=.https?:", text)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert json.loads(data.group(1))["nu"] == 0.01
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.html", "map.png"]


def test_an_interrupt_is_130(capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("undrift.cli.adam.conditions", stop)
    assert call(capsys, "check", "0.9", "0.999")[0] == 130


def test_version_and_help(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("undrift 0.")
    for command in ("check", "plan", "map"):
        code, out, _ = call(capsys, command, "--help")
        assert code == 0
        assert "--json" in out


def test_a_missing_extra_prints_the_install_line():
    program = "import sys\nsys.modules['typer'] = None\nfrom undrift.cli import main\nmain()\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "undrift: the command line needs typer; install it with: pip install 'undrift[cli]'\n"


def test_a_missing_matplotlib_prints_the_install_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = call(capsys, "map", str(tmp_path / "x.png"))
    assert code == 1
    assert err == "undrift: adam map: the picture needs matplotlib; install it with: pip install 'undrift[cli]'\n"


def test_starting_up_imports_nothing_optional():
    program = (
        "import sys, undrift.cli.app; print([m for m in ('matplotlib', 'rich.table', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
