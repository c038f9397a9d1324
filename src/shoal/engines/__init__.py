"""Engines, which count and rewrite rows: on one machine, by regions of large tables, and on Spark."""
