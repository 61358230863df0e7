"""Tuning constants of the kernels, read from the C++ files, where each stands beside its algorithm.

A twin computes with the same numbers as its kernel; what Python and C++ must both know is in
`undrift.kernels.definitions`.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "src" / "undrift" / "kernels" / "native"
CONSTANT = re.compile(r"^constexpr (?:double|int64_t) ([A-Z_]+) = ([-+.e0-9]+);", re.MULTILINE)


def read_constants() -> dict[str, float]:
    """Return every named number of the C++ files but the generated header's; a name has one value."""
    found: dict[str, float] = {}
    for path in sorted([*NATIVE.glob("*.h"), *NATIVE.glob("*.cpp")]):
        if path.name == "definitions.h":
            continue
        for name, value in CONSTANT.findall(path.read_text(encoding="utf-8")):
            number = ast.literal_eval(value)
            if found.setdefault(name, number) != number:
                raise ValueError(f"{path.name}: {name} is {number}, and {found[name]} in another file")
    return found


globals().update(read_constants())
