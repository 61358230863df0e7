"""Serving several classes: probabilities by label, labels as texts, and nothing lost when it ends at any moment."""

import numpy as np
import polars as pl
import pytest

import undrift as ud
from tests.serve.server_process import running_server
from tests.serve.waiting_rows import model_with_rows
from undrift.errors import DataError
from undrift.online import Table
from undrift.run import Settings, play_file
from undrift.run.service.begin import stream_around
from undrift.run.service.service import Label
from undrift.serve import Client, open_service

COLOURS = ["red", "green", "blue", "7"]


def make_rows(count, seed=0):
    """Return rows and their colours; the last colour comes from row 120 on."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(count, 3))
    scores = 3.0 * Z @ np.eye(3, 4) + rng.gumbel(size=(count, 4))
    scores[:120, 3] = -np.inf
    rows = [dict(zip("abc", map(float, z.round(4)), strict=True)) for z in Z]
    return rows, [COLOURS[k] for k in np.argmax(scores, axis=1)]


def write(path, rows, colours):
    lines = [",".join(map(str, [*row.values(), colour])) for row, colour in zip(rows, colours, strict=True)]
    path.write_text("\n".join(["a,b,c,colour", *lines]) + "\n")
    return str(path)


def test_a_run_of_several_classes_that_is_served_on_predicts_as_one_long_run(tmp_path):
    rows, colours = make_rows(160)
    settings = Settings(target="colour", speed="fast", task="multiclass")
    play_file(write(tmp_path / "all.csv", rows, colours), tmp_path / "all", settings)
    play_file(write(tmp_path / "first.csv", rows[:100], colours[:100]), tmp_path / "first", settings)
    expected, served = pl.read_parquet(tmp_path / "all" / "predictions.parquet")[100:], []
    for begin in (100, 130):  # opened twice, the second time after a class has come up
        with open_service(tmp_path / "first") as service:
            for row, colour in list(zip(rows, colours, strict=True))[begin : begin + 30]:
                (one,) = service.predict([row])
                served.append(one)
                label = int(colour) if colour == "7" else colour  # a number in JSON is the text of the file
                assert service.learn([Label(one.id, label)]) == (1, 0, 0)
            facts = service.facts()
            assert facts["task"] == "multiclass"
            assert facts["classes"] == service.models.stream.classes
            assert 0.0 < facts["log_loss"] < 1.1
    assert sorted(facts["classes"]) == sorted(COLOURS)
    assert [one.prediction for one in served] == expected["yhat"].to_list()
    for t, one in enumerate(served):
        assert one.probabilities == {name: expected[f"p({name})"][t] for name in one.probabilities}
        assert one.probability == one.probabilities[one.prediction] == max(one.probabilities.values())
    assert "7" not in served[10].probabilities
    assert "7" in served[-1].probabilities


def saved_model(path, labels):
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(40, 3))
    model = ud.OnlineClassifier(speed="light")
    model.play(Table(["a", "b", "c"], Z), [labels[int(k)] for k in np.argmax(Z, axis=1)])
    model.save(path)
    return model


@pytest.mark.parametrize("labels", [["x", "y", "z", "new"], [3, 5, 9, 11]])
def test_a_kill_at_any_moment_loses_nothing(tmp_path, labels):
    model = saved_model(tmp_path / "m.undrift", labels)
    rows, _ = make_rows(40, seed=1)
    told, answers = [], []

    def serve_until(end):
        with open_service(tmp_path / "m.undrift") as service:
            for t in range(len(answers), end):
                served = model.ask(rows[t])
                answers.append(service.predict([rows[t]], [f"row {t}"])[0])
                given = model.served_probabilities(served)
                assert answers[-1].prediction == max(given, key=given.get)
                told.append((served, labels[3 if t == 12 else t % 3], answers[-1].id))
                if t % 3 == 2:  # two of three labels, the later one first
                    for one, label, number in (told[-1], told[-2]):
                        assert service.learn([Label(number, label)]).learned == 1
                        model.tell(one, label)
            raise KeyboardInterrupt  # ends without closing

    for end in (9, 21, 40):
        with pytest.raises(KeyboardInterrupt):
            serve_until(end)
    with open_service(tmp_path / "m.undrift") as service:
        assert model_with_rows(service) == stream_around(model).model
        assert service.waiting == len(model.pending)
        closed = told[0]
        assert service.learn([Label(closed[2], None)]).learned == 1
        model.tell(closed[0], np.nan)
        assert model_with_rows(service) == stream_around(model).model
        last = service.models.recent(None, 2)
        assert [one.label for one in last] == [told[38][1], told[37][1]]
        assert [one.predicted for one in last] == [answers[38].prediction, answers[37].prediction]


def test_wrong_labels_are_refused_with_a_sentence_and_change_nothing(tmp_path):
    model = saved_model(tmp_path / "m.undrift", ["x", "y", "z"])
    rows, _ = make_rows(2)
    with open_service(tmp_path / "m.undrift") as service:
        (one,) = service.predict([rows[0]])
        model.ask(rows[0])
        with pytest.raises(DataError, match=r"the label of row 1: .* characters"):
            service.learn([Label(one.id, "q" * 2000)])
        assert model_with_rows(service).rounds == model.rounds
        assert service.waiting == 1
        service.learn([Label(one.id, "x")])


def test_clients_and_the_page_see_classes(tmp_path, browser):
    saved_model(tmp_path / "m.undrift", ["x", "y", "z<b>"])
    rows, _ = make_rows(25)
    with running_server(tmp_path / "m.undrift") as (_, url), Client(url) as client:
        for t, row in enumerate(rows):
            (one,) = client.predict([row])
            assert set(one.probabilities) == {"x", "y", "z<b>"}
            client.learn({one.id: ["x", "y", "z<b>"][t % 3]})
        page = browser.new_page(viewport={"width": 390, "height": 800})
        complaints = []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        page.wait_for_selector("#rounds td")
        heads = page.locator("#rounds th").all_inner_texts()
        assert heads == ["id", "prediction", "probability", "label"]
        shown = [page.locator(f"#rounds tr:nth-child({k}) td").nth(3).inner_text() for k in (2, 3, 4)]
        assert sorted(shown) == ["x", "y", "z<b>"]
        assert "most likely class" in page.locator("#legend").inner_text()
        assert any("likelier label came" in text for text in page.locator("#tiles .tile").all_inner_texts())
        page.close()
        assert not complaints
