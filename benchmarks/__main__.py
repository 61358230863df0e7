"""List the benchmarks, or run one: python -m benchmarks [NAME [arguments]], from the root of the project.

One thread unless OMP_NUM_THREADS says otherwise. Nothing is installed; a benchmark names the package that it misses.
"""

from pathlib import Path

from tools.__main__ import main

if __name__ == "__main__":
    main("benchmarks", Path(__file__).parent)
