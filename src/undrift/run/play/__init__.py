"""Playing: every row predicted before its label is learned, committed to a folder that can be resumed."""
