"""Folders of the present format stay readable: today's code gets from each what it got when the folder was written.

If a change of format makes this fail before 1.0, refuse the old format in one sentence, write the files again
(`python -m tests.golden NAME`) and say so in the release notes. From 1.0 on, read the old format.
"""

import json
import math
import shutil

import pytest

import undrift as ud
from tests.golden.folders import CASES, FOLDER, to_plain
from tests.golden.golden_file import golden_path, unpack_golden
from undrift._internal.state_file import FORMAT, find_kind
from undrift.cli.app import run as undrift
from undrift.errors import ModelFileError

pytestmark = pytest.mark.filterwarnings("ignore:.*kernel level:undrift.errors.UndriftWarning")

RELATIVE = 1e-9
"""Largest relative difference of numbers: kernel levels and platforms differ in the last bits."""
SMALL = 1e-12


def differences(found, expected, path=""):
    """Yield where two JSON values differ."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if [*found] != [*expected]:
            yield f"{path}: {[*found]} for {[*expected]}"
        for name in expected.keys() & found.keys():
            yield from differences(found[name], expected[name], f"{path}/{name}")
    elif isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            yield f"{path}: {len(found)} for {len(expected)}"
        for k, (one, other) in enumerate(zip(found, expected, strict=False)):
            yield from differences(one, other, f"{path}[{k}]")
    elif isinstance(expected, float) and isinstance(found, (int, float)):
        if not math.isclose(found, expected, rel_tol=RELATIVE, abs_tol=SMALL):
            yield f"{path}: {found} for {expected}"
    elif found != expected:
        yield f"{path}: {found!r} for {expected!r}"


@pytest.mark.every_level
@pytest.mark.parametrize("name", CASES)
def test_todays_code_gets_what_was_got(tmp_path, name):
    expected = unpack_golden(name, tmp_path)
    assert find_kind(tmp_path / FOLDER) is not None
    found = json.loads(json.dumps(to_plain(CASES[name].use(tmp_path)), allow_nan=False))
    assert [*differences(found, expected)] == []


def test_golden_files_are_small_and_all_there():
    assert {path.stem for path in golden_path("x").parent.glob("*.zip")} == {*CASES}
    sizes = [golden_path(name).stat().st_size for name in CASES]
    assert max(sizes) < 100_000
    assert sum(sizes) < 1_000_000


@pytest.mark.parametrize("name", CASES)
def test_another_format_is_noticed(tmp_path, name):
    unpack_golden(name, tmp_path)
    state = tmp_path / FOLDER / "run.json"
    assert json.loads(state.read_text(encoding="utf-8"))["format"] == FORMAT


# ---- folders of 0.2 ------------------------------------------------------------------------------------------------

RUN_COMMANDS = [
    ["predict", "{}", "rows.csv"],
    ["update", "{}", "rows.csv"],
    ["certify", "{}"],
    ["compare-runs", "{}", "{}"],
    ["versions", "{}"],
    ["rollback", "{}", "--to", "1"],
    ["serve", "{}", "--port", "0"],
    ["run", "rows.csv", "-t", "y", "-o", "{}", "--resume"],
    ["run", "rows.csv", "-t", "y", "-o", "{}", "--live", "--format", "ndjson", "--resume"],
]
FLEET_COMMANDS = [
    *RUN_COMMANDS[:3],
    *RUN_COMMANDS[4:7],
    ["fleet", "rows.csv", "-q", "-t", "y", "-k", "key", "-o", "{}"],
]
FORECAST_COMMANDS = [*RUN_COMMANDS[:3], *RUN_COMMANDS[4:7], ["forecast", "rows.csv", "-t", "y", "-o", "{}", "-H", "2"]]


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A place with rows and the folders of 0.2: a run of format 3, a fleet and forecasts with files of other names."""
    unpack_golden("numbers", tmp_path)
    shutil.copy(tmp_path / "next.csv", tmp_path / "rows.csv")
    text = (tmp_path / FOLDER / "run.json").read_text(encoding="utf-8")
    for kind, state in (("run", "run.json"), ("fleet", "fleet.json"), ("forecast", "forecast.json")):
        folder = tmp_path / kind
        shutil.copytree(tmp_path / FOLDER, folder)
        (folder / "run.json").unlink()
        (folder / state).write_text(json.dumps(json.loads(text) | {"format": 3}), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", ["run", "fleet", "forecast"])
def test_folders_of_0_2_are_not_loaded(old, kind):
    with pytest.raises(ModelFileError, match=rf"written by an undrift before 0\.3; .* undrift {kind} FILE --force$"):
        ud.load(old / kind)


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        *(("run", command) for command in RUN_COMMANDS),
        *(("fleet", command) for command in FLEET_COMMANDS),
        *(("forecast", command) for command in FORECAST_COMMANDS),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_folders_of_0_2_are_refused_by_every_command(old, capsys, kind, command):
    before = {path.name: path.read_bytes() for path in (old / kind).iterdir() if path.is_file()}
    code = undrift([word.format(kind) for word in command])
    out, err = capsys.readouterr()
    assert (code, out) == (3, ""), err
    words = rf"written by an undrift before 0.3; learn its file again: undrift {kind} FILE --force"
    assert err.endswith(f"{words}\n")
    assert err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in (old / kind).iterdir() if path.is_file()} == before
