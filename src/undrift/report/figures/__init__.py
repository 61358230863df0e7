"""The figures of reports, one module each: its numbers and its drawing. `registry` lists them in order."""
