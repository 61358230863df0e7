"""List the programs of this folder, or run one: python -m tools [NAME [arguments]].

OMP_NUM_THREADS and OPENBLAS_NUM_THREADS are 1 unless set.
"""

from __future__ import annotations

import ast
import os
import runpy
import sys
from pathlib import Path


def find_programs(folder: Path) -> dict[str, str]:
    """Return the modules of a folder that can be run, each with the first line of its docstring."""
    programs = {}
    for path in sorted(folder.glob("[a-z]*.py")):
        text = path.read_text(encoding="utf-8")
        if '\nif __name__ == "__main__":\n' in text:
            programs[path.stem] = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return programs


def main(package: str, folder: Path) -> None:
    """List the programs of a package, or run the one that is named."""
    programs = find_programs(folder)
    name, *arguments = sys.argv[1:] or [""]
    if name in ("", "-h", "--help"):
        print(f"python -m {package} NAME [arguments], from the root of the project:\n")
        for program, line in programs.items():
            print(f"  {program:16} {line}")
        return
    if name not in programs:
        sys.exit(f"{package} has no program {name!r}; there are {', '.join(programs)}")
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(threads, "1")
    sys.argv = [f"{package}/{name}.py", *arguments]
    try:
        runpy.run_module(f"{package}.{name}", run_name="__main__", alter_sys=True)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("undrift", package, "tests", ""):
            raise
        sys.exit(f"{package} {name} needs {missing}, which is not installed: pip install {missing}")


if __name__ == "__main__":
    main("tools", Path(__file__).parent)
