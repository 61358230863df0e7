"""Our optimizers in torch and in its clients: accelerate, lightning, transformers; run in `.venv-networks`."""

collect_ignore = ["zero_ranks.py"]  # a program that test_zero.py starts
