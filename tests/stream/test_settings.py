"""Settings: every one of them given wrongly is refused in one sentence, and what is accepted works."""

import datetime as dt
import json
import math

import numpy as np
import pytest

from tests.run.row_files import table, write_csv
from undrift.errors import InputError, UndriftError
from undrift.learners.intervals import LEVELS, QUANTILES
from undrift.run import (
    FleetSettings,
    ForecastSettings,
    MixSettings,
    Settings,
    certify_run,
    play_file,
    read_run,
    replay_run,
)
from undrift.stream.settings import FileSettings, describe_fields, read_toml

FIELDS = Settings.names()
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


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"level": 80.0}, "level must be in [0.5, 0.99], got 80.0; 80% is 0.8"),
        ({"quantiles": [0.1, 0.001]}, "quantiles must be in [0.005, 0.995], got 0.001"),
        ({"quantiles": [0.1, 0.5, 0.1]}, "quantiles must not have 0.1 twice"),
        ({"lag": [0]}, "lag must be an integer in [1, 1000000], got 0"),
        ({"lag": ["a"]}, "lag must be an integer in [1, 1000000], got 'a'"),
        ({"features": {"b", "a"}}, "features must be a list, got {"),
        ({"decimal": ";"}, "decimal must be '.' or ',', got ';'"),
        ({"delimiter": "::"}, "delimiter must be one character, got '::'"),
        ({"target": ""}, "target must be a text that is not empty, got ''"),
        ({"delay": 2.5}, "delay must be an integer in [0, 1000000], got 2.5"),
        ({"half_life": 0.0}, "half_life must be in (0, inf], got 0.0"),
    ],
)
def test_the_sentence_about_a_value_follows_from_its_declaration(changes, sentence):
    with pytest.raises(InputError) as caught:
        Settings(**{"target": "y"} | changes)
    assert str(caught.value).startswith(f"settings: {sentence}")


def test_levels_of_settings_are_those_that_intervals_and_quantiles_have():
    Settings(target="y", level=float(LEVELS[0]), quantiles=(float(QUANTILES[0]), float(QUANTILES[-1])))
    Settings(target="y", level=float(LEVELS[-1]))
    for name, ends in (("level", LEVELS), ("quantiles", QUANTILES)):
        for wrong in (ends[0] - 1e-3, ends[-1] + 1e-3):
            with pytest.raises(InputError, match=f"{name} must be in"):
                Settings.from_dict({"target": "y", name: float(wrong)})


def test_numbers_of_numpy_are_taken_as_pythons():
    settings = Settings(
        target="y", delay=np.int64(3), half_life=np.float64(5.0), lag=[np.int64(4)], sort=np.bool_(True)
    )
    assert settings == Settings(target="y", delay=3, half_life=5.0, lag=(4,), sort=True)
    assert [type(value) for value in (settings.delay, settings.lag[0], settings.sort)] == [int, int, bool]


def test_settings_are_changed_by_name_and_checked_again():
    settings = Settings(target="y", lag=(3,))
    assert settings.replace(delay=2) == Settings(target="y", lag=(3,), delay=2)
    assert settings.delay == 0
    with pytest.raises(InputError, match="lag 3 is not known yet when labels are 3 rows late"):
        settings.replace(delay=3)
    with pytest.raises(AttributeError):
        settings.delay = 2


def test_settings_that_files_share_have_one_declaration():
    for model in (Settings, FleetSettings, ForecastSettings, MixSettings):
        fields = describe_fields(model)
        for name, field in describe_fields(FileSettings).items():
            assert fields[name].type == field.type or (name == "time" and model in (FleetSettings, MixSettings))


def test_fleets_refuse_settings_that_they_have_no_use_for():
    with pytest.raises(InputError, match="settings: fleets have no setting 'level'; leave it out, or use undrift run"):
        FleetSettings(target="y", key="k", level=0.8)
    with pytest.raises(InputError, match=r"key must name one or more different columns, got \['k', 'k'\]"):
        FleetSettings(target="y", key=("k", "k"))
    with pytest.raises(InputError, match="speed max is for single streams, as its trees would take megabytes"):
        FleetSettings(target="y", key="k", speed="max")
    with pytest.raises(InputError, match=r"^fleet\.toml: key is missing; name the column that says which stream"):
        FleetSettings.from_dict({"target": "y"}, "fleet.toml")
    settings = FleetSettings(target="y", key="k", order="n", categories=5)
    assert FleetSettings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings


def test_settings_of_forecasts_are_kept_as_json():
    settings = ForecastSettings(target=["a", "b"], season=(24, 168), nonnegative=False, decimal=",")
    assert ForecastSettings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings
    assert settings.reading() == Settings(target="a", decimal=",")
