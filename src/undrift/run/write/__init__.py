"""Writing: tables as CSV or Parquet files, whole or not at all."""
