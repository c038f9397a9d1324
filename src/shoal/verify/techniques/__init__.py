"""Columns that were changed before anything else: what the manifest declares of them, and whether it is so."""
