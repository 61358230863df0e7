"""Streams: what the columns of a table mean, and the rows and answers between a table and a model."""
