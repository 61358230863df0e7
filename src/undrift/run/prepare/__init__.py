"""Preparing: what each column is, and rows as numbers for a model."""
