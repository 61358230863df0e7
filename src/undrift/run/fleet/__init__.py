"""Fleets over a file: rows become records of many streams, each with a model of its own."""
