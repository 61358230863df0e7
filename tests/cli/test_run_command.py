"""undrift run: what the user sees, above all when the file is not what it should be."""

import errno
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from undrift import store


def rows(count=50):
    rng = np.random.default_rng(0)
    return [f"2024-01-01 {k // 60:02d}:{k % 60:02d},{rng.normal():.4f},{rng.normal():.4f}" for k in range(count)]


def write(text, name="bad.csv"):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    return name


HEADER = "when,temp,load"


def spoiled(at, line):
    """Return a good file with one bad line; `at` counts lines of the file from 1."""
    lines = [HEADER, *rows(900)]
    lines[at - 1] = line
    return "\n".join(lines) + "\n"


BAD = {
    "missing target": (
        spoiled(1, HEADER),
        ["-t", "lod"],
        "--target 'lod': bad.csv has no such column; there are when, temp, load. Did you mean 'load'?",
    ),
    "unknown feature": (
        spoiled(1, HEADER),
        ["-t", "load", "-f", "tmp"],
        "--features 'tmp': bad.csv has no such column; there are when, temp, load. Did",
    ),
    "unknown time": (
        spoiled(1, HEADER),
        ["-t", "load", "--time", "then"],
        "--time 'then': bad.csv has no such column; there are when, temp, load. Did you mean 'when'?",
    ),
    "text in a number column": (
        spoiled(813, "2024-01-01 10:00,warm,1"),
        ["-t", "load"],
        "bad.csv, line 813: 'temp' is a column of numbers, got 'warm'; correct the cell, pass --na 'warm' if",
    ),
    "text in the target": (
        spoiled(813, "2024-01-01 10:00,1,high"),
        ["-t", "load"],
        "bad.csv, line 813: 'load' is a column of numbers, got 'high'; correct the cell",
    ),
    "decimal comma": (
        spoiled(13, '2024-01-01 10:00,"1,5",2'),
        ["-t", "load"],
        "bad.csv, line 13: 'temp' is a column of numbers, got '1,5'; write a decimal point, not a comma",
    ),
    "bad time": (
        spoiled(13, "yesterday,1,2"),
        ["-t", "load"],
        "bad.csv, line 13: 'when' should be a time, got 'yesterday'; correct it, or say how times are written",
    ),
    "ragged row": (
        spoiled(812, "2024-01-01 10:00,1"),
        ["-t", "load"],
        "bad.csv, line 812: 2 cells where the header has 3; correct the line, or quote cells that hold the delimiter",
    ),
    "long row": (
        spoiled(812, "2024-01-01 10:00,1,2,3"),
        ["-t", "load"],
        "bad.csv, line 812: 4 cells where the header has 3",
    ),
    "open quote": (
        spoiled(3, '2024-01-01 10:00,"1,2') + "x" * 200_000,
        ["-t", "load"],
        "not CSV (field larger than field limit (131072)); is there a quote that never closes?",
    ),
    "empty file": ("", ["-t", "load"], "bad.csv is empty; it needs a header line and rows"),
    "blank file": ("\n\n", ["-t", "load"], "bad.csv is empty; it needs a header line and rows"),
    "header only": (HEADER + "\n", ["-t", "load"], "bad.csv has no rows, only a header; there is nothing to learn"),
    "no header": (
        "1,2,3\n4,5,6\n",
        ["-t", "load"],
        "bad.csv, line 1: there are numbers where names should be; add a header line above the data",
    ),
    "one row": (
        f"{HEADER}\n{rows()[0]}\n",
        ["-t", "load"],
        "bad.csv has one row; a stream needs at least two, each predicted from those before it",
    ),
    "constant target": (
        "a,y\n" + "1,5\n2,5\n3,5\n",
        ["-t", "y"],
        "bad.csv: the target 'y' is 5 in every row; there is nothing to learn",
    ),
    "constant class": (
        "a,y\n" + "1,no\n2,no\n3,no\n",
        ["-t", "y"],
        "bad.csv: the target 'y' is 'no' in every row; there is nothing to learn",
    ),
    "missing labels": (
        "a,y\n" + "1,\n2,\n3,\n",
        ["-t", "y"],
        "bad.csv: the target 'y' is missing in all 3 rows; there is nothing to learn",
    ),
    "twice the same name": (
        "a,b,a,y\n1,2,3,4\n5,6,7,8\n",
        ["-t", "y"],
        "bad.csv, line 1: columns 1 and 3 are both called 'a'; rename one",
    ),
    "nothing to learn from": (
        "id,row,y\n1,1,1\n2,2,2\n3,3,3\n",
        ["-t", "y"],
        "bad.csv has no column to learn from besides 'y'; add features, or --lag 1",
    ),
    "refused hole": (
        spoiled(12, "2024-01-01 10:00,,1"),
        ["-t", "load", "--missing", "refuse"],
        "bad.csv, line 12: 'temp' is missing; fill it in, drop the row, or pass --missing skip",
    ),
    "refused infinity": (
        spoiled(12, "2024-01-01 10:00,inf,1"),
        ["-t", "load", "--missing", "refuse"],
        "bad.csv, line 12: 'temp' is inf, where numbers up to 1e+75 in size are allowed; correct it, write",
    ),
    "refused label": (
        spoiled(12, "2024-01-01 10:00,1,nan"),
        ["-t", "load", "--missing", "refuse"],
        "bad.csv, line 12: the target 'load' is missing; fill it in, or drop the row",
    ),
    "target is a time": (spoiled(1, HEADER), ["-t", "when"], "'when'"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_is_named_with_its_line_and_what_to_do(call, what):
    text, options, sentence = BAD[what]
    write(text)
    code, out, err = call("run", "bad.csv", *options)
    assert code in (2, 3)
    assert out == ""
    line = err.splitlines()[-1]
    assert line.startswith("undrift: ")
    assert err.count("undrift: ") == 1
    assert sentence in line
    assert not os.path.exists("bad-run/run.json")
    assert not os.path.exists("bad-run/report.html")


def test_names_cannot_act_on_the_terminal(call):
    write('"a\nb\x1b[31m",y\n1,2\n3,4\n5,7\n', "odd.csv")
    code, _, err = call("run", "odd.csv", "-t", "z")
    assert code == 2
    assert err == "undrift: --target 'z': odd.csv has no such column; there are a\\nb\\x1b[31m, y.\n"
    code, out, err = call("run", "odd.csv", "-t", "y", "--no-report")
    assert code == 0
    assert "\x1b" not in out + err


def test_late_errors_leave_a_run_that_is_not_finished(call):
    lines = [HEADER, *(f"2024-01-01 10:00,{k % 7},{k % 5}" for k in range(20_000))]
    lines[18_000] = "2024-01-01 10:00,warm,1"
    write("\n".join(lines))
    code, out, err = call("run", "bad.csv", "-t", "load", "--task", "regression", "--speed", "fast", "--quiet")
    assert (code, out) == (3, "")
    assert err == (
        "undrift: bad.csv, line 18001: 'temp' is a column of numbers, got 'warm'; correct the cell, "
        "pass --na 'warm' if it means missing, or leave it out with --drop 'temp'\n"
    )
    assert json.loads(Path("bad-run/run.json").read_text())["status"] == "running"
    assert not os.path.exists("bad-run/predictions.parquet")
    code, _, err = call("certify", "bad-run")
    assert code == 2
    assert "bad-run: the run is not finished; continue it with --resume" in err


def test_a_third_class_is_refused_where_it_comes(call):
    write("a,y\n" + "".join(f"{k % 9},{'no' if k % 3 else 'yes'}\n" for k in range(9000)) + "1,maybe\n")
    code, _, err = call("run", "bad.csv", "-t", "y", "--speed", "fast")
    assert code == 3
    assert (
        "bad.csv, line 9002: the target 'y' is 'maybe', a third class after 'no' and 'yes'; pass --task multiclass"
        in err
    )


def test_texts_that_name_rows_are_left_out_and_many_are_learned_by_means(call):
    write("a,id,shop,y\n" + "".join(f"{k % 13},name{k},s{k % 25},{k * k % 7 + 0.5}\n" for k in range(300)))
    code, _, err = call("run", "bad.csv", "-t", "y", "--speed", "light")
    assert code == 0
    assert "'id' has another text in almost every row and was left out; pass --features to use it" in err
    assert "'shop' has 25 different texts in all 300 rows: it is learned by the mean of 'y'" in err
    assert json.loads(Path("bad-run/run.json").read_text())["features"] == ["a", "shop: recent mean", "shop: mean"]


def test_bytes_that_are_not_text_are_named(call):
    with open("bad.csv", "wb") as file:
        file.write(b"name,y\n" + b"caf\xc3\xa9,1\n" * 5 + b"caf\xe9,2\n")
    code, _, err = call("run", "bad.csv", "-t", "y", "-q")
    assert code == 3
    assert err == (
        "undrift: bad.csv, line 7: byte 0xe9 is not utf-8; save the file as UTF-8, or pass --encoding latin-1\n"
    )
    code, _, err = call("run", "bad.csv", "-t", "y", "--encoding", "klingon")
    assert (code, err) == (2, "undrift: settings: encoding 'klingon' is unknown; try utf-8, latin-1 or cp1252\n")
    assert call("run", "bad.csv", "-t", "y", "--encoding", "latin-1", "--no-report")[0] == 0
    with open("wide.csv", "wb") as file:
        file.write("a,y\n1,2\n".encode("utf-16")[:-1])
    assert "wide.csv, line 1: byte 0x0a is not" in call("run", "wide.csv", "-t", "y")[2]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("cut.csv.gz", b"\x1f\x8b\x08\x00", "cut.csv.gz: cut off or damaged after line 0; compress it again"),
        ("cut.csv.zst", b"\x28\xb5\x2f\xfd\x04", "cut.csv.zst: cut off or damaged after line 0; compress it again"),
        ("cut.parquet", b"PAR1 and no more", "cut.parquet: not a Parquet file, or damaged"),
        ("cut.ndjson", b'{"a": 1, "y": 2}\n{"a": 1,', "cut.ndjson, line 2: not JSON"),
        ("deep.ndjson", b'{"a": [1], "y": 2}\n', "deep.ndjson, line 1: 'a' holds an object or a list; write plain"),
        ("list.ndjson", b"[1, 2]\n", "list.ndjson, object 1: a JSON int where an object should be"),
        (
            "mac.csv",
            b"a,y\r1,2\r3,4\r",
            "mac.csv: lines end in a bare carriage return; save it with ordinary line ends",
        ),
    ],
)
def test_damaged_files_are_refused(call, name, content, sentence):
    with open(name, "wb") as file:
        file.write(content)
    code, out, err = call("run", name, "-t", "y")
    assert (code, out) == (3, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_columns_of_no_use_are_refused_unless_dropped(call):
    pl.DataFrame({"a": [1.0, 2.0, 3.0], "l": [[1], [2], [3]], "y": [1.0, 2.0, 4.0]}).write_parquet("t.parquet")
    code, _, err = call("run", "t.parquet", "-t", "y")
    assert code == 3
    assert "t.parquet: column 'l' holds List(Int64), no number, text or time; leave it out with --drop 'l'" in err
    assert call("run", "t.parquet", "-t", "y", "--drop", "l", "--no-report")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.csv", "-t", "y"], "nowhere.csv does not exist; name a CSV, JSON, Excel or Parquet file, or -"),
        ([".", "-t", "y"], ". is a folder; name a CSV"),
        (["good.csv"], "settings: target is missing; name the column to predict, with --target COLUMN"),
        ([], "name a file to learn from: undrift run FILE --target COLUMN"),
        (
            ["good.csv", "-t", "load", "--missing", "guess"],
            "missing must be one of auto, fill, indicators, skip, refuse",
        ),
        (["good.csv", "-t", "load", "--lag", "two"], "--lag must be whole numbers such as 1,24,168, got two"),
        (
            ["good.csv", "-t", "load", "--lag", "2", "--delay", "3"],
            "lag 2 is not known yet when labels are 3 rows late",
        ),
        (["good.csv", "-t", "load", "--half-life", "-3"], "half_life must be in (0, inf], got -3.0"),
        (["good.csv", "-t", "load", "--drop", "load"], "the target 'load' cannot be dropped"),
        (["good.csv", "-t", "load", "--drop", "when", "--calendar"], "--calendar needs a column with times"),
        (
            ["good.csv", "-t", "load", "-f", "when"],
            "--features 'when': that is a time, not a feature; pass --time 'when'",
        ),
        (["good.odd", "-t", "load"], "good.odd: what is in it? The ending is none of .csv, .tsv, .txt"),
        (["good.csv", "-t", "load", "-s", "bad.toml"], "bad.toml: not a settings file in TOML"),
        (["good.csv", "-s", "odd.toml"], "there is no setting 'taget'; there are target, features"),
        (
            ["good.csv", "-t", "load", "-o", "good.csv/run"],
            "good.csv/run: a file is in the way of the folder (not a directory); choose another with --out",
        ),
    ],
)
def test_wrong_words_are_refused_in_one_sentence(call, arguments, sentence):
    for name in ("good.csv", "good.odd"):
        write(spoiled(1, HEADER), name)
    write("target = [", "bad.toml")
    write('taget = "load"', "odd.toml")
    code, out, err = call("run", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_options_are_corrected(call):
    code, _, err = call("run", "good.csv", "--taget", "load")
    assert code == 2
    assert "--target" in err
    code, _, err = call("rum", "good.csv")
    assert code == 2
    assert "'run'" in err


def test_a_folder_that_cannot_be_written_and_a_full_disk_are_said(call, monkeypatch):
    write(spoiled(1, HEADER), "good.csv")

    def failing(number):
        def replace(path, payload):
            raise OSError(number, os.strerror(number))

        return replace

    monkeypatch.setattr(store, "replace", failing(errno.EACCES))
    code, _, err = call("run", "good.csv", "-t", "load", "-q")
    assert (code, err) == (
        2,
        "undrift: good-run: cannot be written (permission denied); make it writable, or choose another folder\n",
    )
    monkeypatch.setattr(store, "replace", failing(errno.ENOSPC))
    code, _, err = call("run", "good.csv", "-t", "load", "-q")
    assert (code, err) == (1, "undrift: good-run: the disk is full; make room, then continue with --resume\n")
    assert not os.path.exists("good-run/run.json")


def test_strange_values_are_used_and_reported(call):
    lines = [HEADER, *rows(900)]
    lines[10], lines[20], lines[30] = "2024-01-01 10:00,inf,1", "2024-01-01 10:00,NaN,1", "2024-01-01 10:00,1,-inf"
    with open("odd.csv", "w") as file:
        file.write("\n".join(line + (",7,,x" if k else ",dead,void,temp2") for k, line in enumerate(lines)))
    code, out, _ = call("run", "odd.csv", "-t", "load", "--no-report", "--json", "--quiet")
    answer = json.loads(out)
    assert code == 0
    found = {(one["kind"], one["column"]): one for one in answer["problems"]}
    assert found["infinite", "temp"]["lines"] == [11]
    assert found["missing", "temp"]["lines"] == [21]
    assert found["infinite", "load"]["lines"] == [31]
    assert found["unlabelled", "load"]["count"] == 1
    assert found["dead column", "dead"]["note"] == "it is 7 in every row"
    assert found["all missing", "void"]["count"] == 900
    assert found["time goes back", "when"]["lines"][:1] == [12]
    assert answer["rounds"] == 899


def test_what_was_found_is_said(call):
    write("when,city,a,y\n2024-01-01,Rome,1,no\n2024-01-02,Oslo,2,yes\n2024-01-03,Rome,4,no\n", "t.csv")
    _, _, err = call("run", "t.csv", "-t", "y", "--no-report", "--no-certify")
    assert err == "classification: 'y' (yes rather than no) from a, city=Rome, city=Oslo; time is 'when'\n"
    _, _, err = call("run", "t.csv", "-t", "a", "--drop", "y", "--no-report", "--no-certify", "--force")
    assert err == "regression: 'a' (a number) from city=Rome, city=Oslo; time is 'when'\n"


def test_json_and_quiet(call):
    write(spoiled(1, HEADER), "good.csv")
    code, out, err = call("run", "good.csv", "-t", "load", "--no-report", "--json", "--quiet")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert {"folder", "report", "status", "rows", "rounds", "task", "classes", "features", "scores"} <= set(answer)
    assert {"certificates", "problems", "notes"} <= set(answer)
    assert set(answer["scores"]) == {"model", "last value", "running mean"}
    assert answer["features"] == ["temp"]


def test_settings_may_stand_in_a_file(call):
    write(spoiled(1, HEADER), "good.csv")
    write('source = "good.csv"\ntarget = "load"\nspeed = "fast"\nlag = [1, 2]\nhalf-life = 30.0\n', "run.toml")
    code, _, _ = call("run", "-s", "run.toml", "--no-report", "--lag", "3", "--quiet")
    state = json.loads(Path("good-run/run.json").read_text())
    assert code == 0
    assert state["settings"]["lag"] == [3]
    assert (state["settings"]["speed"], state["settings"]["half_life"]) == ("fast", 30.0)


def test_json_on_the_standard_input_is_learned_as_from_a_file(call, monkeypatch):
    text = "".join(json.dumps({"x": k % 7, "y": k % 7 * 2.0}) + "\n" for k in range(50))
    write(text, "t.ndjson")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))
    for file, out in (("-", "piped"), ("t.ndjson", "read")):
        assert call("run", file, "-t", "y", "-o", out, "--no-report", "--no-certify", "-q")[0] == 0
    assert Path("piped/model.undrift").read_bytes() == Path("read/model.undrift").read_bytes()


def test_the_standard_input_is_learned_from_but_not_resumed(call, monkeypatch):
    text = spoiled(1, HEADER)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, out, err = call("run", "-", "-t", "load", "--no-report", "--certify")
    assert code == 0
    assert "stdin" in out
    assert "the standard input cannot be resumed" in err
    assert "rows of the standard input are gone" in err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    code, _, err = call("run", "-", "-t", "load", "--resume")
    assert code == 2
    assert "the standard input cannot be resumed: its first rows are gone; start again with --force" in err
