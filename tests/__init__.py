"""Tests of undrift; `tests.twins` and `tests.helpers` are shared by test modules."""
