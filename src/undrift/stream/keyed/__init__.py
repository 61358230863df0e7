"""Streams by key: one stream for each key of a table."""
