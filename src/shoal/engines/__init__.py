"""Engines count rows into cells and apply plans to rows: on this machine, by regions of a large table, or on Spark."""
