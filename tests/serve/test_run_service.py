"""Serving a run: rows have the columns of its file, and everything goes on where the run ended."""

import numpy as np
import pytest

import undrift as ud
from undrift.errors import DataError, InputError, UndriftError
from undrift.run import Settings, play_file
from undrift.run.service.service import Label
from undrift.serve import open_service

ROWS = 300


def make_file(path, rows, *, classes=False):
    """Numbers, a text, a time and a target that follows its own past."""
    rng = np.random.default_rng(1)
    lines, last = ["time,temp,kind,load"], 20.0
    for t in range(rows):
        temp, kind = rng.normal(), "xyz"[int(rng.integers(0, 3 if t > 100 else 2))]
        last = 0.8 * last + temp + {"x": 4.0, "y": 2.0, "z": 7.0}[kind] + 0.1 * rng.normal()
        shown = ("high" if last > 18.0 else "low") if classes else repr(last)
        lines.append(f"2024-01-{1 + t // 24:02d} {t % 24:02d}:00,{temp!r},{kind},{shown}")
    path.write_text("\n".join(lines) + "\n")
    return [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]


def settings(**others):
    return Settings(target="load", calendar=True, speed="fast", **others)


@pytest.mark.parametrize("classes", [False, True])
def test_a_run_that_is_served_on_predicts_as_one_long_run(tmp_path, classes):
    rows = make_file(tmp_path / "all.csv", ROWS, classes=classes)
    make_file(tmp_path / "first.csv", 200, classes=classes)
    options = {} if classes else {"lag": (1, 3)}
    play_file(str(tmp_path / "all.csv"), tmp_path / "all", settings(**options))
    play_file(str(tmp_path / "first.csv"), tmp_path / "first", settings(**options))
    import polars as pl

    expected = pl.read_parquet(tmp_path / "all" / "predictions.parquet")[200:]
    served = []
    for begin in (200, 250):  # opened twice
        with open_service(tmp_path / "first") as service:
            for row in rows[begin : begin + 50]:
                (one,) = service.predict([{name: cell for name, cell in row.items() if name != "load"}])
                served.append(one)
                assert service.learn([Label(one.id, row["load"] if classes else float(row["load"]))]) == (1, 0, 0)
    if classes:
        for label in ("low", "high"):
            assert [one.probabilities[label] for one in served] == expected[f"p({label})"].to_list()
        assert all(one.probability == one.probabilities[one.prediction] >= 0.5 for one in served)
        assert [one.prediction for one in served] == expected["yhat"].to_list()
        assert {one.prediction for one in served} == {"high", "low"}
    else:
        assert [one.prediction for one in served] == expected["yhat"].to_list()
        assert [one.lower for one in served] == expected["lower"].to_list()


def test_a_row_the_run_cannot_read_is_refused_and_forgotten(tmp_path):
    rows = make_file(tmp_path / "first.csv", 200)
    play_file(str(tmp_path / "first.csv"), tmp_path / "run", settings())
    good = {name: cell for name, cell in rows[0].items() if name != "load"}
    with open_service(tmp_path / "run") as service:
        before = service.models.stream.snapshot()[0]
        for bad, words in (
            (
                {**good, "temp": "warm"},
                "request, row 2: 'temp' is a column of numbers, got 'warm'; correct the cell, send null if it is "
                "missing, or leave it out of the row$",
            ),
            (
                {**good, "time": "yesterday"},
                "request, row 2: 'time' should be a time, got 'yesterday'; correct it, or leave it out of the row$",
            ),
            (
                {**good, "kind": "x" * 2000},
                "request, row 2: 'kind' holds a text of 2,000 characters, more than 1,000; leave it out of the row$",
            ),
            ({"colour": 1.0}, "such as 'temp'"),
        ):
            with pytest.raises(UndriftError, match=words):
                service.predict([{**good, "kind": "new"}, bad])
            assert service.models.stream.snapshot()[0] == before
        (one,) = service.predict([{**good, "kind": "new"}])
        assert service.models.model.names[-1] == "kind=new"
        assert service.learn([Label(one.id, "20.5")]) == (1, 0, 0)
        with pytest.raises(
            UndriftError,
            match=r"^the label of row 2: 'load' is a column of numbers, got 'a lot'; correct",
        ):
            service.learn([Label(service.predict([good])[0].id, "a lot")])


