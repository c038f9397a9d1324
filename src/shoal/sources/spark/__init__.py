"""Spark DataFrames, and Parquet files that Spark reads."""
