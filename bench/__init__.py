"""Benchmarks: ``make bench`` measures, writes JSON to bench/results and the table to docs/benchmarks.md."""
