"""Treatments of single columns, and samples of records: see ``docs/techniques.md``."""
