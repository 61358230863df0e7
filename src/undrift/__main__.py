"""`python -m undrift` is the command `undrift`."""

from undrift.cli import main

if __name__ == "__main__":
    main()
