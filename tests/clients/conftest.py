"""Programs that others wrote, using our optimizers; `make test-clients` runs them in an environment of their own."""

import os

collect_ignore = ["zero_ranks.py"]  # a program that test_zero.py starts
collect_ignore_glob = [] if os.environ.get("UNDRIFT_CLIENTS") else ["test_*.py"]
