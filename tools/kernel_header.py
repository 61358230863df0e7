"""Write `native/definitions.h` from `undrift/kernels/definitions.py`: `python tools/kernel_header.py [--check]`.

The definitions are read, not imported: no kernel has to be compiled before its header is written.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from pathlib import Path

KERNELS = Path(__file__).parent.parent / "src" / "undrift" / "kernels"
SOURCE, HEADER = KERNELS / "definitions.py", KERNELS / "native" / "definitions.h"


def comment(text: str, indent: str = "") -> list[str]:
    """Return a docstring as lines of a comment."""
    return textwrap.wrap(text.replace("`", ""), 118, initial_indent=indent + "// ", subsequent_indent=indent + "// ")


def documented(body: list[ast.stmt]) -> list[tuple[str, ast.expr, str]]:
    """Return the assignments of a module or class: name, value, and the docstring that follows."""
    found = []
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            is_docstring = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            found.append((statement.targets[0].id, statement.value, str(after.value.value) if is_docstring else ""))
    return found


def constant(name: str, value: ast.expr, doc: str) -> list[str]:
    """Return a number as a C++ constant."""
    number = eval(compile(ast.Expression(value), str(SOURCE), "eval"), {})
    kind = "double" if isinstance(number, float) else "int64_t"
    return [*comment(doc), f"constexpr {kind} {name} = {number!r};", ""]


def indices(node: ast.ClassDef) -> list[str]:
    """Return an `IntEnum` as a struct that holds its names and their number."""
    lines = [*comment(ast.get_docstring(node) or ""), f"struct {node.name} {{", "    enum : int {"]
    members = documented(node.body)
    for name, value, doc in members:
        lines += [*comment(doc, " " * 8), f"        {name} = {ast.literal_eval(value)},"]
    return [*lines, "    };", f"    static constexpr size_t SIZE = {len(members)};", "};", ""]


def header() -> str:
    """Return the header's text."""
    tree = ast.parse(SOURCE.read_text())
    lines = [
        "// Generated from kernels/definitions.py by tools/kernel_header.py: change that file, then run the tool.",
        "#pragma once",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "namespace undrift {",
        "",
    ]
    for name, value, doc in documented(tree.body):
        lines += constant(name, value, doc)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            lines += indices(node)
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
