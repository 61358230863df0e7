"""What works where: every feature in every path, held against the library's `play` on the same rows.

`cells.py` declares the status of each cell. `scenarios.py` holds the rows of each feature and what the library is asked
about them, `paths/` one driver for each path. `test_cells.py` measures every cell and compares it with its declaration.
`python -m tests.matrix` writes docs/matrix.md from the declarations; with `--measure` it prints what it measures.

To add a feature, add its scenarios and a row of cells. To add a path, add its driver and a cell to each row.
"""
