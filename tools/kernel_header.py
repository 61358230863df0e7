"""Write `native/definitions.h` from `undrift/kernels/definitions.py`: `python tools/kernel_header.py [--check]`."""

from __future__ import annotations

import ast
import importlib.util
import sys
import textwrap
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

KERNELS = Path(__file__).parent.parent / "src" / "undrift" / "kernels"
SOURCE, HEADER = KERNELS / "definitions.py", KERNELS / "native" / "definitions.h"


def load_definitions() -> ModuleType:
    """Run the definitions by themselves: `undrift.kernels` would need kernels that are compiled."""
    spec = importlib.util.spec_from_file_location("definitions", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def docstrings(body: list[ast.stmt]) -> dict[str, str]:
    """Return the docstring after each assignment of a module or class."""
    found = {}
    for statement, after in pairwise(body):
        if isinstance(statement, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[ast.unparse(statement.targets[0])] = str(after.value.value)
    return found


def comment(text: str, indent: str = "") -> list[str]:
    """Return a docstring as lines of a comment."""
    start = indent + "// "
    return textwrap.wrap(text.replace("`", ""), 118, initial_indent=start, subsequent_indent=start)


def constant(name: str, value: float, doc: str) -> list[str]:
    """Return a number as a C++ constant."""
    return [*comment(doc), f"constexpr {'double' if isinstance(value, float) else 'int64_t'} {name} = {value!r};", ""]


def indices(kind: type[IntEnum], docs: dict[str, str]) -> list[str]:
    """Return an `IntEnum` as a struct that holds its names and their number."""
    lines = [*comment(kind.__doc__ or ""), f"struct {kind.__name__} {{", "    enum : int {"]
    for member in kind:
        lines += [*comment(docs[member.name], " " * 8), f"        {member.name} = {member.value},"]
    return [*lines, "    };", f"    static constexpr size_t SIZE = {len(kind)};", "};", ""]


def offsets(name: str, layout: Any, doc: str) -> list[str]:
    """Return a `Layout` as a struct of offsets, each the one before plus the size of the part that lies there."""
    struct = name.title().replace("_", "") + "Layout"
    lines = [*comment(doc), f"struct {struct} {{"]
    for field in layout.fields:
        lines += [*comment(field.doc, " " * 4), f"    size_t {field.name};"]
    arguments = ", ".join(f"size_t {dimension}" for dimension in layout.dimensions)
    lines += ["    size_t size;", f"    constexpr explicit {struct}({arguments})"]
    starts = ["0", *(f"{field.name} + {field.count_text}" for field in layout.fields)]
    for field, start in zip([*(field.name for field in layout.fields), "size"], starts, strict=True):
        lines += [f"        {':' if start == '0' else ','} {field}({start})"]
    return [*lines[:-1], lines[-1] + " {}", "};", ""]


def header() -> str:
    """Return the header's text."""
    body, definitions = ast.parse(SOURCE.read_text()).body, load_definitions()
    docs = docstrings(body)
    classes = {node.name: docstrings(node.body) for node in body if isinstance(node, ast.ClassDef)}
    lines = [
        "// Generated from kernels/definitions.py by tools/kernel_header.py: change that file, then run the tool.",
        "#pragma once",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "namespace undrift {",
        "",
    ]
    for name, value in vars(definitions).items():
        if isinstance(value, (int, float)):
            lines += constant(name, value, docs[name])
        elif isinstance(value, type) and issubclass(value, IntEnum) and value is not IntEnum:
            lines += indices(value, classes[name])
        elif isinstance(value, definitions.Layout):
            lines += offsets(name, value, docs[name])
    return "\n".join([*lines, "} // namespace undrift", ""])


def main(arguments: list[str]) -> int:
    """Write the header, or compare it with `--check`."""
    if arguments == ["--check"]:
        if HEADER.read_text() == header():
            return 0
        print(f"{HEADER.name} differs from {SOURCE.name}: run python tools/kernel_header.py", file=sys.stderr)
        return 1
    HEADER.write_text(header())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
