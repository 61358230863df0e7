"""Forecasts of files: series out of rows, a folder with forecasts of every origin, and new rows day by day."""
