"""What the report says about classes is what scikit-learn says about the same predictions."""

import dataclasses
import json
import math

import numpy as np
import pytest
from sklearn import metrics as peer

from tests.report.report_runs import jumping_rows, play_class_run, play_run
from tests.report.test_render import EVIL, Elements
from undrift.losses import sigmoid
from undrift.metrics import class_scores, confusion, ranking_curve
from undrift.report import render
from undrift.report.figures import confusion as confusion_figure
from undrift.report.figures.registry import RUN_FIGURES, make_figures
from undrift.report.run_context import CLASS_COLUMNS, COMMON, make_context
from undrift.report.run_page import SECTIONS
from undrift.report.scores import score_predictors


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    return play_class_run(tmp_path_factory.mktemp("classes"), 300)


@pytest.fixture(scope="module")
def two():
    return play_run("classification", *jumping_rows("classification", 400), certify=False)


def measure(data):
    return make_figures(RUN_FIGURES, make_context(data), SECTIONS)[0]


def test_the_confusion_table_counts_every_predicted_round_once(several, two):
    for data in (several, two):
        found, some = measure(data)["confusion"], data.predicted
        predicted = data.yhat[some] if data is several else (data.yhat[some] > 0.0).astype(float)
        order = make_context(data).class_rounds.frequent_first if data is several else [0, 1]
        expected = peer.confusion_matrix(data.y[some], predicted, labels=order)
        assert found["counts"] == expected.tolist()
        np.testing.assert_allclose(np.sum(found["shares"], axis=1), 1.0, atol=1e-3)


def test_only_all_rows_are_shown_as_100_percent_and_only_none_as_0(several):
    context = make_context(several)
    counts = np.array([[99_650, 349, 1], [0, 500, 0], [0, 5, 995]])
    y, yhat = (np.repeat(numbers.ravel(), counts.ravel()).astype(float) for numbers in np.indices((3, 3)))
    context.__dict__["class_rounds"] = dataclasses.replace(context.class_rounds, names=["a", "b", "c"], y=y, yhat=yhat)
    shown = confusion_figure.measure(context)["confusion"]
    assert shown["names"] == ["a", "c", "b"]
    assert shown["percents"] == [["99.7%", "≈0%", "0.35%"], ["0%", "99.5%", "0.5%"], ["0%", "0%", "100%"]]


def test_rare_classes_are_one_line_of_the_table(tmp_path):
    data = play_class_run(tmp_path, 250, classes=[f"class {k}" for k in range(15)])
    found = measure(data)["confusion"]
    assert len(found["names"]) == 12
    assert found["names"][-1] == "others"
    assert np.sum(found["counts"]) == np.count_nonzero(data.predicted)
    assert found["counts"][0][0] == max(found["counts"][0]) > 0
    came = np.bincount(data.y[data.predicted].astype(int))
    assert len(measure(data)["ranking"]["curves"]) == np.count_nonzero(came >= COMMON) == 4  # others have too few rows


def test_scores_by_class_are_scikit_learns(several):
    context, some = make_context(several), several.predicted
    theirs = peer.classification_report(several.y[some], several.yhat[some], output_dict=True, zero_division=0)
    rounds = context.class_rounds
    for k, name in enumerate(several.classes):
        assert rounds.recall[k] == pytest.approx(theirs[f"{float(k)}"]["recall"]), name
        assert rounds.precision[k] == pytest.approx(theirs[f"{float(k)}"]["precision"])
    table = rounds.table()
    assert len(table) == len(several.classes)
    assert all(len(row) == len(CLASS_COLUMNS) for row in table)
    assert table[0][1] == max((row[1] for row in table), key=int)


def test_curves_and_areas_are_scikit_learns(two):
    some = two.predicted
    p, y = sigmoid(two.yhat[some]), two.y[some]
    curve = ranking_curve(p, y == 1.0)
    assert curve.roc_auc == pytest.approx(peer.roc_auc_score(y, p))
    assert curve.average_precision == pytest.approx(peer.average_precision_score(y, p))
    (drawn,) = measure(two)["ranking"]["curves"]
    assert drawn["auc"] == curve.roc_auc
    assert drawn["found"][-1] == drawn["alarms"][-1] == 1.0
    assert np.trapezoid(drawn["found"], drawn["alarms"]) == pytest.approx(curve.roc_auc, abs=0.01)


def test_ties_count_half_and_one_kind_has_no_curve():
    y = np.array([True, False, True, False, False])
    score = np.array([0.5, 0.5, 0.2, 0.2, 0.2])
    assert ranking_curve(score, y).roc_auc == pytest.approx(peer.roc_auc_score(y, score))
    assert ranking_curve(score, y).average_precision == pytest.approx(peer.average_precision_score(y, score))
    for kind in (np.ones(3, bool), np.zeros(3, bool), np.zeros(0, bool)):
        assert math.isnan(ranking_curve(np.arange(float(len(kind))), kind).roc_auc)
    assert confusion(np.array([0.0, 1.0]), np.array([1.0, 1.0]), 2).tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_losses_and_hits_are_those_of_the_run(several):
    own, last, frequent = score_predictors(several)
    some = several.predicted
    p = several.probabilities[some]
    expected = class_scores(p, several.y[some])
    assert own.measures == pytest.approx({"log_loss": expected["log_loss"], "accuracy": expected["accuracy"]})
    context = make_context(several)
    assert sum(context.block_hits["undrift"]) == pytest.approx(own.measures["accuracy"] * some.sum())
    assert sum(context.block_losses["most frequent"]) == pytest.approx(frequent.total)
    assert own.total < min(last.total, frequent.total)


def test_reliability_is_of_the_class_that_was_predicted(several):
    found, some = measure(several)["calibration"], several.predicted
    top = np.nanmax(several.probabilities[some], axis=1)
    assert sum(found["count"]) == some.sum()
    said = np.dot(found["said"], found["count"]) / some.sum()
    came = np.dot(found["came"], found["count"]) / some.sum()
    assert said == pytest.approx(top.mean(), rel=1e-3)
    assert came == pytest.approx(np.mean(several.yhat[some] == several.y[some]), rel=1e-3)


def test_names_of_classes_cannot_inject_anything(tmp_path):
    data = play_class_run(tmp_path, 120, classes=[name for name in EVIL if "\x00" not in name])
    page = Elements(render(data, tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.tags.count("script") == 5
    assert not {"img", "b"} & set(page.tags)
    figures = json.loads(page.blocks["figures"])
    assert {"classes", "confusion", "ranking", "calibration", "effects"} <= {one["key"] for one in figures}
    texts = json.dumps(json.loads(page.blocks["numbers"])["confusion"]["names"])
    assert "<" not in texts
