"""Reading: files of rows, in batches, with the line every row stands on."""
