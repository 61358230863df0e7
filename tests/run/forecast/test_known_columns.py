"""Columns known in advance that hold any texts and have holes: the same bits however the rows are cut into files."""

import numpy as np
import polars as pl
import pytest

from tests.run.forecast.test_forecast_files import assert_same, hours, state
from tests.run.forecast.test_keys import assert_same as assert_same_keys
from undrift.cli.app import run
from undrift.errors import DataError
from undrift.run.forecast import recorder
from undrift.run.forecast.known_columns import KnownColumns
from undrift.stream.settings import ForecastSettings

ROWS, HORIZON = 120, 3


def make_lines(texts, *, keys=("a",)):
    """Return rows of some keys; texts come up over time, cells are missing, and the target follows the text."""
    rng = np.random.default_rng(0)
    code = np.minimum(rng.integers(0, texts, size=ROWS), np.arange(ROWS) // 3)
    holes = rng.random((2, ROWS)) < 0.1
    holes[:, [0, 60]] = False, True
    price, effect = rng.normal(size=ROWS), rng.normal(size=texts) * 5.0
    lines = []
    for t in range(ROWS):
        tool = "" if holes[0, t] else f"tool {code[t]}"
        cell = "" if holes[1, t] else f"{price[t]!r}"
        y = effect[code] + price + 0.1 * np.sin(np.arange(ROWS))
        lines += [f"{hours(ROWS)[t]},{key},{tool},{cell},{float(y[t]) + k!r}" for k, key in enumerate(keys)]
    return lines


def play(tmp_path, name, lines, cuts, *options, ahead=HORIZON, keys=1):
    """Forecast the first part and update with the others; every part goes on with the cells of the rows to come."""
    out, ends = tmp_path / name, [*cuts, ROWS]
    for k, (begin, end) in enumerate(zip([0, *cuts], ends, strict=True)):
        come = [line.rpartition(",")[0] + "," for line in lines[end * keys : (end + ahead) * keys]]
        file = tmp_path / f"{name}-{k}.csv"
        file.write_text("\n".join(["time,shop,tool,price,value", *lines[begin * keys : end * keys], *come]) + "\n")
        words = ["forecast", str(file), "-t", "value", "--known", "tool,price", "-H", str(HORIZON), "-o", str(out)]
        assert run([*words, *options, "-q"] if not k else ["update", str(out), str(file), "-q"]) == 0
    return out


@pytest.mark.parametrize("texts", [2, 3, 20, 21, 30])
@pytest.mark.parametrize("options", [[], ["--missing", "indicators"]])
def test_texts_that_come_up_in_later_files_give_the_bits_of_one_file(tmp_path, texts, options, monkeypatch):
    lines = make_lines(texts)
    whole = play(tmp_path, "whole", lines, [], *options)
    with monkeypatch.context() as patch:
        patch.setattr(recorder, "BLOCK_NUMBERS", 700)  # a few rows at a time
        assert_same(play(tmp_path, "blocks", lines, [], *options), whole)
    for name, cuts in (("two", [40]), ("hole", [60]), ("days", list(range(10, ROWS, 10)))):
        assert_same(play(tmp_path, name, lines, cuts, *options), whole)


def test_every_key_has_texts_of_its_own(tmp_path):
    keys = ("a", "b")
    lines = make_lines(30, keys=keys)
    whole = play(tmp_path, "whole", lines, [], "-k", "shop", keys=2)
    assert_same_keys(play(tmp_path, "cut", lines, [25, 60, 61], "-k", "shop", keys=2), whole)
    table = pl.read_parquet(whole / "forecasts.parquet")
    for k, key in enumerate(keys):
        alone = play(tmp_path, f"only {key}", lines[k::2], [])
        one = pl.read_parquet(alone / "forecasts.parquet")
        assert table.filter(pl.col("series") == key)["yhat"].to_list() == one["yhat"].to_list()


def test_texts_help_where_the_target_follows_them(tmp_path):
    errors = {}
    for texts in (3, 30):
        lines = make_lines(texts)
        out = play(tmp_path, f"{texts}", lines, [])
        file, plain = tmp_path / f"{texts}-0.csv", tmp_path / f"plain {texts}"
        words = ["-t", "value", "--known", "price", "-H", str(HORIZON), "-o", str(plain), "-q"]
        assert run(["forecast", str(file), *words]) == 0
        errors[texts] = state(out)["scores"]["mse"][0] / state(plain)["scores"]["mse"][0]
    assert errors[3] < 0.8
    assert errors[30] < 0.9


def test_more_features_than_a_forecaster_takes_are_refused():
    names = tuple(f"c{k}" for k in range(12))
    settings = ForecastSettings(target=("y",), known=names)
    with pytest.raises(
        DataError, match=r"make 264 features \(22 for each column of texts\), more than 256; name fewer"
    ):
        KnownColumns(settings, names)
