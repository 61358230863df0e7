"""Options made from settings: each declared once, refused with a reason, and the same in a settings file."""

import csv
import json
from pathlib import Path

import pytest

from undrift.cli.compare import REFUSED
from undrift.cli.run_options import flag_of
from undrift.run import FleetSettings, ForecastSettings, MixSettings, Settings
from undrift.stream.settings import describe_fields

COMMANDS = {
    "run": (Settings, ()),
    "compare": (Settings, tuple(REFUSED)),
    "fleet": (FleetSettings, FleetSettings.unsupported),
    "forecast": (ForecastSettings, ()),
    "mix": (MixSettings, ()),
}


@pytest.fixture
def rows(call):
    """A small file in the current folder."""
    with Path("s.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["key", "x", "y"])
        out.writerows([k % 2, k % 7, 2 * (k % 7) + k % 3] for k in range(60))
    return call


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_has_the_settings_of_a_command_and_no_others(call, command):
    model, hidden = COMMANDS[command]
    text = call(command, "--help")[1]
    words = set(text.replace(",", " ").split())
    assert {flag_of(name) for name in model.names() if name not in hidden} <= words
    assert not {flag_of(name) for name in hidden} & words
    assert "[default: best]" in text or command != "run"


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_command_does_not_support_is_refused_with_its_reason(rows, name):
    field = describe_fields(Settings).get(name)
    is_flag = field is None or field.default is False
    sentence = f"undrift compare: {flag_of(name)} is not supported: {REFUSED[name]}\n"
    answer = rows("compare", "s.csv", "-t", "y", flag_of(name), *([] if is_flag else ["0"]))
    assert answer == (2, "", sentence)
    Path("s.toml").write_text(f"{name.replace('_', '-')} = 1\n")
    assert rows("compare", "s.csv", "-t", "y", "-s", "s.toml") == (2, "", sentence)


def test_a_setting_that_a_command_leaves_out_is_refused_in_a_file(rows):
    Path("s.toml").write_text("level = 0.8\n")
    answer = rows("fleet", "s.csv", "-t", "y", "-k", "key", "-s", "s.toml")
    assert answer == (2, "", "undrift fleet: s.toml: there is no setting 'level' for this command; leave it out\n")
    assert "No such option: --level" in rows("fleet", "s.csv", "-t", "y", "-k", "key", "--level", "0.8")[2]


@pytest.mark.parametrize("command", ["run", "fleet", "forecast"])
def test_a_settings_file_names_what_options_name_and_options_win(rows, command):
    options = {
        "run": {"target": "y", "speed": "light", "quantiles": [0.1, 0.5], "level": 0.8, "lag": [2, 3], "header": True},
        "fleet": {"target": "y", "key": ["key"], "speed": "light", "lag": [1], "wait": "0"},
        "forecast": {"target": ["y"], "horizon": 3, "season": [3, 7], "level": 0.8},
    }[command]
    Path("s.toml").write_text(
        "source = 's.csv'\nlimit = 20\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in options.items())
    )
    assert rows(command, "-s", "s.toml", "--limit", "50", "--no-report", "-o", "a", "--quiet")[0] == 0
    words = []
    for name, value in options.items():
        if value is not True:
            words += [flag_of(name), ",".join(map(str, value)) if isinstance(value, list) else value]
    assert rows(command, "s.csv", *words, "--limit", "50", "--no-report", "-o", "b", "--quiet")[0] == 0
    a, b = (json.loads((Path(out) / "run.json").read_text())["settings"] for out in "ab")
    assert a == b
    assert a["limit"] == 50
    assert all(a[name] == value for name, value in options.items())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--quantiles", "low"], "--quantiles must be numbers such as 0.1,0.5,0.9, got low"),
        (["--quantiles", "0.1,2"], "settings: quantiles must be in [0.005, 0.995], got 2.0; 2% is 0.02"),
        (["--level", "1"], "settings: level must be in [0.5, 0.99], got 1.0"),
        (["--limit", "0"], "settings: limit must be an integer in [1, 9007199254740992], got 0"),
        (["--delay", "2", "--lag", "1, 3"], "settings: lag 1 is not known yet when labels are 2 rows late"),
    ],
)
def test_a_wrong_option_is_one_sentence(rows, words, sentence):
    code, out, err = rows("run", "s.csv", "-t", "y", *words)
    assert (code, out) == (2, "")
    assert err.startswith(f"undrift: {sentence}")
    assert err.count("\n") == 1


def test_a_command_without_a_file_says_how_to_name_it(call):
    for command in COMMANDS:
        assert call(command, "-t", "y") == (
            2, "", f"undrift: name a file to learn from: undrift {command} FILE --target COLUMN\n",
        )  # fmt: skip
