"""A golden file: a zip archive of a place with a folder, the rows to give it, and `expected.json`."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from pathlib import Path

from tests.golden.folders import CASES, FOLDER, to_plain

HERE = Path(__file__).parent
EXPECTED = "expected.json"
TIME = (2024, 1, 1, 0, 0, 0)
"""Of every file in an archive, so that the same contents are the same bytes."""


def golden_path(name: str) -> Path:
    """Return where a golden file is."""
    return HERE / f"{name}.zip"


def write_golden(name: str) -> None:
    """Make a folder, use a copy of it, and write both down."""
    case = CASES[name]
    with tempfile.TemporaryDirectory() as base:
        place, copy = Path(base, "place"), Path(base, "copy")
        place.mkdir()
        case.make(place)
        shutil.rmtree(place / FOLDER / ".undrift", ignore_errors=True)  # as in a copy without hidden files
        shutil.copytree(place, copy)
        expected = json.dumps(to_plain(case.use(copy)), allow_nan=False)
        with zipfile.ZipFile(golden_path(name), "w") as archive:
            for path in sorted(path for path in place.rglob("*") if path.is_file()):
                put(archive, path.relative_to(place).as_posix(), path.read_bytes())
            put(archive, EXPECTED, expected.encode())


def put(archive: zipfile.ZipFile, name: str, payload: bytes) -> None:
    """Put a file into an archive."""
    archive.writestr(zipfile.ZipInfo(name, TIME), payload, zipfile.ZIP_DEFLATED, 9)


def unpack_golden(name: str, place: Path) -> dict[str, object]:
    """Unpack a golden file; return what today's code must get from it."""
    with zipfile.ZipFile(golden_path(name)) as archive:
        archive.extractall(place)
    expected: dict[str, object] = json.loads((place / EXPECTED).read_text(encoding="utf-8"))
    return expected
