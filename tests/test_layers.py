"""The import contract of pyproject.toml: downwards only."""

import ast
import subprocess
import sys

from tests.helpers import ROOT


def test_imports_go_downwards_only():
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "0 broken" in run.stdout


def test_only_twins_import_twins():
    package = ROOT / "src" / "undrift"
    importers = {
        f"{file.relative_to(package).as_posix()}: {name}"
        for file in package.rglob("*.py")
        if not file.name.startswith("reference")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (*[one.name for one in node.names], getattr(node, "module", None) or "")
        if name.split(".")[-1].startswith("reference")
    }
    assert importers == set()
