"""Names: one class for one word, and functions named by what they do or by what they return."""

import ast
import re
from collections import defaultdict

from tests.helpers import ROOT

PACKAGE = ROOT / "src" / "undrift"

HOSTS_WORDS = {"DriftClassifier", "DriftRegressor"}
"""The same estimator under the same name, once for each host."""
PUBLIC_WORDS = {"averaged", "fixed"}
"""Words of the public interface: `optimizer.averaged()` and `comparators.fixed`."""

NOT_PARTICIPLES = {
    "bed",
    "bleed",
    "breed",
    "embed",
    "exceed",
    "feed",
    "heed",
    "need",
    "proceed",
    "seed",
    "shed",
    "speed",
    "succeed",
}
IRREGULAR = {
    "begun", "bent", "bound", "broken", "brought", "built", "caught", "chosen", "dealt", "done", "drawn", "driven",
    "eaten", "fallen", "felt", "forgotten", "fought", "found", "frozen", "given", "gone", "grown", "heard", "held",
    "hidden", "kept", "known", "laid", "led", "left", "lent", "lost", "made", "meant", "met", "paid", "said", "seen",
    "sent", "shaken", "shown", "shrunk", "sought", "spent", "spoken", "spun", "stolen", "struck", "sunk",
    "sworn", "taken", "taught", "thought", "thrown", "told", "torn", "understood", "won", "worn", "woven", "written",
}  # fmt: skip
PARTICLES = {"again", "apart", "away", "back", "by", "down", "in", "off", "on", "out", "over", "to", "together", "up"}


def is_bare_participle(name):
    """Whether a name is a participle alone, or one with a particle: it says neither who acts nor what comes out."""
    words = name.strip("_").split("_")
    first, rest = words[0], words[1:]
    regular = re.fullmatch(r"[a-z]+ed", first) is not None and first not in NOT_PARTICIPLES
    participle = regular or first in IRREGULAR
    return participle and all(word in PARTICLES for word in rest)


def definitions():
    """Return every class and every function that is no property, each with its file."""
    for file in sorted(PACKAGE.rglob("*.py")):
        where = file.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                marks = {getattr(mark, "id", getattr(mark, "attr", "")) for mark in node.decorator_list}
                if not marks & {"property", "cached_property", "setter"}:
                    yield where, node


def test_no_two_classes_have_one_name():
    files = defaultdict(set)
    for where, node in definitions():
        if isinstance(node, ast.ClassDef):
            files[node.name.lstrip("_")].add(where)
    assert {name: sorted(found) for name, found in files.items() if len(found) > 1 and name not in HOSTS_WORDS} == {}


def test_no_function_is_named_by_a_bare_participle():
    functions = ((where, node.name) for where, node in definitions() if not isinstance(node, ast.ClassDef))
    found = {f"{where}:{name}" for where, name in functions if is_bare_participle(name) and name not in PUBLIC_WORDS}
    assert sorted(found) == []


def test_participles_are_told_from_verbs_and_nouns():
    assert all(map(is_bare_participle, ["judged", "told", "carried_out", "_mixed", "joined", "taken_back"]))
    assert not any(map(is_bare_participle, ["speed", "_feed", "mixed_odds", "make_seed", "known_cells", "read"]))
