"""Programs for those who change undrift: `python -m tools` lists them."""
