"""Write the golden files: python -m tests.golden [NAME ...]; by default those that are not there.

A golden file is written once and stays: it stands for the folders that people have. Write one again only if its case
changes before 1.0 and no release has its format.
"""

import sys

from tests.golden.folders import CASES
from tests.golden.golden_file import golden_path, write_golden


def main(names: list[str]) -> None:
    """Write these files, or those that are missing."""
    for name in names or [name for name in CASES if not golden_path(name).exists()]:
        write_golden(name)
        print(f"{golden_path(name)}: {golden_path(name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
