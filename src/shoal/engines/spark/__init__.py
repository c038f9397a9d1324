"""The Spark engine: Spark DataFrames in and out, counted and rewritten where their partitions are."""
