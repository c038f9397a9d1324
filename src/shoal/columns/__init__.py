"""Techniques that treat single columns, one per file, samples of records, and baskets of items."""
