"""What /metrics shows: numbers of the task that is served, and none before there is one."""

import math

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sklearn.metrics import accuracy_score, average_precision_score, log_loss

import undrift as ud
from undrift.online import Table
from undrift.run.service.service import Label
from undrift.serve import open_service
from undrift.serve.metrics import ServiceMetrics

NAMES = ["a", "b", "c"]


def gauges(service):
    """Return the numbers of /metrics by name, and the help of each."""
    families = list(text_string_to_metric_families(ServiceMetrics(service).text().decode()))
    single = {
        one.name.removeprefix("undrift_"): one
        for one in families
        if one.type == "gauge" and one.name != "undrift_events"
    }
    return {name: one.samples[0].value for name, one in single.items()}, {
        name: one.documentation for name, one in single.items()
    }


def save_model(path, labels):
    Z = np.random.default_rng(0).normal(size=(40, 3))
    model = ud.OnlineClassifier(speed="light") if labels else ud.OnlineRegressor(speed="light")
    best = np.argmax(Z[:, : len(labels)], axis=1) if labels else []
    model.play(Table(NAMES, Z), [labels[int(k)] for k in best] if labels else Z.sum(axis=1))
    model.save(path)
    return path


def play(service, labels, count=300):
    """Serve rows and learn noisy labels; return the answers and the labels."""
    rng, answers, came = np.random.default_rng(1), [], []
    for z in rng.normal(size=(count, 3)):
        (one,) = service.predict([dict(zip(NAMES, z.tolist(), strict=True))])
        y = labels[int(np.argmax(z[: len(labels)] + rng.normal(size=len(labels))))] if labels else float(z.sum())
        service.learn([Label(one.id, y)])
        answers.append(one)
        came.append(y)
    return answers, came


@pytest.mark.parametrize("labels", [[0, 1], ["x", "y", "z"], []], ids=["two classes", "three classes", "numbers"])
def test_nothing_is_shown_before_there_is_something(tmp_path, labels):
    with open_service(save_model(tmp_path / "m.undrift", labels)) as service:
        shown, _ = gauges(service)
        assert shown.keys() & {"rmse", "mae", "log_loss", "accuracy", "average_precision", "coverage"} == set()
        assert shown.keys() & {"keys", "loaded"} == set()
        assert (shown["rounds"], shown["waiting"], shown["healthy"]) == (40, 0, 1)
        service.failure = "the disk is full"
        assert gauges(service)[0]["healthy"] == 0
        service.failure = None


def test_two_classes_have_the_scores_of_scikit_learn(tmp_path):
    with open_service(save_model(tmp_path / "m.undrift", [0, 1])) as service:
        answers, y = play(service, [0, 1])
        shown, texts = gauges(service)
    p = [one.probabilities["1"] for one in answers]
    assert [one.prediction for one in answers] == [int(q > 0.5) for q in p]  # the label, not its log-odds
    assert [one.probability for one in answers] == [one.probabilities[str(one.prediction)] for one in answers]
    assert shown["log_loss"] == pytest.approx(log_loss(y, p), rel=1e-9)
    assert shown["accuracy"] == pytest.approx(accuracy_score(y, [one.prediction for one in answers]), rel=1e-12)
    assert shown["average_precision"] == pytest.approx(average_precision_score(y, p), rel=1e-12)
    assert "over the last 1000 rounds" in texts["average_precision"]
    assert shown.keys() & {"rmse", "mae", "coverage"} == set()


def test_several_classes_have_the_scores_of_scikit_learn(tmp_path):
    labels = ["x", "y", "z"]
    with open_service(save_model(tmp_path / "m.undrift", labels)) as service:
        answers, y = play(service, labels)
        shown, _ = gauges(service)
        service.close = service.journal.close  # ends as after kill -9
    P = np.array([[float(f"{one.probabilities[label]:.6g}") for label in labels] for one in answers])
    each = [average_precision_score(np.array(y) == label, P[:, k]) for k, label in enumerate(labels)]
    assert shown["average_precision"] == pytest.approx(np.mean(each), rel=1e-12)
    assert shown["accuracy"] == pytest.approx(accuracy_score(y, [one.prediction for one in answers]), rel=1e-12)
    assert 0.0 < shown["log_loss"] < math.log(3.0)
    assert shown.keys() & {"rmse", "mae", "coverage"} == set()
    with open_service(tmp_path / "m.undrift") as service:
        assert gauges(service)[0]["average_precision"] == shown["average_precision"]


def test_numbers_have_errors_and_coverage_and_no_scores_of_classes(tmp_path):
    with open_service(save_model(tmp_path / "m.undrift", [])) as service:
        answers, y = play(service, [])
        shown, _ = gauges(service)
        assert shown["rmse"] == pytest.approx(
            np.sqrt(np.mean([(one.prediction - label) ** 2 for one, label in zip(answers, y, strict=True)]))
        )
        assert shown["coverage"] == pytest.approx(
            np.mean(
                [
                    one.lower <= label <= one.upper
                    for one, label in zip(answers, y, strict=True)
                    if one.lower is not None
                ]
            )
        )
        assert shown.keys() & {"log_loss", "accuracy", "average_precision"} == set()


def test_average_precision_is_absent_while_all_labels_are_of_one_kind(tmp_path):
    with open_service(save_model(tmp_path / "m.undrift", [0, 1])) as service:
        answers = service.predict([dict.fromkeys(NAMES, 0.5)] * 5)
        service.learn([Label(one.id, 1) for one in answers])
        shown, _ = gauges(service)
        assert "log_loss" in shown
        assert "average_precision" not in shown
