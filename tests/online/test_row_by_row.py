"""`predict` and `learn`, `ask` and `tell`, and `play` in blocks are `play` of all rows at once, whatever the rows have.

The rows are those of the matrix: weights, elapsed times, late labels, several classes, candidates, missing values.
"""

import numpy as np
import pytest

import undrift as ud
from tests.matrix.references import play_reference, trace_columns
from tests.matrix.scenarios import FEATURES, make_scenario

CASES = [(feature, part) for feature in FEATURES for part in FEATURES[feature] if feature != "certificates"]
BLOCKS = (0, 30, 31, 70)


def row_of(reference, t):
    return dict(zip(reference.columns, reference.Z[t].tolist(), strict=True))


def own(reference, name, t):
    """The argument `name` of `play` for one row, by keyword; nothing where it is not given."""
    return {name: float(reference.play[name][t])} if name in reference.play else {}


def require_same(columns, reference, start):
    for name, expected in play_reference(reference).items():
        found = np.array(columns[name])
        assert np.array_equal(found[start:], expected[start:], equal_nan=True), name


@pytest.mark.parametrize(("feature", "part"), CASES)
def test_blocks_and_files_go_on_with_the_same_bits(feature, part, tmp_path):
    scenario = make_scenario(feature, part)
    reference, model, blocks = scenario.reference, scenario.reference.make_model(), []
    for begin, end in zip(BLOCKS, (*BLOCKS[1:], scenario.rows), strict=True):
        rows = [row_of(reference, t) for t in range(begin, end)]
        trace = model.play(rows, reference.y[begin:end], **reference.play_arguments(slice(begin, end)))
        blocks.append(trace_columns(trace, reference.classes, reference.play.get("quantiles", ())))
        model.save(tmp_path / "model.undrift")
        model = ud.load(tmp_path / "model.undrift")
    require_same({name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}, reference, 0)


@pytest.mark.parametrize(("feature", "part"), CASES)
def test_asking_and_telling_is_playing(feature, part):
    scenario = make_scenario(feature, part)
    reference, model, columns, waiting = scenario.reference, scenario.reference.make_model(), {}, {}
    for t in range(scenario.rows):
        served = waiting[t] = model.ask(row_of(reference, t), **own(reference, "elapsed", t))
        row = {"yhat": served.yhat}
        if reference.classes:
            p = np.exp(served.yhat) if t >= scenario.start else np.full(len(reference.classes), np.nan)
            row = dict(zip([f"p({label})" for label in reference.classes], p, strict=True))
        if "interval" in reference.play:
            row["lower"], row["upper"] = served.interval(reference.play["interval"])
        row |= {f"q{level}": served.quantile(level) for level in reference.play.get("quantiles", ())}
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
        due = t - reference.play.get("delay", 0)
        if due >= 0:
            model.tell(waiting.pop(due), reference.y[due], **own(reference, "weight", due))
    require_same(columns, reference, scenario.start)


AT_ONCE = [
    (feature, part)
    for feature, part in CASES
    if "delay" not in make_scenario(feature, part).reference.play or "light" in part
]
"""With late labels, features advance with the label where nobody says which row has come, so that running means of
features differ; speed light has none."""


@pytest.mark.parametrize(("feature", "part"), AT_ONCE)
def test_predicting_and_learning_is_playing(feature, part):
    scenario = make_scenario(feature, part)
    reference, model, columns, waiting = scenario.reference, scenario.reference.make_model(), {}, {}
    delay, levels = reference.play.get("delay", 0), reference.play.get("quantiles", ())
    for t in range(scenario.rows):
        row, when = row_of(reference, t), own(reference, "elapsed", t)
        found = dict.fromkeys(play_reference(reference), np.nan)
        if t >= scenario.start and reference.classes:
            p = model.predict_shares(row, **when)
            found = dict(zip([f"p({label})" for label in reference.classes], p, strict=True))
            np.testing.assert_allclose(model.predict_proba(row, **when), p / p.sum(), rtol=1e-12)
        elif t >= scenario.start:
            found["yhat"] = model.predict(row, **when)
            if "interval" in reference.play:
                found["lower"], found["upper"] = model.predict_interval(row, reference.play["interval"], **when)
            if levels:
                quantiles = model.predict_quantiles(row, levels, **when)
                found |= {f"q{level}": q for level, q in zip(levels, quantiles, strict=True)}
        for name, value in found.items():
            columns.setdefault(name, []).append(value)
        served = {}
        if delay:
            waiting[t] = model.peek(row)
            served = {"served": waiting.pop(t - delay)} if t >= delay else {}
        if t >= delay:
            due = t - delay
            model.learn(row_of(reference, due), reference.y[due], **own(reference, "weight", due), **served, **when)
    require_same(columns, reference, scenario.start)