def test_a_third_class_is_refused_in_words_that_a_client_can_use(tmp_path):
    rows = make_file(tmp_path / "first.csv", 200, classes=True)
    play_file(str(tmp_path / "first.csv"), tmp_path / "run", settings())
    with open_service(tmp_path / "run") as service:
        (one,) = service.predict([{"temp": rows[0]["temp"]}])
        words = r"^the label of row 1: the target 'load' is 'medium', a third class .* run the file again with --task m"
        with pytest.raises(DataError, match=words):
            service.learn([Label(one.id, "medium")])
        assert service.learn([Label(one.id, "low")]) == (1, 0, 0)


def test_an_unfinished_or_missing_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist"), open_service(tmp_path / "nothing"):
        pass
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no run here"), open_service(tmp_path / "empty"):
        pass
    assert not any((tmp_path / "empty").iterdir())


@pytest.mark.parametrize(("kinds", "task"), [(1, "regression"), (12, "regression"), (12, "two"), (12, "several")])
def test_new_categories_between_a_prediction_and_its_label_change_neither(tmp_path, kinds, task):
    rows = make_file(tmp_path / "first.csv", 200, classes=task == "two")
    if task == "several":
        names = {"x": "red", "y": "green", "z": "blue"}
        lines = (tmp_path / "first.csv").read_text().splitlines()
        lines[1:] = [f"{line.rsplit(',', 1)[0]},{names[line.split(',')[2]]}" for line in lines[1:]]
        (tmp_path / "first.csv").write_text("\n".join(lines) + "\n")
    play_file(str(tmp_path / "first.csv"), tmp_path / "run", settings())
    labels = {"regression": 19.5, "two": "high", "several": "green"}
    plain = [{name: cell for name, cell in row.items() if name != "load"} for row in rows[:40]]
    new = [{**row, "kind": f"new {k}"} for k, row in enumerate(plain[:kinds])]
    twin = ud.load(tmp_path / "run")

    with open_service(tmp_path / "run") as service:
        answers = service.predict(plain[:4])
        asked = twin.ask(plain[:4])
        service.learn([Label(answers[0].id, labels[task])])
        twin.tell(int(asked.serial[0]), labels[task])
        service.predict(new)
        twin.ask(new)
        assert service.learn([Label(answers[2].id, labels[task])]) == (1, 0, 0)
        twin.tell(int(asked.serial[2]), labels[task])
        judged = service.models.recent(None, 1)[0]
        assert (judged.lower, judged.upper) == (answers[2].lower, answers[2].upper)
        if task == "regression":
            assert judged.lower < judged.upper
            assert (asked.lower[2], asked.upper[2]) == (judged.lower, judged.upper)
    with open_service(tmp_path / "run") as service:  # and after a restart
        assert service.learn([Label(one.id, labels[task]) for one in answers]) == (2, 2, 0)
        twin.tell([int(asked.serial[1]), int(asked.serial[3])], [labels[task]] * 2)
        judged = service.models.recent(None, 1)[0]
        assert (judged.lower, judged.upper) == (answers[3].lower, answers[3].upper)
        assert service.models.model.rounds == twin.rounds == 204
        after = service.predict(plain[20:30])
        expected = twin.ask(plain[20:30])
        if task == "regression":
            assert [one.prediction for one in after] == expected.yhat.tolist()
            assert all(one.probabilities is None for one in after)
        else:
            assert [one.prediction for one in after] == expected.labels
            shares = [[p for p in each if p == p] for each in expected.probabilities.tolist()]
            assert [list(one.probabilities.values()) for one in after] == shares
