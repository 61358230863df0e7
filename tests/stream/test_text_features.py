"""Texts of a column get a feature each: how many, of which columns, and which come later."""

import numpy as np
import pytest

from undrift.run import Settings
from undrift.stream.cells import RowBatch
from undrift.stream.features import Features
from undrift.stream.first_rows import FirstRows, RowOrigin
from undrift.stream.schema import Schema, infer_schema


def texts_with_features(first_rows, **settings):
    """Return how many texts of each column get a feature; None where the column is learned by means."""
    source = RowOrigin("t.csv", Settings(target="y", **settings))
    size = len(next(iter(first_rows.values())))
    columns = {**first_rows, "y": [str(k) for k in range(size)]}
    first = FirstRows(source, [RowBatch(np.arange(2, 2 + size), columns)], whole=True)
    roles = infer_schema(first)
    return {**{name: len(texts) for name, texts in roles.texts}, **dict.fromkeys(roles.many_texts)}


def repeat_texts(levels, rows):
    return [f"t{k % levels}" for k in range(rows)]


@pytest.mark.parametrize(
    ("levels", "rows", "found"),
    [(20, 60, 20), (21, 419, None), (21, 420, 21), (100, 1999, None), (100, 2000, 100), (101, 4040, None)],
)
def test_up_to_a_hundred_frequent_texts_get_a_feature_each(levels, rows, found):
    assert texts_with_features({"shop": repeat_texts(levels, rows)}) == {"shop": found}


def test_columns_of_many_frequent_texts_share_a_hundred_features():
    first_rows = {name: repeat_texts(60, 1200) for name in ("a", "b")} | {"c": repeat_texts(40, 1200)}
    assert texts_with_features(first_rows) == {"a": 60, "b": None, "c": 40}
    assert texts_with_features(first_rows, categories=60) == {"a": 60, "b": 60, "c": 40}
    assert texts_with_features(first_rows, categories=20) == {"a": None, "b": None, "c": None}


def test_more_texts_get_features_later_where_the_first_ones_were_many():
    settings = Settings(target="y")
    for first, later in ((10, 20), (30, 100)):
        schema = Schema("regression", None, None, "iso", False, (), (("shop", tuple(repeat_texts(first, first))),))
        features = Features(settings, schema)
        texts = repeat_texts(110, 110)
        batch = RowBatch(np.arange(2, 112), {"shop": texts, "y": ["1"] * 110})
        features.encode(batch, RowOrigin("t.csv", settings))
        assert features.names == [*(f"shop={text}" for text in texts[:later]), "shop: recent mean", "shop: mean"]
