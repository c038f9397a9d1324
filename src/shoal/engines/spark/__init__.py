"""The Spark engine, which counts and rewrites rows where their partitions are."""
