"""Numbers that learners do not take: said so, never a warning of NumPy's, never "nan%"."""

import json
import math

import numpy as np
import pytest

from undrift.stream import model


def write(name, x, y):
    with open(name, "w") as file:
        file.write("x,y\n" + "".join(f"{a!r},{b!r}\n" for a, b in zip(x, y, strict=True)))


def numbers(seed):
    return np.random.default_rng(seed).normal(size=200).tolist()


@pytest.mark.parametrize("command", ["run", "compare"])
@pytest.mark.parametrize(("scale", "what"), [(1e200, "infinite or larger than 1e+75 in size"), (math.inf, "infinite")])
def test_a_target_without_a_usable_number_is_refused(call, command, scale, what):
    write("t.csv", numbers(0), [scale * y for y in numbers(1)])
    code, out, err = call(command, "t.csv", "-t", "y", "-q")
    assert (code, out) == (3, "")
    assert err == (
        f"undrift: t.csv: the target 'y' is {what} wherever it is known in all 200 rows, where numbers up to 1e+75 are "
        "allowed; write it in larger units\n"
    )


def test_large_numbers_are_told_from_infinite_ones(call):
    x, y = numbers(0), numbers(1)
    x[3], x[4], y[7], y[8] = 1e200, math.inf, -1e76, -math.inf
    write("t.csv", x, y)
    code, out, err = call("run", "t.csv", "-t", "y", "-q", "--json", "--no-report")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    found = {(one["kind"], one["column"]): one["lines"] for one in answer["problems"]}
    assert found == {
        ("too large", "x"): [5],
        ("infinite", "x"): [6],
        ("too large", "y"): [9],
        ("infinite", "y"): [10],
        ("unlabelled", "y"): [9, 10],
    }
    assert answer["rounds"] == 198
    code, _, err = call("run", "t.csv", "-t", "y", "-q", "--missing", "refuse", "-o", "other")
    assert code == 3
    assert "line 9: 'y' is -1e+76, where numbers up to 1e+75 in size are allowed; correct it, write" in err


def test_predict_says_which_numbers_it_did_not_use(call):
    write("t.csv", numbers(0), numbers(1))
    assert call("run", "t.csv", "-t", "y", "-q", "--no-report")[0] == 0
    write("wild.csv", [0.1, 1e200, -1e300, math.inf], [0.0] * 4)
    code, out, err = call("predict", "t-run", "wild.csv")
    assert (code, len(out.splitlines())) == (0, 5)
    assert err.splitlines()[:2] == [
        "undrift: 'x' is too large (line 3 is the first of 2): larger than 1e75, the most a learner takes; "
        "treated as missing, so write the column in larger units",
        "undrift: 'x' is infinite (line 5 is the first of 1): infinite, or too large to hold; treated as missing",
    ]


def test_the_largest_numbers_allowed_are_used(call):
    write(
        "t.csv",
        [1e75 * max(-1.0, min(1.0, x)) for x in numbers(0)],
        [1e75 * max(-1.0, min(1.0, y)) for y in numbers(1)],
    )
    code, out, err = call("run", "t.csv", "-t", "y", "-q")
    assert (code, err) == (0, "")
    assert "nan" not in out
    assert "inf" not in out
    assert "Predicted 'y' (a number) 199 times" in out


def test_rows_without_any_label_after_skipping_are_refused(call):
    x, y = numbers(0), numbers(1)
    x[:100] = [math.nan] * 100
    y[100:] = [math.nan] * 100
    write("t.csv", x, y)
    for command in (("run", "--missing", "skip"), ("run", "--missing", "skip", "--delay", "3")):
        code, out, err = call(command[0], "t.csv", "-t", "y", "-q", *command[1:])
        assert (code, out, err) == (3, "", "undrift: t.csv: no row is left to learn from; see --missing\n")


def test_too_little_memory_is_one_sentence(call, monkeypatch):
    def starved(**_):
        raise MemoryError

    write("t.csv", numbers(0), numbers(1))
    monkeypatch.setattr(model, "OnlineRegressor", starved)
    code, out, err = call("run", "t.csv", "-t", "y", "-q")
    assert (code, out) == (1, "")
    assert err == "undrift: not enough memory; use fewer columns (--features), or fewer rows (--limit)\n"
