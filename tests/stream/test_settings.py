"""Settings: every one of them given wrongly is refused in one sentence, and what is accepted works."""

import dataclasses
import datetime as dt
import json
import math

import pytest

from tests.run.row_files import table, write_csv
from undrift.errors import InputError, UndriftError
from undrift.run import Settings, certify_run, play_file, read_run, replay_run
from undrift.stream.settings import read_toml

FIELDS = [field.name for field in dataclasses.fields(Settings)]
GOOD = {"target": "y", "drop": ["hot", "city"], "speed": "fast"}


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


NUMBERS = [5, -1, 0, 2.5, 10**30, math.nan, math.inf, -math.inf, True]
TEXTS = ["", "x", "y", "inf", "\0", "\n", '"', "%d.%d", "%", "%q", "idna", "z" * 300, b"x"]
LISTS = [[], [5], ["x"], ["a"], [None], [True], [1, 1], [[1]], deep(2000), {}, {"a": 1}, None, dt.date(2024, 1, 1)]


@pytest.mark.parametrize("name", FIELDS)
def test_a_setting_of_any_kind_is_refused_in_one_sentence_or_works(tmp_path, name):
    path = str(write_csv(tmp_path / "t.csv", table(30)))
    refused = 0
    for k, value in enumerate([*NUMBERS, *TEXTS, *LISTS]):
        try:
            settings = Settings.from_dict({**GOOD, name: value})
            play_file(path, tmp_path / f"run{k}", settings)
        except UndriftError as error:
            refused += 1
            sentence = str(error)
            assert len(sentence.splitlines()) == 1 or value == "\n", k
            assert len(sentence) < 800, k
        else:
            assert Settings.from_dict(json.loads(json.dumps(settings.as_dict(), allow_nan=False))) == settings
            assert read_run(tmp_path / f"run{k}").rounds > 0
    assert refused > 10


def test_words_of_earlier_versions_are_told_and_kept_in_folders():
    with pytest.raises(InputError, match=r"run\.toml: the setting 'model' is called 'speed' now"):
        Settings.from_dict({"target": "y", "model": "fast"}, "run.toml")
    with pytest.raises(InputError, match="settings: missing = 'indicate' is called 'indicators' now"):
        Settings(target="y", missing="indicate")
    saved = Settings.from_dict({"target": "y", "model": "fast", "missing": "indicate"}, saved=True)
    assert (saved.speed, saved.missing) == ("fast", "indicators")


WRONG = {
    "encoding = 5": "settings: encoding must be a text, got 5",
    "encoding = 'utf-17'": "settings: encoding 'utf-17' is unknown; try utf-8, latin-1 or cp1252",
    "time = 5": "settings: time must be a text, got 5",
    "positive = [1]": "settings: positive must be a text, got a list",
    "drop = {a = 1}": "settings: drop must be a list, got a table",
    "features = [5]": "settings: features must be a list of texts, got 5 in it",
    "calendar = 1": "settings: calendar must be true or false, got 1",
    "time-format = '%d.%d'": "settings: time_format '%d.%d' has a letter twice; name each part once",
    "time-format = '%q'": "settings: time_format '%q' is not understood (",
    "half-life = 'long'": "settings: half_life must be a number, got 'long'",
    f"lag = {'[' * 3000}{']' * 3000}": "s.toml: lists or tables too deep in one another; write plain names and values",
    "# " + "x" * 2_000_000: "s.toml: longer than 1 MiB; settings are a few plain names and values",
    f"limit = {'9' * 5000}": "s.toml: not a settings file in TOML (",
}


@pytest.mark.parametrize("line", WRONG, ids=lambda line: line[:20])
def test_what_is_wrong_in_a_settings_file_is_said(tmp_path, line):
    (tmp_path / "s.toml").write_text(f"{line}\n")
    with pytest.raises(InputError) as caught:
        play_file(
            str(write_csv(tmp_path / "t.csv", table(30))),
            tmp_path / "run",
            Settings.from_dict(GOOD | read_toml(tmp_path / "s.toml")),
        )
    assert WRONG[line] in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_memory_that_never_fades_is_kept_as_such(tmp_path):
    path = str(write_csv(tmp_path / "t.csv", table(300)))
    (tmp_path / "s.toml").write_text("half-life = inf\n")
    settings = Settings.from_dict(GOOD | read_toml(tmp_path / "s.toml"))
    assert settings.half_life == math.inf
    play_file(path, tmp_path / "run", settings)
    state = json.loads((tmp_path / "run" / "run.json").read_text(), parse_constant=pytest.fail)
    assert state["settings"]["half_life"] == "inf"
    assert Settings.from_dict(state["settings"]) == settings
    assert read_run(tmp_path / "run").half_lives.tolist() == [math.inf]
    play_file(path, tmp_path / "run", settings, resume=True)
    assert replay_run(tmp_path / "run")
    assert certify_run(tmp_path / "run")["certificates"][0]["holds"]
